"""Profiles as files in Chrome's trace event format (ui.perfetto.dev, chrome://tracing).

Tracks: one for each thread of this process; one for each CUDA stream of each device, which stands as a process of its
own. Arrows are flow events: a start ("s") and a finish ("f") with the same unique id. A viewer binds each to the slice
that is innermost at its time, so they lie inside the own time of their slice, before the first slice inside it.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _memory
from ._collectives import Collective
from ._function_event import MEMORY_EVENT_NAME, DeviceSlice, DeviceType, FunctionEvent

if TYPE_CHECKING:
    from ._events import EventList

CATEGORIES = {0: "cpu_op", 1: "cpu_op", 7: "user_annotation"}
DEVICE_PROCESS = 1 << 30  # added to a device's number: larger than any process number
COLLECTIVES = 1 << 20  # added to the number of a track of collectives: larger than those of threads
FORWARD_BACKWARD, LAUNCH = "fwdbwd", "ac2g"


def write(events: EventList, path: Any) -> None:
    """Write `events` to the file `path`, compressed if its name ends in ``.gz``."""
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
    """The dicts of a trace file: names of tracks, slices with their arrows, counters."""
    process = os.getpid()
    streams = stream_numbers(events._device_slices)
    yield from names(events, process, streams)
    arrows = Arrows(events, process, streams)
    for event in events:
        if event.name == MEMORY_EVENT_NAME:
            yield instant(event, process)
        elif event.device_type is not DeviceType.CPU:
            continue  # is a slice of its stream
        elif event.is_async:
            yield from asynchronous(event, process)
        else:
            yield complete(event, process)
            yield from arrows.at(event)
    for slice in events._device_slices:
        yield device_slice(slice, streams)
        yield from arrows.at_device(slice)
    for call in events._collectives:
        yield from collective(call, process)
    yield from memory_counters(events, process)
    yield from clock_counters(events, process)


# -- tracks ----------------------------------------------------------------------------------------------------------


def stream_numbers(slices: Iterable[DeviceSlice]) -> dict[tuple[int, int], int]:
    """The track of each (device, stream), numbered from 1 on each device; the default stream comes first."""
    numbers: dict[tuple[int, int], int] = {}
    of_device: dict[int, Iterator[int]] = {}
    for key in sorted({(s.device, s.stream) for s in slices}):
        numbers[key] = next(of_device.setdefault(key[0], itertools.count(1)))
    return numbers


def stream_name(stream: int) -> str:
    """What people call a stream, from its address, or from the number that NVIDIA's tools give it."""
    return {0: "default stream", 1: "legacy default stream", 2: "per-thread default stream"}.get(
        stream, f"stream {stream}" if stream < 4096 else f"stream {stream:#x}"
    )


def names(events: EventList, process: int, streams: dict[tuple[int, int], int]) -> Iterator[dict]:
    """The names and the order of processes and tracks."""
    program = os.path.basename(sys.argv[0]) or "python"
    yield from track("process", process, None, f"{program} (CPU)", 0)
    cpu = {event.thread for event in events if event.device_type is DeviceType.CPU}
    for thread in sorted(cpu):
        yield from track("thread", process, thread, thread_name(events, thread), thread)
    for name in sorted({collective_track(call) for call in events._collectives}):
        yield from track("thread", process, COLLECTIVES + name[0], name[1], COLLECTIVES + name[0])
    for device in sorted({device for device, _ in streams}):
        yield from track("process", DEVICE_PROCESS + device, None, f"cuda:{device}", device + 1)
    for (device, stream), number in streams.items():
        yield from track("thread", DEVICE_PROCESS + device, number, stream_name(stream), number)


def thread_name(events: EventList, thread: int) -> str:
    """The number of a thread, and its name if it lived when the profile ended."""
    name = events._threads.get(thread, "")
    return f"thread {thread} ({name})" if name else f"thread {thread}"


