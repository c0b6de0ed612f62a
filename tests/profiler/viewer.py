"""Reads trace files as a viewer does, and checks that they follow the trace event format.

Arrows are bound by the rule of Perfetto and chrome://tracing: events are taken by time, in the order of the file where
times are equal, and a flow event belongs to the slice that is innermost on its track at that moment.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path

NEEDED = {
    "M": {"name": str, "pid": int, "args": dict},
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "dur": (int, float)},
    "i": {"name": str, "s": str, "pid": int, "tid": int, "ts": (int, float)},
    "s": {"id": int, "name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float)},
    "f": {"id": int, "name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "bp": str},
    "b": {"id": int, "name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float)},
    "e": {"id": int, "name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float)},
    "C": {"name": str, "pid": int, "ts": (int, float), "args": dict},
}  # fmt: skip


class Viewer:
    """A trace file, read.

    Attributes:
        trace: the whole content.
        slices: the dicts of the slices, with "end" and, where they lie in another one, "parent".
        arrows: (slice, slice, category).
        asynchronous: (name, start, end) of slices that overlap others.
        counters: (time, values) by (process, name).
        names: of processes by number, of tracks by (process, track).
    """

    def __init__(self, path):
        content = Path(path).read_bytes()
        if os.fspath(path).endswith(".gz"):
            content = gzip.decompress(content)
        self.trace = json.loads(content)
        self.slices, self.arrows, self.names = [], [], {}
        self.counters = defaultdict(list)
        self.instants, self.asynchronous = [], []
        self._begun = {}
        self._open = defaultdict(list)
        self._ends = defaultdict(dict)
        events = self.trace["traceEvents"]
        for event in events:
            check(event)
        for event in sorted(events, key=lambda e: nanoseconds(e.get("ts", 0))):
            getattr(self, f"_{event['ph']}")(event)
        assert not self._begun, "slices without an end"
        for ends in self._ends.values():
            assert set(ends) == {"s", "f"}, f"half an arrow: {ends}"
            assert ends["s"]["cat"] == ends["f"]["cat"]
            self.arrows.append((ends["s"]["slice"], ends["f"]["slice"], ends["s"]["cat"]))

    def _M(self, event):
        if event["name"].endswith("_name"):
            key = (event["pid"], event["tid"]) if "tid" in event else event["pid"]
            self.names[key] = event["args"]["name"]

    def _X(self, event):
        event["end"] = nanoseconds(event["ts"]) + nanoseconds(event["dur"])
        around = self._around(event)
        if around:
            assert event["end"] <= around[-1]["end"] + 1, "slices of a track overlap"
            event["parent"] = around[-1]
        around.append(event)
        self.slices.append(event)

    def _around(self, event):
        """The slices that are open on the track of an event."""
        around, now = self._open[event["pid"], event["tid"]], nanoseconds(event["ts"])
        while around and around[-1]["end"] <= now:
            around.pop()
        return around

    def _flow(self, event):
        around = self._around(event)
        assert around, f"an arrow that touches no slice: {event}"
        ends = self._ends[event["id"]]
        assert event["ph"] not in ends, f"two arrows of one number: {event}"
        ends[event["ph"]] = {"slice": around[-1], "cat": event["cat"]}

    _s = _f = _flow

    def _b(self, event):
        assert (event["cat"], event["id"]) not in self._begun
        self._begun[event["cat"], event["id"]] = event

    def _e(self, event):
        begin = self._begun.pop((event["cat"], event["id"]))
        assert begin["name"] == event["name"]
        self.asynchronous.append((event["name"], begin["ts"], event["ts"]))

    def _i(self, event):
        self.instants.append(event)

    def _C(self, event):
        assert all(isinstance(value, (int, float)) for value in event["args"].values())
        self.counters[event["pid"], event["name"]].append((event["ts"], event["args"]))

    def into(self, slice, category="fwdbwd"):
        """The slices from which arrows lead to `slice`."""
        return [start for start, end, cat in self.arrows if end is slice and cat == category]


def check(event):
    """An event has the fields of its phase, with values of the right types."""
    for field, kind in NEEDED[event["ph"]].items():
        assert isinstance(event.get(field), kind), f"{field} of {event}"
    assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
    assert event.get("bp", "e") == "e"


def nanoseconds(us):
    """Times are whole nanoseconds for a viewer."""
    return round(us * 1000)


def assert_backward_is_linked(viewer):
    """Every backward slice has one arrow, from the operation with its number; returns the pairs of names."""
    backward = [s for s in viewer.slices if is_node(s)]
    pairs = []
    for slice in backward:
        (maker,) = viewer.into(slice)
        assert maker["args"]["Sequence number"] == slice["args"]["Sequence number"]
        assert not is_node(maker) and maker["end"] <= nanoseconds(slice["ts"])
        pairs.append((maker["name"], slice["name"]))
    assert backward
    return pairs


def is_node(slice):
    """Whether a slice is that of a backward node that an operation made."""
    return slice["name"].endswith("Backward0") or slice["name"].endswith("CopySlices")
