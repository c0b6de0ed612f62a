"""Gradients through collectives: the gradient of the sum of all ranks' losses, against finite differences."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradlib as torch
import gradlib.distributed._functional_collectives as funcol
import gradlib.distributed.nn.functional as distf
from tests.distributed import harness

dist = torch.distributed
SIZE = 3


def given(rank: int, *shape: int) -> torch.Tensor:
    rng = np.random.default_rng([7, rank])
    return torch.tensor(rng.standard_normal(shape)).requires_grad_()


def weights(like: torch.Tensor) -> torch.Tensor:
    """Factors of a rank's loss: other ones on each rank and for each element."""
    rng = np.random.default_rng([8, dist.get_rank()])
    return torch.tensor(rng.standard_normal(tuple(like.shape)))


def programs() -> dict:
    n, me = dist.get_world_size(), dist.get_rank()

    def at(rank, t):  # outputs of other ranks are not to be used
        return t if me == rank else t * 0

    def joined(parts):
        return torch.stack(list(parts))

    return {
        "all_reduce": lambda x: distf.all_reduce(x),
        "all_reduce avg": lambda x: distf.all_reduce(x, dist.ReduceOp.AVG),
        "broadcast": lambda x: distf.broadcast(x, 1),
        "reduce": lambda x: at(2, distf.reduce(x, 2)),
        "reduce avg": lambda x: at(2, distf.reduce(x, 2, dist.ReduceOp.AVG)),
        "all_gather": lambda x: joined(distf.all_gather(x)),
        "gather": lambda x: joined(distf.gather(x, 1)),
        "scatter": lambda x: distf.scatter(list(x.unbind(0)), 1),
        "reduce_scatter": lambda x: distf.reduce_scatter(torch.empty(2).double(), list(x.unbind(0))),
        "all_to_all": lambda x: joined(
            distf.all_to_all([torch.empty(2).double() for _ in range(n)], list(x.unbind(0)))
        ),
        "all_to_all_single": lambda x: distf.all_to_all_single(torch.empty_like(x), x),
        "f all_reduce": lambda x: funcol.wait_tensor(funcol.all_reduce(x, "sum", dist.group.WORLD)),
        "f all_gather_tensor": lambda x: funcol.all_gather_tensor(x, 1, list(range(n))),
        "f reduce_scatter_tensor": lambda x: funcol.reduce_scatter_tensor(x, "sum", 0, "0"),
        "f all_to_all_single": lambda x: funcol.all_to_all_single(x, None, None, None),
        "f broadcast": lambda x: funcol.broadcast(x, 0, None),
        "f permute_tensor": lambda x: funcol.permute_tensor(x, [1, 2, 0], None),
    }  # fmt: skip


def loss_of(run, x: torch.Tensor) -> torch.Tensor:
    y = run(x)
    return (weights(y) * y * y).sum()


def total(run, x: torch.Tensor) -> float:
    """The sum of all ranks' losses."""
    with torch.no_grad():
        loss = loss_of(run, x)
        dist.all_reduce(loss)
    return float(loss)


def against_differences() -> int:
    n, me = dist.get_world_size(), dist.get_rank()
    for name, run in programs().items():
        x = given(me, n, 2)
        (grad,) = torch.autograd.grad(loss_of(run, x), x)
        eps = 1e-6
        for rank in range(n):
            for i in range(n * 2):
                step = torch.zeros(n * 2).double()
                step[i] = eps if rank == me else 0.0
                step = step.reshape(n, 2)
                slope = (total(run, x + step) - total(run, x - step)) / (2 * eps)
                if rank == me:
                    found = float(grad.reshape(-1)[i])
                    assert abs(found - slope) < 1e-6 * max(1, abs(slope)), (name, i, found, slope)
    return len(programs())


def test_gradients_are_those_of_all_losses_together():
    assert set(harness.run(against_differences, SIZE)) == {17}


def twice_and_refused() -> list[str]:
    me = dist.get_rank()
    x = given(me, 2)
    y = distf.all_reduce(x)  # s = sum of x; loss of rank r: s^3, so that the total is 3 s^3
    (g,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    s = y.detach()
    torch.testing.assert_close(g.detach(), SIZE * 3 * s**2)
    (h,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(h, SIZE * SIZE * 6 * s)
    texts = []
    for attempt in (
        lambda: distf.all_reduce(x, dist.ReduceOp.MAX).sum().backward(),
        lambda: torch.func.vmap(lambda row: dist.all_reduce(row))(torch.ones(2, 2)),
        lambda: torch.func.jvp(
            lambda t: (dist.all_reduce(t), t)[1], (torch.ones(2),), (torch.ones(2),)
        ),
    ):
        try:
            attempt()
            texts.append("no error")
        except (RuntimeError, NotImplementedError) as error:
            texts.append(str(error))
    return texts


def test_double_backward_and_what_has_no_gradient():
    for texts in harness.run(twice_and_refused, SIZE):
        assert "ReduceOp.MAX is not there" in texts[0]
        assert "all_reduce inside vmap" in texts[1]
        assert "all_reduce of a tensor with a tangent" in texts[2]


def test_names_of_ops_and_groups_are_checked():
    with pytest.raises(ValueError, match=re.escape("Invalid reduce operation 'mean'")):
        funcol._op("mean")