def track(kind: str, process: int, thread: int | None, name: str, place: int) -> Iterator[dict]:
    """The name of a process or thread and its place among the others."""
    where = {"ph": "M", "pid": process, **({} if thread is None else {"tid": thread})}
    yield {**where, "name": f"{kind}_name", "args": {"name": name}}
    yield {**where, "name": f"{kind}_sort_index", "args": {"sort_index": place}}


# -- slices ----------------------------------------------------------------------------------------------------------


def complete(event: FunctionEvent, process: int) -> dict:
    """An event with its duration."""
    given = {
        "Fwd thread id": event.fwd_thread,
        "Input Dims": event.input_shapes,
        "Call stack": ";".join(event.stack),
        "Module Hierarchy": event.module_hierarchy,
        "flops": event.flops,
        "Bytes": event.self_cpu_memory_usage,
        "Device bytes": event.self_device_memory_usage,
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
    """A change of memory outside of any operation."""
    return {
        "ph": "i", "s": "t", "name": event.name, "pid": process, "tid": event.thread, "ts": event.time_range.start,
        "args": {"Bytes": event.cpu_memory_usage, "Device bytes": event.device_memory_usage},
    }  # fmt: skip


def asynchronous(event: FunctionEvent, process: int) -> Iterator[dict]:
    """Both ends of a label that overlaps others: viewers give such ones a track beside that of the thread."""
    for end, time in (("b", event.time_range.start), ("e", event.time_range.end)):
        yield {
            "ph": end, "cat": CATEGORIES[event.scope], "id": event.id, "name": event.trace_name, "pid": process,
            "tid": event.thread, "ts": time,
        }  # fmt: skip


def device_slice(slice: DeviceSlice, streams: dict[tuple[int, int], int]) -> dict:
    """The device work of an operation on its stream."""
    return {
        "ph": "X",
        "cat": "kernel",
        "name": slice.name,
        "pid": DEVICE_PROCESS + slice.device,
        "tid": streams[slice.device, slice.stream],
        "ts": slice.start_us,
        "dur": slice.duration_us,
        "args": {"device": slice.device, "stream": stream_name(slice.stream)},
    }


def collective_track(call: Collective) -> tuple[int, str]:
    """The number and name of the track of a collective: those of a group come one after the other."""
    number = int(call.group) if call.group.isdigit() else zlib.crc32(call.group.encode())
    if call.p2p:
        return 2 * number + 1, f"send and receive in group {call.group}"
    return 2 * number, f"collectives of group {call.group}"


def collective(call: Collective, process: int) -> Iterator[dict]:
    """A collective, send or receive. The latter overlap, so viewers give them as many tracks as they need."""
    given = {
        "call": call.what,
        "line": call.place,
        "bytes": call.nbytes,
        "GB/s": round(call.gb_per_s, 3),
        "bus GB/s": None if call.bus_gb_per_s is None else round(call.bus_gb_per_s, 3),
        "Seq": call.seq,
        "Process Group Name": call.group,
        "Group size": call.ranks or None,
    }
    common = {
        "cat": "collective", "name": call.name, "pid": process, "tid": COLLECTIVES + collective_track(call)[0],
        "args": {name: value for name, value in given.items() if value is not None},
    }  # fmt: skip
    if not call.p2p:
        yield {"ph": "X", **common, "ts": call.start_us, "dur": call.duration_us}
        return
    number = f"p2p {call.group} {call.seq}"
    yield {"ph": "b", "id": number, **common, "ts": call.start_us}
    yield {"ph": "e", "id": number, **common, "ts": call.start_us + call.duration_us}


# -- arrows ----------------------------------------------------------------------------------------------------------


class Arrows:
    """Both ends of all arrows. An operation may have several: each backward pass through it gets one of its own."""

    def __init__(self, events: EventList, process: int, streams: dict[tuple[int, int], int]):
        self.process, self.streams, numbers = process, streams, itertools.count(1)
        self.starts: dict[int, list[tuple[int, str]]] = {}  # by id of an event: (arrow, category)
        self.ends: dict[int, int] = {}
        self.launches: dict[int, int] = {}  # by id() of a device slice
        forward = events._forward_of()
        for event in events:
            maker = forward.get(event.id)
            if maker is not None:
                number = self.ends[event.id] = next(numbers)
                self.starts.setdefault(maker.id, []).append((number, FORWARD_BACKWARD))
        for slice in events._device_slices:
            if slice.event.device_type is not DeviceType.CPU:
                continue  # nothing is known of its launch
            number = self.launches[id(slice)] = next(numbers)
            self.starts.setdefault(slice.event.id, []).append((number, LAUNCH))

    def at(self, event: FunctionEvent) -> Iterator[dict]:
        """The ends that belong to a slice of the CPU."""
        place = (self.process, event.thread, own_moment(event))
        for number, category in self.starts.get(event.id, ()):
            yield arrow("s", number, category, *place)
        if event.id in self.ends:
            yield arrow("f", self.ends[event.id], FORWARD_BACKWARD, *place)

    def at_device(self, slice: DeviceSlice) -> Iterator[dict]:
        """The end that belongs to a slice of a stream."""
        if id(slice) not in self.launches:
            return
        process, thread = DEVICE_PROCESS + slice.device, self.streams[slice.device, slice.stream]
        middle = slice.start_us + slice.duration_us / 2
        yield arrow("f", self.launches[id(slice)], LAUNCH, process, thread, middle)


def own_moment(event: FunctionEvent) -> float:
    """A time in an event at which none of its children has begun."""
    first = event.cpu_children[0].time_range.start if event.cpu_children else event.time_range.end
    return (event.time_range.start + first) / 2


def arrow(end: str, number: int, category: str, process: int, thread: int, time: float) -> dict:
    """The start ("s") or finish ("f") of an arrow."""
    return {
        "ph": end, "id": number, "cat": category, "name": category, "pid": process, "tid": thread, "ts": time,
        **({"bp": "e"} if end == "f" else {}),  # bound to the slice around it, not to the next one
    }  # fmt: skip


# -- counters --------------------------------------------------------------------------------------------------------


def counter(name: str, process: int, time: float, values: dict) -> dict:
    """A point of a counter; a viewer stacks the values."""
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": time, "args": values}


def process_of(device: str, process: int) -> int:
    """The process among whose tracks the counters of a device ("cpu", "cuda:0") stand."""
    return process if device == "cpu" else DEVICE_PROCESS + int(device.partition(":")[2])


def memory_counters(events: EventList, process: int) -> Iterator[dict]:
    """The bytes allocated since the profile began, by category."""
    if events._blocks is None:
        return
    for line in _memory.timelines(events):
        where = process_of(line.device, process)
        for time, sizes in zip(line.times, line.sizes):
            values = dict(zip(line.categories, sizes))
            yield counter(f"allocated bytes ({line.device})", where, time, values)


FIGURES = {
    "clock_mhz": "SM clock (MHz)",
    "memory_clock_mhz": "memory clock (MHz)",
    "power_w": "power (W)",
    "temperature_c": "temperature (C)",
    "utilization": "utilization (%)",
}


def clock_counters(events: EventList, process: int) -> Iterator[dict]:
    """What the driver said of the devices, and a mark wherever their clocks were lowered."""
    for sample in events._samples:
        where = process_of(f"cuda:{sample.device}", process)
        for field, name in FIGURES.items():
            value = getattr(sample, field)
            if value is not None:
                yield counter(name, where, sample.time_us, {name: value})
        if sample.throttled:
            yield {
                "ph": "i", "s": "p", "name": "clocks lowered: " + ", ".join(sample.throttled),
                "pid": where, "tid": 0, "ts": sample.time_us,
            }  # fmt: skip
