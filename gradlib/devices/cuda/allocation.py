"""Allocation on CUDA devices: CuPy's pool, with peaks, and an error that tells what holds the memory.

The pool keeps an arena for each stream. When it can get no more, blocks that other streams were done with and free
blocks of all arenas are given back to the device, and the allocation is tried once more.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tape import source
from ...tape.memory import kept
from ...tape.modes import shared
from ...tape.node import Node
from ...tape.tensor import Tensor

UNIT = 1024.0


def maker(arrays: Any) -> Callable[..., Any]:
    """``f(shape, dtype)``: an uninitialised array of the class `arrays`, which is an array library's.

    CuPy's class is called with anything that arrays, and classes made from it, may be made from; it looks at that for
    longer than it makes an array of a shape and a dtype. So those two parts of its own are called themselves, if they
    are what they are in CuPy 13 and 14; where they are not, it is the class. Generated code calls them itself: they are
    the attribute `parts` of the function.
    """
    base = arrays.__base__
    start = base.__dict__.get("_init")
    if start is None:
        return arrays
    begin = base.__new__

    def make(shape: Any, dtype: Any = float, order: str = "C") -> Any:
        made = begin(arrays)
        start(made, shape, dtype, None, None, order)
        return made

    try:
        tried = make((0, 2), np.dtype("i2"), "F")
        as_wanted = tried.__class__, tried.shape, tried.strides, tried.dtype, tried.size
    except Exception:  # a class of another library, or a later one
        return arrays
    given = arrays((0, 2), np.dtype("i2"), order="F")
    if as_wanted != (arrays, given.shape, given.strides, given.dtype, 0):
        return arrays
    empty: Any = make
    empty.parts = begin, start
    return empty


class OutOfMemoryError(RuntimeError):
    """A CUDA device has not enough free memory for an allocation."""


class Allocator:
    """The allocator that CuPy is given: ``allocator(bytes) -> MemoryPointer``."""

    def __init__(self, cuda: Any, pool: Any):
        self.cuda, self.pool = cuda, pool
        self.peak_used: Counter[int] = Counter()  # device -> most bytes in use so far
        self.peak_held: Counter[int] = (
            Counter()
        )  # device -> most bytes taken from the device so far
        self.lowest = [0]  # the smallest of `peak_used` of all devices: most are below even that
        self.take = self._taker()

    def __call__(self, size: int) -> Any:
        return self.take(size)

    def _taker(self) -> Callable[[int], Any]:
        """The allocator as a plain function, which every new array calls: it looks nothing up."""
        malloc, used, device = (
            self.pool.malloc, self.pool.used_bytes, self.cuda.runtime.getDevice
        )  # fmt: skip
        full, peak, lowest = self.cuda.memory.OutOfMemoryError, self.peak_used, self.lowest

        def take(size: int) -> Any:
            try:
                memory = malloc(size)
            except full:
                memory = self._again(size)
            now = used()
            if now > lowest[0] and now > peak[device()]:
                self._new_peak()
            return memory

        return take

    def _new_peak(self) -> None:
        device = self.cuda.runtime.getDevice()
        self.peak_held[device] = max(self.peak_held[device], self.pool.total_bytes())
        self._set_peak(device, self.pool.used_bytes())

    def _set_peak(self, device: int, used: int) -> None:
        self.peak_used[device] = used
        devices = range(self.cuda.runtime.getDeviceCount())
        self.lowest[0] = min([self.peak_used[d] for d in devices], default=0)

    def restart_peaks(self, device: int, used: int, held: int) -> None:
        """Let the peaks of a device start again from these bytes in use and taken from it."""
        self.peak_held[device] = held
        self._set_peak(device, used)

    def _again(self, size: int) -> Any:
        if shared.cuda is not None:
            shared.cuda.sweep()
        gc.collect()
        self.pool.free_all_blocks()
        try:
            return self.pool.malloc(size)
        except self.cuda.memory.OutOfMemoryError as exc:
            raise OutOfMemoryError(self._report(size)) from exc

    def _report(self, size: int) -> str:
        device = self.cuda.runtime.getDevice()
        free, total = self.cuda.runtime.memGetInfo()
        used, held = self.pool.used_bytes(), self.pool.total_bytes()
        limit = self.pool.get_limit()
        lines = [
            f"CUDA out of memory. Tried to allocate {readable(size)}. GPU {device} has a total capacity of "
            f"{readable(total)} of which {readable(free)} is free. {readable(used)} is in use by arrays of this "
            f"process, {readable(held - used)} is reserved but unused"
            + (f"; the pool's limit is {readable(limit)}." if limit else ".")
        ]
        rows = held_by_line(device)
        if rows:
            lines.append("What holds it, by the line that made it:")
            lines += [f"  {readable(n):>10}  {count:>5} x  {line}" for line, n, count in rows[:8]]
        return "\n".join(lines)


def readable(n: float) -> str:
    """A number of bytes for people: "512 B", "1.50 GiB"."""
    for unit in ("B", "KiB", "MiB"):
        if n < UNIT:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.2f} {unit}"
        n /= UNIT
    return f"{n:.2f} GiB"


def held_by_line(device: int) -> list[tuple[str, int, int]]:
    """(line, bytes, arrays) for all memory on a device that tensors and graphs hold, largest first.

    It walks all objects of the process: for error reports and for people, not for loops.
    """

    found: dict[int, tuple[str, int]] = {}  # address of a block -> (line, bytes)

    def add(array: Any, line: str) -> None:
        data: Any = getattr(array, "data", None)
        if getattr(data, "device_id", None) == device:
            found.setdefault(data.mem.ptr, (line, int(data.mem.size)))

    for thing in gc.get_objects():
        kind = type(thing)  # isinstance would ask foreign objects for __class__, and run their code
        if issubclass(kind, Tensor):
            node = thing._fn
            if node is not None:
                add(thing._array, _line(node))
            else:
                shape = "x".join(map(str, thing._array.shape))
                add(thing._array, f"leaves and constants of shape {shape or '()'}")
                if thing._grad is not None:
                    add(thing._grad._array, "gradients in .grad")
        elif issubclass(kind, Node) and thing.op is not None:
            for array in kept(thing):
                add(array, f"saved for backward at {_line(thing)}")
    total: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for line, n in found.values():
        total[line] += n
        count[line] += 1
    return [(line, n, count[line]) for line, n in total.most_common()]


def _line(node: Any) -> str:
    return source.describe(node.site).split("\n", 1)[0]
