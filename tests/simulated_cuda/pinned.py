"""Page-locked host memory: copies from and to it are done when their turn comes, not when they are submitted."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

_pinned: weakref.WeakValueDictionary[int, PinnedMemoryPointer] = weakref.WeakValueDictionary()


class PinnedMemory:
    """Page-locked host memory."""

    def __init__(self, size: int, flags: int = 0):
        self._size, self._flags = size, flags
        self.ptr = 0


class PinnedMemoryPointer(bytearray):
    """Page-locked bytes; NumPy arrays are made on it by ``numpy.frombuffer``."""

    def __new__(cls, mem: PinnedMemory, offset: int = 0):
        return super().__new__(cls)

    def __init__(self, mem: PinnedMemory, offset: int = 0):
        super().__init__(max(mem._size, 1))
        self.mem = mem
        self.ptr = self._start = np.frombuffer(self, np.uint8).__array_interface__["data"][0]
        mem.ptr = self.ptr
        _pinned[self.ptr] = self

    def __int__(self) -> int:
        return self.ptr

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def size(self) -> int:
        return self.mem._size


class PinnedMemoryPool:
    """Pinned memory that is kept for the next caller; here it is made anew."""

    def malloc(self, size: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(PinnedMemory(size))

    def free_all_blocks(self) -> None: ...

    def n_free_blocks(self) -> int:
        return 0


default_pinned_pool = PinnedMemoryPool()
_pinned_allocator: list = [default_pinned_pool.malloc]


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    return _pinned_allocator[0](size)


def set_pinned_memory_allocator(allocator: Any = None) -> None:
    _pinned_allocator[0] = allocator or PinnedMemoryPool().malloc


def is_pinned(address: int) -> bool:
    """Whether a host address lies in page-locked memory."""
    return any(p.ptr <= address < p.ptr + len(p) for p in list(_pinned.values()))
