"""Every collective against NumPy, over dtypes, shapes, groups and ways of calling; many checks in each start."""

from __future__ import annotations

import functools
import itertools
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import gradlib as torch
from tests.distributed import harness

dist = torch.distributed

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip
COMPLEX = (torch.complex64, torch.complex128)
ALL = (*FLOATING, *INTEGERS, *COMPLEX, torch.bool)
SHAPES = ((), (1,), (5,), (2, 3), (0,), (3, 0), (70_001,))
# how NumPy puts two arrays together
REDUCE = {
    "SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum, "BAND": np.bitwise_and,
    "BOR": np.bitwise_or, "BXOR": np.bitwise_xor,
}  # fmt: skip


def values(rank: int, shape: tuple, dtype: torch.dtype, seed: int = 0) -> np.ndarray:
    """What rank `rank` gives: small numbers, so that sums and products are exact in all dtypes."""
    rng = np.random.default_rng([seed, rank])
    numbers = rng.integers(0, 3, shape)
    if dtype.is_complex:
        return (numbers + 1j * rng.integers(0, 3, shape)).astype(dtype.np)
    return np.asarray(numbers).astype(dtype.np)


def given(rank: int, shape: tuple, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.Tensor._make(np.asarray(values(rank, shape, dtype, seed)).copy())


def same(tensor: torch.Tensor, expected: np.ndarray) -> None:
    found = tensor.numpy() if tensor.dtype is not torch.bfloat16 else tensor._array
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    np.testing.assert_array_equal(found.astype(np.complex128), expected.astype(np.complex128))


def put_together(ranks, op: str, shape: tuple, dtype: torch.dtype, seed: int = 0) -> np.ndarray:
    return functools.reduce(REDUCE[op], [values(r, shape, dtype, seed) for r in ranks])


def ops_of(dtype: torch.dtype) -> list[str]:
    if dtype.is_complex:
        return ["SUM"]
    return ["SUM", "PRODUCT", "MIN", "MAX"] if dtype.is_floating_point else list(REDUCE)


def reductions(group, ranks) -> None:
    """all_reduce, reduce, reduce_scatter(_tensor) of all dtypes and ops; large ones of some."""
    n, me = len(ranks), dist.get_rank()
    place = ranks.index(me)
    for dtype in ALL:
        for op in ops_of(dtype):
            kind = getattr(dist.ReduceOp, op)
            shape = (2, 3)
            expected = put_together(ranks, op, shape, dtype)
            x = given(me, shape, dtype)
            version = x._version
            assert dist.all_reduce(x, kind, group=group) is None
            same(x, expected)
            assert x._version > version
            x = given(me, shape, dtype)
            dist.reduce(x, ranks[-1], kind, group=group)
            same(x, expected if me == ranks[-1] else values(me, shape, dtype))
            whole = put_together(ranks, op, (n, 4), dtype)
            out = torch.empty(4, dtype=dtype)
            dist.reduce_scatter_tensor(out, given(me, (n, 4), dtype), kind, group=group)
            same(out, whole[place])
            out = torch.empty(4, dtype=dtype)
            rows = list(given(me, (n, 4), dtype).unbind(0)) if dtype in FLOATING else None
            rows = rows or [torch.Tensor._make(r.copy()) for r in values(me, (n, 4), dtype)]
            dist.reduce_scatter(out, rows, kind, group=group)
            same(out, whole[place])
    for shape in SHAPES:
        x = given(me, shape, torch.float32)
        dist.all_reduce(x, group=group)
        same(x, put_together(ranks, "SUM", shape, torch.float32))
        x = given(me, shape, torch.int64)
        dist.reduce(x, ranks[0], dist.ReduceOp.MAX, group=group)
        if me == ranks[0]:
            same(x, put_together(ranks, "MAX", shape, torch.int64))
    for dtype in (
        torch.float32,
        torch.bfloat16,
        torch.complex64,
    ):  # more than a slot of shared memory
        shape = (3 * 2**18 + 7,)
        x = given(me, shape, dtype)
        dist.all_reduce(x, group=group)
        same(x, put_together(ranks, "SUM", shape, dtype))
    whole = put_together(ranks, "SUM", (n, 2**18 + 3), torch.float32)
    out = torch.empty(2**18 + 3)
    dist.reduce_scatter_tensor(out, given(me, (n, 2**18 + 3), torch.float32), group=group)
    same(out, whole[place])


def averages(group, ranks) -> None:
    n, me = len(ranks), dist.get_rank()
    place = ranks.index(me)
    for dtype in (*FLOATING, *COMPLEX):
        total = put_together(ranks, "SUM", (n, 2), dtype)
        real = dtype.to_real().np  # NumPy's quotient of complex numbers is rounded more than once
        mean = (total.view(real) / np.asarray(n, real)).astype(real).view(dtype.np)
        x = given(me, (n, 2), dtype)
        dist.all_reduce(x, dist.ReduceOp.AVG, group=group)
        same(x, mean)
        out = torch.empty(2, dtype=dtype)
        dist.reduce_scatter_tensor(out, given(me, (n, 2), dtype), dist.ReduceOp.AVG, group=group)
        same(out, mean[place])
        x = given(me, (n, 2), dtype)
        dist.reduce(x, ranks[0], dist.ReduceOp.AVG, group=group)
        same(x, mean if me == ranks[0] else values(me, (n, 2), dtype))
        x = given(me, (n, 2), dtype)
        dist.all_reduce(x, dist._make_nccl_premul_sum(2.0), group=group)
        same(x, total + total)
    # in float32, rounded once: 2048 + 1 is 2048 in float16
    x = torch.tensor([2048.0 if place == 0 else 1.0], dtype=torch.float16)
    dist.all_reduce(x, group=group)
    same(x, np.asarray([2048 + n - 1], np.float16))


def movements(group, ranks) -> None:
    """What only moves values, of all dtypes and shapes."""
    n, me = len(ranks), dist.get_rank()
    cases = [(shape, torch.float32) for shape in SHAPES] + [((2, 3), dtype) for dtype in ALL]
    for (shape, dtype), root in zip(cases, itertools.cycle(ranks)):
        every = [values(r, shape, dtype) for r in ranks]
        x = given(me, shape, dtype)
        dist.broadcast(x, root, group=group)
        same(x, every[ranks.index(root)])

        out = [torch.empty(shape, dtype=dtype) for _ in ranks]
        dist.all_gather(out, given(me, shape, dtype), group=group)
        for found, expected in zip(out, every, strict=True):
            same(found, expected)

        stacked = torch.empty((n, *shape), dtype=dtype)
        dist.all_gather_into_tensor(stacked, given(me, shape, dtype), group=group)
        same(stacked, np.stack(every))

        out = [torch.empty(shape, dtype=dtype) for _ in ranks] if me == root else None
        dist.gather(given(me, shape, dtype), out, root, group=group)
        for found, expected in zip(out or [], every, strict=False):
            same(found, expected)

        x = torch.empty(shape, dtype=dtype)
        parts = [given(r, shape, dtype, seed=1) for r in ranks] if me == root else None
        dist.scatter(x, parts, root, group=group)
        same(x, values(me, shape, dtype, seed=1))

        into = [torch.empty(shape, dtype=dtype) for _ in ranks]
        dist.all_to_all(into, [given(me, shape, dtype, seed=10 + r) for r in ranks], group=group)
        for r, found in zip(ranks, into, strict=True):
            same(found, values(r, shape, dtype, seed=10 + me))
    x = torch.zeros(2, dtype=torch.float8_e5m2)  # moved as it is
    if me == ranks[0]:
        x.fill_(1.5)
    dist.broadcast(x, ranks[0], group=group)
    assert x.float().tolist() == [1.5, 1.5]


def uneven(group, ranks) -> None:
    """all_to_all of parts of different lengths, some of them empty, and of more than a slot."""
    n, me = len(ranks), dist.get_rank()
    place = ranks.index(me)
    for scale, dtype in ((1, torch.float32), (70_000, torch.int64), (1, torch.complex64)):
        sizes = [[scale * ((i + 2 * j) % 3) for j in range(n)] for i in range(n)]
        rows = {i: values(i, (sum(sizes[i]), 2), dtype) for i in range(n)}
        expected = []
        for i in range(n):
            start = sum(sizes[i][:place])
            expected.append(rows[i][start : start + sizes[i][place]])
        out = torch.empty(sum(sizes[i][place] for i in range(n)), 2, dtype=dtype)
        dist.all_to_all_single(
            out,
            torch.Tensor._make(rows[place].copy()),
            [sizes[i][place] for i in range(n)],
            sizes[place],
            group=group,
        )
        same(out, np.concatenate(expected))
    out = torch.empty(n)
    dist.all_to_all_single(out, torch.arange(n).float() + 10 * place, group=group)
    same(out, np.asarray([10 * i + place for i in range(n)], np.float32))


def strided(group, ranks) -> None:
    """Views that are not contiguous, lazy and expanded ones, as input and as output."""
    me = dist.get_rank()
    x = given(me, (3, 4), torch.float32)
    dist.all_reduce(x.t(), group=group)
    same(x, put_together(ranks, "SUM", (3, 4), torch.float32))
    x = given(me, (4, 3), torch.float64)
    dist.broadcast(x[::2], ranks[0], group=group)
    expected = values(me, (4, 3), torch.float64)
    expected[::2] = values(ranks[0], (4, 3), torch.float64)[::2]
    same(x, expected)
    z = given(me, (3,), torch.complex64)
    dist.all_reduce(z.conj(), group=group)  # through the view into its memory
    same(z, put_together(ranks, "SUM", (3,), torch.complex64))
    out = torch.zeros(3, len(ranks))
    dist.all_gather(list(out.t()), torch.ones(1).expand(3) * me, group=group)
    same(out, np.tile(np.asarray(ranks, np.float32), (3, 1)))
    big = torch.zeros(len(ranks), 2, 2)
    dist.all_gather_into_tensor(big.transpose(1, 2), given(me, (2, 2), torch.float32), group=group)
    same(big, np.stack([values(r, (2, 2), torch.float32).T for r in ranks]))


def asynchronous(group, ranks) -> None:
    """Works: order, futures, results, and that a later call waits for earlier ones."""
    n, me = len(ranks), dist.get_rank()
    tensors = [given(me, (100,), torch.float32, seed) for seed in range(20)]
    works = [dist.all_reduce(x, group=group, async_op=True) for x in tensors]
    after = torch.ones(1)
    dist.all_reduce(after, group=group)
    assert float(after) == n
    for seed, (x, work) in enumerate(zip(tensors, works, strict=True)):
        assert work is not None and work.wait() is True
        assert work.is_completed() and work.is_success() and work.exception() is None
        assert work.result()[0] is x and work.get_future().wait()[0] is x
        same(x, put_together(ranks, "SUM", (100,), torch.float32, seed))
    outs = [torch.empty(3) for _ in ranks]
    work = dist.all_gather(outs, torch.full((3,), float(me)), group=group, async_op=True)
    doubled = work.get_future().then(lambda f: [2 * t for t in f.value()])
    assert [t[0].item() for t in doubled.wait()] == [2.0 * r for r in ranks]
    x, y = torch.ones(2), torch.ones(n * 2)
    out = torch.empty(2 * n)
    works = [
        dist.broadcast(x, ranks[0], group=group, async_op=True),
        dist.reduce(y, ranks[0], group=group, async_op=True),
        dist.barrier(group=group, async_op=True),
        dist.all_gather_into_tensor(out, x, group=group, async_op=True),
        dist.reduce_scatter_tensor(torch.empty(2), y, group=group, async_op=True),
        dist.all_to_all_single(torch.empty(2 * n), y, group=group, async_op=True),
    ]
    for work in works:
        assert work.wait(timedelta(seconds=30))


def objects(group, ranks) -> None:
    n, me = len(ranks), dist.get_rank()
    found = [None] * n
    dist.all_gather_object(found, {"rank": me, "text": "x" * me}, group=group)
    assert found == [{"rank": r, "text": "x" * r} for r in ranks]
    found = [None] * n if me == ranks[-1] else None
    dist.gather_object(("a", me), found, ranks[-1], group=group)
    assert found in (None, [("a", r) for r in ranks])
    things = [torch.ones(2), "two", {3: None}] if me == ranks[0] else [None] * 3
    dist.broadcast_object_list(things, ranks[0], group=group)
    assert torch.as_tensor(things[0]).tolist() == [1.0, 1.0] and things[1:] == ["two", {3: None}]
    out = [None]
    things = [f"for {r}" for r in ranks] if me == ranks[0] else None
    dist.scatter_object_list(out, things, ranks[0], group=group)
    assert out == [f"for {me}"]


def between_two(group, ranks) -> None:
    """send and recv in any order, of any size, with tags, from anyone, in batches."""
    n, me = len(ranks), dist.get_rank()
    place = ranks.index(me)
    right, left = ranks[(place + 1) % n], ranks[(place - 1) % n]
    cases = [(3, torch.float32), (300_000, torch.float32), (0, torch.int64), (2, torch.bfloat16)]
    for count, dtype in [*cases, (2, torch.bool), (2, torch.complex64)]:
        x, y = given(me, (count,), dtype), torch.empty(count, dtype=dtype)
        ops = [dist.P2POp(dist.irecv, y, left, group), dist.P2POp(dist.isend, x, right, group)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        same(y, values(left, (count,), dtype))
    x, y, z = torch.full((2,), float(me)), torch.empty(2), torch.empty(2)
    first, second = dist.irecv(y, left, group, tag=1), dist.irecv(z, left, group, tag=2)
    dist.send(x + 200, right, group, tag=2)  # in the other order
    dist.send(x + 100, right, group, tag=1)
    first.wait()
    second.wait()
    assert y.tolist() == [left + 100.0] * 2 and z.tolist() == [left + 200.0] * 2
    if place == 0:
        sources = []
        for _ in ranks[1:]:
            source = dist.recv(y.t() if y.ndim > 1 else y[::1], group=group, tag=7)
            assert y.tolist() == [float(source)] * 2
            sources.append(source)
        assert sorted(sources) == sorted(ranks[1:])
    else:
        dist.send(x, ranks[0], group, tag=7)
    if place == 0:
        dist.send_object_list(["a", {"b": 1}], right, group)
    elif place == 1:
        things = [None, None]
        assert dist.recv_object_list(things, left, group) == left
        assert things == ["a", {"b": 1}]


def coalesced(group, ranks) -> None:
    n, me = len(ranks), dist.get_rank()
    tensors = [given(me, (k,), torch.float32) for k in (2, 0, 3)]
    dist.all_reduce_coalesced(tensors, group=group)
    for x in tensors:
        same(x, put_together(ranks, "SUM", tuple(x.shape), torch.float32))
    lists = [[torch.empty(2), torch.empty(1, dtype=torch.int64)] for _ in ranks]
    dist.all_gather_coalesced(lists, [torch.ones(2) * me, torch.tensor([me])], group=group)
    assert [int(pair[1]) for pair in lists] == ranks
    with dist._coalescing_manager(group, async_ops=True) as manager:
        a, b = torch.ones(2) * me, torch.ones(3)
        dist.all_reduce(a, group=group)
        dist.all_reduce(b, group=group)
    manager.wait()
    assert a.tolist() == [float(sum(ranks))] * 2 and b.tolist() == [float(n)] * 3
    with dist._coalescing_manager(group):
        outs = [torch.empty(1), torch.empty(2)]
        for out in outs:
            dist.reduce_scatter_tensor(out, torch.ones(n * len(out)), group=group)
    assert [out.tolist() for out in outs] == [[n], [n, n]]


def on_the_group(group, ranks) -> None:
    """ProcessGroup's own methods, whose ranks are those of the group."""
    pg: Any = group if group is not None else dist.group.WORLD
    n, me, place = len(ranks), float(dist.get_rank()), pg.rank()
    assert (pg.size(), pg.name(), ranks[place]) == (n, "gloo", me)
    x = torch.full((2,), me)
    pg.allreduce([x]).wait()
    assert x.tolist() == [sum(ranks)] * 2
    x = torch.full((2,), me)
    pg.allreduce(x, dist.ReduceOp.MAX).wait()
    pg.broadcast(y := torch.full((2,), me), 0).wait()
    assert x.tolist() == [max(ranks)] * 2 and y.tolist() == [ranks[0]] * 2
    options = dist.BroadcastOptions()
    options.rootRank = n - 1
    y = torch.full((2,), me)
    pg.broadcast([y], options).wait()
    outs = [torch.empty(1) for _ in ranks]
    pg.allgather([outs], [torch.tensor([me])]).wait()
    assert y.tolist() == [ranks[-1]] * 2 and [float(o) for o in outs] == ranks
    pg.reduce(z := torch.ones(1), 0, dist.ReduceOp.SUM).wait()
    pg.gather([outs] if place == 0 else [], [torch.tensor([me + 1])]).wait()
    if place == 0:
        assert float(z) == n and [float(o) for o in outs] == [r + 1 for r in ranks]
    pg.scatter([z], [[torch.tensor([float(r)]) for r in ranks]] if place == 0 else []).wait()
    assert float(z) == me
    pg.reduce_scatter([z], [[torch.ones(1) for _ in ranks]]).wait()
    pg.alltoall(outs, [torch.tensor([me])] * n).wait()
    pg.barrier().wait()
    assert float(z) == n and [float(o) for o in outs] == ranks
    flat = torch.empty(n)
    pg._allgather_base(flat, torch.tensor([me])).wait()
    pg._reduce_scatter_base(z, flat).wait()
    assert flat.tolist() == ranks and float(z) == n * me


PARTS = (
    reductions, averages, movements, uneven, strided, asynchronous, objects, between_two, coalesced,
    on_the_group,
)  # fmt: skip


def all_parts() -> int:
    """All of it on the world, and on a group of all but the last, which has other ranks meanwhile."""
    n, me = dist.get_world_size(), dist.get_rank()
    for part in PARTS:
        part(None, list(range(n)))
    if n > 2:
        some = dist.new_group(list(range(1, n)))
        if me:
            assert dist.get_rank(some) == me - 1 and dist.get_process_group_ranks(some)[0] == 1
            for part in PARTS:
                part(some, list(range(1, n)))
        else:
            assert some == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(some) == -1
    if n == 3:
        turned = dist.new_group([2, 0, 1], sort_ranks=False)
        assert dist.get_group_rank(turned, 2) == 0 and dist.get_process_group_ranks(turned)[2] == 1
        for part in PARTS:
            part(turned, [2, 0, 1])
    dist.barrier()
    return len(PARTS)


def over_sockets() -> int:
    import os  # set before the group that it is for is made

    os.environ["GRADLIB_GLOO_SHARED_MEMORY"] = "0"
    ways = dist.new_group()
    assert type(ways.engine("cpu")._ways).__name__ == "Links"
    for part in PARTS:
        part(ways, list(range(dist.get_world_size())))
    return len(PARTS)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_collectives(size):
    assert harness.run(all_parts if size > 1 else not_point_to_point, size) == [len(PARTS)] * size


def not_point_to_point() -> int:
    for part in PARTS:
        if part is not between_two:
            part(None, [0])
    return len(PARTS)


@pytest.mark.parametrize("size", [2, 3])
def test_all_collectives_over_sockets(size):
    assert harness.run(over_sockets, size) == [len(PARTS)] * size
