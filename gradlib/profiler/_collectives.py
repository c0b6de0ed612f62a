"""Collectives of several processes, as ranges of a profile: bytes, time and rate, hidden behind compute or exposed.

`gradlib.distributed` keeps its last collectives with their times always (`flight_recorder`), so that a profile has
nothing to record itself. It reads them at its end, and only if the program has imported that package.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ._by_line import layout
from ._function_event import DeviceType

__all__ = ["Collective", "Communication", "Cost", "communication", "since"]

RECORD = "gradlib.distributed.flight_recorder"
WORLD = "gradlib.distributed._world"
# the ranges of collectives on threads: of the call, and of whoever carries it out
COMMUNICATION = re.compile(r"c10d::|(gloo|mpi|nccl):[a-z]")
LABEL = 7  # the scope of blocks that the user named: what runs in them is compute, they themselves are not


class Collective(NamedTuple):
    """A collective, send or receive, from when this process began it to its end. Times are in us of the profile."""

    name: str
    group: str
    ranks: int
    start_us: float
    duration_us: float
    nbytes: int
    seq: int
    p2p: bool
    what: str
    place: str

    @property
    def gb_per_s(self) -> float:
        """Bytes of this process's tensors by time, in 10^9 bytes a second."""
        return self.nbytes / self.duration_us / 1e3 if self.duration_us else 0.0

    @property
    def bus_gb_per_s(self) -> float | None:
        """Of an all-reduce, the rate that its links have at least: a ring moves its bytes 2 (n - 1) / n times."""
        if self.ranks < 2 or not self.name.startswith("all_reduce"):
            return None
        return self.gb_per_s * 2 * (self.ranks - 1) / self.ranks


def since(began_at_ns: int) -> list[Collective]:
    """The collectives that began after a time of day, oldest first; those that are not over are left out."""
    record = sys.modules.get(RECORD)
    if record is None:
        return []
    sizes: dict[str, int] = {}
    return [
        Collective(
            call.op,
            call.group,
            sizes.setdefault(call.group, _size(call.group)),
            (call.started - began_at_ns) / 1e3,
            (call.ended - call.started) / 1e3,
            call.nbytes,
            call.seq,
            call.p2p,
            call.what(),
            call.place(),
        )
        for call in list(record._records)
        if call.started >= began_at_ns and call.ended
    ]


def _size(group: str) -> int:
    """The number of ranks of a group; 0 if it is gone."""
    module = sys.modules.get(WORLD)
    found = module.world.groups.get(group) if module is not None else None
    return found.size() if found is not None else 0


# -- hidden and exposed ----------------------------------------------------------------------------------------------

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """Spans of time that do not touch each other and cover the same."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif end > start:
            found.append((start, end))
    return found


def without(span: Span, others: list[Span]) -> list[Span]:
    """What a union of others leaves of a span."""
    left, (at, until) = [], span
    first = bisect_left(others, (at, at))
    for start, end in others[max(first - 1, 0) :]:
        if start >= until:
            break
        if start > at:
            left.append((at, start))
        at = max(at, end)
    if at < until:
        left.append((at, until))
    return left


class Cost(NamedTuple):
    """A row of `Communication`. Times are in us."""

    name: str
    calls: int
    nbytes: int
    total_us: float
    hidden_us: float

    @property
    def exposed_us(self) -> float:
        """The time during which this process computed nothing."""
        return self.total_us - self.hidden_us

    @property
    def gb_per_s(self) -> float:
        """Bytes by time."""
        return self.nbytes / self.total_us / 1e3 if self.total_us else 0.0


class Communication(list[Cost]):
    """The collectives of a profile by name, the longest first; prints as a table.

    A moment of a collective is hidden if operations or backward nodes run in it, on any thread or stream of this
    process but those of communication, and exposed otherwise. `exposed_us` counts moments in which several collectives
    run once.

    total_us: from the first event of the profile to the last.
    """

    def __init__(self, rows: Iterable[Cost], exposed_us: float, total_us: float):
        super().__init__(sorted(rows, key=lambda row: -row.total_us))
        self.exposed_us, self.total_us = exposed_us, total_us

    @property
    def exposed_share(self) -> float:
        """The part of the whole time in which nothing but communication went on, from 0 to 1."""
        return self.exposed_us / self.total_us if self.total_us else 0.0

    def __str__(self) -> str:
        if not self:
            return "no collectives in this profile"
        rows = [
            [
                row.name,
                str(row.calls),
                f"{row.nbytes:,}",
                f"{row.total_us:.0f}us",
                f"{row.gb_per_s:.2f}",
                f"{row.hidden_us:.0f}us",
                f"{row.exposed_us:.0f}us",
                f"{row.exposed_us / row.total_us:.0%}" if row.total_us else "",
            ]
            for row in self
        ]
        heads = ["Collective", "Calls", "Bytes", "Time", "GB/s", "Hidden", "Exposed", "Exposed %"]
        return (
            f"{layout(heads, rows, [])}\n"
            f"Exposed communication: {self.exposed_us:.0f}us of {self.total_us:.0f}us ({self.exposed_share:.1%})"
        )

    __repr__ = __str__


def communication(events: Any) -> Communication:
    """The table of a profile's events; see `Exports.communication`."""
    calls: list[Collective] = events._collectives
    spans = (
        (e.thread, e.name, (e.time_range.start, e.time_range.end))
        for e in events
        if e.scope != LABEL and not e.is_async and e.device_type is DeviceType.CPU
    )
    on_device = [(s.start_us, s.start_us + s.duration_us) for s in events._device_slices]
    return table(calls, computing(spans, on_device), _length(events, calls))


def computing(on_host: Iterable[tuple[Any, str, Span]], on_device: list[Span]) -> list[Span]:
    """When a process computes, from the ranges of its threads (thread, name, span) and of its devices.

    A collective within an operation is no compute of the thread that waits for it.
    """
    work: dict[Any, list[Span]] = defaultdict(list)
    waits: dict[Any, list[Span]] = defaultdict(list)
    for thread, name, span in on_host:
        (waits if COMMUNICATION.match(name) else work)[thread].append(span)
    found = list(on_device)
    for thread, spans in work.items():
        waiting = union(waits[thread])
        found += [part for span in union(spans) for part in without(span, waiting)]
    return union(found)


def table(calls: Iterable[Collective], compute: list[Span], total_us: float) -> Communication:
    """The table of collectives beside spans of compute, which do not touch each other."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0, 0.0])
    exposed: list[Span] = []
    for call in calls:
        bare = without((call.start_us, call.start_us + call.duration_us), compute)
        row = sums[call.name]
        row[0] += 1
        row[1] += call.nbytes
        row[2] += call.duration_us
        row[3] += call.duration_us - sum(end - start for start, end in bare)
        exposed += bare
    rows = [
        Cost(name, int(n), int(size), total, hid) for name, (n, size, total, hid) in sums.items()
    ]
    return Communication(rows, sum(end - start for start, end in union(exposed)), total_us)


def _length(events: Any, calls: list[Collective]) -> float:
    starts = [e.time_range.start for e in events] + [c.start_us for c in calls]
    ends = [e.time_range.end for e in events] + [c.start_us + c.duration_us for c in calls]
    return max(ends) - min(starts) if starts else 0.0
