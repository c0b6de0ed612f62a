"""What goes wrong on one rank is an error on all, in time, which names the rank, the line and what each called."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from datetime import timedelta

import pytest

import gradlib as torch
from gradlib.distributed import distributed_c10d
from gradlib.distributed._gloo import links
from tests.distributed import harness

dist = torch.distributed
SIZE = 3


def collectives(wrong: str | None, group) -> dict:
    """Each collective as a call; those of the rank that is wrong get another shape, dtype, op or root."""
    n = SIZE
    dtype = torch.float64 if wrong == "dtype" else torch.float32
    k = 5 if wrong == "shape" else 4
    op = dist.ReduceOp.MAX if wrong == "op" else dist.ReduceOp.SUM
    root = 1 if wrong == "root" else 0
    me = dist.get_rank()

    def x(*shape):
        return torch.ones(*shape, dtype=dtype)

    def listed():
        return [x(k) for _ in range(n)]

    mine = me == root

    return {
        "all_reduce": lambda: dist.all_reduce(x(k), op, group=group),
        "broadcast": lambda: dist.broadcast(x(k), root, group=group),
        "reduce": lambda: dist.reduce(x(k), root, op, group=group),
        "all_gather": lambda: dist.all_gather(listed(), x(k), group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(x(n, k), x(k), group=group),
        "gather": lambda: dist.gather(x(k), listed() if mine else None, root, group=group),
        "scatter": lambda: dist.scatter(x(k), listed() if mine else None, root, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter(x(k), listed(), op, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(x(k), x(n, k), op, group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(x(n), x(n), group=group),
        "barrier": lambda: dist.barrier(group=group),
    }


_REDUCING = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"}
_ROOTED = {"broadcast", "reduce", "gather", "scatter"}
_SHAPED = _REDUCING | _ROOTED | {"all_gather", "all_gather_into_tensor"}
FITS = {  # which faults a collective can have
    "shape": _SHAPED,
    "dtype": _SHAPED | {"all_to_all_single"},
    "op": _REDUCING,
    "root": _ROOTED,
}


ROUNDS = 2  # with and without shared memory: together some 200 faults


def schedule(seed: int) -> list[tuple[str, str, int]]:
    """(collective, fault, rank that has it), in another order for each seed."""
    rng = random.Random(seed)
    cases = [(op, fault, rng.randrange(SIZE)) for fault, ops in FITS.items() for op in sorted(ops)]
    names = sorted(FITS["dtype"] | {"barrier"})
    cases += [(op, "other", rng.randrange(SIZE)) for op in names]
    cases += [(op, "missing", rng.randrange(SIZE)) for op in names]
    rng.shuffle(cases)
    return cases


def disagree(sockets: bool, seed: int) -> list:
    """All faults that leave the processes alive. For each: seconds and text of the error."""
    os.environ["GRADLIB_GLOO_SHARED_MEMORY"] = "0" if sockets else "1"
    me, found = dist.get_rank(), []
    group = dist.new_group()
    for op, fault, culprit in [case for k in range(ROUNDS) for case in schedule(seed + k)]:
        mine = me == culprit
        called = collectives(fault if mine else None, group)
        if mine and fault == "other":
            called[op] = called["barrier" if op != "barrier" else "all_reduce"]
        if fault == "missing":
            # the rank goes on to its next one, which for the others comes after this
            follow = "broadcast" if op != "broadcast" else "all_reduce"
            steps = [called[follow]] if mine else [called[op], called[follow]]
        else:
            steps = [called[op]]
        began = time.monotonic()
        try:
            for step in steps:
                step()
            text = "no error"
        except dist.DistBackendError as error:
            text = str(error)
        found.append((op, fault, culprit, time.monotonic() - began, text))
        if fault == "missing":
            group = dist.new_group()  # the ranks count differently from here on
        else:  # nothing was transferred: the group still works, and gives right values
            after = torch.ones(2) * me
            dist.all_reduce(after, group=group)
            assert after.tolist() == [3.0, 3.0]
    return found


@pytest.mark.parametrize("sockets", [False, True])
def test_ranks_that_disagree_all_raise_and_show_all_lines(sockets):
    seed = int(os.environ.get("FUZZ_SEED", "0"))
    everyone = harness.run(disagree, SIZE, sockets=sockets, seed=seed)
    for cases in zip(*everyone, strict=True):
        for op, fault, culprit, seconds, text in cases:
            what = (seed, op, fault, culprit, text)
            assert text.startswith("Ranks called different collectives"), what
            assert seconds < 1 + harness.ROOM, what
            for rank in range(SIZE):
                line = re.search(rf"^  rank {rank}: number \d+, (.*)$", text, re.M)
                assert line and "test_failures.py:" in line[1], what
                if rank != culprit:
                    assert line[1].startswith(op), what
            path = re.search(r"are in (\S+)$", text)
            assert path, what


# -- ranks that are lost -----------------------------------------------------------------------------------------------


class Sudden(Exception):
    """What a rank raises."""


def three(group) -> None:
    """Collectives that go well."""
    for _ in range(3):
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert float(x) == SIZE


def lost(op: str, how: str, culprit: int, sockets: bool, asynchronous: bool = False) -> tuple:
    """Some collectives go well; then a rank is lost, while the others wait for it in `op`."""
    os.environ["GRADLIB_GLOO_SHARED_MEMORY"] = "0" if sockets else "1"
    group = dist.new_group()
    calls = collectives(None, group)
    if dist.get_rank() == culprit:
        three(group)
        if how == "raise":
            raise Sudden("this rank has had enough")
        if how == "finally":
            try:
                raise Sudden("this rank has had enough")
            finally:
                dist.destroy_process_group()
        if how == "kill":
            harness.stop(signal.SIGKILL)
        if how == "stop":
            harness.stop(signal.SIGSTOP)
        if how == "leave":
            dist.destroy_process_group()
            time.sleep(harness.LIMIT)  # its process lives on, until the test ends it
        if how == "exit":
            os._exit(0)
    began = time.monotonic()
    try:
        three(group)  # a slow rank may hear of the loss while it is in the last of them
        if op == "recv":
            dist.recv(torch.empty(1), culprit, group=group)
        elif asynchronous:
            dist.all_reduce(torch.ones(2), group=group, async_op=True).wait()
        else:
            calls[op]()
    except dist.DistBackendError as error:
        seconds = time.monotonic() - began
        try:
            dist.all_reduce(torch.ones(1), group=group)
            again = "no error"
        except dist.DistBackendError as second:
            again = str(second)
        return seconds, str(error), again
    return (0.0, "no error", "")


LIMITS = {"raise": 2, "finally": 2, "kill": 5, "stop": 8, "leave": 2, "exit": 5}
SAYS = {
    "raise": "Sudden: this rank has had enough",
    "finally": r"rank {} has left the group; .*Sudden: this rank has had enough \(.*test_failures.py:\d+\)",
    "kill": "rank {} .*(ended|gone)",
    "stop": "rank {} .*stopped",
    "leave": "rank {} has left the group",
    "exit": "rank {} .*(ended|gone)",
}
OPS = "all_reduce broadcast reduce all_gather gather scatter all_to_all_single barrier".split()


@pytest.mark.parametrize("sockets", [False, True])
@pytest.mark.parametrize("how", ["raise", "finally", "kill", "stop", "leave", "exit"])
def test_a_lost_rank_is_named_on_all_others(how, sockets):
    rng = random.Random(f"{how} {sockets} {os.environ.get('FUZZ_SEED', '0')}")
    culprit, op = rng.randrange(SIZE), rng.choice(["recv", "async", *OPS])
    kwargs = {"op": op, "how": how, "culprit": culprit, "sockets": sockets}
    kwargs["asynchronous"] = op == "async"
    others = [rank for rank in range(SIZE) if rank != culprit]
    with harness.start(lost, SIZE, **kwargs) as job:
        ends = job.ends(others)
        if how in ("stop", "leave"):
            job.kill(culprit)
    for rank, (kind, answer) in zip(others, ends, strict=True):
        assert kind == "result", (kwargs, rank, answer)
        seconds, text, again = answer
        assert seconds < LIMITS[how] + harness.ROOM, (kwargs, rank, answer)
        assert re.search(SAYS[how].format(culprit), text, re.S), (kwargs, rank, answer)
        assert "test_failures.py:" in text and f"on rank {rank}" in text, (kwargs, rank, answer)
        assert "the process group failed before" in again, (kwargs, rank, again)


def waiting(how: str) -> tuple[str, float]:
    """Rank 0 ends, or leaves, without a word to the others, which wait for a first message of it."""
    group = dist.new_group()
    x = torch.ones(1)
    dist.all_reduce(x, group=group)  # through shared memory
    if dist.get_rank() == 0:
        if how == "leave":
            dist.destroy_process_group()
            time.sleep(harness.LIMIT)  # its process lives on, until the test ends it
        return ("", 0.0)
    began = time.monotonic()
    try:
        dist.recv(x, 0, group=group)
    except dist.DistBackendError as error:
        return str(error), time.monotonic() - began
    return "no error", 0.0


@pytest.mark.parametrize("how", ["leave", "end"])
def test_a_receive_from_a_rank_that_never_sent_anything(how):
    with harness.start(waiting, SIZE, how=how) as job:
        ends = job.ends([1, 2])
        if how == "leave":
            job.kill(0)
    for kind, answer in ends:
        assert kind == "result", answer
        text, seconds = answer
        assert re.search("rank 0 (has left the group|closed its connection)", text), text
        assert seconds < 2 + harness.ROOM


def late(sockets: bool) -> tuple:
    """Rank 1 comes too late for a group that waits for a second."""
    os.environ["GRADLIB_GLOO_SHARED_MEMORY"] = "0" if sockets else "1"
    links._ANSWER_SECONDS = (
        harness.LIMIT
    )  # rank 1 says what it called last, whenever it gets to run
    group = dist.new_group()
    x = torch.ones(1)
    dist.all_reduce(x, group=group)
    dist.barrier()  # none is late for the all_reduce
    limit = timedelta(seconds=1)
    if sockets:
        distributed_c10d._set_pg_timeout(limit, group)
    store = distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["rank 0 gave up", "rank 2 gave up"])
    began = time.monotonic()
    try:
        if sockets:
            dist.broadcast(x, 0, group=group)
        else:
            dist.barrier(group, timeout=limit)
        text = "no error"
    except dist.DistBackendError as error:
        text = str(error)
    seconds = time.monotonic() - began
    store.set(f"rank {dist.get_rank()} gave up", "")
    return float(x), seconds, text


@pytest.mark.parametrize("sockets", [False, True])
def test_a_timeout_names_who_did_not_come_and_what_it_called_last(sockets):
    answers = harness.run(late, SIZE, sockets=sockets)
    for rank, (value, seconds, text) in enumerate(answers):
        assert value == SIZE
        assert "not all ranks came within 1 s: rank 1 did not come" in text
        assert "number 1, all_reduce" in text, (rank, text)
        assert seconds < 3 + harness.ROOM, (rank, seconds)


def monitored(all_of_them: bool) -> str:
    """Ranks come after rank 0 has given up; where not all do, rank 1 is there before rank 0 begins to wait."""
    rank, store = dist.get_rank(), distributed_c10d._get_default_store()
    limit = timedelta(seconds=harness.LIMIT if rank == 1 else 0.5)
    if rank == 0 and not all_of_them:
        dist.group.WORLD.get_group_store().wait(["monitored/1/1"])
    if rank == 2 or (rank == 1 and all_of_them):
        store.wait(["rank 0 gave up"])
    try:
        dist.monitored_barrier(timeout=limit, wait_all_ranks=all_of_them)
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    if rank == 0:
        store.set("rank 0 gave up", "")
    return text


def test_monitored_barrier_names_who_is_missing():
    one = harness.run(monitored, SIZE, all_of_them=False)
    assert one[0] == "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 500 ms"
    assert "Please check rank 0 logs for faulty rank" in one[1]
    every = harness.run(monitored, SIZE, all_of_them=True)
    assert every[0] == "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 500 ms"


def counts_differ() -> str:
    n, me = SIZE, dist.get_rank()
    out = torch.empty(n + 1)
    try:
        dist.all_to_all_single(out, torch.ones(n), [2, 1, 1] if me == 1 else [1, 2, 1])
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_all_to_all_whose_parts_do_not_fit_is_an_error_on_all_ranks():
    for text in harness.run(counts_differ, SIZE):
        assert "rank 0 sends 1 elements to rank 1, which expects 2" in text
