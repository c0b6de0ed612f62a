"""Pipelines: training in stages is training in one process."""

from __future__ import annotations

from typing import Any

import pytest

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import distributed as dist
from gradlib import nn
from tests.distributed.harness import run


class Two(nn.Module):
    """Gives two tensors, one of which needs no gradient."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.tanh(), (x > 0).long()


class Join(nn.Module):
    """Takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        return self.out(x * (1 + positive))


def model() -> list[nn.Module]:
    torch.manual_seed(0)
    return [
        nn.Sequential(nn.Linear(4, 8), nn.ReLU()),
        nn.Sequential(nn.Linear(8, 6), Two()),
        Join(),
    ]


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def facts() -> dict[str, Any]:
    from gradlib.distributed.device_mesh import init_device_mesh
    from gradlib.distributed.fsdp import fully_shard
    from gradlib.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    from gradlib.distributed.pipelining.schedules import get_schedule_class

    rank, ranks = dist.get_rank(), dist.get_world_size()
    found: dict[str, Any] = {}
    for name in ("GPipe", "1F1B"):
        whole, mine = model(), model()[rank]
        stage = PipelineStage(mine, rank, ranks, torch.device("cpu"))
        schedule = get_schedule_class(name)(stage, 6, loss_fn=F.cross_entropy)
        params = [p for m in whole for p in m.parameters()]
        a, b = torch.optim.SGD(params, lr=0.1), torch.optim.SGD(mine.parameters(), lr=0.1)
        torch.manual_seed(1)
        worst = 0.0
        for _ in range(20):
            x, y = torch.randn(12, 4), torch.randint(3, (12,))
            out = whole[2](*whole[1](whole[0](x)))
            loss = F.cross_entropy(out, y)
            a.zero_grad()
            loss.backward()
            a.step()
            losses: list[Any] = []
            b.zero_grad()
            got = schedule.step(x) if rank == 0 else schedule.step(target=y, losses=losses)
            b.step()
            if rank == ranks - 1:
                worst = max(
                    worst, (got - out).abs().max().item(), abs(sum(losses).item() / 6 - loss.item())
                )
            else:
                assert got is None and losses == []
        pairs = zip(whole[rank].parameters(), mine.parameters())
        found[name] = worst, max((p - q).abs().max().item() for p, q in pairs)
        x = torch.randn(12, 4)
        seen = schedule.eval(x) if rank == 0 else schedule.eval()
        found[f"{name} eval"] = seen is None or (
            not seen.requires_grad and tuple(seen.shape) == (12, 3)
        )
    group = dist.new_group([0, 1])
    if rank < 2:
        parts = [nn.Linear(3, 3), nn.Linear(3, 3)]
        stage = PipelineStage(parts[rank], rank, 2, "cpu", group=group)
        total = Schedule1F1B(
            stage, 2, loss_fn=lambda out, y: ((out - y) ** 2).sum(), scale_grads=False
        )
        x = torch.ones(4, 3)
        total.step(x) if rank == 0 else total.step(target=x)
        found["kept"] = parts[rank].weight.grad is not None
    lines = [dist.new_group([i]) for i in range(ranks)]
    own = init_device_mesh("cpu", (ranks,)).from_group(lines[rank], "cpu")
    torch.manual_seed(0)
    sharded, plain = nn.Linear(4, 4), nn.Linear(4, 4)
    plain.load_state_dict(sharded.state_dict())
    grads = []
    for module in (fully_shard(sharded, mesh=own), plain):
        stage = PipelineStage(module, rank, ranks, "cpu")
        schedule = ScheduleGPipe(stage, 3, loss_fn=F.mse_loss)
        torch.manual_seed(2)
        x = torch.randn(6, 4)
        schedule.step(x) if rank == 0 else schedule.step(target=x)
        grad = module.weight.grad
        grads.append(grad.full_tensor() if hasattr(grad, "full_tensor") else grad)
    found["sharded"] = torch.allclose(*grads, atol=1e-6)
    stage = PipelineStage(nn.Linear(4, 4), rank, ranks, "cpu")
    found["wrong"] = [
        error_of(lambda: Schedule1F1B(stage, 2)),
        error_of(lambda: PipelineStage(nn.Linear(4, 4), (rank + 1) % 3, ranks, "cpu")),
        error_of(lambda: PipelineStage(nn.Linear(4, 4), 0, 2, "cpu")),
        error_of(lambda: ScheduleGPipe(stage, 3).step(torch.ones(4, 4))),
        error_of(lambda: get_schedule_class("zbv")),
    ]
    return found


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(facts, 3)


@pytest.mark.parametrize("name", ["GPipe", "1F1B"])
def test_training_is_that_of_one_process(ranks: list[dict[str, Any]], name: str) -> None:
    for r in ranks:
        assert max(r[name]) < 1e-6
        assert r[f"{name} eval"]


def test_a_group_and_sharded_stages(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["kept"] and ranks[1]["kept"]
    assert all(r["sharded"] for r in ranks)


def test_errors(ranks: list[dict[str, Any]]) -> None:
    texts = [
        "Number of microbatches (2) must be greater than or equal to the number of stages (3).", "belongs on rank",
        "Pipeline group size 3 must be the number of stages 2", "cannot be cut into 3 microbatches of equal size",
        "Unknown schedule name: zbv",
    ]  # fmt: skip
    for error, text in zip(ranks[0]["wrong"], texts, strict=True):
        assert text in error
