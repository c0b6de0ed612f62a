"""What was read from a profiler's file: an EventList that knows which backward range belongs to which forward range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ._ranges import NS_PER_US, Range, Work, attach, pair
from .profiler_util import EventList, Kernel


class Cost(NamedTuple):
    """A row of a report. Times are in us."""

    key: str  # op name, or "file:line"
    calls: int
    forward_device_us: float
    backward_device_us: float
    forward_cpu_us: float
    backward_cpu_us: float


class Report(list[Cost]):
    """Rows of Cost, the most expensive on the device first; prints as a table.

    title: heading of the first column.
    """

    def __init__(self, title: str, rows: Iterable[Cost]):
        super().__init__(sorted(rows, key=_expense, reverse=True))
        self.title = title

    def head(self, count: int) -> Report:
        """The first rows."""
        return Report(self.title, self[:count])

    def __str__(self) -> str:
        heads = (
            self.title,
            "Calls",
            "Forward device",
            "Backward device",
            "Forward CPU",
            "Backward CPU",
        )
        table = [heads, *((c.key, str(c.calls), *(f"{t:.3f}us" for t in c[2:])) for c in self)]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = [
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(row, widths))
            )
            for row in table
        ]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join(lines)

    __repr__ = __str__


def _expense(cost: Cost) -> tuple[float, float]:
    return cost[2] + cost[3], cost[4] + cost[5]


class Trace(EventList):
    """The ranges of a profile, in order of their start, with the device work launched in each (``event.kernels``).

    pairs: (forward event, backward event) for each backward node whose forward range was recorded.
    outside: the device work that was launched outside all ranges.
    unit: of the times of events, in ns. Reports are in us.
    """

    def __init__(
        self, ranges: Sequence[Range], work: dict[tuple, list[Work]], unit: int = NS_PER_US
    ):
        self.unit = unit
        outside = attach([r for r in ranges if not r.event.is_async], work, unit)
        ordered = sorted(ranges, key=lambda r: (r.start, -r.end))
        super().__init__([r.event for r in ordered], use_device="cuda")
        self.outside = [Kernel(w.name, w.device, w.duration / unit) for w in outside]
        self.pairs = [(forward.event, backward.event) for forward, backward in pair(ordered)]

    def forward_backward(self) -> Report:
        """What each op costs in forward and in backward.

        A row for each op with a backward range: its name, the number of forward calls, and the time of the forward
        and of the backward ranges, with everything inside them: on the device (durations of kernels, copies and
        fills added up) and on the CPU.

        Example:
            >>> print(load_nsys("run.sqlite").forward_backward())
        """
        device = self._device_totals()
        sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
        counted = set()
        for forward, backward in self.pairs:
            row = sums[forward.name.partition(",")[0]]
            if id(forward) not in counted:
                counted.add(id(forward))
                row[0] += 1
                row[1] += device[id(forward)]
                row[3] += forward.time_range.elapsed_us()
            row[2] += device[id(backward)]
            row[4] += backward.time_range.elapsed_us()
        return self._report("Op", sums)

    def by_line(self) -> Report:
        """What each source line costs in forward and in backward.

        A row for each line: "file:line", the number of ops called there, and the time spent in its forward ranges
        and in the backward ranges of the nodes that it made. Every piece of device work and every CPU microsecond
        counts once, for the innermost line. RuntimeError if the ranges carry no lines.

        Example:
            >>> print(load_nsys("run.sqlite").by_line())
        """
        if not any(event.stack for event in self):
            raise RuntimeError(
                "the ranges of this profile carry no source lines; record with emit_nvtx(with_stack=True)"
            )
        sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
        places: dict[int, tuple[str, bool]] = {}  # line and whether in backward, by id of event
        for event in self:
            line, backward = places.get(id(event.cpu_parent), ("", False))
            own = event.stack[0] if event.stack else ""
            if event.scope == 1:
                line, backward = own or line, True
            elif own and not backward:  # ops in backward are called where backward() is
                line = own
                sums[line][0] += 1
            places[id(event)] = line, backward
            sums[line][1 + backward] += _own_device(event)
            sums[line][3 + backward] += event.self_cpu_time_total
        sums.pop("", None)
        return self._report("Line", sums)

    def _report(self, title: str, sums: dict[str, list[float]]) -> Report:
        us = self.unit / NS_PER_US
        rows = (
            Cost(key, int(calls), *(t * us for t in times)) for key, (calls, *times) in sums.items()
        )
        return Report(title, rows)

    def _device_totals(self) -> dict[int, float]:
        """Device time (us) of each event and everything inside it, by id."""
        totals = {id(event): _own_device(event) for event in self}
        for event in reversed(self):  # a range starts after the one that contains it
            if event.cpu_parent is not None:
                totals[id(event.cpu_parent)] += totals[id(event)]
        return totals


def _own_device(event: Any) -> float:
    return sum(kernel.duration for kernel in event.kernels)
