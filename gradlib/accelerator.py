"""``torch.accelerator``: the device that is not the CPU, whatever its kind; here CUDA's."""

from __future__ import annotations

from typing import Any

from . import cuda
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
    """``device("cuda")``, without an index; None where there is none and `check_available` asks.

    Example:
        >>> current_accelerator()
        device(type='cuda')
    """
    return None if check_available and not cuda.is_available() else device("cuda")
