"""``torch.cpu``: the CPU as a device among others, for programs that are written for any."""

from __future__ import annotations

from typing import Any

from .._refused import refuse

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]
__getattr__ = refuse(__name__)


class Stream:
    """The order in which the CPU works: there is one, and it never waits.

    Args:
        priority: not used.
    """

    def __init__(self, priority: int = -1) -> None:
        """Nothing is kept."""

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: what was asked of the CPU before is done.

        Args:
            stream: of the CPU.
        """

    def record_event(self) -> Event:
        """An event, which has happened.

        Work on the CPU is done when its call returns.
        """
        return Event()

    def wait_event(self, event: Any) -> None:
        """Do nothing: the event has happened.

        Args:
            event: of the CPU.
        """


class Event:
    """A moment in the CPU's work, which is over.

    Args:
        enable_timing: not used.
    """

    def __init__(self, enable_timing: bool = False) -> None:
        """Nothing is kept."""

    def query(self) -> bool:
        """Whether it has happened: True.

        Work on the CPU is done when its call returns.
        """
        return True

    def record(self, stream: Any = None) -> None:
        """Do nothing: it has happened.

        Args:
            stream: of the CPU.
        """

    def synchronize(self) -> None:
        """Do nothing: it has happened.

        Work on the CPU is done when its call returns.
        """

    def wait(self, stream: Any = None) -> None:
        """Do nothing: it has happened.

        Args:
            stream: of the CPU.
        """


_current = Stream()


class StreamContext:
    """A context in which a stream is the current one.

    Args:
        stream: of the CPU; None leaves the current one.
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream, self._before = stream, _current

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self._before, _current = _current, self.stream

    def __exit__(self, *exc_info: object) -> None:
        global _current
        if self.stream is not None:
            _current = self._before


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream is the current one.

    Args:
        stream: of the CPU; None leaves the current one.
    """
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The current stream.

    Args:
        device: the CPU.
    """
    return _current


def synchronize(device: Any = None) -> None:
    """Do nothing: work on the CPU is done when its call returns.

    Args:
        device: the CPU.
    """


def is_available() -> bool:
    """Whether there is a CPU: True.

    Example:
        >>> gradlib.cpu.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Whether the CPU is in use: True.

    Example:
        >>> gradlib.cpu.is_initialized()
        True
    """
    return True


def device_count() -> int:
    """How many CPUs there are as devices: 1, whatever its cores.

    Example:
        >>> gradlib.cpu.device_count()
        1
    """
    return 1


def current_device() -> str:
    """The name of the current device.

    Example:
        >>> gradlib.cpu.current_device()
        'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one.

    Args:
        device: the CPU.
    """
