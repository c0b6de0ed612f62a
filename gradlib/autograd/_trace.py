"""What was read from a profiler's file: an EventList that knows which backward range belongs to which forward range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..profiler._by_line import Report, by_line, make_report, own_device
from ._ranges import NS_PER_US, Range, Work, attach, pair
from .profiler_util import EventList, Kernel


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
        return make_report("Op", sums, self.unit / NS_PER_US)

    def by_line(self) -> Report:
        """What each source line costs in forward and in backward.

        A row for each line: "file:line", the number of ops called there, and the time spent in its forward ranges
        and in the backward ranges of the nodes that it made. Every piece of device work and every CPU microsecond
        counts once, for the innermost line. RuntimeError if the ranges carry no lines.

        Example:
            >>> print(load_nsys("run.sqlite").by_line())
        """
        return by_line(self, "emit_nvtx(with_stack=True)", self.unit / NS_PER_US)

    def _device_totals(self) -> dict[int, float]:
        """Device time (us) of each event and everything inside it, by id."""
        totals = {id(event): own_device(event) for event in self}
        for event in reversed(self):  # a range starts after the one that contains it
            if event.cpu_parent is not None:
                totals[id(event.cpu_parent)] += totals[id(event)]
        return totals
