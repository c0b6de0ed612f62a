"""fully_shard: training in parts is training in one process, and only parts are held between steps."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import distributed as dist
from gradlib import nn
from gradlib.utils.checkpoint import checkpoint
from tests.distributed import models
from tests.distributed.harness import run


def sharded(kind: type, **kwargs: Any) -> Any:
    from gradlib.distributed.fsdp import fully_shard

    model = models.fresh(kind)
    for block in model.blocks if kind is models.GPT else list(model)[:2]:
        fully_shard(block, **kwargs)
    return fully_shard(model, **kwargs)


def adam(model: Any) -> Any:
    return torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3)


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def of_training(rank: int, ranks: int) -> dict[str, Any]:
    from gradlib.distributed.tensor import DTensor, Shard

    found: dict[str, Any] = {}
    for kind, optimizer in ((models.GPT, models.sgd), (models.CNN, models.sgd), (models.GPT, adam)):
        model = models.train(sharded(kind), kind, rank, ranks, optimizer=optimizer)
        key = f"{kind.__name__} {optimizer.__name__}"
        found[key] = models.apart(models.alone(kind, optimizer=optimizer), model)
        found[f"{key} values"] = [models.whole(p).tolist() for p in model.parameters()]
    params = list(model.parameters())
    found["held"] = sum(p.to_local().nbytes for p in params), sum(p.nbytes for p in params)
    found["kinds"] = (
        all(isinstance(p, DTensor) and isinstance(p, nn.Parameter) for p in params),
        {p.placements == (Shard(0),) for p in params},
    )
    gradients = {p.grad.placements == (Shard(0),) for p in params}
    found["gradients"] = (
        gradients,
        all(p.grad.to_local().shape == p.to_local().shape for p in params),
    )
    return found


def of_memory() -> dict[str, Any]:
    """What is whole when."""
    from gradlib.distributed.fsdp import FSDPModule

    model = sharded(models.GPT)
    seen: list[tuple[str, ...]] = []

    def look(*_: Any) -> None:
        seen.append(tuple(type(b.up.weight).__name__ for b in model.blocks))

    for block in model.blocks:
        block.up.register_forward_hook(look)
    x, y = models.batch(models.GPT)
    loss = models.loss_of(model, x, y)
    look()
    group = model.blocks[0]._fsdp_state.group
    wholes = [p.whole for p in group.params]
    error = error_of(lambda: wholes[0] + 1)
    freed = {type(w._array).__name__ for w in wholes}
    root = type(model.words.weight).__name__
    loss.backward()
    look()
    after = {type(w._array).__name__ for w in wholes}
    model.blocks[0].unshard()
    handle = model.blocks[1].unshard(async_op=True)
    handle.wait()
    look()
    model.blocks[0].reshard()
    model.blocks[1].reshard()
    look()
    return {
        "seen": seen, "freed": freed | after, "root": (root, type(model.words.weight).__name__), "error": error,
        "class": (type(model).__name__, isinstance(model, FSDPModule), isinstance(model, models.GPT)),
    }  # fmt: skip


def grads(model: Any) -> list[torch.Tensor]:
    return [models.whole(p.grad) for p in model.parameters()]


def same(model: Any, expected: list[torch.Tensor], tolerance: float = 1e-6) -> bool:
    return all(
        torch.allclose(a, b, atol=tolerance) for a, b in zip(expected, grads(model), strict=True)
    )


def of_gradients(rank: int, ranks: int) -> dict[str, Any]:
    """Gradients in all the ways a backward may come."""
    torch.manual_seed(5)
    x, y = models.batch(models.GPT)
    xs, ys = x.chunk(ranks)[rank], y.chunk(ranks)[rank]
    one = models.fresh(models.GPT)
    models.loss_of(one, x, y).backward()
    expected = [p.grad.clone() for p in one.parameters()]
    found: dict[str, Any] = {}

    model = sharded(models.GPT)
    model.set_requires_gradient_sync(False)
    models.loss_of(model, xs, ys).backward()
    found["unsynced"] = all(p.grad is None for p in model.parameters())
    model.set_requires_gradient_sync(True)
    models.loss_of(model, xs, ys).backward()
    found["accumulated"] = same(model, [2 * g for g in expected])
    models.loss_of(model, xs, ys).backward()
    found["added"] = same(model, [3 * g for g in expected])

    model = sharded(models.GPT, reshard_after_forward=False)
    first, second = model.blocks
    model.set_modules_to_forward_prefetch([first])
    first.set_modules_to_forward_prefetch([second])
    second.set_modules_to_backward_prefetch([first])
    loss = models.loss_of(model, xs, ys)
    loss.backward(retain_graph=True)
    loss.backward()
    found["twice"] = same(model, [2 * g for g in expected])

    for reentrant in (False, True):
        model = sharded(models.GPT)

        def forward(text: Any, model: Any = model, reentrant: bool = reentrant) -> Any:
            h = model.words(text) + model.places(torch.arange(text.shape[1]))
            for block in model.blocks:
                h = checkpoint(block, h, use_reentrant=reentrant)
            return model.head(model.ln(h))

        model.forward = forward
        models.loss_of(model, xs, ys).backward()
        found[f"checkpoint {reentrant}"] = same(model, expected)

    model = sharded(models.GPT)
    models.loss_of(model, xs, ys).backward()
    [of_words] = torch.autograd.grad(models.loss_of(model, xs, ys), [model.words.weight])
    found["grad"] = tuple(of_words.shape) == tuple(model.words.weight.shape)
    model.reshard()

    frozen, whole = sharded(models.GPT), models.fresh(models.GPT)
    for m in (frozen, whole):
        for name, p in m.named_parameters():
            p.requires_grad_("ln" in name)
    models.loss_of(whole, x, y).backward()
    models.loss_of(frozen, xs, ys).backward()
    found["frozen"] = (
        all(
            b.grad is None
            if a.grad is None
            else torch.allclose(a.grad, models.whole(b.grad), atol=1e-6)
            for a, b in zip(whole.parameters(), frozen.parameters())
        ),
        all("DTensor" in type(p).__name__ for p in frozen.parameters()),
    )

    model = sharded(models.GPT)
    broken = True

    def fail(grad: Any) -> None:
        if broken:
            raise KeyError("here")

    model.blocks[0].register_forward_hook(lambda m, args, out: out.register_hook(fail) and None)
    text = error_of(models.loss_of(model, xs, ys).backward)
    broken = False
    model.zero_grad()
    models.loss_of(model, xs, ys).backward()
    found["after an error"] = "here" in text and same(model, expected)

    model = sharded(models.GPT)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    models.loss_of(model, xs, ys).backward()
    loss = models.loss_of(model, xs, ys)
    optimizer.step()
    found["stepped between"] = error_of(loss.backward)
    return found


def of_state(rank: int, ranks: int) -> dict[str, Any]:
    from gradlib.distributed.fsdp import fully_shard
    from gradlib.distributed.tensor import DTensor, distribute_tensor

    found: dict[str, Any] = {}
    x, _ = models.batch(models.GPT)
    model, other = sharded(models.GPT), models.fresh(models.GPT)
    mesh, placements = model.words.weight.device_mesh, model.words.weight.placements
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1.5)
        before = model(x)
        state = {
            name: distribute_tensor(value, mesh, placements)
            for name, value in other.state_dict().items()
        }
        model.load_state_dict(state)
        found["loaded"] = (
            torch.allclose(model(x), other(x), atol=1e-6),
            torch.allclose(before, other(x)),
        )
        for p in model._fsdp_state.group.params:
            p.sharded.mul_(2.0)  # written while the root is whole
        for p in (other.words.weight, other.places.weight, other.ln.weight, other.ln.bias):
            p.mul_(2.0)
        found["fresh"] = torch.allclose(model(x), other(x), atol=1e-5)
    kept = model.state_dict()
    found["state"] = (
        {type(v).__name__ for v in kept.values()},
        list(kept) == list(other.state_dict()),
    )

    with torch.device("meta"):
        meta = models.GPT()
    for block in meta.blocks:
        fully_shard(block)
    fully_shard(meta)
    found["meta"] = error_of(lambda: meta(x)), {p.is_meta for p in meta.parameters()}
    meta.to_empty(device="cpu")
    meta.load_state_dict(kept)
    with torch.no_grad():
        found["from meta"] = torch.allclose(meta(x), other(x), atol=1e-5)
    with torch.device("meta"):
        meta = fully_shard(models.GPT())
    meta.load_state_dict(kept, assign=True)
    with torch.no_grad():
        found["assigned"] = torch.allclose(meta(x), other(x), atol=1e-5)
    doubled = sharded(models.GPT).double()
    found["double"] = (
        {p.dtype for p in doubled.parameters()},
        isinstance(doubled.ln.weight, DTensor),
        doubled(x).dtype,
    )
    return found


def scaled(rank: int) -> tuple[Any, ...]:
    """What one rank finds not finite lets all skip the step."""
    from gradlib.distributed.fsdp import fully_shard
    from gradlib.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    layer = fully_shard(nn.Linear(2, 2))
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.1), ShardedGradScaler("cpu", 4.0)
    before = layer.weight.full_tensor().clone()
    scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
    with torch.no_grad():
        if rank == 0:
            layer.weight.grad.to_local().fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    kept = torch.equal(layer.weight.full_tensor(), before), scaler.get_scale()
    optimizer.zero_grad()
    scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return (*kept, torch.allclose(layer.weight.full_tensor(), before - 0.1), scaler.get_scale())


def of_options(rank: int, ranks: int) -> dict[str, Any]:
    from gradlib.distributed.fsdp import (
        CPUOffloadPolicy,
        MixedPrecisionPolicy,
        fully_shard,
        register_fsdp_forward_method,
    )
    from gradlib.distributed.tensor import Shard

    found: dict[str, Any] = {}
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float64)
    model = models.fresh(models.CNN)
    seen: list[Any] = []
    model[2].register_forward_hook(
        lambda m, args, out: seen.extend([m.weight.dtype, args[0].dtype, out.dtype])
    )
    fully_shard(model, mp_policy=policy)
    x, y = models.batch(models.CNN)
    out = model(x)
    F.cross_entropy(out, y).backward()
    found["precision"] = (
        seen,
        out.dtype,
        {p.dtype for p in model.parameters()},
        {p.grad.dtype for p in model.parameters()},
    )

    found["offload"] = models.apart(
        models.alone(models.CNN, steps=3),
        models.train(
            sharded(models.CNN, offload_policy=CPUOffloadPolicy()), models.CNN, rank, ranks, steps=3
        ),
    )
    by_last = sharded(models.GPT, shard_placement_fn=lambda p: Shard(p.ndim - 1))
    found["last"] = (
        models.apart(
            models.alone(models.GPT, steps=3),
            models.train(by_last, models.GPT, rank, ranks, steps=3),
        ),
        repr(by_last.words.weight.placements),
    )

    model = models.fresh(models.GPT)
    fully_shard([model.words, model.ln, model.head])
    fully_shard(list(model.blocks))
    fully_shard(model, ignored_params={model.places.weight})
    found["ignored"] = type(model.places.weight).__name__
    torch.manual_seed(3)
    x, y = models.batch(models.GPT)
    one = models.fresh(models.GPT)
    models.loss_of(one, x, y).backward()
    models.loss_of(model, x, y).backward()
    found["lists"] = all(
        torch.allclose(a.grad, models.whole(b.grad), atol=1e-6)
        for a, b in zip(one.parameters(), model.parameters())
    )

    tied = models.fresh(models.GPT)
    fully_shard(tied.head)
    found["tied"] = error_of(lambda: fully_shard(tied))

    block = fully_shard(models.Block(8))
    h = torch.randn(1, 3, 8)
    outside = error_of(lambda: block.attend(h))
    register_fsdp_forward_method(block, "attend")
    found["method"] = outside, tuple(block.attend(h).shape)

    layer = fully_shard(nn.Linear(2, 2))
    layer.set_gradient_divide_factor(1.0)
    layer(torch.ones(1, 2)).sum().backward()
    found["sum"] = layer.weight.grad.full_tensor().tolist()
    stepped: list[Any] = []
    layer.weight.register_post_accumulate_grad_hook(lambda p: stepped.append(type(p.grad).__name__))
    layer(torch.ones(1, 2)).sum().backward()
    found["hook"] = list(stepped)
    found["scaled"] = scaled(rank)
    from gradlib.safetensors import save

    found["saved"] = error_of(lambda: save({"w": layer.weight.detach()}))
    found["foreach"] = (
        torch._foreach_norm([layer.weight])[0].full_tensor() == layer.weight.full_tensor().norm()
    )
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.ones(1, 2)).sum().backward()
    found["autocast"] = layer.weight.grad.dtype
    found["wrong"] = [
        error_of(lambda: fully_shard(nn.ModuleList([nn.Linear(2, 2)]))),
        error_of(lambda: fully_shard(layer)),
        error_of(lambda: fully_shard(nn.Linear(2, 2), reshard_after_forward=2)),
        error_of(lambda: register_fsdp_forward_method(layer, "encode")),
    ]
    return found


def two() -> dict[str, Any]:
    warnings.simplefilter("error")
    place = dist.get_rank(), dist.get_world_size()
    return {
        "training": of_training(*place), "memory": of_memory(), "gradients": of_gradients(*place),
        "state": of_state(*place), "options": of_options(*place),
    }  # fmt: skip


def hybrid() -> dict[str, Any]:
    """Sharded over two ranks, replicated over two; and uneven parts over four."""
    from gradlib.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    rank = dist.get_rank()
    expected = models.alone(models.CNN, steps=5)
    model = sharded(models.CNN, mesh=mesh)
    found: dict[str, Any] = {"placements": repr(model[2].weight.placements)}
    found["hybrid"] = models.apart(expected, models.train(model, models.CNN, rank, 4, steps=5))
    found["uneven"] = models.apart(
        expected, models.train(sharded(models.CNN), models.CNN, rank, 4, steps=5)
    )
    model, one = sharded(models.CNN, mesh=mesh), models.fresh(models.CNN)
    torch.manual_seed(2)
    x, y = models.batch(models.CNN)
    models.loss_of(one, x, y).backward()
    model.set_requires_all_reduce(False)
    models.loss_of(model, x[rank : rank + 1], y[rank : rank + 1]).backward()
    found["waiting"] = all(p.grad is None for p in model.parameters())
    model.set_requires_all_reduce(True)
    models.loss_of(model, x[rank : rank + 1], y[rank : rank + 1]).backward()
    found["after"] = same(model, [2 * p.grad for p in one.parameters()])
    return found


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(two, 2)


def test_training_is_that_of_one_process(ranks: list[dict[str, Any]]) -> None:
    for key in ("GPT sgd", "CNN sgd", "GPT adam"):
        for r in ranks:
            assert r["training"][key] < 1e-6, key
            assert r["training"][f"{key} values"] == ranks[0]["training"][f"{key} values"]


def test_only_parts_are_held(ranks: list[dict[str, Any]]) -> None:
    parts = [r["training"]["held"][0] for r in ranks]
    assert sum(parts) == ranks[0]["training"]["held"][1]
    assert max(parts) < 0.51 * sum(parts)
    for r in ranks:
        assert r["training"]["kinds"] == (True, {True})
        assert r["training"]["gradients"] == ({True}, True)


def test_whole_around_forward_and_backward(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        memory = r["memory"]
        part, whole = "DTensor", "Parameter"
        assert memory["seen"] == [
            (whole, part), (part, whole), (part, part), (part, part), (whole, whole), (part, part),
        ]  # fmt: skip
        assert memory["freed"] == {"FreedArray"}
        assert memory["root"] == (whole, part)
        assert "needs the values of a parameter that fully_shard has resharded" in memory["error"]
        assert memory["class"] == ("FSDPGPT", True, True)


def test_gradients_of_every_kind_of_backward(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        found = r["gradients"]
        assert "has been modified by an inplace operation" in found.pop("stepped between")
        assert found.pop("frozen") == (True, True)
        assert all(found.values()), found


def test_state_dicts_and_meta_device(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        found = r["state"]
        assert found["loaded"] == (True, False)
        assert found["fresh"] and found["from meta"] and found["assigned"]
        assert found["state"] == ({"DTensor"}, True)
        assert "is on the meta device: call module.to_empty" in found["meta"][0] and found["meta"][
            1
        ] == {True}
        assert found["double"] == ({torch.float64}, True, torch.float64)


def test_options(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        found = r["options"]
        half, single = torch.bfloat16, torch.float32
        assert found["precision"] == ([half, half, half], torch.float64, {single}, {single})
        assert found["offload"] < 1e-6
        assert found["last"][0] < 1e-6
        assert found["last"][1] == "(Shard(dim=1),)"
        assert found["ignored"] == "Parameter" and found["lists"]
        assert "mixed torch.Tensor and DTensor" in found["method"][0] and found["method"][1] == (
            1,
            3,
            8,
        )
        assert "shares its weight with a module that is fully sharded already" in found["tied"]
        assert found["sum"] == [[2.0, 2.0], [2.0, 2.0]]
        assert found["hook"] == ["DTensor"]
        assert found["scaled"] == (True, 2.0, True, 2.0)
        assert "is a part of a tensor on several ranks" in found["saved"]
        assert found["foreach"] and found["autocast"] == single
        texts = [
            "containers that do not implement forward",
            "called on this module before",
            "to fewer ranks",
            "encode",
        ]
        for error, text in zip(found["wrong"], texts, strict=True):
            assert text in error


def test_replicas_of_shards_and_uneven_shards() -> None:
    for r in run(hybrid, 4):
        assert r["placements"] == "(Replicate(), Shard(dim=0))"
        assert r["hybrid"] < 1e-6 and r["uneven"] < 1e-6
        assert r["waiting"] and r["after"]
