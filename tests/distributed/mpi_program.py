"""What test_mpi.py starts under mpiexec: the checks that are named on the command line, in order."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import gradlib as torch
import gradlib.distributed as dist
from gradlib.distributed._backend import engine
from gradlib.distributed._mpi import loading
from tests.distributed.engine_checks import Checks

LIMIT = timedelta(minutes=5)
loading.GRACE = 300.0  # who has failed waits for the others to say so, however long they take


def make(name: str) -> Any:
    """An engine of all ranks; they meet at the store of the job."""
    store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
    return engine("mpi")(store, dist.get_rank(), dist.get_world_size(), LIMIT)


def methods() -> None:
    """All that an engine can do."""
    made = make("methods")
    checks = Checks(made)
    checks.run()
    checks.wrong_size()
    made.close()


def training() -> None:
    """A script as written for PyTorch: rank and size come from mpiexec; asynchronous averages of gradients."""
    rank, size = dist.get_rank(), dist.get_world_size()
    assert size == int(os.environ["EXPECTED_SIZE"]) and dist.get_backend() == "mpi"
    rng = np.random.default_rng(0)
    x, y = (torch.tensor(rng.normal(size=(6, n)).astype("f4")) for n in (5, 3))

    def steps(rows: slice, share: bool) -> list:
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x[rows]), y[rows]).backward()
            if share:
                grads = [p.grad for p in net.parameters()]
                works = [dist.all_reduce(g, dist.ReduceOp.AVG, async_op=True) for g in grads]
                for work in works:
                    work.wait()
            optimizer.step()
        return [p.detach() for p in net.parameters()]

    n = 6 // size
    mine = steps(slice(rank * n, (rank + 1) * n), True)
    for a, b in zip(mine, steps(slice(0, 6), False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    everybody: list = [None] * size
    dist.all_gather_object(everybody, [a.tolist() for a in mine])
    assert all(theirs == everybody[0] for theirs in everybody)


def groups() -> None:
    """Subgroups have communicators of their own; kinds of tensors that MPI has no name for."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        t = torch.tensor([1.0 + rank])
        dist.all_reduce(t, group=pair)
        assert t.item() == 2 + size - 1
    own = [dist.new_group([r]) for r in range(size)]
    t = torch.ones(2)
    dist.all_reduce(t, group=own[rank])
    assert t.tolist() == [1, 1]
    z = torch.full((3,), 1 + 2j)
    dist.all_reduce(z)
    assert z.tolist() == [size * (1 + 2j)] * 3
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.SUM)
    assert flags.tolist() == [True, True, False]
    strided = torch.arange(12.0).reshape(3, 4).t()
    dist.broadcast(strided if rank else strided.mul_(2), 0)
    assert strided.tolist() == (2 * torch.arange(12.0).reshape(3, 4).t()).tolist()
    empty = torch.empty(0, 3)
    dist.all_reduce(empty)
    outs = [torch.zeros(2, dtype=torch.bfloat16) for _ in range(size)]
    dist.all_gather(outs, torch.full((2,), rank, dtype=torch.bfloat16))
    assert [o.tolist() for o in outs] == [[r, r] for r in range(size)]
    dist.barrier()


def idle() -> None:
    """Who waits for a rank that is late leaves the processor to others."""
    made = make("idle")
    made.barrier()
    if dist.get_rank() == 0:
        time.sleep(1.0)
    begun, used = time.monotonic(), time.process_time()
    made.barrier()
    waited, used = time.monotonic() - begun, time.process_time() - used
    assert waited < 0.5 or used < 0.25 * waited, (waited, used)
    made.close()


def aborted() -> None:
    """What waits can be woken up."""
    Checks(make("aborted")).aborted()


def disagrees() -> None:
    """Ranks that call different things are all told, with all lines."""
    lines = r"(?s)rank 0: .*float32\[2\].*rank 1: .*float32\[3\]"
    with pytest.raises(dist.DistBackendError, match=lines):
        dist.all_reduce(torch.ones(3 if dist.get_rank() else 2))


def fails_alone() -> None:
    """What fails on one rank is told to those who wait for it elsewhere."""
    rank = dist.get_rank()
    if rank == 1:
        dist.send(torch.ones(5), 0)
    act = dist.recv if rank == 0 else dist.all_reduce
    with pytest.raises(dist.DistBackendError, match=r"12 bytes .*differ in shape or dtype"):
        act(torch.ones(3))


def raises() -> None:
    """One rank raises while the others wait for it: the program ends, and not well."""
    if dist.get_rank() == 1:
        raise ValueError("rank 1 has had enough")
    dist.all_reduce(torch.ones(3))


dist.init_process_group("mpi", timeout=LIMIT)
for check in sys.argv[1:]:
    globals()[check]()
    os.write(1, f"{check} done\n".encode())  # in one piece: the ranks share the terminal
