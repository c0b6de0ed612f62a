"""Memory of CUDA devices: how much arrays use, how much the pool holds, peaks, limits. All sizes are in bytes."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ..devices.cuda.allocation import OutOfMemoryError, held_by_line, readable
from ..devices.cuda.library import index_of, library
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
    """The bytes that arrays on a device use now.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     before = gradlib.cuda.memory_allocated()
        ...     x = gradlib.ones(1024, device="cuda")
        ...     assert gradlib.cuda.memory_allocated() - before == 4096
    """
    with _on(device):
        return int(_pool().used_bytes())


def memory_reserved(device: Any = None) -> int:
    """The bytes that the pool has taken from a device: those in use and those kept for reuse.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    with _on(device):
        return int(_pool().total_bytes())


def max_memory_allocated(device: Any = None) -> int:
    """The largest `memory_allocated` since the start or since `reset_peak_memory_stats`, in bytes.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     gradlib.cuda.reset_peak_memory_stats()
        ...     loss = model(x).sum()
        ...     loss.backward()
        ...     peak = gradlib.cuda.max_memory_allocated()  # of this step
    """
    return max(get_backend().allocator.peak_used[index_of(device)], memory_allocated(device))


def max_memory_reserved(device: Any = None) -> int:
    """The largest `memory_reserved` since the start or since `reset_peak_memory_stats`, in bytes.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    return max(get_backend().allocator.peak_held[index_of(device)], memory_reserved(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start again from what is in use now.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    index = index_of(device)
    get_backend().allocator.restart_peaks(index, memory_allocated(index), memory_reserved(index))


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Give the pool's free blocks back to the device, so that other programs can use them.

    Nothing happens while CUDA is not in use. It waits for the device, and the next allocations ask it again.
    """
    if shared.cuda is not None:
        shared.cuda.sweep()
        _pool().free_all_blocks()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of a device, as the driver counts them for all processes.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    with _on(device):
        free, total = library().runtime.memGetInfo()
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process use at most a part of a device's memory; more raises OutOfMemoryError.

    Args:
        fraction: 0 to 1.
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        ValueError: `fraction` is outside of [0, 1].
        RuntimeError: there is no CUDA device.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0.0-1.0")
    with _on(device):
        _pool().set_limit(size=int(mem_get_info(device)[1] * fraction))


def memory_stats(device: Any = None) -> dict[str, int]:
    """Figures of memory in bytes, under PyTorch's names.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Returns:
        A dict with allocated_bytes.all.current and .peak, reserved_bytes.all.current and .peak.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """What holds memory on a device, by line of the program, the largest first.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Returns:
        A list of dicts with "line" (of the program that made the arrays), "bytes" and "arrays" (how many).

    Raises:
        RuntimeError: there is no CUDA device.
    """
    return [
        {"line": line, "bytes": n, "arrays": count}
        for line, n, count in held_by_line(index_of(device))
    ]


__getattr__ = refuse(__name__)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The figures of `memory_stats` and of `memory_snapshot`, as text to print.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.
        abbreviated: leave out the lines of the program.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    rows = [f"memory of cuda:{index_of(device)}"]
    rows += [f"  {name:<30}{readable(n):>12}" for name, n in memory_stats(device).items()]
    if not abbreviated:
        rows += [f"  {readable(r['bytes']):>12}  {r['line']}" for r in memory_snapshot(device)]
    return "\n".join(rows)


_raw: dict[int, Any] = {}


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Take memory from the pool for another library; `caching_allocator_delete` gives it back.

    Args:
        size: in bytes.
        device: a device, "cuda:1" or an index; None for the current one.
        stream: accepted; the memory belongs to the current one.

    Returns:
        The address.

    Raises:
        OutOfMemoryError: there is not enough.
    """
    with _on(device):
        memory = get_backend().allocator(size)
    _raw[memory.ptr] = memory
    return int(memory.ptr)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back what `caching_allocator_alloc` returned.

    Args:
        mem_ptr: the address.

    Raises:
        ValueError: it is none of those.
    """
    if _raw.pop(mem_ptr, None) is None:
        raise ValueError(f"{mem_ptr:#x} is no address that caching_allocator_alloc returned")
