"""CUDA devices. Everything here answers on a machine without one; only using a device needs CuPy."""

from __future__ import annotations

import importlib
from typing import Any

from .._refused import refuse as _refuse
from ..devices.cuda.library import (
    current_device,
    device_count,
    is_available,
    is_initialized,
    synchronize,
)
from .devices import (
    DeviceProperties,
    can_device_access_peer,
    device,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_bf16_supported,
    set_device,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

# Names that are looked up on first use: module -> names.
_LAZY = {
    "random": (
        "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
        "set_rng_state", "set_rng_state_all",
    ),
    "memory": (
        "OutOfMemoryError", "caching_allocator_alloc", "caching_allocator_delete", "empty_cache",
        "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
        "memory_snapshot", "memory_stats", "memory_summary", "reset_max_memory_allocated", "reset_peak_memory_stats",
        "set_per_process_memory_fraction",
    ),
    "tensors": (
        "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
        "IntTensor", "LongTensor", "ShortTensor",
    ),
    "capturing": ("CaptureError", "Captured", "Finding", "capture", "dry_run"),
    "graphs": (
        "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables",
    ),
    "monitor": (
        "clock_rate", "device_memory_used", "memory_usage", "power_draw", "temperature", "utilization",
    ),
}  # fmt: skip
_absent = _refuse(__name__)
_WHERE = {name: module for module, names in _LAZY.items() for name in names}
_MODULES = {"amp", "graphs", "memory", "monitor", "nvtx", "profiler", "random", "sanitizer"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    return _absent(name)
