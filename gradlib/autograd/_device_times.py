"""Times of operations on a CUDA device, by pairs of CUDA events on the stream that each op runs on."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.tensor import Tensor
from ..cuda.devices import library

# timing events to be used again, by device: making one costs more than recording it
_spare: weakref.WeakKeyDictionary[Any, dict[int, list]] = weakref.WeakKeyDictionary()


class Timers:
    """Pairs of events. Nothing waits for the device until the times are asked for.

    They are CuPy's own events: two are recorded for every op, and a profile must not be slower than what it measures.
    """

    def __init__(self) -> None:
        self.cuda = library()
        self.spare = _spare.setdefault(self.cuda, defaultdict(list))

    def start(self, args: Iterable[Any]) -> list | None:
        """Record an event on the stream of the arguments' device: [device, event, None]; None for the CPU."""
        for a in args:
            if isinstance(a, Tensor):
                if a.is_cuda:
                    device = a._array.device
                    return [device, self._record(device), None]
            elif isinstance(a, (list, tuple)):
                timer = self.start(a)
                if timer is not None:
                    return timer
        return None

    def stop(self, timer: list) -> None:
        """Record the second event of a pair."""
        timer[2] = self._record(timer[0])

    def _record(self, device: Any) -> Any:
        index, cuda = device.id, self.cuda
        if index != cuda.get_device_id():  # events and the null stream belong to the current device
            with device:
                return self._record(device)
        spare = self.spare[index]
        event = spare.pop() if spare else cuda.Event()
        event.record(cuda.get_current_stream())
        return event

    def elapsed_us(self, timers: Mapping[int, list]) -> dict[int, tuple[int, float]]:
        """(device, microseconds) of each pair, after its work is done."""
        times = {}
        for key, (device, start, end) in timers.items():
            end.synchronize()
            times[key] = device.id, self.cuda.get_elapsed_time(start, end) * 1e3
            self.spare[device.id] += (start, end)
        return times
