"""Times of operations on a CUDA device, by pairs of CUDA events on the stream that each op runs on."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Any

from ..devices.cuda.library import library
from ..tape.device import stored
from ..tape.tensor import Tensor

# CUDA measures in float32 milliseconds: precisely only between events that are not further apart than this
PRECISE_MS = 1000.0
# timing events to be used again, by device: making one costs more than recording it
_spare: weakref.WeakKeyDictionary[Any, dict[int, list]] = weakref.WeakKeyDictionary()


class Timers:
    """Pairs of events. Nothing waits for the device until the times are asked for.

    They are CuPy's own events: two are recorded for every op, and a profile must not be slower than what it measures.
    """

    def __init__(self) -> None:
        self.cuda = library()
        self.spare = _spare.setdefault(self.cuda, defaultdict(list))
        # by device: an event, and the host's time of it
        self.origins: dict[int, tuple[Any, int]] = {}
        self._origin(self.cuda.Device())

    def _origin(self, device: Any) -> None:
        """Join the clock of a device to that of the host. Waits for the device, once."""
        event = self._record(device)[0]
        event.synchronize()
        self.origins[device.id] = event, perf_counter_ns()

    def start(self, args: Iterable[Any]) -> list | None:
        """Record an event on the stream of the arguments' device: [device, stream, event, None]; None for the CPU."""
        for a in args:
            if isinstance(a, Tensor):
                if a.is_cuda:
                    device = stored(a._array).device
                    if device.id not in self.origins:
                        self._origin(device)
                    event, stream = self._record(device)
                    return [device, stream, event, None]
            elif isinstance(a, (list, tuple)):
                timer = self.start(a)
                if timer is not None:
                    return timer
        return None

    def stop(self, timer: list) -> None:
        """Record the second event of a pair."""
        timer[3] = self._record(timer[0])[0]

    def _record(self, device: Any) -> tuple[Any, int]:
        """An event on the device's current stream, and the stream's address."""
        index, cuda = device.id, self.cuda
        if index != cuda.get_device_id():  # events and the null stream belong to the current device
            with device:
                return self._record(device)
        spare = self.spare[index]
        event = spare.pop() if spare else cuda.Event()
        stream = cuda.get_current_stream()
        event.record(stream)
        return event, stream.ptr

    def elapsed(self, timers: Mapping[int, list]) -> dict[int, tuple[int, int, int, float]]:
        """(device, stream, start on the host's clock in ns, microseconds) of each pair, after its work is done."""
        times, clocks = {}, dict(self.origins)
        for key, (device, stream, start, end) in timers.items():
            end.synchronize()
            origin, at_ns = clocks[device.id]
            since = self.cuda.get_elapsed_time(origin, start)
            began_ns = at_ns + round(since * 1e6)
            if since > PRECISE_MS:
                clocks[device.id] = start, began_ns
            times[key] = device.id, stream, began_ns, self.cuda.get_elapsed_time(start, end) * 1e3
        self._give_back(timers)
        return times

    def _give_back(self, timers: Mapping[int, list]) -> None:
        for index, (event, _) in self.origins.items():
            self.spare[index].append(event)
        for device, _, start, end in timers.values():
            self.spare[device.id] += (start, end)
