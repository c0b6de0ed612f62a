"""FullyShardedDataParallel, the older name of fully_shard."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import gradlib as torch
from gradlib import distributed as dist
from gradlib import nn
from tests.distributed import models
from tests.distributed.harness import run


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def facts() -> dict[str, Any]:
    from gradlib.distributed import fsdp
    from gradlib.distributed.fsdp import ShardingStrategy, StateDictType, wrap
    from gradlib.distributed.tensor import DTensor

    FSDP = fsdp.FullyShardedDataParallel
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found: dict[str, Any] = {}
    policy = functools.partial(
        wrap.transformer_auto_wrap_policy, transformer_layer_cls={models.Block}
    )
    expected = models.alone(models.GPT, steps=6, clip=None)
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
        model = FSDP(
            models.fresh(models.GPT),
            sharding_strategy=strategy,
            auto_wrap_policy=policy,
            use_orig_params=True,
        )
        models.train(model, models.GPT, rank, ranks, steps=6, clip=None)
        found[strategy.name] = models.apart(expected, model)
    found["nested"] = (
        len(FSDP.fsdp_modules(model)),
        len(FSDP.fsdp_modules(model, root_only=True)),
        model.check_is_root(),
    )

    one = models.fresh(models.GPT)
    with FSDP.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, fsdp.FullStateDictConfig(True, True)
    ):
        full = model.state_dict()
    found["full"] = (
        list(full) == (list(one.state_dict()) if rank == 0 else []),
        {type(v).__name__ for v in full.values()},
    )
    whole = model.state_dict()
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        parts = model.state_dict()
    found["sharded"] = list(parts) == list(whole), {type(v).__name__ for v in parts.values()}
    one.load_state_dict(whole)
    found["same"] = models.apart([p.detach() for p in one.parameters()], model)
    again = FSDP(models.fresh(models.GPT), auto_wrap_policy={models.Block})
    again.load_state_dict(whole)
    found["loaded whole"] = models.apart([p.detach() for p in one.parameters()], again)
    again = FSDP(models.fresh(models.GPT), auto_wrap_policy={models.Block})
    with FSDP.state_dict_type(again, StateDictType.SHARDED_STATE_DICT):
        again.load_state_dict(parts)
    found["loaded parts"] = models.apart([p.detach() for p in one.parameters()], again)

    with FSDP.summon_full_params(again):
        names = [name for name, _ in again.named_parameters()]
        found["summoned"] = (
            names == [n for n, _ in one.named_parameters()],
            not isinstance(again.ln.weight, DTensor),
        )
        again.ln.weight.data.fill_(3.0)
    found["written"] = again.ln.weight.full_tensor().tolist()

    torch.manual_seed(4)
    x, y = models.batch(models.GPT)
    fresh, model = (
        models.fresh(models.GPT),
        FSDP(models.fresh(models.GPT), auto_wrap_policy={models.Block}),
    )
    models.loss_of(fresh, x, y).backward()
    with model.no_sync():
        models.loss_of(model, x.chunk(ranks)[rank], y.chunk(ranks)[rank]).backward()
    found["no_sync"] = all(p.grad is None for p in model.parameters())
    models.loss_of(model, x.chunk(ranks)[rank], y.chunk(ranks)[rank]).backward()
    norm = model.clip_grad_norm_(0.1)
    doubled = nn.utils.get_total_norm([2 * p.grad for p in fresh.parameters()])
    found["clipped"] = (
        (norm - doubled).abs().item(),
        nn.utils.get_total_norm([p.grad for p in model.parameters()]).item(),
    )

    adam = torch.optim.Adam(model.parameters())
    adam.step()
    state = FSDP.optim_state_dict(model, adam)
    some = state["state"]["blocks.0.up.weight"]["exp_avg"]
    other = torch.optim.Adam(model.parameters())
    FSDP.optim_state_dict_to_load(model, other, state, load_directly=True)
    back = FSDP.optim_state_dict(model, other)["state"]["blocks.0.up.weight"]["exp_avg"]
    kept = other.state_dict()["state"][4]["exp_avg"]
    found["optimizer"] = tuple(some.shape), torch.equal(some, back), type(kept).__name__

    torch.manual_seed(rank)
    synced = FSDP(nn.Linear(4, 4), sync_module_states=True)
    torch.manual_seed(0)
    found["synced"] = torch.equal(synced.weight.full_tensor(), nn.Linear(4, 4).weight)
    half = FSDP(nn.Linear(4, 4), mixed_precision=fsdp.MixedPrecision(torch.bfloat16))
    found["half"] = half(torch.ones(1, 4)).dtype
    sized = FSDP(
        nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(20, 20))),
        auto_wrap_policy=functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=100),
    )
    found["sized"] = len(FSDP.fsdp_modules(sized)), type(sized[1][0]).__name__
    with wrap.enable_wrap(wrapper_cls=FSDP):
        found["wrap"] = type(wrap.wrap(nn.Linear(2, 2))).__name__
    found["wrong"] = [
        error_of(lambda: FSDP(nn.Linear(2, 2), sharding_strategy=ShardingStrategy.NO_SHARD)),
        error_of(lambda: FSDP(nn.Linear(2, 2), sharding_strategy=ShardingStrategy.HYBRID_SHARD)),
        error_of(lambda: FSDP.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT)),
        error_of(lambda: model.register_comm_hook(None, print)),
    ]
    return found


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(facts, 2)


def test_training_is_that_of_one_process(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert r["FULL_SHARD"] < 1e-6 and r["SHARD_GRAD_OP"] < 1e-6
        assert r["nested"] == (3, 1, True)


def test_state_dicts(ranks: list[dict[str, Any]]) -> None:
    for rank, r in enumerate(ranks):
        assert r["full"] == (True, set() if rank else {"Tensor"})
        assert r["sharded"] == (True, {"DTensor"})
        assert r["same"] == r["loaded whole"] == r["loaded parts"] == 0
        assert r["optimizer"] == ((32, 8), True, "DTensor")


def test_whole_parameters(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert r["summoned"] == (True, True)
        assert r["written"] == [3.0] * models.WIDTH


def test_gradients(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert r["no_sync"]
        assert r["clipped"][0] < 1e-6 and r["clipped"][1] == pytest.approx(0.1, abs=1e-4)


def test_options(ranks: list[dict[str, Any]]) -> None:
    texts = [
        "use DistributedDataParallel",
        "needs device_mesh with two dimensions",
        "use SHARDED_STATE_DICT",
        "no communication hooks",
    ]
    for r in ranks:
        assert r["synced"] and r["half"] == torch.bfloat16
        assert (
            r["sized"] == (2, "FullyShardedDataParallel")
            and r["wrap"] == "FullyShardedDataParallel"
        )
        for error, text in zip(r["wrong"], texts, strict=True):
            assert text in error
