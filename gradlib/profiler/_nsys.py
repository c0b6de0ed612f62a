"""Reading the SQLite export of Nsight Systems (``nsys export --type sqlite run.nsys-rep`` under `emit_nvtx`)."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Iterator

from ._events import StringTable
from ._ranges import BACKWARD, DOMAIN, FILL_NAME, FORWARD, Label, Range, Work, copy_name, read_label
from ._trace import Trace
from ._tracefile import TraceFile, collector_paused

_EXPORT = "make one with nsys export --type sqlite --output FILE.sqlite FILE.nsys-rep"
_EVENTS, _CALLS = "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"
_ACTIVITIES = tuple(
    f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)
_KERNEL, _COPY, _FILL, _GRAPH = _ACTIVITIES
_PUSH_POP, _START_END, _DOMAIN_NAME, _CATEGORY_NAME = 59, 60, 75, 33  # values of eventType
_TID = 0xFFFFFF  # the low bits of a global thread id; the others are the process, as globalPid has them


def load_nsys(path: str | os.PathLike) -> Trace:
    """Read the ranges of `emit_nvtx`, and all device work, from an export of Nsight Systems.

    Every kernel, copy, fill and traced graph is attached to the innermost push-pop range that was open in the thread
    that launched it (``event.kernels``); one launched outside all ranges, or by a call that was not recorded, is an
    event of its own. Names of events are those of the ops; what the texts of the ranges say is in ``sequence_nr``,
    ``scope`` (1 for backward nodes), ``input_shapes`` and ``stack``. PyTorch's ranges are read, too.

    path: an SQLite file, written with ``nsys profile --trace=cuda,nvtx -o run COMMAND`` and
        ``nsys export --type sqlite --output run.sqlite run.nsys-rep``.

    Returns:
        An EventList in order of start, in microseconds since the session began. Beyond its tables it has
        ``kernels()``, all device work with what it cost, ``forward_backward()``, what each op costs in forward and in
        backward, ``by_line()``, the same by source line (recorded with ``emit_nvtx(with_stack=True)``), ``pairs`` and
        ``outside``.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is no such file, or has neither ranges nor device work; names the option that would have
            recorded them.

    Example:
        >>> trace = load_nsys("run.sqlite")
        >>> print(trace.forward_backward())
        >>> print(trace.table(sort_by="cuda_time_total", row_limit=20))
    """
    with collector_paused(), TraceFile(path, _EXPORT) as file:
        if not any(map(file.columns, _ACTIVITIES)):
            file.require(_EVENTS, "nsys profile --trace=cuda,nvtx")
        _warn_of_gaps(file)
        strings = file.strings("StringIds", "id", "value")
        work = _device_work(file, strings)
        origin, began = _clock(file)
        ranges = list(_ranges(file, strings, origin))
        trace = Trace(ranges, work, origin=origin, began_at_ns=began)
        trace._threads = _thread_names(file, strings)
        return trace


def _clock(file: TraceFile) -> tuple[int, int]:
    """When the session began: by the clock of all times in the file, and by that of the world (ns)."""
    origin = next(file.rows("ANALYSIS_DETAILS", "startTime"), (0,))[0] or 0
    began = next(file.rows("TARGET_INFO_SESSION_START_TIME", "", "utcEpochNs"), (0,))[0] or 0
    return origin, began


def _thread_names(file: TraceFile, strings: dict[int, str]) -> dict[int, str]:
    """The names of threads by number, with that of the process where there are several."""
    rows = list(file.rows("ThreadNames", "nameId globalTid"))
    several = len({thread & ~_TID for _, thread in rows}) > 1
    return {
        thread & _TID: strings.get(name, "")
        + (f", process {thread >> 24 & 0xFFFFFF}" if several else "")
        for name, thread in rows
    }


def _warn_of_gaps(file: TraceFile) -> None:
    """Say what the recording left out, and the option that would have recorded it."""
    if not any(map(file.columns, _ACTIVITIES)):
        warnings.warn(
            f"{file.path} has no table {_KERNEL}, so its ranges have CPU times only: record with "
            "nsys profile --trace=cuda,nvtx",
            stacklevel=3,
        )
    elif not file.columns(_EVENTS):
        warnings.warn(
            f"{file.path} has no table {_EVENTS}, so there is device work without ops: record with "
            "nsys profile --trace=cuda,nvtx",
            stacklevel=3,
        )
    elif file.columns(_GRAPH) and not file.columns(_KERNEL):
        warnings.warn(
            f"{file.path} has CUDA graphs as wholes (table {_GRAPH}) and no kernels: to see those, record with "
            "nsys profile --cuda-graph-trace=node",
            stacklevel=3,
        )


def _ranges(file: TraceFile, strings: dict[int, str], origin: int) -> Iterator[Range]:
    rows = list(
        file.rows(
            _EVENTS, "start end eventType", "text textId globalTid domainId category int64Value"
        )
    )
    last = max((row[1] or row[0] for row in rows), default=0)
    reader = _Reader(rows, strings)
    number = 0
    for row in rows:
        start, end, kind, text, text_id, thread, *_ = row
        if kind not in (_PUSH_POP, _START_END):
            continue
        thread = thread or 0
        label = reader.label(text or strings.get(text_id, ""), row)
        if end is None or end < start:  # was open when the recording stopped
            end = last
        r = Range(thread & ~_TID, thread & _TID, start, end, label)
        r.make_event(number, label.name, label, origin)
        r.event.is_async = kind == _START_END  # may end in another thread, so it encloses nothing
        number += 1
        yield r


class _Reader:
    """Reads labels: domains and categories are numbers that each process names in rows of their own."""

    def __init__(self, rows: list[tuple], strings: dict[int, str]):
        domains: dict[tuple, str] = {}
        categories: dict[tuple, str] = {}
        for _, _, kind, text, text_id, thread, domain, category, _ in rows:
            process = (thread or 0) & ~_TID
            name = text or strings.get(text_id, "")
            if kind == _DOMAIN_NAME:
                domains[process, domain] = name
            elif kind == _CATEGORY_NAME:
                categories[process, domain, category] = name
        # (process, domain, category) of emit_nvtx's ranges -> whether they are those of backward nodes
        self.ours = {
            key: name == BACKWARD
            for key, name in categories.items()
            if name in (FORWARD, BACKWARD) and domains.get(key[:2]) == DOMAIN
        }

    def label(self, text: str, row: tuple) -> Label:
        """What the text says; the payload of our own ranges is the number itself."""
        label = read_label(text)
        *_, thread, domain, category, payload = row
        backward = self.ours.get(((thread or 0) & ~_TID, domain, category))
        if backward is None or payload is None:
            return label
        return label._replace(seq=payload, backward=backward)


def _device_work(file: TraceFile, strings: dict[int, str]) -> dict[tuple, list[Work]]:
    """All that ran on devices, by the (process, thread) that launched it."""
    # correlation numbers are those of a process, which old exports do not name
    named = any("globalPid" in file.columns(table) for table in _ACTIVITIES)
    process_bits = ~_TID if named else 0
    calls = {
        (thread & process_bits, correlation): (start, thread)
        for correlation, start, thread in file.rows(_CALLS, "correlationId start globalTid")
    }
    owners: dict[int, list[Work]] = defaultdict(list)
    for process, correlation, start, duration, name, device, stream in _activities(file, strings):
        launched, thread = calls.get((process or 0, correlation), (start, -1))
        owners[thread].append(Work(launched, name, device, stream, start, duration))
    if owners and not calls and file.columns(_EVENTS):
        file.require(_CALLS, "nsys profile --trace=cuda,nvtx")
    return {(thread & ~_TID, thread & _TID): pieces for thread, pieces in owners.items()}


def _activities(file: TraceFile, strings: dict[int, str]) -> Iterator[tuple]:
    """(process, correlation, start, duration, name, device, stream) of all that ran on devices; times in ns."""
    readable = StringTable()
    names = {
        _KERNEL: lambda long, short, mangled: (
            strings.get(long) or strings.get(short) or readable[strings.get(mangled, "kernel")]
        ),
        _COPY: copy_name,
        _FILL: lambda: FILL_NAME,
        _GRAPH: lambda graph: f"[CUDA graph {graph}]",
    }
    told = {
        _KERNEL: "demangledName shortName mangledName",
        _COPY: "copyKind",
        _GRAPH: "graphId",
    }
    for table, name in names.items():
        for start, end, correlation, process, device, stream, *about in file.rows(
            table, "start end correlationId", f"globalPid deviceId streamId {told.get(table, '')}"
        ):
            yield process, correlation, start, end - start, name(*about), device or 0, stream or 0
