"""Costs by source line: rows, the table of them, and how the time of a profile is shared out among lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ._places import line_of, short_lines, source_text

LABEL = 7  # the scope of blocks that the user named: their own time is that of no line
SOURCE_WIDTH = 60


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

    title: heading of the first column; keys under "Line" are "file:line".
    """

    def __init__(self, title: str, rows: Iterable[Cost]):
        super().__init__(sorted(rows, key=_expense, reverse=True))
        self.title = title

    def head(self, count: int) -> Report:
        """The first rows."""
        return Report(self.title, self[:count])

    def __str__(self) -> str:
        heads = [
            self.title,
            "Calls",
            "Forward device",
            "Backward device",
            "Forward CPU",
            "Backward CPU",
        ]
        names = short_lines([c.key for c in self]) if self.title == "Line" else {}
        rows = [
            [names.get(c.key, c.key), str(c.calls), *(f"{t:.3f}us" for t in c[2:])] for c in self
        ]
        if self and not any(c.forward_device_us or c.backward_device_us for c in self):
            heads, *rows = [[*row[:2], *row[4:]] for row in (heads, *rows)]
        texts = [source_text(c.key)[:SOURCE_WIDTH] for c in self] if names else []
        return layout(heads, rows, texts if any(texts) else [])

    __repr__ = __str__


def layout(heads: list[str], rows: list[list[str]], texts: list[str]) -> str:
    """A table with the first column to the left, the others to the right, and `texts` at the end of the rows."""
    table = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths))
        )
        for row in table
    ]
    rule = "  ".join("-" * w for w in widths)
    if texts:
        lines = [f"{line}  {text}" for line, text in zip(lines, ["Source", *texts])]
        rule += "  " + "-" * max(map(len, texts))
    return "\n".join([lines[0], rule, *lines[1:]])


def _expense(cost: Cost) -> tuple[float, float]:
    return cost[2] + cost[3], cost[4] + cost[5]


def by_line(events: Iterable[Any], option: str, scale: float = 1.0) -> Report:
    """What each source line costs in forward and in backward; see `Exports.by_line`.

    option: what to record with, for the error message.
    scale: microseconds in a unit of the events' times.
    """
    events = list(events)
    if not any(event.stack for event in events):
        raise RuntimeError(
            f"the ranges of this profile carry no source lines; record with {option}"
        )
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    places: dict[int, tuple[str, bool]] = {}  # line and whether in backward, by id of event
    for event in events:
        line, backward = places.get(id(event.cpu_parent), ("", False))
        own = "" if event.scope == LABEL else line_of(event.stack)
        if event.in_backward:
            line, backward = own or line, True
        elif (
            own and not backward
        ):  # an op in the range of a node has the line at which backward() is called
            line = own
            sums[line][0] += 1
        places[id(event)] = line, backward
        if event.scope != LABEL:
            sums[line][1 + backward] += own_device(event)
            sums[line][3 + backward] += event.self_cpu_time_total
    sums.pop("", None)
    return make_report("Line", sums, scale)


def make_report(title: str, sums: dict[str, list[float]], scale: float) -> Report:
    """A report of [calls, forward device, backward device, forward CPU, backward CPU] by key."""
    rows = (
        Cost(key, int(calls), *(t * scale for t in times)) for key, (calls, *times) in sums.items()
    )
    return Report(title, rows)


def own_device(event: Any) -> float:
    """The device time of the work that an event itself launched, without that of events inside it."""
    return sum(kernel.duration for kernel in event.kernels)
