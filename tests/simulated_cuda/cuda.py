"""``cupy.cuda``: devices, streams, events, graphs."""

from __future__ import annotations

import threading
import time
from typing import Any

from .machine import LEGACY, PER_THREAD, CUDARuntimeError, EventState, machine
from .memory import used


class Device:
    """``Device(1)``; as a context it is the current device."""

    def __init__(self, device: Any = None):
        self.id = machine.device if device is None else int(device)
        self._before: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __lt__(self, other) -> bool:
        return self.id < other.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        self._before.append(machine.device)
        machine.set_device(self.id)
        return self

    def __exit__(self, *exc) -> None:
        machine.set_device(self._before.pop())

    def use(self) -> None:
        machine.set_device(self.id)

    def synchronize(self) -> None:
        machine.synchronize_device(self.id)

    @property
    def mem_info(self) -> tuple[int, int]:
        return machine.memory - used.bytes.get(self.id, 0), machine.memory

    compute_capability = "90"
    pci_bus_id = "0000:00:1E.0"

    @property
    def attributes(self) -> dict[str, int]:
        return {"MultiProcessorCount": 132, "MaxThreadsPerBlock": 1024, "WarpSize": 32}


def get_device_id() -> int:
    return machine.device


class _Current(threading.local):
    """The current stream of this thread, for each device."""

    def __init__(self) -> None:
        self.machine: Any = None
        self.streams: dict[int, Any] = {}
        self.stack: list[tuple[int, Any]] = []


_current = _Current()


def _mine() -> _Current:
    if _current.machine is not machine.queues:  # another machine: its streams are gone
        _current.machine, _current.streams, _current.stack = machine.queues, {}, []
    return _current


def get_current_stream(device_id: int = -1) -> Any:
    index = machine.device if device_id < 0 else device_id
    return _mine().streams.get(index) or Stream.null


class _BaseStream:
    def __init__(self, ptr: int, device_id: int):
        self.ptr, self.device_id = ptr, device_id
        self._host_funcs: list = []

    def __eq__(self, other) -> bool:
        return isinstance(other, _BaseStream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def _match(self) -> int:
        here = machine.device
        if self.device_id not in (-1, here):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id}) does not match with the current "
                f"device ({here})"
            )
        return here

    def __enter__(self):
        index, mine = self._match(), _mine()
        mine.stack.append((index, mine.streams.get(index)))
        mine.streams[index] = self
        return self

    def __exit__(self, *exc) -> None:
        mine = _mine()
        index, before = mine.stack.pop()
        mine.streams[index] = before

    def use(self):
        _mine().streams[self._match()] = self
        return self

    @property
    def _queue(self):
        return machine.queue(self.ptr)

    @property
    def done(self) -> bool:
        return machine.idle(self._queue)

    def synchronize(self) -> None:
        machine.synchronize(self._queue)

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        machine.record(event._state, self._queue)
        return event

    def wait_event(self, event: Event) -> None:
        machine.wait(self._queue, event._state)

    def launch_host_func(self, callback, arg) -> None:
        machine.submit(lambda: callback(arg), self._queue, "host function")

    def add_callback(self, callback, arg) -> None:
        if self.is_capturing():
            raise CUDARuntimeError(900)
        machine.submit(lambda: callback(self, 0, arg), self._queue, "callback")

    def begin_capture(self, mode: int | None = None) -> None:
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        machine.begin_capture(self._queue, 2 if mode is None else mode)

    def end_capture(self) -> Graph:
        return Graph(machine.end_capture(self._queue))

    def is_capturing(self) -> bool:
        capture = self._queue.capture
        if capture is not None and capture.broken:
            raise RuntimeError(
                "the stream was capturing, but an error has invalidated the capture sequence"
            )
        return capture is not None

    @property
    def is_non_blocking(self) -> bool:
        return not self._queue.blocking

    @property
    def priority(self) -> int:
        return self._queue.priority


class Stream(_BaseStream):
    """``Stream(null=False, non_blocking=False, ptds=False, priority=None)``"""

    null: Any = None
    ptds: Any = None

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self._owned = False
        if null:
            super().__init__(LEGACY, -1)
        elif ptds:
            super().__init__(PER_THREAD, -1)
        else:
            super().__init__(machine.create_stream(not non_blocking, priority or 0), machine.device)
            self._owned, self._machine = True, machine.queues

    def __del__(self) -> None:
        if getattr(self, "_owned", False) and self._machine is machine.queues:
            machine.destroy_stream(self.ptr)

    @classmethod
    def from_external(cls, obj):
        return ExternalStream(obj.__cuda_stream__()[1])


class ExternalStream(_BaseStream):
    def __init__(self, ptr: int, device_id: int = -1):
        super().__init__(ptr, machine.device if device_id < 0 else device_id)


Stream.null, Stream.ptds = Stream(null=True), Stream(ptds=True)


class Event:
    """``Event(block=False, disable_timing=False, interprocess=False)``"""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        self._state = EventState(timing=not disable_timing)
        self.ptr = machine.new_handle()
        machine.events[self.ptr] = self._state

    def __del__(self) -> None:
        machine.events.pop(getattr(self, "ptr", 0), None)

    @property
    def done(self) -> bool:
        return machine.event_done(self._state)

    def record(self, stream: _BaseStream | None = None) -> None:
        machine.record(self._state, (stream or get_current_stream())._queue)

    def synchronize(self) -> None:
        machine.event_synchronize(self._state)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds between two recorded events that are done."""
    return elapsed(start_event._state, end_event._state)


def elapsed(start: EventState, end: EventState) -> float:
    for e in (start, end):
        if not e.timing or not e.recorded or e.captured is not None:
            raise CUDARuntimeError(400)
        if e.op is not None and not e.op.done:
            raise CUDARuntimeError(600)
    assert start.time is not None and end.time is not None
    return (end.time - start.time) * 1e3


class Graph:
    """Work that was captured; each launch does it again."""

    def __init__(self, nodes: list):
        self._nodes = nodes
        self.graph, self.graphExec = machine.new_handle(), machine.new_handle()

    def __init_subclass__(cls) -> None: ...

    def launch(self, stream: Any = None) -> None:
        machine.replay(self._nodes, (stream or get_current_stream())._queue)

    def upload(self, stream: Any = None) -> None: ...

    def debug_dot_str(self, flags: int = 0) -> str:
        lines = [f'"{i}" [label="{label}"];' for i, (_, _, label) in enumerate(self._nodes)]
        lines += [f'"{d}" -> "{i}";' for i, (_, deps, _) in enumerate(self._nodes) for d in deps]
        return "digraph {\n" + "\n".join(lines) + "\n}"


def now() -> float:
    return time.perf_counter()
