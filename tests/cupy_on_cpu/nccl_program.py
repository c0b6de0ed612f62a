"""One rank of what test_nccl.py starts: ``python -m tests.cupy_on_cpu.nccl_program CHECKS RANK SIZE FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from typing import Any

from . import machine

machine.install()

import cupy  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

import gradlib as torch  # noqa: E402
from gradlib.distributed._backend import engine  # noqa: E402
from gradlib.distributed._errors import DistBackendError  # noqa: E402
from tests.distributed.engine_checks import Checks  # noqa: E402
from tests.distributed.harness import ROOM  # noqa: E402

CHECKS, RANK, SIZE, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def make(name: str) -> Any:
    """The engine of this rank for a check."""
    torch.cuda.set_device(RANK % torch.cuda.device_count())
    store = torch.distributed.FileStore(f"{FOLDER}/{name}", SIZE)
    return engine("nccl")(store, RANK, SIZE, timedelta(minutes=5))


def methods() -> None:
    """All that an engine can do, from the default stream and from one of the caller's."""
    made = make("methods")
    checks = Checks(made, cupy.asarray, cupy.asnumpy, ("sum",), any_source=False, rounds_once=False)
    checks.run()
    with torch.cuda.stream(torch.cuda.Stream()):
        checks.reductions(np.dtype("f4"), 5)
        checks.points()
    if SIZE > 1:  # both send first, more than fits into one message
        array, got = cupy.full(300_000, RANK, "f4"), cupy.zeros(300_000, "f4")
        peer = RANK ^ 1
        if peer < SIZE:
            sending = made.start_send(array, peer, 0)
            made.start_recv(got, peer, 0).wait(None)
            sending.wait(None)
            assert (got == peer).all()
    made.close()
    with pytest.raises(DistBackendError, match="destroyed"):
        made.all_reduce(cupy.ones(3), "sum")


def refused() -> None:
    """What NCCL cannot do is said."""
    made = make("refused")
    with torch.cuda.device(1 - made.device):
        there = cupy.zeros(3)
    with pytest.raises(RuntimeError, match="set_device"):
        made.all_reduce(there, "sum")
    with pytest.raises(RuntimeError, match="any rank"):
        made.recv(cupy.zeros(3), None, 0)
    made.barrier()
    made.close()


def killed() -> None:
    """A rank dies: the others do not wait for ever."""
    made = make("killed")
    array = cupy.ones(3)
    made.all_reduce(array, "sum")
    if RANK == SIZE - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(DistBackendError, match="remote process exited"):
        made.all_reduce(array, "sum")
    assert time.monotonic() - begun < 5 + ROOM


def late() -> None:
    """A rank does not come: the operation is ended when its time is up."""
    made = make("late")
    made.all_reduce(cupy.ones(3), "sum")
    made.barrier()
    if RANK:
        made.store.wait(["rank 0 gave up"])
        return
    made.set_timeout(timedelta(seconds=1))
    for act in (
        lambda: made.all_reduce(cupy.ones(3), "sum"),
        lambda: made.compare(1, lambda: b""),
    ):
        with pytest.raises(DistBackendError, match="all_reduce was not done within 1 s"):
            act()
    made.store.set("rank 0 gave up", "")


def training() -> None:
    """Steps of two processes on halves of a batch are those of one process on all of it."""
    dist = torch.distributed
    torch.cuda.set_device(RANK % torch.cuda.device_count())
    dist.init_process_group("nccl", f"file://{FOLDER}/meet", rank=RANK, world_size=SIZE)
    rng = np.random.default_rng(0)
    x, y = (torch.tensor(rng.normal(size=(8, n)).astype("f4")) for n in (5, 3))

    def model() -> Any:
        torch.manual_seed(3)
        made = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
        return made.cuda()

    def steps(net: Any, rows: slice, share: bool) -> list[np.ndarray]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x[rows].cuda()), y[rows].cuda()).backward()
            if share:
                grads = [p.grad for p in net.parameters()]
                works = [dist.all_reduce(g, dist.ReduceOp.AVG, async_op=True) for g in grads]
                for work in works:
                    work.wait()
            optimizer.step()
        return [p.detach().cpu().numpy() for p in net.parameters()]

    n = 8 // SIZE
    mine = steps(model(), slice(RANK * n, (RANK + 1) * n), True)
    for a, b in zip(mine, steps(model(), slice(0, 8), False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    parallel = torch.nn.parallel.DistributedDataParallel(model())  # hooks, buckets, overlap
    for a, b in zip(mine, steps(parallel, slice(RANK * n, (RANK + 1) * n), False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    everybody: list = [None] * SIZE
    flat = torch.tensor(np.concatenate([a.reshape(-1) for a in mine])).cuda()
    gathered = [torch.empty_like(flat) for _ in everybody]
    dist.all_gather(gathered, flat)
    assert all(torch.equal(gathered[0], g) for g in gathered)
    half = torch.full((4,), 1.5, dtype=torch.bfloat16, device="cuda")
    dist.all_reduce(half)
    assert half.tolist() == [1.5 * SIZE] * 4
    z = torch.full((3,), 1 + 2j, device="cuda")
    dist.all_reduce(z)
    assert z.tolist() == [SIZE * (1 + 2j)] * 3
    dist.barrier()
    dist.destroy_process_group()


for check in CHECKS.split(","):
    globals()[check]()
    print(check, "done", flush=True)
