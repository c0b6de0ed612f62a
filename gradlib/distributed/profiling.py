"""Profiles of all processes of a job: how far their clocks are apart, and one trace of all of them.

with torch.profiler.profile() as prof:
    train_some_steps()
profiling.export_merged_trace(prof, "trace.json.gz")    # on every process; the first one writes
print(prof.communication())                             # what this process communicated, hidden and exposed
"""

from __future__ import annotations

import os
import time
from typing import Any

from .. import distributed as dist
from ..operators.create.data import tensor
from ..profiler import _chrome, _merge
from ..profiler._collectives import Communication
from ..tape import dtypes

__all__ = ["clock_offsets", "communication_of_ranks", "export_merged_trace"]


def clock_offsets(group: Any = None, rounds: int = 8) -> list[int]:
    """How far the clock of each process is before that of the first.

    The first process asks each of the others what time it is, several times. The answer that came back soonest
    counts, and is taken to have been given half way: so the error is at most half of that time.

    Args:
        group: the processes; all by default. All of them call this.
        rounds: how often each is asked.

    Returns:
        Nanoseconds of `time.time_ns`, by rank within the group; 0 for the first.

    Example::

        profiling.clock_offsets()  # [0, 12034]
    """
    me, size = dist.get_rank(group), dist.get_world_size(group)
    first = dist.get_process_group_ranks(group)[0]
    offsets = [0] * size
    for other, rank in enumerate(dist.get_process_group_ranks(group)):
        if other == 0:
            continue
        if me == 0:
            offsets[other] = _ask(rank, group, rounds)
        elif me == other:
            _answer(first, group, rounds)
    found = [offsets]
    dist.broadcast_object_list(found, src=first, group=group)
    return found[0]


def _ask(rank: int, group: Any, rounds: int) -> int:
    clock = tensor([0], dtype=dtypes.int64)
    best = None
    for _ in range(rounds):
        sent = time.time_ns()
        dist.send(clock, rank, group=group)
        dist.recv(clock, rank, group=group)
        back = time.time_ns()
        if best is None or back - sent < best[0]:
            best = back - sent, int(clock.item()) - (sent + back) // 2
    assert best is not None
    return best[1]


def _answer(first: int, group: Any, rounds: int) -> None:
    clock = tensor([0], dtype=dtypes.int64)
    for _ in range(rounds):
        dist.recv(clock, first, group=group)
        clock.fill_(time.time_ns())
        dist.send(clock, first, group=group)


def export_merged_trace(
    prof: Any, path: str | os.PathLike[str], group: Any = None, *, one_clock: bool = True
) -> None:
    """Write the profiles of all processes into one trace file, on one clock.

    Every process calls it after its profile has ended; the first one writes. The file has each rank's threads, streams
    and collectives, and arrows that join what is one collective.

    Args:
        prof: the profile of this process.
        path: the file, compressed if it ends in ``.gz``.
        group: the processes; all by default.
        one_clock: whether to measure how far clocks are apart. False believes them, as one may on one machine.

    Example::

        with gradlib.profiler.profile() as prof:
            dist.all_reduce(gradlib.ones(4))
        profiling.export_merged_trace(prof, "trace.json.gz")
    """
    traces = _gathered(prof, group, one_clock)
    if traces is not None:
        _merge.write(_merge.merge(traces), path)


def communication_of_ranks(prof: Any, group: Any = None) -> dict[int, Communication] | None:
    """The tables that `communication` of a profile gives, of all processes.

    Every process calls it after its profile has ended.

    Args:
        prof: the profile of this process.
        group: the processes; all by default.

    Returns:
        A table by rank within the group on the first process, None on the others.

    Example::

        tables = profiling.communication_of_ranks(prof)
        if tables:
            print(tables[1])
    """
    traces = _gathered(prof, group, one_clock=False)
    return None if traces is None else _merge.communication_of_ranks(traces)


def _gathered(prof: Any, group: Any, one_clock: bool) -> list[dict] | None:
    """The traces of all processes, at the first."""
    events = prof._recorded_events()  # before the collectives below
    me, size = dist.get_rank(group), dist.get_world_size(group)
    offset = clock_offsets(group)[me] if one_clock else 0
    trace = {
        "baseTimeNanoseconds": events._began_at_ns,
        "clockOffsetNanoseconds": offset,
        "distributedInfo": {
            "rank": me, "world_size": size, "backend": str(dist.get_backend(group))
        },
        "traceEvents": list(_chrome.trace_events(events)),
    }  # fmt: skip
    traces: list[Any] | None = [None] * size if me == 0 else None
    dist.gather_object(trace, traces, dst=dist.get_process_group_ranks(group)[0], group=group)
    return traces
