"""``torch.accelerator``: the device that is not the CPU, whatever its kind; here CUDA's."""

from __future__ import annotations

from typing import Any

from . import cuda, version
from ._refused import refuse
from .cuda import current_device as current_device_index
from .cuda import (
    current_stream,
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    set_stream,
    synchronize,
)
from .cuda import device as device_index
from .cuda import mem_get_info as get_memory_info
from .cuda import set_device as set_device_index
from .tape.device import device

current_device_idx, set_device_idx = current_device_index, set_device_index  # their older names

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_index",
    "set_stream",
    "synchronize",
]
__getattr__ = refuse(__name__)


def current_accelerator(check_available: bool = False) -> Any:
    """``device("cuda")``, without an index; None where CuPy is not installed: PyTorch's without CUDA has none, either.

    Args:
        check_available: whether it is None, too, where CuPy is installed but finds no device.

    Example:
        >>> gradlib.accelerator.current_accelerator() in (None, gradlib.device("cuda"))
        True
    """
    there = cuda.is_available() or (not check_available and version.cuda is not None)
    return device("cuda") if there else None
