"""The same collectives on gradlib and on PyTorch's gloo, in two processes each: values, types and errors."""

from __future__ import annotations

import importlib
import multiprocessing
import tempfile
import warnings
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("torch")
SIZE = 2


def program(torch: Any, log: Any) -> None:
    """What both libraries run on each rank; `log` takes what is to be compared."""
    dist = torch.distributed
    rank, n = dist.get_rank(), dist.get_world_size()

    def attempt(label: str, run: Any) -> None:
        try:
            log(label, run())
        except Exception as error:
            kind = RuntimeError if isinstance(error, RuntimeError) else type(error)
            log(label, kind.__name__)

    def text(label: str, run: Any) -> None:
        """For errors whose text is the same, word by word."""
        try:
            log(label, run())
        except Exception as error:
            log(label, f"{type(error).__name__}: {error}")

    dtypes = "bool uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
    for name in dtypes.split():
        dtype = getattr(torch, name)
        for op in "SUM AVG PRODUCT MIN MAX BAND BOR BXOR".split():

            def reduced(dtype: Any = dtype, op: str = op) -> Any:
                x = torch.tensor([rank + 1, rank, 3, 0]).to(dtype)
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
                return x.tolist(), str(x.dtype)

            # PyTorch's texts, but for the name of the enum in it
            (text if not name.startswith("complex") else attempt)(f"{name} {op}", reduced)
    for shape in ((), (3,), (2, 2), (0,), (2, 0, 3)):
        x = torch.full(shape, float(rank + 1))
        dist.all_reduce(x)
        dist.broadcast(x, 1)
        outs = [torch.empty(shape) for _ in range(n)]
        dist.all_gather(outs, x)
        log("shape", shape, x.tolist(), [o.tolist() for o in outs])
    x = torch.arange(6.0).reshape(2, 3) + rank
    y = x.t()
    dist.all_reduce(y)
    log("strided", x.tolist(), y.is_contiguous())
    out = torch.empty(3)
    dist.reduce_scatter_tensor(out, torch.arange(6.0), dist.ReduceOp.AVG)
    log("reduce_scatter_tensor", out.tolist())
    out = torch.empty(4)
    dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
    log("all_gather_into_tensor", out.tolist())
    out = torch.empty(3, 2)
    dist.all_to_all_single(
        out, torch.arange(6.0).reshape(3, 2) + 10 * rank, [2 - rank, 1 + rank], [2 - rank, 1 + rank]
    )
    log("all_to_all_single", out.tolist())
    outs = [torch.empty(2) for _ in range(n)]
    dist.all_to_all(outs, [torch.full((2,), 10.0 * rank + r) for r in range(n)])
    log("all_to_all", [o.tolist() for o in outs])
    outs = [torch.empty(2) for _ in range(n)] if rank == 1 else None
    dist.gather(torch.full((2,), float(rank)), outs, dst=1)
    log("gather", [o.tolist() for o in outs or []])
    x = torch.empty(2)
    dist.scatter(x, [torch.ones(2) * r for r in range(n)] if rank == 0 else None, src=0)
    log("scatter", x.tolist())
    x = torch.full((2,), float(rank + 1))
    dist.reduce(x, 0, dist.ReduceOp.MAX)
    log("reduce", x.tolist() if rank == 0 else None)

    works = [dist.all_reduce(x, async_op=True), dist.barrier(async_op=True)]
    log("work", [bool(work.wait()) for work in works], [work.is_completed() for work in works])
    log(
        "future",
        [t.shape for t in dist.broadcast(torch.ones(2), 0, async_op=True).get_future().wait()],
    )
    found = [None] * n
    dist.all_gather_object(found, {"rank": rank})
    log("objects", found)
    things = ["a", {1: 2}] if rank == 0 else [None, None]
    dist.broadcast_object_list(things, 0)
    log("objects", things)
    z = torch.empty(2)
    ops = [
        dist.P2POp(dist.isend, torch.ones(2) * rank, 1 - rank),
        dist.P2POp(dist.irecv, z, 1 - rank),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    log("batch", z.tolist())
    if rank == 0:
        dist.send(torch.ones(3), 1, tag=3)
    else:
        z = torch.empty(3)
        log("recv", dist.recv(z, tag=3), z.tolist())

    one = dist.new_group([1])
    log(
        "group",
        dist.get_rank(one),
        dist.get_world_size(one),
        one == dist.GroupMember.NON_GROUP_MEMBER,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log("outside", dist.all_reduce(torch.ones(1), group=one))
    log("outside", [str(w.message) for w in caught if "belong" in str(w.message)])
    mine, every = dist.new_subgroups(1)
    log("subgroups", dist.get_process_group_ranks(mine), len(every))
    world = dist.group.WORLD
    log("world", world.rank(), world.size(), world.name(), world.group_name, world.group_desc)
    log("world", dist.get_backend(), dist.get_global_rank(world, 1), dist.get_group_rank(world, 0))
    x = torch.ones(2)
    for label, run in {
        "no tensor": lambda: dist.all_reduce(3),
        "no list": lambda: dist.all_gather(3, x),
        "no tensors": lambda: dist.all_gather([3], x),
        "dtypes": lambda: dist.all_gather([torch.ones(2, dtype=torch.int64)] * 2, x),
        "scatter without list": lambda: dist.scatter(x, src=rank),
        "scatter with list": lambda: dist.scatter(x, [x], src=1 - rank),
        "gather without list": lambda: dist.gather(x, dst=rank),
        "gather with list": lambda: dist.gather(x, [x, x], dst=1 - rank),
        "splits": lambda: dist.all_to_all_single(torch.ones(2), x, [1], [1, 1]),
        "total": lambda: dist.all_to_all_single(torch.ones(2), x, [1, 2], [1, 1]),
        "to itself": lambda: dist.send(x, rank),
        "from nobody": lambda: dist.broadcast(x),
        "from two": lambda: dist.broadcast(x, 0, group_src=0),
        "no send": lambda: dist.P2POp(dist.all_reduce, x, 0),
        "no op": lambda: dist.batch_isend_irecv([3]),
        "no rank": lambda: dist.new_group([0, 5]),
        "same rank": lambda: dist.new_group([0, 0, 1]),
        "twice": lambda: dist.init_process_group("gloo"),
        "timeout": lambda: dist.new_group(timeout=3),
        "too many": lambda: dist.new_subgroups(3),
    }.items():  # fmt: skip
        text(label, run)
    for label, run in {  # whose texts speak of PyTorch's C++
        "count": lambda: dist.all_gather([torch.ones(2)], x),
        "shape of a list": lambda: dist.all_gather([torch.ones(3), torch.ones(3)], x),
        "count at the root": lambda: dist.gather(x, [x], dst=rank),
        "size": lambda: dist.all_gather_into_tensor(torch.ones(3), x),
        "dtype": lambda: dist.all_gather_into_tensor(torch.ones(4, dtype=torch.int64), x),
        "size of a part": lambda: dist.reduce_scatter_tensor(torch.ones(3), x),
        "list of one": lambda: dist.reduce_scatter(torch.ones(2), [x]),
    }.items():
        attempt(label, run)
    try:
        dist.barrier()
    except RuntimeError:  # an error of a call before may come out here, in PyTorch
        assert torch.__name__ == "torch"
    dist.destroy_process_group()
    text("destroyed", dist.get_rank)
    text("destroyed", dist.destroy_process_group)
    text(
        "backend",
        lambda: dist.init_process_group("foo", init_method="file:///x", rank=0, world_size=1),
    )
    text("store", lambda: dist.init_process_group("gloo", store=dist.HashStore()))
    where = {"init_method": "file:///x", "rank": 0, "world_size": 1}
    text("timeout", lambda: dist.init_process_group("gloo", timeout=3, **where))


def _main(library: str, rank: int, path: str, pipe: Any) -> None:
    torch = importlib.import_module(library)
    logged: list = []
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{path}/meet", rank=rank, world_size=SIZE, timeout=timedelta(seconds=300)
    )  # fmt: skip
    try:
        program(torch, lambda *what: logged.append(repr(what)))
    finally:
        pipe.send(logged)


def _run(library: str) -> list[list[str]]:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as path:
        pipes, processes = [], []
        for rank in range(SIZE):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_main, args=(library, rank, path, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        try:
            found = [pipe.recv() if pipe.poll(120) else [] for pipe in pipes]
        finally:
            for process in processes:
                process.join(10)
                process.kill()
    return found


def test_collectives_are_as_pytorch_has_them():
    theirs, ours = _run("torch"), _run("gradlib")
    for expected, found in zip(theirs, ours, strict=True):
        differing = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
        assert not differing
        assert len(found) == len(expected)
        assert len(found) > 140
