"""Streams and events. Work on one stream runs in order; streams run side by side unless an event orders them."""

from __future__ import annotations

from typing import Any

from ..devices.cuda.library import index_of, library
from ..tape.device import device as _Device
from ..tape.device import stored as _stored
from ..tape.modes import shared
from .devices import device


class Stream:
    """A queue of work on a device, independent of the default stream.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.
        priority: 0, or -1 for work that goes first.

    Raises:
        RuntimeError: there is no CUDA device, or none with that index.
        ValueError: `device` is no CUDA device.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     x = gradlib.ones(1000, device="cuda")
        ...     s = gradlib.cuda.Stream()
        ...     s.wait_stream(gradlib.cuda.current_stream())  # x is ready
        ...     with gradlib.cuda.stream(s):
        ...         y = x * 2
        ...     gradlib.cuda.current_stream().wait_stream(s)  # before y is used here
        ...     assert y.sum().item() == 2000
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any):
        if "stream_ptr" in kwargs:
            raise TypeError("Stream() takes no stream_ptr; use ExternalStream(pointer, device)")
        index = index_of(device)
        cuda = library()
        with cuda.Device(index):
            self._set(index, cuda.Stream(non_blocking=True, priority=priority))

    def _set(self, index: int, stream: Any) -> None:
        self._index, self._stream = index, stream

    @classmethod
    def _of(cls, index: int, stream: Any) -> Stream:
        made = object.__new__(Stream)
        made._set(index, stream)
        return made

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def device(self) -> _Device:
        """The device of the stream."""
        return _Device("cuda", self._index)

    @property
    def device_index(self) -> int:
        """The index of the stream's device."""
        return self._index

    @property
    def cuda_stream(self) -> int:
        """The address of the CUDA stream, for other libraries."""
        return self._stream.ptr

    stream_id = cuda_stream

    @property
    def priority(self) -> int:
        """The priority: the lower the number, the earlier its work is done; 0 is the usual one."""
        return int(self._stream.priority)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream.ptr

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self._index, self.cuda_stream) == (other._index, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self._index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<gradlib.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    # -- order -------------------------------------------------------------------------------------------------------

    def wait_event(self, event: Event) -> None:
        """Work queued here from now on starts after `event`; the host does not wait.

        Args:
            event: nothing happens if it was never recorded.
        """
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work queued here from now on starts after what is in `stream` now; the host does not wait.

        Args:
            stream: of any device.
        """
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after what is in this stream now.

        Args:
            event: the event; a new one if None.

        Returns:
            The event.
        """
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work queued here is done; does not wait.

        Memory that it used may be written from the host then.
        """
        return bool(self._stream.done)

    def synchronize(self) -> None:
        """Wait on the host until all work queued here is done.

        Raises:
            RuntimeError: some of it failed.
        """
        self._stream.synchronize()

    def __enter__(self) -> Stream:
        self._entered = getattr(self, "_entered", [])
        self._entered.append(StreamContext(self))
        self._entered[-1].__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._entered.pop().__exit__(*exc)


class ExternalStream(Stream):
    """A stream that another library made, by its address; that library keeps it alive.

    Args:
        stream_ptr: the address of the CUDA stream.
        device: where it is; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
    """

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any):
        index = index_of(device)
        cuda = library()
        with cuda.Device(index):
            self._set(index, cuda.Stream.from_external(_Address(stream_ptr)))


class _Address:
    """A stream's address as CuPy takes it, by the protocol of CUDA's Python libraries (version 0)."""

    def __init__(self, pointer: int):
        self.pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


class Event:
    """A mark in a stream that can be waited for, and timed.

    Args:
        enable_timing: whether `elapsed_time` can be asked.
        blocking: whether `synchronize` lets the processor do other things while it waits.
        interprocess: not supported.

    Raises:
        NotImplementedError: `interprocess`.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     start, end = (gradlib.cuda.Event(enable_timing=True) for _ in range(2))
        ...     start.record()
        ...     y = gradlib.randn(1000, 1000, device="cuda").exp()
        ...     end.record()
        ...     end.synchronize()
        ...     assert start.elapsed_time(end) > 0  # milliseconds
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ):
        if interprocess:
            raise NotImplementedError(
                "gradlib.cuda.Event: events between processes are not supported"
            )
        self._timing, self._blocking = enable_timing, blocking
        self._index: int | None = None  # the device, known when the event is first recorded
        self._event: Any = None

    @property
    def device(self) -> _Device | None:
        """The device that the event was first recorded on; None before."""
        return None if self._index is None else _Device("cuda", self._index)

    @property
    def cuda_event(self) -> int:
        """The address of the CUDA event; 0 before it is recorded."""
        return 0 if self._event is None else self._event.ptr

    def record(self, stream: Stream | None = None) -> None:
        """Put this mark after what is in a stream now; an earlier place is forgotten.

        Args:
            stream: the stream; the current one if None.

        Raises:
            RuntimeError: the event was recorded on another device before.
        """
        stream = current_stream() if stream is None else stream
        cuda = library()
        if self._event is None:
            with cuda.Device(stream._index):
                self._event = cuda.Event(block=self._blocking, disable_timing=not self._timing)
            self._index = stream._index
        elif self._index != stream._index:
            raise RuntimeError(
                f"Event device {self._index} does not match recording stream's device {stream._index}."
            )
        with cuda.Device(stream._index):
            self._event.record(stream._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for this event; nothing if it was never recorded. The host does not wait.

        Args:
            stream: the stream; the current one if None.
        """
        stream = current_stream() if stream is None else stream
        if self._event is not None:
            with library().Device(stream._index):
                stream._stream.wait_event(self._event)

    def query(self) -> bool:
        """Whether all work before this mark is done; True if it was never recorded. Does not wait.

        What the work wrote may be read then.
        """
        return True if self._event is None else bool(self._event.done)

    def synchronize(self) -> None:
        """Wait on the host until the work before this mark is done; nothing if it was never recorded.

        Raises:
            RuntimeError: some of it failed.
        """
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`, with a resolution of about half a microsecond.

        Raises:
            ValueError: one has no timing, or is not recorded.
            RuntimeError: one is not reached yet.
        """
        if not (self._timing and end_event._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError(
                "Both events must be completed before calculating elapsed time. Call end_event.synchronize() first."
            )
        return float(library().get_elapsed_time(self._event, end_event._event))

    def ipc_handle(self) -> bytes:
        """Refuse: events between processes are not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("gradlib.cuda.Event: events between processes are not supported")

    def __repr__(self) -> str:
        return (
            f"<gradlib.cuda.Event {self.cuda_event:#x}>"
            if self._event
            else "<gradlib.cuda.Event uninitialized>"
        )


class StreamContext:
    """Make a stream current for a block, and its device; what was current before comes back.

    Args:
        stream: None changes nothing.
    """

    def __init__(self, stream: Stream | None):
        self.stream = stream
        self._inner: Any = None
        self._previous: Any = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        index = self.stream._index
        self._inner = device(index)
        self._inner.__enter__()
        self._previous = library().get_current_stream(index)
        self.stream._stream.use()

    def __exit__(self, *exc: Any) -> None:
        if self.stream is None:
            return
        with library().Device(self.stream._index):
            self._previous.use()
        self._inner.__exit__(*exc)


def stream(stream: Stream | None) -> StreamContext:
    """A context manager in which a stream is current: what `StreamContext` makes.

    Args:
        stream: None changes nothing.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     s = gradlib.cuda.Stream()
        ...     with gradlib.cuda.stream(s):
        ...         assert gradlib.cuda.current_stream() == s
    """
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make `stream` (and its device) current in this thread; a `with` block is safer.

    Args:
        stream: None changes nothing.
    """
    if stream is not None:
        library().Device(stream._index).use()
        stream._stream.use()


def current_stream(device: Any = None) -> Stream:
    """The stream that work on a device goes to in this thread.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
        ValueError: `device` is no CUDA device.
    """
    index = index_of(device)
    return Stream._of(index, library().get_current_stream(index))


def default_stream(device: Any = None) -> Stream:
    """The stream that work on a device goes to when no other is chosen.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    return Stream._of(index_of(device), library().Stream.null)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream of another library, by its address: an `ExternalStream`.

    Args:
        data_ptr: the address of the CUDA stream; that library keeps it alive.
        device: where it is; None for the current one.
    """
    return ExternalStream(data_ptr, device)


def record_stream(tensor: Any, stream: Stream) -> None:
    """Tell that work in `stream` reads `tensor`: its memory is not reused before what `stream` holds when it dies.

    Needed where a tensor made on one stream is used on another and may be freed while that work is still queued.
    """
    if not tensor.is_cuda:
        raise RuntimeError(
            f"record_stream() needs a CUDA tensor, but the tensor is on {tensor.device}"
        )
    shared.cuda.guard(_stored(tensor._array), shared.cuda.lane(stream._index, stream._stream))
