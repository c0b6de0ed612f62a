"""A profile as one page that a browser shows without a network: the data, a style sheet and a program in one file."""

from __future__ import annotations

import html
import json
import os
import platform
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..version import __version__
from . import _by_line, _memory
from ._chrome import stream_name, thread_name
from ._function_event import MEMORY_EVENT_NAME, DeviceType, FunctionEvent
from ._places import line_of, short_lines, source_text
from ._throttling import summary

if TYPE_CHECKING:
    from ._events import EventList

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("model.js", "dom.js", "view.js", "timeline.js", "charts.js", "page.js")
# kinds of slices, by the position of their names in model.js
FORWARD, BACKWARD, IN_BACKWARD, LABEL, DEVICE = range(5)
MAX_MEMORY_POINTS = 20_000


def write(events: EventList, path: Any, title: str | None = None) -> None:
    """Write the page of `events` to the file `path`; see `Exports.export_html`."""
    program = os.path.basename(sys.argv[0]) or "python"
    content = page_data(events, title or f"Profile of {program}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(render(content))


def render(content: dict) -> str:
    """The page of what `page_data` gives."""
    parts = {
        "TITLE": html.escape(content["title"]),
        "STYLE": _part("page.css"),
        # "<" could end the element that holds the data
        "DATA": json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"),
        "SCRIPT": "\n".join(map(_part, SCRIPTS)),
    }
    return re.sub("@([A-Z]+)@", lambda mark: parts[mark[1]], _part("page.html"))


def _part(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def page_data(events: EventList, title: str) -> dict:
    """What the page shows, as JSON knows it. Times are in microseconds since the profile began."""
    texts = Texts(events)
    tracks, slices = _slices(events, texts)
    memory = [] if events._blocks is None else [_memory_chart(t) for t in _memory.timelines(events)]
    ends = [s + d for s, d in zip(slices["start"], slices["dur"])]
    return {
        "title": title,
        "subtitle": _subtitle(events),
        "warning": summary(events._samples),
        "duration": max(ends, default=1.0),
        "uses_device": any(event.self_device_time_total > 0 for event in events),
        "figures": _figures(events, max(ends, default=0.0), memory),
        "names": texts.names.all,
        "lines": texts.line_rows(),
        "shapes": texts.shapes.all,
        "tracks": tracks,
        "slices": slices,
        "operations": _operations(events),
        "report": _report(events),
        "categories": _memory.CATEGORIES,
        "memory": memory,
        "clocks": [sample._asdict() for sample in events._samples],
    }


class Numbers:
    """Texts, each kept once; called with a text, gives its number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._known.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number


class Texts:
    """The texts that slices share: names, lines ("" is the first) and shapes."""

    def __init__(self, events: EventList):
        self.names, self.lines, self.shapes = Numbers(), Numbers(), Numbers()
        self.lines("")
        self.shapes("")

    def line_rows(self) -> list[dict | None]:
        short = short_lines(self.lines.all[1:])
        return [None, *(_line_row(line, short) for line in self.lines.all[1:])]


def _line_row(line: str, short: dict[str, str]) -> dict:
    """A line as tables and tooltips show it."""
    return {"full": line, "short": short.get(line, ""), "text": source_text(line) if line else ""}


# -- timeline --------------------------------------------------------------------------------------------------------


def _slices(events: EventList, texts: Texts) -> tuple[list[dict], dict[str, list]]:
    """Tracks, and the slices on them, field by field. `forward` is the number of the forward slice, or -1."""
    shown = [
        event
        for event in events
        if event.name != MEMORY_EVENT_NAME and event.device_type is DeviceType.CPU
    ]
    numbers = {event.id: k for k, event in enumerate(shown)}
    forward = {node: numbers[maker.id] for node, maker in events._forward_of().items()}
    threads = sorted({event.thread for event in shown})
    streams = sorted({(s.device, s.stream) for s in events._device_slices})
    names = [thread_name(events, thread) for thread in threads]
    names += [f"cuda:{device}, {stream_name(stream)}" for device, stream in streams]
    track: dict[Any, int] = {key: k for k, key in enumerate([*threads, *streams])}
    depths = Depths(len(track))
    columns: dict[str, list] = {key: [] for key in FIELDS}

    def add(*values: Any) -> None:
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)

    for event in shown:
        at, start = track[event.thread], event.time_range.start
        add(
            at, texts.names(event.trace_name), round(start, 3), round(event.cpu_time_total, 3),
            depths.of(at, start, event.time_range.end), _kind(event), texts.lines(line_of(event.stack)),
            round(event.self_cpu_time_total, 3), forward.get(event.id, -1),
            texts.shapes(str(event.input_shapes or "")),
            event.self_cpu_memory_usage + event.self_device_memory_usage,
        )  # fmt: skip
    for slice in sorted(events._device_slices, key=lambda s: (s.start_us, -s.duration_us)):
        at, start, us = track[slice.device, slice.stream], slice.start_us, slice.duration_us
        add(
            at, texts.names(slice.name), round(start, 3), round(us, 3),
            depths.of(at, start, start + us), DEVICE, texts.lines(line_of(slice.event.stack)),
            round(us, 3), -1, texts.shapes(str(slice.event.input_shapes or "")), 0,
        )  # fmt: skip
    tracks = [{"name": n, "depth": d} for n, d in zip(names, depths.most, strict=True)]
    return tracks, columns


FIELDS = "track name start dur depth kind line self forward shape bytes".split()


class Depths:
    """How deep slices lie in others of their track, which are given by start. Slices of one depth never overlap."""

    def __init__(self, tracks: int):
        self.open: list[list[float]] = [[] for _ in range(tracks)]  # ends of the slices around
        self.most = [1] * tracks

    def of(self, track: int, start: float, end: float) -> int:
        around = self.open[track]
        while around and around[-1] <= start:
            around.pop()
        around.append(end)
        self.most[track] = max(self.most[track], len(around))
        return len(around) - 1


def _kind(event: FunctionEvent) -> int:
    if event.scope == 1:
        return BACKWARD
    if event.scope == _by_line.LABEL:
        return LABEL
    return IN_BACKWARD if event.in_backward else FORWARD


# -- tables and charts -----------------------------------------------------------------------------------------------


def _operations(events: EventList) -> list[dict]:
    return [
        {
            "name": average.name,
            "calls": average.count,
            "self": round(average.self_cpu_time_total, 3),
            "total": round(average.cpu_time_total, 3),
            "average": round(average.cpu_time, 3),
            "device": round(average.self_device_time_total, 3),
            "device_total": round(average.device_time_total, 3),
            "bytes": average.self_cpu_memory_usage + average.self_device_memory_usage,
        }
        for average in events.key_averages()
        if average.name != MEMORY_EVENT_NAME
    ]


def _report(events: EventList) -> list[dict]:
    """The costs by line; none if the profile has no stacks."""
    if not any(event.stack for event in events):
        return []
    report = _by_line.by_line(events, "profile(with_stack=True)")
    short = short_lines([cost.key for cost in report])
    return [
        {
            **_line_row(cost.key, short),
            "calls": cost.calls,
            "forward": round(cost.forward_cpu_us, 3),
            "backward": round(cost.backward_cpu_us, 3),
            "forward_device": round(cost.forward_device_us, 3),
            "backward_device": round(cost.backward_device_us, 3),
        }
        for cost in report
    ]


def _memory_chart(line: _memory.MemoryTimeline) -> dict:
    """The curve, and the rows that explain its peak."""
    short = short_lines([row.line for row in line.peak if row.line])
    times, sizes = _thinned(line)
    return {
        "device": line.device,
        "times": [round(time, 3) for time in times],
        "sizes": sizes,
        "peak_us": round(line.peak_us, 3),
        "peak_bytes": line.peak_bytes,
        "explain": line.explain(),
        "peak": [
            {
                **_line_row(row.line, short),
                "category": row.category,
                "ops": ", ".join(row.ops),
                "bytes": row.nbytes,
                "share": row.share,
                "blocks": row.blocks,
            }
            for row in line.peak
        ],
    }


def _thinned(line: _memory.MemoryTimeline) -> tuple[list[float], list[list[int]]]:
    """The curve in at most MAX_MEMORY_POINTS points: of each stretch of it the highest, so that peaks stay."""
    if len(line.times) <= MAX_MEMORY_POINTS:
        return line.times, line.sizes
    totals = np.array([sum(row) for row in line.sizes])
    stretches = np.array_split(np.arange(len(totals)), MAX_MEMORY_POINTS)
    chosen = [int(part[totals[part].argmax()]) for part in stretches]
    return [line.times[k] for k in chosen], [line.sizes[k] for k in chosen]


def _figures(events: EventList, duration: float, memory: list[dict]) -> list[tuple]:
    """(name, "time", "bytes" or "count", value) of the boxes at the top."""
    ops = [e for e in events if e.scope != _by_line.LABEL and e.device_type is DeviceType.CPU]
    own = [(event.in_backward, event.self_cpu_time_total) for event in ops]
    found: list[tuple] = [
        ("profiled", "time", round(duration, 3)),
        ("operations and nodes", "count", sum(event.name != MEMORY_EVENT_NAME for event in ops)),
        ("CPU in forward", "time", round(sum([us for backward, us in own if not backward]), 3)),
        ("CPU in backward", "time", round(sum([us for backward, us in own if backward]), 3)),
    ]
    device = sum([event.self_device_time_total for event in events])
    if device:
        found.append(("device time", "time", round(device, 3)))
    found += [(f"peak memory, {m['device']}", "bytes", m["peak_bytes"]) for m in memory]
    return found


def _subtitle(events: EventList) -> str:

    began = datetime.fromtimestamp(events._began_at_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    versions = f"gradlib {__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
    return f"{began}, {versions}"
