"""Python's queues between processes, under PyTorch's name."""

from __future__ import annotations

from multiprocessing.queues import Queue, SimpleQueue

from .._refused import refuse

__all__ = ["Queue", "SimpleQueue"]
__getattr__ = refuse(__name__)
