"""Switching a profiler's recording on and off, for example ``nsys profile --capture-range=cudaProfilerApi``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..devices.cuda.library import library

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Let the attached profiler (``nsys profile --capture-range=cudaProfilerApi``) record.

    Raises:
        RuntimeError: it says what is missing without CUDA.
    """
    library().runtime.profilerStart()


def stop() -> None:
    """Let the attached profiler pause.

    Raises:
        RuntimeError: it says what is missing without CUDA.
    """
    library().runtime.profilerStop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Let the attached profiler record a block.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     with gradlib.cuda.profiler.profile(), gradlib.autograd.profiler.emit_nvtx():
        ...         y = model(x)
    """
    start()
    try:
        yield
    finally:
        stop()
