"""The memory timeline: what was allocated when, by which operation and line, and what the peak consists of."""

from __future__ import annotations

import gzip
import json
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..tape.device import device as Device
from ._by_line import SOURCE_WIDTH, layout
from ._places import line_of, short_lines, source_text, stack_entry
from ._table import format_memory, format_time

SAVED, BACKWARD, OTHER = "saved for backward", "made in backward", "other"
CATEGORIES = (SAVED, BACKWARD, OTHER)
NO_LINE = "(no line)"


class Saved(NamedTuple):
    """An operation whose backward node keeps a block, and until when (None: to the end of the profile)."""

    op: str
    line: str
    start_us: float
    end_us: float | None


class MemoryBlock(NamedTuple):
    """Memory that was allocated during the profile. Times are in microseconds, as those of events."""

    op: str  # that allocated it; the name of the function for a new tensor (zeros, randn...)
    line: str  # "file:line"; "" without stacks
    nbytes: int
    device: str  # "cpu", "cuda:0"
    start_us: float
    end_us: float | None  # None: it lived on
    in_backward: bool
    saved: tuple[Saved, ...]

    def shifted(self, by: float) -> MemoryBlock:
        """The same at times that are `by` larger."""
        return self._replace(
            start_us=self.start_us + by,
            end_us=_plus(self.end_us, by),
            saved=tuple(
                s._replace(start_us=s.start_us + by, end_us=_plus(s.end_us, by)) for s in self.saved
            ),
        )

    def lives_at(self, time_us: float) -> bool:
        """Whether it is allocated at a time."""
        return _during(self, time_us)

    def saved_at(self, time_us: float) -> Saved | None:
        """The first of those that keep it for backward at a time."""
        return next((s for s in self.saved if _during(s, time_us)), None)


def _plus(time: float | None, by: float) -> float | None:
    return None if time is None else time + by


def _during(interval: Any, time_us: float) -> bool:
    return interval.start_us <= time_us and (interval.end_us is None or time_us < interval.end_us)


def blocks_of(raw: Iterable[Any], origin_ns: int) -> list[MemoryBlock]:
    """The profiler's notes as MemoryBlocks."""

    def us(time_ns: int | None) -> float | None:
        return None if time_ns is None else (time_ns - origin_ns) / 1e3

    found = []
    for block in raw:
        event = None if block.details is None else block.details.event
        if block.details is not None and event is None:
            continue  # of an event beyond the limit
        stack = [stack_entry(place) for place in block.stack[:1]] if event is None else event.stack
        saved = [(s, s.details.event) for s in block.saves]
        found.append(
            MemoryBlock(
                block.name if event is None else event.name,
                line_of(stack),
                block.nbytes,
                "cpu" if block.device is None else f"cuda:{block.device}",
                (block.start_ns - origin_ns) / 1e3,
                us(block.end_ns),
                event is not None and event.in_backward,
                tuple(
                    Saved(e.name, line_of(e.stack), (s.start_ns - origin_ns) / 1e3, us(s.end_ns))
                    for s, e in saved
                    if e is not None
                ),
            )
        )
    return found


class PeakRow(NamedTuple):
    """What one line and category hold at the peak."""

    category: str
    line: str  # of the operation that saved it, or else allocated it; "" without stacks
    ops: tuple[str, ...]
    nbytes: int
    share: float  # of the peak, 0 to 1
    blocks: int


class MemoryTimeline:
    """Bytes over time on one device, by category, and the peak. Memory from before the profile does not count.

    Attributes:
        device: "cpu", "cuda:0", ...
        blocks: every MemoryBlock on it, by start.
        times: microseconds at which something changed; the first is 0.
        sizes: for each of these times, the bytes in each of `categories` from then on.
        peak_us, peak_bytes: when the sum was largest, and how large.
        peak: PeakRows, the largest first.
    """

    categories = CATEGORIES

    def __init__(self, blocks: Iterable[MemoryBlock], device: str):
        self.device = device
        self.blocks = sorted([b for b in blocks if b.device == device], key=lambda b: b.start_us)
        self.times, self.sizes = _curve(self.blocks)
        totals = [sum(row) for row in self.sizes]
        at = max(range(len(totals)), key=totals.__getitem__)
        self.peak_us, self.peak_bytes = self.times[at], totals[at]
        self.peak = _peak_rows(self.blocks, self.peak_us, self.peak_bytes)

    def total_at(self, time_us: float) -> int:
        """The bytes allocated at a time."""
        return sum(self.sizes[max(0, bisect_right(self.times, time_us) - 1)])

    def explain(self) -> str:
        """The peak in one sentence: '71% is saved by model.py:88 (relu)'."""
        if not self.peak_bytes:
            return f"nothing was allocated on {self.device}"
        names = short_lines([row.line for row in self.peak if row.line])
        parts = [
            f"{row.share:.0%} {_PHRASES[row.category]} {_place(row, names)}"
            for row in self.peak[:3]
            if row.share >= 0.005
        ]
        return ", ".join(parts)

    def __str__(self) -> str:
        title = (
            f"Memory on {self.device}: peak {format_memory(self.peak_bytes)} at "
            f"{format_time(self.peak_us)}"
        )
        if not self.peak:
            return title
        rows = self.peak[:20]
        names = short_lines([row.line for row in self.peak if row.line])
        cells = [
            [
                names.get(row.line, NO_LINE),
                row.category,
                f"{row.share:.1%}",
                format_memory(row.nbytes),
                str(row.blocks),
                ", ".join(row.ops[:3]),
            ]
            for row in rows
        ]
        heads = ["Line", "Category", "Share", "Bytes", "Blocks", "Operations"]
        texts = [source_text(row.line)[:SOURCE_WIDTH] if row.line else "" for row in rows]
        return f"{title}: {self.explain()}\n\n{layout(heads, cells, texts if any(texts) else [])}"

    __repr__ = __str__


