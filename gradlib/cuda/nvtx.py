"""NVTX ranges and marks, which Nsight Systems and nvprof show on their timelines.

They go out through the nvtx package (``pip install 'gradlib[profile]'``) or, without it, through CuPy. With neither,
and with no profiler attached, every function here does nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from ..devices.cuda.nvtx import connect

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Depth(threading.local):
    """How many ranges `range_push` has open in this thread."""

    open = 0


_depth = _Depth()


def range_push(msg: str) -> int:
    """Open a range inside those that this thread has open.

    Args:
        msg: its text.

    Returns:
        Its depth, counted from 0.

    Example:
        >>> depth = gradlib.cuda.nvtx.range_push("step")
        >>> gradlib.cuda.nvtx.range_pop() == depth
        True
    """
    emitter = connect(None)
    if emitter is not None:
        emitter.push(msg)
    _depth.open += 1
    return _depth.open - 1


def range_pop() -> int:
    """Close the range that this thread opened last with `range_push`.

    Returns:
        Its depth, -1 if none was open.

    Example:
        >>> range_push("step")
        0
        >>> range_pop()
        0
    """
    if _depth.open == 0:
        return -1
    _depth.open -= 1
    emitter = connect(None)
    if emitter is not None:
        emitter.pop()
    return _depth.open


def range_start(msg: str) -> int:
    """Open a range that another thread may close.

    Args:
        msg: its text.

    Returns:
        Its number, for `range_end`; 0 with no profiler attached.

    Example:
        >>> number = range_start("loading")
        >>> range_end(number)
    """
    emitter = connect(None)
    return 0 if emitter is None else emitter.start(msg)


def range_end(range_id: int) -> None:
    """Close the range with a number from `range_start`; in any thread.

    Args:
        range_id: the number.

    Example:
        >>> range_end(range_start("loading"))
    """
    emitter = connect(None)
    if emitter is not None:
        emitter.end(range_id)


def mark(msg: str) -> None:
    """Say that something happened at this moment: a point on the timeline.

    Args:
        msg: its text.

    Example:
        >>> mark("half of the data")
    """
    emitter = connect(None)
    if emitter is not None:
        emitter.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block, or around a function as its decorator.

    msg: its text; further arguments go into it by ``msg.format``.

    Example:
        >>> with gradlib.cuda.nvtx.range("batch {}", 7):
        ...     loss = model(batch)
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
