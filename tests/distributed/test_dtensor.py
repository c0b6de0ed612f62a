"""DTensor: values and gradients of ops on parts are those of the op on the whole, wherever the parts are."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import distributed as dist
from gradlib import nn
from tests.distributed.harness import run

# name -> (op, shapes of what goes in); "i" and "t" are indices
OPS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "linear": (F.linear, [(5, 6), (4, 6), (4,)]),
    "matmul": (lambda x, w: x @ w.T, [(5, 6), (4, 6)]),
    "batched": (torch.matmul, [(4, 2, 3), (3, 5)]),
    "bmm": (torch.bmm, [(4, 2, 3), (4, 3, 5)]),
    "addmm": (lambda b, x, w: torch.addmm(b, x, w.t()), [(4,), (5, 6), (4, 6)]),
    "arithmetic": (lambda x, y: x * y + x - 2 * y / 3 - (1 - x), [(5, 6), (5, 6)]),
    "broadcast": (lambda x, g: x * g + g, [(5, 6), (6,)]),
    "pointwise": (lambda x: F.relu(x).pow(2) + F.gelu(x).tanh() + x.exp(), [(5, 6)]),
    "sums of sums": (lambda x, w: (x @ w.T + 2 * (x @ w.T)).sum(0) / 3, [(5, 6), (4, 6)]),
    "product of sums": (lambda x, w: (x.sum(0) * x.sum(0) + w.sum(0)).relu(), [(5, 6), (4, 6)]),
    "softmax": (lambda x: F.softmax(x, -1) + F.log_softmax(x, 0), [(5, 6)]),
    "sum": (lambda x: x.sum(0) + x.sum(), [(5, 6)]),
    "mean": (lambda x: x.mean(1, keepdim=True) * x + x.mean(), [(5, 6)]),
    "extremes": (lambda x: x.amax(1) + x.max(1).values + x.max(), [(5, 6)]),
    "spread": (lambda x: x.var(1) + x.logsumexp(1), [(5, 6)]),
    "norms": (lambda x: x.norm() + torch.linalg.vector_norm(x, 3, dim=0).sum(), [(5, 6)]),
    "layer_norm": (lambda x, g, b: F.layer_norm(x, (6,), g, b), [(5, 6), (6,), (6,)]),
    "rms_norm": (lambda x, g: F.rms_norm(x, (6,), g), [(5, 6), (6,)]),
    "embedding": (lambda e, i: F.embedding(i, e, 2), [(7, 6), "i"]),  # type: ignore[list-item]
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), [(5, 6), "t"]),  # type: ignore[list-item]
    "label_smoothing": (lambda x, t: F.cross_entropy(x, t, ignore_index=1, label_smoothing=0.1), [(5, 6), "t"]),  # type: ignore[list-item]
    "mse_loss": (F.mse_loss, [(5, 6), (5, 6)]),
    "bce": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="sum"), [(5, 6), (5, 6)]),
    "views": (lambda x: x.view(5, 2, 3).transpose(1, 2).reshape(5, 6).flatten(), [(5, 6)]),
    "merged": (lambda x: x.view(24) * x.reshape(2, 12).flatten().unflatten(0, (4, 6)).ravel(), [(4, 6)]),
    "permuted": (lambda x: x.permute(1, 0).t().unsqueeze(1).squeeze(1).mT, [(5, 6)]),
    "expanded": (lambda g: g.expand(5, 6).unsqueeze(0), [(6,)]),
    "indexed": (lambda x: x[1:4] * x[0] + x[..., None].select(2, 0)[:3], [(5, 6)]),
    "joined": (lambda x, y: torch.stack([torch.cat([x, y], 1), torch.cat([y, x], 1)], 1), [(5, 6), (5, 6)]),
    "parted": (lambda x: x.split(2, 1)[1] * x.chunk(3, 1)[0] + x.unbind(1)[1].unsqueeze(1), [(5, 6)]),
    "where": (lambda x, y: torch.where(x > 0, x, y).masked_fill(y > 1, 0.0), [(5, 6), (5, 6)]),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), [(2, 4, 3, 2), (2, 4, 3, 2)]),
    "in place": (lambda x, y: (x * 1).mul_(y).add_(1), [(5, 6), (5, 6)]),
}  # fmt: skip
WAYS_EACH = 6


def wholes(shapes: list[Any]) -> list[Any]:
    torch.manual_seed(0)
    made = {"i": lambda: torch.randint(7, (4, 3)), "t": lambda: torch.randint(6, (5,))}
    return [made[s]() if isinstance(s, str) else torch.randn(s) for s in shapes]


def check_op(name: str, mesh: Any) -> list[str]:
    from gradlib.distributed.tensor import Replicate, Shard, distribute_tensor

    op, shapes = OPS[name]
    values = wholes(shapes)
    expected_in = [v.clone().requires_grad_(v.is_floating_point()) for v in values]
    expected = op(*expected_in)
    seed = torch.randn(expected.shape)
    expected.backward(seed)
    kinds = [Replicate(), Shard(0), Shard(1)]
    each = [
        [p for p in itertools.product(kinds, repeat=2) if all(not q.is_shard() or q.dim < v.ndim for q in p)]
        for v in values
    ]  # fmt: skip
    ways = list(itertools.product(*each))
    found = []
    for ways_in in ways[:: max(len(ways) // WAYS_EACH, 1)]:
        ins = [
            distribute_tensor(v, mesh, way, src_data_rank=None).requires_grad_(
                v.is_floating_point()
            )
            for v, way in zip(values, ways_in)
        ]
        try:
            out = op(*ins)
            assert out.shape == expected.shape, (out.shape, expected.shape)
            torch.testing.assert_close(out.full_tensor(), expected, atol=1e-5, rtol=1e-5)
            out.backward(distribute_tensor(seed, mesh, src_data_rank=None))
            for value, other in zip(ins, expected_in):
                assert (value.grad is None) == (other.grad is None)
                if other.grad is not None:
                    assert value.grad.placements == value.placements
                    torch.testing.assert_close(
                        value.grad.full_tensor(), other.grad, atol=1e-5, rtol=1e-5
                    )
        except Exception:
            found.append(f"{name} {ways_in}: {traceback.format_exc(limit=-4)}")
            break
    return found


def check_moves(mesh: Any) -> int:
    """From every placement to every other, also strided ones: always the parts of the whole."""
    from gradlib.distributed.tensor import Replicate, Shard, distribute_tensor
    from gradlib.distributed.tensor.placement_types import _StridedShard

    x = torch.arange(30.0).view(5, 6)
    ways = list(itertools.product([Replicate(), Shard(0), Shard(1)], repeat=2))
    ways.append((_StridedShard(0, split_factor=2), Shard(0)))
    placed = {way: distribute_tensor(x, mesh, way, src_data_rank=None) for way in ways}
    for a, b in itertools.product(ways, ways):
        moved = placed[a].redistribute(placements=b)
        assert moved.placements == b and torch.equal(moved.to_local(), placed[b].to_local()), (a, b)
        assert torch.equal(moved.full_tensor(), x)
    return len(ways) ** 2


def error_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def facts() -> dict[str, Any]:
    from gradlib.distributed import tensor as dt
    from gradlib.distributed.device_mesh import init_device_mesh
    from gradlib.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    line = mesh["dp"]
    rank = dist.get_rank()
    found: dict[str, Any] = {"ops": [e for name in OPS for e in check_op(name, mesh)]}
    found["moves"] = check_moves(mesh)
    x = torch.arange(10.0).view(5, 2)
    d = distribute_tensor(x, line, [Shard(0)])
    found["facts"] = (
        tuple(d.shape), tuple(d.size()), d.size(-1), d.numel(), d.stride(), len(d), d.ndim, d.dim(), d.nbytes,
        tuple(d.to_local().shape), d.device_mesh == line, d.placements == (Shard(0),), d.dtype, d.is_leaf,
        isinstance(d, torch.Tensor), d.requires_grad, d.device.type,
    )  # fmt: skip
    found["repr"] = repr(distribute_tensor(torch.ones(4), line, [Shard(0)]))
    found["item"] = (
        d.sum().item(),
        float(d.max()),
        bool(d.sum() > 3),
        torch.equal(d, d * 1),
        f"{d.sum():.1f}",
    )
    term = DTensor.from_local(torch.ones(2) * (rank // 2 + 1), line, [Partial()])
    found["partial"] = (
        term.full_tensor().tolist(), (term * 2).placements == (Partial(),), (term + term).placements == (Partial(),),
        (term + 1).full_tensor().tolist(), (term * term).full_tensor().tolist(),
        term.relu().placements[0].is_replicate(),
        term.redistribute(placements=[Shard(0)]).to_local().tolist(),
        DTensor.from_local(torch.ones(2) * rank, mesh, [Partial("max"), Partial("avg")]).full_tensor().tolist(),
    )  # fmt: skip
    local = torch.ones(2, 2, requires_grad=True)
    whole = DTensor.from_local(local, line, [Shard(0)])
    (whole.to_local() * 3).sum().backward()
    found["from_local"] = (tuple(whole.shape), local.grad.tolist())
    w = nn.Parameter(distribute_tensor(torch.ones(4), line, [Shard(0)]))
    used = w.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
    (used * (rank // 2 + 1)).sum().backward()
    found["grad_placements"] = w.grad.full_tensor().tolist()
    w.grad = None
    seen: list[Any] = []
    w.register_hook(lambda g: (seen.append(type(g).__name__), g * 2)[1])
    (w * w).sum().backward()
    found["hooked"] = (
        list(seen),
        w.grad.full_tensor().tolist(),
        type(w.grad).__name__,
        isinstance(w, nn.Parameter),
    )
    w.grad = None
    [of_w] = torch.autograd.grad((w * w * w).sum(), [w])
    torch.autograd.backward((w * w * w).sum())
    found["grad of"] = (of_w.full_tensor().tolist(), w.grad.full_tensor().tolist())
    w.grad = None
    twin = copy.deepcopy(w)
    back = pickle.loads(pickle.dumps(w.detach()))
    buffer = io.BytesIO()
    torch.save({"w": w.detach()}, buffer)
    loaded = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)["w"]
    found["copies"] = (
        type(twin).__name__, isinstance(twin, nn.Parameter), torch.equal(twin, w), twin.requires_grad,
        torch.equal(back, w), back.placements, torch.equal(loaded, w),
    )  # fmt: skip
    found["wrong"] = {
        "mixed": error_of(lambda: d + x),
        "refused": error_of(lambda: torch.linalg.svd(d)),
        "conv": error_of(lambda: F.conv1d(d, d)),
        "numpy": error_of(d.numpy),
        "list": error_of(d.tolist),
        "placements": error_of(lambda: distribute_tensor(x, mesh, [Shard(0)])),
        "dim": error_of(lambda: distribute_tensor(x, line, [Shard(5)])),
        "to partial": error_of(lambda: d.redistribute(placements=[Partial()])),
        "in place": error_of(lambda: distribute_tensor(x, line).add_(term.sum() * d)),
        "mesh": error_of(lambda: d + distribute_tensor(x, mesh)),
        "new": error_of(lambda: DTensor(x, line, [Shard(0)])),
        "grad": error_of(lambda: setattr(w, "grad", torch.ones(4))),
        "out": error_of(lambda: torch.add(d, d, out=d)),
        "array": error_of(lambda: __import__("numpy").asarray(d)),
    }
    found["random"] = random_numbers(mesh, dt)
    found["steps"] = {
        name: steps(line, name) for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")
    }
    found["optimizers"] = {name: steps(line, name) for name in ("Muon", "Adafactor")}
    return found


def random_numbers(mesh: Any, dt: Any) -> tuple[Any, ...]:
    from gradlib.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.manual_seed(dist.get_rank())
    drawn = dt.randn(5, 4, device_mesh=mesh, placements=[Shard(0), Shard(1)]).full_tensor()
    layer = nn.Linear(4, 5, device="meta")
    dt.distribute_module(
        layer,
        mesh,
        lambda name, m, mesh: m.register_parameter(
            "weight", nn.Parameter(distribute_tensor(m.weight, mesh, [Shard(0), Replicate()]))
        ),
    )
    layer.to_empty(device="cpu")
    layer.reset_parameters()
    torch.manual_seed(0)
    alone = torch.randn(5, 4)
    one = nn.Linear(4, 5)
    ones = dt.ones(8, 400, device_mesh=mesh, placements=[Shard(0), Replicate()])
    kept = F.dropout(ones, 0.5).to_local()
    return (
        torch.equal(drawn, alone),
        torch.equal(layer.weight.full_tensor(), one.weight),
        kept.sum().item(),
        0.4 < (kept > 0).float().mean().item() < 0.6,
        dt.zeros(5, 2, device_mesh=mesh, placements=[Shard(0), Replicate()]).to_local().shape[0],
        dt.full((2, 2), 7.0, device_mesh=mesh).sum().item(),
        torch.zeros_like(ones).placements == ones.placements,
        torch.rand(1).item(),  # each rank's own numbers go on
    )


def steps(line: Any, name: str) -> Any:
    """The largest difference of parameters after three steps from those of one process."""
    from gradlib.distributed.tensor import Shard, distribute_tensor

    torch.manual_seed(3)
    value = torch.randn(5, 4)
    ps = [nn.Parameter(value.clone()), nn.Parameter(distribute_tensor(value, line, [Shard(0)]))]
    made = [getattr(torch.optim, name)([p], lr=0.1) for p in ps]
    try:
        for _ in range(3):
            for p, optimizer in zip(ps, made):
                optimizer.zero_grad()
                (p * p * p).sum().backward()
                torch.nn.utils.clip_grad_norm_([p], 1.0)
                optimizer.step()
    except NotImplementedError as error:
        return str(error)
    return (ps[0] - ps[1].full_tensor()).abs().max().item()


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(facts, 4)


def test_ops_are_those_of_the_whole(ranks: list[dict[str, Any]]) -> None:
    assert [error for r in ranks for error in r["ops"]] == []


def test_every_move(ranks: list[dict[str, Any]]) -> None:
    assert [r["moves"] for r in ranks] == [100] * 4


def test_facts_of_the_whole(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["facts"] == (
        (5, 2), (5, 2), 2, 10, (2, 1), 5, 2, 2, 40, (3, 2), True, True, torch.float32, True, True, False, "cpu",
    )  # fmt: skip
    assert ranks[3]["facts"][9] == (2, 2)
    assert ranks[0]["repr"] == (
        "DTensor(local_tensor=tensor([1., 1.]), device_mesh=DeviceMesh((dp=2), 'cpu', stride=(1,)), "
        "placements=(Shard(dim=0),))"
    )
    assert [r["item"] for r in ranks] == [(45.0, 9.0, True, True, "45.0")] * 4


def test_sums_stay_sums_as_long_as_ops_are_linear(ranks: list[dict[str, Any]]) -> None:
    for rank, r in enumerate(ranks):
        half = [3.0]
        most = [2.5, 2.5]
        assert r["partial"] == ([3.0, 3.0], True, True, [4.0, 4.0], [9.0, 9.0], True, half, most), (
            rank
        )


def test_gradients_go_back_where_they_came_from(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert r["from_local"] == ((4, 2), [[3.0, 3.0], [3.0, 3.0]])
        assert r["grad_placements"] == [3.0] * 4
        assert r["grad of"] == ([6.0] * 4, [6.0] * 4)  # twice the gradient: the hook is there
        assert r["hooked"] == (["DTensor"], [4.0] * 4, "DTensor", True)


def test_copies(ranks: list[dict[str, Any]]) -> None:
    from gradlib.distributed.tensor import Shard

    for r in ranks:
        assert r["copies"] == ("DTensor", True, True, True, True, (Shard(0),), True)


def test_errors(ranks: list[dict[str, Any]]) -> None:
    wanted = {
        "mixed": "RuntimeError: add: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
        "before calling distributed operators!",
        "refused": "svd is not split over the ranks of a DTensor: call it on x.full_tensor()",
        "conv": "a convolution of DTensors is not split over the ranks",
        "numpy": "RuntimeError: .numpy() is not supported for tensor subclasses",
        "list": "RuntimeError: .tolist() is not supported for tensor subclasses",
        "placements": "ValueError: `placements` must have the same length as `device_mesh.ndim`! Found placements "
        "length: 1, and device_mesh.ndim: 2.",
        "dim": "AssertionError: Sharding dim 5 greater than tensor ndim 2",
        "to partial": "redistributing to Partial is for internal use only!",
        "mesh": "got DTensors of several meshes",
        "new": "make a DTensor with distribute_tensor",
        "grad": "assigned grad expected to be a DTensor or None but got grad of type Tensor",
        "out": "add(out=...) is not split over the ranks of a DTensor",
        "array": "is not supported for tensor subclasses",
    }
    for r in ranks:
        for name, text in wanted.items():
            assert text in r["wrong"][name], name


def test_random_numbers_do_not_depend_on_the_number_of_ranks(ranks: list[dict[str, Any]]) -> None:
    found = [r["random"] for r in ranks]
    assert [f[:2] for f in found] == [(True, True)] * 4
    assert found[0][2] == found[1][2] and found[0][2] != found[2][2]  # replicas draw the same
    assert [f[3:7] for f in found] == [(True, n, 28.0, True) for n in (3, 3, 2, 2)]
    assert (
        found[0][7] != found[1][7] == found[2][7] == found[3][7]
    )  # only the first rank's numbers were used up


def test_optimizers_work_on_parts(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert all(difference < 1e-6 for difference in r["steps"].values()), r["steps"]
        assert r["optimizers"]["Adafactor"] < 1e-6
        assert r["optimizers"]["Muon"] < 0.02  # its products are of bfloat16
