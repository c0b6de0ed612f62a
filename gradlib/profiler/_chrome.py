"""Profiles as files in Chrome's trace event format (chrome://tracing, ui.perfetto.dev)."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import Any

from ..autograd.profiler_util import MEMORY_EVENT_NAME, EventList, FunctionEvent

CATEGORIES = {0: "cpu_op", 1: "cpu_op", 7: "user_annotation"}


def write(events: EventList, path: Any) -> None:
    """Write `events` to the file `path`, compressed if its name ends in ``.gz``.

    Each event is a complete event (``"ph": "X"``, times in microseconds); an arrow (``"s"`` to ``"f"``) leads from each
    forward operation to its backward node.
    """
    trace = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": events._began_at_ns,
        **events._metadata,
        "traceEvents": list(trace_events(events)),
    }
    text = json.dumps(trace).encode()
    if os.fspath(path).endswith(".gz"):
        text = gzip.compress(text)
    with open(path, "wb") as file:
        file.write(text)


def trace_events(events: EventList) -> Iterator[dict]:
    """The dicts of a trace file: names of threads, events, arrows."""
    process = os.getpid()
    for thread in sorted({event.thread for event in events}):
        yield {
            "ph": "M", "name": "thread_name", "pid": process, "tid": thread,
            "args": {"name": f"thread {thread}"},
        }  # fmt: skip
    makers: dict[int, FunctionEvent] = {}
    for event in events:
        if event.name == MEMORY_EVENT_NAME:
            yield instant(event, process)
            continue
        yield complete(event, process)
        if event.sequence_nr < 0:
            continue
        if event.scope == 1:
            maker = makers.get(event.sequence_nr)
            if maker is not None:
                yield arrow("s", maker, process, event)
                yield arrow("f", event, process, event)
        else:
            makers[event.sequence_nr] = event


def complete(event: FunctionEvent, process: int) -> dict:
    """An event with its duration."""
    given = {
        "Fwd thread id": event.fwd_thread,
        "Input Dims": event.input_shapes,
        "Call stack": ";".join(event.stack),
        "Module Hierarchy": event.module_hierarchy,
        "flops": event.flops,
        "Bytes": event.self_cpu_memory_usage,
        "Device time (us)": sum([kernel.duration for kernel in event.kernels]),
    }
    given = {name: value for name, value in given.items() if value}
    if event.sequence_nr >= 0:
        given["Sequence number"] = event.sequence_nr
    return {
        "ph": "X",
        "cat": CATEGORIES.get(event.scope, "cpu_op"),
        "name": event.trace_name,
        "pid": process,
        "tid": event.thread,
        "ts": event.time_range.start,
        "dur": event.time_range.elapsed_us(),
        "args": given,
    }


def instant(event: FunctionEvent, process: int) -> dict:
    """A release of memory outside of any operation."""
    return {
        "ph": "i", "s": "t", "name": event.name, "pid": process, "tid": event.thread, "ts": event.time_range.start,
        "args": {"Bytes": event.cpu_memory_usage, "Device bytes": event.device_memory_usage},
    }  # fmt: skip


def arrow(end: str, event: FunctionEvent, process: int, target: FunctionEvent) -> dict:
    """The start ("s") or finish ("f") of the arrow that leads to `target`."""
    return {
        "ph": end,
        "id": target.id,
        "cat": "fwdbwd",
        "name": "fwdbwd",
        "pid": process,
        "tid": event.thread,
        "ts": event.time_range.start,
        **({"bp": "e"} if end == "f" else {}),
    }
