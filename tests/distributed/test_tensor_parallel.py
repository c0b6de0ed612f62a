"""Tensor parallelism, alone and with fully_shard: training is that of one process on the whole batch."""

from __future__ import annotations

from typing import Any

import pytest

import gradlib as torch
from gradlib import distributed as dist
from gradlib import nn
from tests.distributed import models
from tests.distributed.harness import run


def plan(local: bool = True) -> dict[str, Any]:
    from gradlib.distributed.tensor import Replicate
    from gradlib.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    column, row = ColwiseParallel(), RowwiseParallel()
    names = {f"blocks.*.{name}": column for name in ("q", "k", "v", "up")}
    names |= {f"blocks.*.{name}": row for name in ("out", "down")}
    return names | {"places": RowwiseParallel(input_layouts=Replicate())}


class Sequential(nn.Module):
    """A network whose norms work on parts of the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.ln, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(self.ln(x)).relu())


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def four() -> dict[str, Any]:
    from gradlib.distributed.device_mesh import init_device_mesh
    from gradlib.distributed.fsdp import fully_shard
    from gradlib.distributed.tensor import Replicate, Shard
    from gradlib.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        PrepareModuleOutput,
        RowwiseParallel,
        SequenceParallel,
        loss_parallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dp = mesh.get_local_rank("dp")
    found: dict[str, Any] = {}

    model = parallelize_module(models.fresh(models.GPT), mesh["tp"], plan())
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    weight = model.blocks[0].up.weight
    found["2-d placements"] = (
        repr(weight.placements),
        tuple(weight.to_local().shape),
        weight.device_mesh.shape,
    )
    whole = models.fresh(models.GPT)
    found["cut as the whole"] = torch.equal(weight.full_tensor(), whole.blocks[0].up.weight)
    models.train(model, models.GPT, dp, 2, steps=8, clip=None)
    found["2-d"] = models.apart(models.alone(models.GPT, steps=8, clip=None), model)
    found["2-d values"] = [p.full_tensor().tolist() for p in model.parameters()]

    flat = mesh._flatten("all")
    torch.manual_seed(0)
    one = Sequential()
    torch.manual_seed(0)
    shared = parallelize_module(
        Sequential(),
        flat,
        {
            "ln": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        },
    )
    x = torch.randn(2, 8, 8)
    part = x.chunk(4, 1)[dist.get_rank()]
    expected, got = one(x), shared(part)
    found["sequence"] = (expected - got.full_tensor()).abs().max().item(), repr(got.placements)
    expected.pow(2).sum().backward()
    got.pow(2).sum().backward()
    grads = [(a.grad, b.grad.full_tensor()) for a, b in zip(one.parameters(), shared.parameters())]
    found["sequence gradients"] = max((a - b).abs().max().item() for a, b in grads)

    layer = parallelize_module(
        nn.Linear(8, 8), flat,
        PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True)
    )  # fmt: skip
    layer = parallelize_module(
        layer,
        flat,
        PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0)),
    )
    found["prepared"] = tuple(layer(torch.randn(1, 8)).shape)
    found["wrong"] = [
        error_of(lambda: parallelize_module(nn.Linear(2, 2), mesh, ColwiseParallel())),
        error_of(lambda: parallelize_module(nn.LayerNorm(2), flat, ColwiseParallel())),
        error_of(lambda: loss_parallel()),
        error_of(
            lambda: PrepareModuleInput(
                input_layouts=(Shard(0), None), desired_input_layouts=Shard(0)
            )
        ),
        error_of(lambda: parallelize_module(nn.Linear(2, 2), flat, 3)),
    ]
    return found


def two() -> dict[str, Any]:
    from gradlib.distributed.device_mesh import init_device_mesh
    from gradlib.distributed.tensor.parallel import parallelize_module

    mesh = init_device_mesh("cpu", (2,))
    model = parallelize_module(models.fresh(models.GPT), mesh, plan())
    held = sum(whole_or_part(p).numel() for p in model.blocks[0].parameters())
    models.train(model, models.GPT, clip=None)
    expected = models.alone(models.GPT, clip=None)
    return {"apart": models.apart(expected, model), "held": held}


def whole_or_part(p: Any) -> torch.Tensor:
    return p.to_local() if hasattr(p, "to_local") else p


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(four, 4)


def test_tensor_parallel_is_training_on_one_process() -> None:
    for r in run(two, 2):
        assert r["apart"] < 1e-6
        whole = sum(p.numel() for p in models.Block(models.WIDTH).parameters())
        assert r["held"] < 0.6 * whole


def test_with_fully_shard_on_two_dimensions(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert r["2-d placements"] == (
            "(_StridedShard(dim=0, sf=2), Shard(dim=0))", (8, 8), (2, 2),
        )  # fmt: skip
        assert r["cut as the whole"]
        assert r["2-d"] < 1e-6
        assert r["2-d values"] == ranks[0]["2-d values"]


def test_sequence_parallel(ranks: list[dict[str, Any]]) -> None:
    for r in ranks:
        assert r["sequence"][0] < 1e-6 and r["sequence"][1] == "(Shard(dim=1),)"
        assert r["sequence gradients"] < 1e-5
        assert r["prepared"] == (1, 8)


def test_errors(ranks: list[dict[str, Any]]) -> None:
    texts = [
        "expects a mesh of one dimension", "ColwiseParallel currently only support nn.Linear and nn.Embedding",
        "gradlib has no loss_parallel", "input_layouts and desired_input_layouts should have same length!",
        "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan",
    ]  # fmt: skip
    for error, text in zip(ranks[0]["wrong"], texts, strict=True):
        assert text in error
