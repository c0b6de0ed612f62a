"""Reading the files of nvprof (``nvprof -o run.nvprof python train.py`` under `emit_nvtx`)."""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterator

from ._events import StringTable
from ._function_event import FunctionEvent
from ._ranges import DOMAIN, FILL_NAME, NS_PER_US, Range, Work, copy_name, read_label
from ._trace import Trace
from ._tracefile import TraceFile, collector_paused

_RECORD = "record one with nvprof -o FILE COMMAND"
_THREAD_KIND = 2  # CUPTI_ACTIVITY_OBJECT_THREAD
_INT64_KIND = 4  # CUPTI_METRIC_VALUE_KIND_INT64
_CATEGORIES = {1: False, 2: True}  # emit_nvtx numbers forward first; whether a range is backward's
_CALLS = ("CUPTI_ACTIVITY_KIND_DRIVER", "CUPTI_ACTIVITY_KIND_RUNTIME")
_KERNELS = ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL")
_ONE_THREAD = (0, 0)
_UNKNOWN = (-1, -1)  # the thread of work whose call was not recorded


class EnforceUnique:
    """Raises an error if a key is seen more than once.

    Example:
        >>> seen = EnforceUnique()
        >>> seen.see("range", 1)
        >>> seen.see("range", 2)
    """

    def __init__(self) -> None:
        self.seen: set[tuple] = set()

    def see(self, *key) -> None:
        """Take note of a key.

        Args:
            key: its parts.

        Raises:
            RuntimeError: "duplicate key: ..." if it was seen before.
        """
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


def load_nvprof(path: str | os.PathLike, *, microseconds: bool = False) -> Trace:
    """Read the ranges of `emit_nvtx`, and the kernels launched in them, from a file of nvprof.

    path: an SQLite file, written with ``nvprof --profile-from-start off -o FILE COMMAND``.
    microseconds: nvprof counts in nanoseconds, and like PyTorch's function of this name this one hands its numbers on
        as they are, where events otherwise have microseconds; True converts them.

    Returns:
        An EventList in order of start, the first range at 0. Beyond its tables it has ``forward_backward()``, what each
        op costs in forward and in backward, always in microseconds.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is no file of nvprof, has no ranges, or numbers two of them alike.

    Example:
        >>> print(load_nvprof("run.nvprof").key_averages().table())
    """
    with collector_paused(), TraceFile(path, _RECORD) as file:
        file.require("CUPTI_ACTIVITY_KIND_MARKER", "emit_nvtx() around the code of interest")
        strings = file.strings("StringTable", "_id_", "value")
        work = _device_work(file, strings)
        unit = NS_PER_US if microseconds else 1
        origin, ranges = _ranges(file, strings, unit)
        return Trace(ranges, work, unit, origin)


def parse_nvprof_trace(path: str | os.PathLike) -> list[FunctionEvent]:
    """The events of `load_nvprof` as a plain list: sorted by start, kernels attached.

    Args:
        path: an SQLite file of nvprof.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is no file of nvprof, has no ranges, or numbers two of them alike.
    """
    return list(load_nvprof(path))


def _ranges(file: TraceFile, strings: dict[int, str], unit: int) -> tuple[int, list[Range]]:
    """When the first range begins, and all of them.

    Start rows have a name, end rows none; rows of both kinds with one id are a range, a start alone a mark.
    """
    numbers = _payloads(file)
    threads = any("threadId" in file.columns(table) for table in _CALLS)
    starts, ends = {}, {}
    unique_starts, unique_ends = EnforceUnique(), EnforceUnique()
    for number, name, time, kind, owner, domain in file.rows(
        "CUPTI_ACTIVITY_KIND_MARKER", "id name timestamp", "objectKind objectId domain"
    ):
        if name:
            unique_starts.see(number)
            starts[number] = (time, name, _thread(kind, owner) if threads else _ONE_THREAD, domain)
        else:
            unique_ends.see(number)
            ends[number] = time
    origin = min((start[0] for number, start in starts.items() if number in ends), default=0)
    found = []
    for number, (time, name, owner, domain) in starts.items():
        if number not in ends:
            continue
        text = strings.get(name, str(name))
        label = read_label(text)
        if strings.get(domain) == DOMAIN and number in numbers:
            seq, backward = numbers[number]
            label = label._replace(seq=seq, backward=backward)
        process, thread = owner or _UNKNOWN
        r = Range(process, thread, time, ends[number], label)
        r.make_event(number, text, label, origin, unit)
        r.event.is_async = owner is None
        found.append(r)
    return origin, found


def _payloads(file: TraceFile) -> dict[int, tuple[int, bool]]:
    """(sequence number, whether of a backward node) by marker, from the payloads and categories of `emit_nvtx`."""
    found = {}
    for number, kind, payload, category in file.rows(
        "CUPTI_ACTIVITY_KIND_MARKER_DATA", "id payloadKind payload category"
    ):
        if kind == _INT64_KIND and category in _CATEGORIES and len(payload or b"") >= 8:
            found[number] = (struct.unpack_from("<q", payload)[0], _CATEGORIES[category])
    return found


def _thread(kind: int | None, owner: bytes | None) -> tuple[int, int] | None:
    """(process, thread) of a marker: two 32-bit numbers at the start of CUPTI's object id; None for a process range."""
    if kind != _THREAD_KIND or not isinstance(owner, bytes) or len(owner) < 8:
        return None
    return struct.unpack_from("<II", owner)


def _device_work(file: TraceFile, strings: dict[int, str]) -> dict[tuple, list[Work]]:
    """Kernels, copies and fills by the (process, thread) whose call started them."""
    calls: dict[int, tuple[int, tuple[int, int]]] = {}
    # the driver's own calls (CuPy launches with those), then the runtime's, which enclose them
    for table in _CALLS:
        unique = EnforceUnique()
        for correlation, start, process, thread in file.rows(
            table, "correlationId start", "processId threadId"
        ):
            unique.see(correlation)
            owner = _ONE_THREAD
            if process is not None and thread is not None:
                owner = (process & 0xFFFFFFFF, thread & 0xFFFFFFFF)
            calls[correlation] = (start, owner)
    work: dict[tuple, list[Work]] = defaultdict(list)
    for correlation, start, duration, name, device, stream in _activities(file, strings):
        launched, owner = calls.get(correlation, (start, _UNKNOWN))
        work[owner].append(Work(launched, name, device, stream, start, duration))
    if work and not calls:
        file.require("CUPTI_ACTIVITY_KIND_RUNTIME", "nvprof --profile-api-trace all")
    return work


def _activities(file: TraceFile, strings: dict[int, str]) -> Iterator[tuple]:
    """(correlation, start, duration, name, device, stream) of all that ran on devices; times in ns."""
    readable = StringTable()
    needed, where = "correlationId start end", "deviceId streamId"
    for table in _KERNELS:
        for correlation, start, end, name, device, stream in file.rows(
            table, f"{needed} name", where
        ):
            text = readable[strings.get(name, str(name))]
            yield correlation, start, end - start, text, device or 0, stream or 0
    for correlation, start, end, kind, device, stream in file.rows(
        "CUPTI_ACTIVITY_KIND_MEMCPY", needed, f"copyKind {where}"
    ):
        yield correlation, start, end - start, copy_name(kind), device or 0, stream or 0
    for correlation, start, end, device, stream in file.rows(
        "CUPTI_ACTIVITY_KIND_MEMSET", needed, where
    ):
        yield correlation, start, end - start, FILL_NAME, device or 0, stream or 0