_PHRASES = {SAVED: "is saved by", BACKWARD: "was made in backward of", OTHER: "was allocated by"}


def _place(row: PeakRow, names: dict[str, str]) -> str:
    ops = ", ".join(row.ops[:3])
    return f"{names[row.line]} ({ops})" if row.line else ops


def _curve(blocks: list[MemoryBlock]) -> tuple[list[float], list[list[int]]]:
    """Times, and the bytes in each category from each of them on."""
    changes: dict[float, list[int]] = {0.0: [0] * len(CATEGORIES)}
    for block in blocks:
        for time, category, nbytes in _changes(block):
            row = changes.setdefault(time, [0] * len(CATEGORIES))
            row[CATEGORIES.index(category)] += nbytes
    times, sizes, now = sorted(changes), [], [0] * len(CATEGORIES)
    for time in times:
        now = [a + b for a, b in zip(now, changes[time])]
        sizes.append(now)
    return times, sizes


def _changes(block: MemoryBlock) -> Iterator[tuple[float, str, int]]:
    """(time, category, bytes added): from its allocation to its end, with the time in which it is saved."""
    base, n = BACKWARD if block.in_backward else OTHER, block.nbytes
    inf = float("inf")
    end = inf if block.end_us is None else block.end_us
    yield block.start_us, base, n
    category = base
    for start, stop in _union(
        [(s.start_us, inf if s.end_us is None else s.end_us) for s in block.saved]
    ):
        if start < end:
            yield start, base, -n
            yield start, SAVED, n
            category = SAVED
            if stop < end:
                yield stop, SAVED, -n
                yield stop, base, n
                category = base
    if end < inf:
        yield end, category, -n


def _union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same times as intervals that do not overlap, in order."""
    joined: list[tuple[float, float]] = []
    for start, stop in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def _peak_rows(blocks: list[MemoryBlock], peak_us: float, peak_bytes: int) -> list[PeakRow]:
    """Who holds what at a time, by category and line; by operation where lines are not known."""
    groups: dict[tuple, list[tuple[str, int]]] = defaultdict(list)
    for block in blocks:
        if not block.lives_at(peak_us):
            continue
        saved = block.saved_at(peak_us)
        who: Any = block if saved is None else saved
        base = BACKWARD if block.in_backward else OTHER
        category = base if saved is None else SAVED
        groups[category, who.line, "" if who.line else who.op].append((who.op, block.nbytes))
    rows = []
    for (category, line, _), members in groups.items():
        nbytes = sum(n for _, n in members)
        ops = tuple(dict.fromkeys(op for op, _ in members))
        rows.append(PeakRow(category, line, ops, nbytes, nbytes / peak_bytes, len(members)))
    return sorted(rows, key=lambda row: -row.nbytes)


def timeline(events: Any, device: Any = None) -> MemoryTimeline:
    """See `Exports.memory_timeline`."""
    if events._blocks is None:
        raise RuntimeError(
            "the memory of this profile was not recorded; record with profile(profile_memory=True)"
        )
    if device is not None:
        return MemoryTimeline(events._blocks, _name_of(device))
    return max(timelines(events), key=lambda line: line.peak_bytes)


def timelines(events: Any) -> list[MemoryTimeline]:
    """One for each device that memory was allocated on, the CPU always."""
    blocks = events._blocks or []
    return [MemoryTimeline(blocks, name) for name in sorted({"cpu", *(b.device for b in blocks)})]


def _name_of(device: Any) -> str:
    """A device, its number or its text as "cpu" or "cuda:0"."""

    found = device if isinstance(device, Device) else Device(device)
    return "cpu" if found.type == "cpu" else f"{found.type}:{found.index or 0}"


def export(events: Any, path: Any, device: Any) -> None:
    """See `Exports.export_memory_timeline`."""
    name = os.fspath(path)
    if not name.endswith((".html", ".json", ".json.gz")):
        raise ValueError(
            f"export_memory_timeline() writes .html, .json, .json.gz and .raw.json.gz files, not {name!r}"
        )
    found = timeline(events, device)
    if name.endswith(".html"):
        events.export_html(path)
        return
    raw = name.endswith((".raw.json.gz", ".raw.json"))
    content = json.dumps(_raw(found) if raw else [found.times, found.sizes]).encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(content) if name.endswith(".gz") else content)


def _raw(found: MemoryTimeline) -> list[tuple]:
    """(time, action, bytes, category), by time."""
    points = []
    for block in found.blocks:
        category = SAVED if block.saved else BACKWARD if block.in_backward else OTHER
        points.append((block.start_us, "CREATE", block.nbytes, category))
        if block.end_us is not None:
            points.append((block.end_us, "DESTROY", block.nbytes, category))
    return sorted(points, key=lambda point: point[0])
