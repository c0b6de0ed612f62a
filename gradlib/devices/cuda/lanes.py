"""CUDA streams as autograd sees them: which stream work goes to, what waits for what, when memory may be reused.

CuPy's memory pool reuses a freed block at once for the stream that allocated it. So work on one stream is always
safe, and two rules hold where a value crosses from stream P to stream S: S waits for an event recorded on P after the
value was made, and the value is kept (:func:`retire`) until an event recorded on S after its last use has completed.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from ...tape.modes import shared

SWEEP = 64  # so many retired values are looked through


class Lane:
    """A stream of a device. There is one object for each, so lanes are compared with ``is``."""

    __slots__ = ("__weakref__", "cuda", "device", "stream")

    def __init__(self, cuda: Any, device: int, stream: Any):
        self.cuda, self.device, self.stream = cuda, device, stream

    def record(self) -> Any:
        """An event that completes when all work queued here so far is done."""
        with self.cuda.Device(self.device):
            event = self.cuda.Event(disable_timing=True)
            event.record(self.stream)
        return event

    def wait(self, event: Any) -> None:
        """Let work queued here from now on start after `event`; the host does not wait."""
        with self.cuda.Device(self.device):
            self.stream.wait_event(event)

    def enter(self) -> None:
        """Make this the current stream, and its device the current device, of the calling thread."""
        self.cuda.Device(self.device).use()
        self.stream.use()

    def __repr__(self) -> str:
        return f"<lane cuda:{self.device} stream {self.stream.ptr:#x}>"


class Streams:
    """The streams of a CUDA library (CuPy, or what stands for it in tests)."""

    def __init__(self, cuda: Any):
        self.cuda = cuda
        self._device, self._stream = cuda.runtime.getDevice, cuda.get_current_stream
        self.array: Any = None  # the class of the library's arrays; set by the backend
        self._lanes: Any = weakref.WeakValueDictionary()  # (device, stream pointer) -> Lane
        # (device, stream pointer, Lane) that was asked for last: mostly the next one, too. One tuple, so that threads
        # never see half of another's.
        self._last: tuple = (None, None, None)
        self._retired: deque[tuple[Any, Any]] = deque()  # (values, event after their last use)
        self._sweep_at = SWEEP
        self._guarded: dict[
            int, set[Lane]
        ] = {}  # id of an array -> the lanes that may read it when it dies
        # While a graph is captured: what has to live as long as the graph. Its events cannot be asked whether they are
        # done, and its work is done again.
        self.held: list[Any] | None = None

    def current(self, device: int | None = None) -> Lane:
        """The lane of the current stream of `device`, by default the current device."""
        index: int = self._device() if device is None else device
        stream = self._stream(index)
        last = self._last
        if last[1] == stream.ptr and last[0] == index:
            return last[2]
        return self.lane(index, stream)

    def lane(self, device: int, stream: Any) -> Lane:
        key = (device, stream.ptr)
        found = self._lanes.get(key)
        if found is None:
            found = self._lanes[key] = Lane(self.cuda, device, stream)
        self._last = (*key, found)
        return found

    def position(self) -> list[Lane]:
        """What is current in this thread, for :meth:`restore` in another: streams, the current device's last.

        Devices with their default stream are left out: to enter them would start CUDA on devices that are not used.
        """
        cuda, here = self.cuda, self.cuda.runtime.getDevice()
        others = [d for d in range(cuda.runtime.getDeviceCount()) if d != here]
        chosen = [d for d in others if cuda.get_current_stream(d).ptr != cuda.Stream.null.ptr]
        return [self.current(d) for d in (*chosen, here)]

    def restore(self, position: list[Lane]) -> None:
        for lane in position:
            lane.enter()

    def retire(self, values: Any, lane: Lane) -> None:
        """Keep `values` until the work queued on `lane` so far, which may still read them, is done."""
        if self.held is not None:
            self.held.append(values)
            return
        self._retired.append((values, lane.record()))
        if len(self._retired) >= self._sweep_at:
            self.sweep()
            self._sweep_at = max(SWEEP, 2 * len(self._retired))

    def guard(self, array: Any, lane: Lane) -> None:
        """When `array` dies, keep its memory for what `lane` has queued by then; it belongs to another stream."""
        key = id(array)
        if key not in self._guarded:
            self._guarded[key] = set()
            weakref.finalize(array, self._died, key, array.data.mem).atexit = False
        self._guarded[key].add(lane)

    def _died(self, key: int, memory: Any) -> None:
        lanes = self._guarded.pop(key)
        if shared.cuda is self:
            for lane in lanes:
                self.retire(memory, lane)

    def elsewhere(self, array: Any) -> Any:
        """A context manager that makes the device of `array` current; None if it is already."""
        device = array.data.device_id
        if device is None or device == self.cuda.runtime.getDevice():  # None: of no CUDA device
            return None
        return self.cuda.Device(device)

    def sweep(self) -> None:
        """Let go of what is no longer read. Never waits."""
        if self.held is not None:
            return
        retired = self._retired
        for _ in range(len(retired)):
            try:
                entry = retired.popleft()
            except IndexError:  # letting go may sweep, too, and so may another thread
                return
            if not entry[1].done:
                retired.append(entry)
