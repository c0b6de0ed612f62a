"""Traces of several processes in one file and on one clock.

Times of a trace count from `baseTimeNanoseconds`, a time of day. The clocks of two machines differ, by milliseconds if
they are kept well; a trace may say by how much its clock is before that of the first process
(`clockOffsetNanoseconds`), which `gradlib.distributed.profiling` measures.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ._collectives import Collective as Collective
from ._collectives import Communication, computing, table

__all__ = ["communication_of_ranks", "merge", "merge_traces", "read", "write"]

PROCESSES = 1000  # numbers of processes that each rank has in a merged trace
ARROW = "same collective"

Trace = dict[str, Any]


def merge_traces(paths: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str]) -> None:
    """Merge the trace files of several processes into one, for ui.perfetto.dev or chrome://tracing.

    Each process has its tracks under the name of its rank, and arrows join a collective of the first process to those
    of the others. A file tells its rank and the offset of its clock, if `gradlib.distributed.profiling` has written
    it; other files are numbered in the order in which they are given, and their clocks are believed.

    Args:
        paths: the files, as `export_chrome_trace` writes them, compressed if they end in ``.gz``.
        path: the file that is written.

    Raises:
        ValueError: no files, two of one rank, or a file that is no trace.

    Example:
        >>> from gradlib.profiler import merge_traces, profile
        >>> for rank in range(2):
        ...     with profile() as prof:
        ...         _ = gradlib.ones(2) * 2
        ...     prof.export_chrome_trace(f"rank{rank}.json")
        >>> merge_traces(["rank0.json", "rank1.json"], "all.json.gz")
    """
    write(merge([read(p) for p in paths]), path)


def read(path: str | os.PathLike[str]) -> Trace:
    """A trace file. ValueError if it is none."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        trace = json.loads(gzip.decompress(data) if os.fspath(path).endswith(".gz") else data)
        if isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list):
            return trace
    except (ValueError, OSError):
        pass
    raise ValueError(f"{os.fspath(path)} is no trace file in Chrome's format")


def write(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace, compressed if the path ends in ``.gz``."""
    text = json.dumps(trace).encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(text) if os.fspath(path).endswith(".gz") else text)


def ranks_of(traces: Sequence[Trace]) -> dict[int, Trace]:
    """The traces by rank: as they say, else in their order. ValueError for no traces, or two of one rank."""
    if not traces:
        raise ValueError("no traces to merge")
    said = [trace.get("distributedInfo", {}).get("rank") for trace in traces]
    ranks = list(range(len(traces))) if None in said else said
    if len(set(ranks)) < len(ranks):
        raise ValueError(f"two traces are of one rank: the ranks are {ranks}")
    return dict(sorted(zip(ranks, traces)))


def merge(traces: Sequence[Trace]) -> Trace:
    """One trace of several; see `merge_traces`."""
    by_rank = ranks_of(traces)
    begins = {rank: began(trace) for rank, trace in by_rank.items()}
    first = min(begins.values())
    events: list[dict] = []
    for rank, trace in by_rank.items():
        events += shifted(trace, rank, (begins[rank] - first) / 1e3)
    events += arrows(events)
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": first,
        "distributedInfo": {"ranks": list(by_rank), "world_size": len(by_rank)},
        "traceEvents": events,
    }


def began(trace: Trace) -> int:
    """The time of day at which a trace begins, in ns, on the clock of the first process."""
    return int(trace.get("baseTimeNanoseconds", 0)) - int(trace.get("clockOffsetNanoseconds", 0))


def shifted(trace: Trace, rank: int, by_us: float) -> Iterator[dict]:
    """The events of a trace, with numbers of processes, arrows and counters that only this rank has."""
    processes: dict[Any, int] = {}
    for event in trace["traceEvents"]:
        event = dict(event)
        number = processes.setdefault(event.get("pid"), len(processes))
        event["pid"] = rank * PROCESSES + number
        if "ts" in event:
            event["ts"] += by_us
        if "id" in event:
            event["id"] = f"rank {rank}: {event['id']}"
        if event.get("name") == "process_name":
            event["args"] = {"name": f"rank {rank}: {event['args']['name']}"}
        elif event.get("name") == "process_sort_index":
            event["args"] = {"sort_index": event["pid"]}
        yield event


def arrows(events: Sequence[dict]) -> Iterator[dict]:
    """Arrows from each collective of the lowest rank to the same one of the others: group and number are equal."""
    calls: dict[tuple, list[dict]] = {}
    for event in events:
        if event.get("cat") == "collective" and event["ph"] == "X":
            given = event["args"]
            key = given.get("Process Group Name"), given.get("Seq"), event["name"]
            calls.setdefault(key, []).append(event)
    for (group, seq, _), same in calls.items():
        for i, other in enumerate(same[1:]):
            common = {"cat": "collective", "name": ARROW, "id": f"{group} {seq} {i}"}
            for ph, event, more in (("s", same[0], {}), ("f", other, {"bp": "e"})):
                place = {key: event[key] for key in ("pid", "tid")}
                yield {"ph": ph, **common, **place, "ts": event["ts"] + event["dur"] / 2, **more}


# -- the table of all ranks --------------------------------------------------------------------------------------------


def communication_of_ranks(traces: Sequence[Trace]) -> dict[int, Communication]:
    """What `communication` of a profile gives, by rank, from traces that are not merged."""
    return {rank: _communication(trace) for rank, trace in ranks_of(traces).items()}


def _communication(trace: Trace) -> Communication:
    calls, host, device, spans = [], [], [], []
    for event in trace["traceEvents"]:
        if event.get("ph") != "X":
            continue
        span = event["ts"], event["ts"] + event["dur"]
        spans.append(span)
        kind, given = event.get("cat"), event.get("args", {})
        if kind == "collective":
            calls.append(
                Collective(
                    event["name"], given["Process Group Name"], given.get("Group size", 0), event["ts"], event["dur"],
                    given["bytes"], given["Seq"], False, given["call"], given["line"],
                )
            )  # fmt: skip
        elif kind == "cpu_op":
            host.append((event["tid"], event["name"], span))
        elif kind == "kernel":
            device.append(span)
    length = max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0.0
    return table(calls, computing(host, device), length)
