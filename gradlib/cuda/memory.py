"""Memory of CUDA devices: how much arrays use, how much the pool holds, peaks, limits. All sizes are in bytes."""

from __future__ import annotations

from typing import Any

from ..devices.cuda.library import index_of, library
from ..devices.cuda.memory import OutOfMemoryError, held_by_line, readable
from ..devices.cuda.namespace import get_backend
from ..tape.modes import shared

__all__ = [
    "OutOfMemoryError", "caching_allocator_alloc", "caching_allocator_delete", "empty_cache", "max_memory_allocated",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_summary", "reset_max_memory_allocated", "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def _pool() -> Any:
    return get_backend().allocator.pool


def _on(device: Any) -> Any:
    return library().Device(index_of(device))


def memory_allocated(device: Any = None) -> int:
    """The bytes that arrays on `device` use now."""
    with _on(device):
        return int(_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """The bytes that the pool has taken from `device`: those in use and those kept for reuse."""
    with _on(device):
        return int(_pool().total_bytes())


def max_memory_allocated(device: Any = None) -> int:
    """The largest `memory_allocated` since the start or since `reset_peak_memory_stats`."""
    return max(get_backend().allocator.peak_used[index_of(device)], memory_allocated(device))


def max_memory_reserved(device: Any = None) -> int:
    """The largest `memory_reserved` since the start or since `reset_peak_memory_stats`."""
    return max(get_backend().allocator.peak_held[index_of(device)], memory_reserved(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start again from what is in use now."""
    allocator, index = get_backend().allocator, index_of(device)
    allocator.peak_used[index] = memory_allocated(index)
    allocator.peak_held[index] = memory_reserved(index)


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Give the pool's free blocks back to the device, so that other programs can use them."""
    if shared.cuda is not None:
        shared.cuda.sweep()
        _pool().free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of a device, as the driver counts them for all processes."""
    with _on(device):
        free, total = library().runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process use at most this part (0 to 1) of a device's memory; more raises OutOfMemoryError."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0.0-1.0")
    with _on(device):
        _pool().set_limit(size=int(mem_get_info(device)[1] * fraction))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Figures under PyTorch's names: allocated_bytes.all.current and .peak, reserved_bytes.all.current and .peak."""
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """What holds memory on a device: a dict with line, bytes and arrays for each line of the program, largest first."""
    return [
        {"line": line, "bytes": n, "arrays": count}
        for line, n, count in held_by_line(index_of(device))
    ]


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The figures of `memory_stats` and, unless `abbreviated`, of `memory_snapshot`, as text."""
    rows = [f"memory of cuda:{index_of(device)}"]
    rows += [f"  {name:<30}{readable(n):>12}" for name, n in memory_stats(device).items()]
    if not abbreviated:
        rows += [f"  {readable(r['bytes']):>12}  {r['line']}" for r in memory_snapshot(device)]
    return "\n".join(rows)


_raw: dict[int, Any] = {}


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Take `size` bytes from the pool for another library; returns the address."""
    with _on(device):
        memory = get_backend().allocator(size)
    _raw[memory.ptr] = memory
    return int(memory.ptr)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back what `caching_allocator_alloc` returned."""
    if _raw.pop(mem_ptr, None) is None:
        raise ValueError(f"{mem_ptr:#x} is no address that caching_allocator_alloc returned")
