"""Python's pool of processes, under PyTorch's name."""

from __future__ import annotations

from multiprocessing.pool import Pool

from .._refused import refuse

__all__ = ["Pool"]
__getattr__ = refuse(__name__)
