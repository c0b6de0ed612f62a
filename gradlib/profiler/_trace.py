"""What was read from a profiler's file: an EventList that knows which backward range belongs to which forward range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ._by_line import Report, by_line, make_report, own_device
from ._event_tree import nesting
from ._events import EventList
from ._function_event import DeviceSlice, DeviceType, FunctionEvent, Kernel
from ._ranges import NS_PER_US, Range, Work, attach, pair


class Trace(EventList):
    """The ranges of a profile, in order of their start, with the device work launched in each (``event.kernels``).

    Device work that was launched outside all ranges, or by calls that were not recorded, is among them as events of
    its own, of ``device_type`` CUDA: the tables leave nothing out.

    pairs: (forward event, backward event) for each backward node whose forward range was recorded.
    outside: the device work that was launched outside all ranges.
    unit: of the times of events, in ns. Reports are in us.
    origin: the time (ns) at which those times are 0; began_at_ns: what clocks showed then, as ``time.time_ns``.
    """

    def __init__(
        self,
        ranges: Sequence[Range],
        work: dict[tuple, list[Work]],
        unit: int = NS_PER_US,
        origin: int = 0,
        began_at_ns: int = 0,
    ):
        self.unit, self._origin = unit, origin
        ordered = sorted(ranges, key=lambda r: (r.start, -r.end))
        events = [r.event for r in ordered]
        self.outside: list[Kernel] = []
        self._work: list[tuple[FunctionEvent, Work]] = []
        alone = []
        for r, piece in attach([r for r in ordered if not r.event.is_async], work):
            if r is None:
                event = self._device_event(len(ordered) + len(alone), piece)
                alone.append(event)
                self.outside.append(Kernel(piece.name, piece.device, piece.duration / unit))
            else:
                event = r.event
                event.append_kernel(piece.name, piece.device, piece.duration / unit)
            self._work.append((event, piece))
        if alone:
            events = sorted(events + alone, key=nesting)
        super().__init__(events, use_device="cuda", began_at_ns=began_at_ns)
        self._tree_built = True
        self.pairs = [(forward.event, backward.event) for forward, backward in pair(ordered)]

    def _device_event(self, number: int, piece: Work) -> FunctionEvent:
        start = (piece.start - self._origin) / self.unit
        return FunctionEvent(
            number,
            piece.name,
            piece.stream,
            start,
            start + piece.duration / self.unit,
            device_type=DeviceType.CUDA,
            device_index=piece.device,
            use_device="cuda",
        )

    def kernels(self) -> EventList:
        """All that ran on devices as events of its own, whatever launched it, by start.

        ``event.device_index`` is the device and ``event.thread`` the stream.

        Example:
            >>> print(load_nsys("run.sqlite").kernels().key_averages().table(sort_by="cuda_time_total"))
        """
        pieces = sorted((piece for _, piece in self._work), key=lambda piece: piece.start)
        return EventList(
            [self._device_event(number, piece) for number, piece in enumerate(pieces)],
            use_device="cuda",
            began_at_ns=self._began_at_ns,
        )

    def _recorded_events(self) -> Trace:
        if not self._device_slices:
            self._device_slices = [
                DeviceSlice(
                    event,
                    piece.device,
                    piece.stream,
                    (piece.start - self._origin) / NS_PER_US,
                    piece.duration / NS_PER_US,
                    piece.name,
                )
                for event, piece in self._work
            ]
        return self

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
