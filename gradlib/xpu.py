"""Intel's GPUs, which gradlib does not drive: programs that ask are told that there are none."""

from __future__ import annotations

from ._no_device import (
    device_count,
    empty_cache,
    get_rng_state_all,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    manual_seed,
    manual_seed_all,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    seed,
    seed_all,
    set_rng_state_all,
)
from ._refused import refuse

__all__ = [
    "device_count",
    "empty_cache",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "seed",
    "seed_all",
    "set_rng_state_all",
]
__getattr__ = refuse(__name__, whole=True)
