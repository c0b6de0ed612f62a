"""Meta's accelerators, which gradlib does not drive: programs that ask are told that there are none."""

from __future__ import annotations

from ._no_device import (
    device_count,
    get_rng_state_all,
    is_available,
    is_initialized,
    manual_seed,
    manual_seed_all,
    max_memory_allocated,
    memory_allocated,
    memory_stats,
    seed,
    seed_all,
)
from ._refused import refuse

__all__ = [
    "device_count",
    "get_rng_state_all",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "seed",
    "seed_all",
]
__getattr__ = refuse(__name__, whole=True)
