"""Device memory: pools with an arena for each stream, poisoned when freed; pinned host memory.

A block goes back to the arena of the stream that was current when it was allocated, at once, and whatever that stream
does next may overwrite it. So it is overwritten: freeing submits a write of 0xFF bytes (NaN, -1) to that stream.
Addresses are those of the process, so that pointers may be handed to code that runs on the CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from .machine import CUDARuntimeError, machine
from .pinned import is_pinned

UNIT = 512
POISON = 0xFF
_hooks = threading.local()


class OutOfMemoryError(MemoryError):
    """The device has less memory left than was asked for."""

    def __init__(self, size: int, total: int, limit: int = 0):
        self._size, self._total, self._limit = size, total, limit
        tail = f", limit set to: {limit:,} bytes" if limit else ""
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes{tail})."
        )


class BaseMemory:
    """Bytes on a device: ``ptr, size, device_id``; `raw` is the NumPy array behind them."""

    ptr = size = device_id = 0
    raw: np.ndarray = np.empty(0, np.uint8)
    identity = None

    @property
    def device(self):
        from .cuda import Device

        return Device(self.device_id)

    def __int__(self) -> int:
        return self.ptr


def aligned(size: int) -> np.ndarray:
    """Poisoned bytes that start at a multiple of UNIT."""
    store = np.full(size + UNIT, POISON, np.uint8)
    start = -store.__array_interface__["data"][0] % UNIT
    return store[start : start + size]


class _Used:
    """Bytes taken from the devices."""

    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}

    def take(self, device: int, size: int) -> None:
        if self.bytes.get(device, 0) + size > machine.memory:
            raise OutOfMemoryError(size, self.bytes.get(device, 0))
        self.bytes[device] = self.bytes.get(device, 0) + size

    def give(self, device: int, size: int) -> None:
        self.bytes[device] -= size


used = _Used()


class Memory(BaseMemory):
    """Memory straight from the device (cudaMalloc)."""

    def __init__(self, size: int):
        self.size, self.device_id = size, machine.device
        self._taken = 0
        if size:
            used.take(self.device_id, size)
            self._taken = size
            self.raw = aligned(size)
            self.ptr = self.raw.__array_interface__["data"][0]

    def __del__(self) -> None:
        if getattr(self, "_taken", 0) and used is not None:  # None: the interpreter is going
            used.give(self.device_id, self._taken)


class UnownedMemory(BaseMemory):
    """Memory that somebody else owns."""

    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1):
        self.ptr, self.size, self._owner = ptr, size, owner
        self.device_id = machine.device if device_id < 0 else device_id
        self.raw = host_bytes(ptr, size)


class Chunk:
    """A piece of a pool's memory: free, or used by one PooledMemory."""

    __slots__ = ("arena", "following", "free", "memory", "offset", "preceding", "size")

    def __init__(self, memory: Memory, offset: int, size: int, arena: Arena):
        self.memory, self.offset, self.size, self.arena = memory, offset, size, arena
        self.preceding: Chunk | None = None
        self.following: Chunk | None = None
        self.free = False

    @property
    def raw(self) -> np.ndarray:
        return self.memory.raw[self.offset : self.offset + self.size]

    def split(self, size: int) -> Chunk | None:
        """Keep the first `size` bytes; the rest, if there is one, is a new free chunk."""
        if self.size == size:
            return None
        rest = Chunk(self.memory, self.offset + size, self.size - size, self.arena)
        rest.preceding, rest.following = self, self.following
        if self.following is not None:
            self.following.preceding = rest
        self.following, self.size = rest, size
        return rest

    def merge(self, other: Chunk) -> None:
        """Take over the chunk that follows."""
        self.size += other.size
        self.following = other.following
        if other.following is not None:
            other.following.preceding = self


class Arena:
    """The chunks allocated while one stream was current."""

    def __init__(self, device: int, handle: int):
        self.device, self.handle = device, handle
        self.queue = machine.queue(handle, device)
        self.free: list[Chunk] = []

    def best(self, size: int) -> Chunk | None:
        fitting = [c for c in self.free if c.size >= size]
        if not fitting:
            return None
        found = min(fitting, key=lambda c: (c.size, c.offset))
        self.free.remove(found)
        found.free = False
        return found

    def put(self, chunk: Chunk) -> None:
        after, before = chunk.following, chunk.preceding
        if after is not None and after.free:
            self.free.remove(after)
            chunk.merge(after)
        if before is not None and before.free:
            self.free.remove(before)
            before.merge(chunk)
            chunk = before
        chunk.free = True
        self.free.append(chunk)


class PooledMemory(BaseMemory):
    """What a pool hands out; it goes back when the last reference to it is gone."""

    def __init__(self, pool: MemoryPool, chunk: Chunk):
        self._pool, self._chunk = weakref.ref(pool), chunk
        self.raw, self.size, self.device_id = chunk.raw, chunk.size, chunk.arena.device
        self.ptr = self.raw.__array_interface__["data"][0]
        self.identity = weakref.ref(pool)

    def free(self) -> None:
        chunk, self._chunk = self._chunk, None
        if chunk is None:
            return
        hooks = list(getattr(_hooks, "active", {}).values())
        facts: dict = {
            "device_id": self.device_id, "mem_size": self.size, "mem_ptr": self.ptr, "pmem_id": id(self),
        }  # fmt: skip
        for hook in hooks:
            hook.free_preprocess(**facts)
        pool = self._pool()
        if pool is not None:
            pool._give_back(chunk)
        for hook in hooks:
            hook.free_postprocess(**facts)

    def __del__(self) -> None:
        if getattr(self, "_chunk", None) is not None:
            self.free()


class MemoryPointer:
    """An address in device memory."""

    def __init__(self, mem: BaseMemory, offset: int):
        self.mem, self._offset = mem, offset
        self.ptr = mem.ptr + offset

    @property
    def device(self):
        return self.mem.device

    @property
    def device_id(self) -> int:
        return self.mem.device_id

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self._offset + int(offset))

    __radd__ = __add__

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -int(offset)

    def __iadd__(self, offset: int) -> MemoryPointer:
        return self + offset

    def _bytes(self, size: int) -> np.ndarray:
        if size < 0 or self._offset + size > self.mem.raw.size:
            raise CUDARuntimeError(1)
        return self.mem.raw[self._offset : self._offset + size]

    # copies: the plain ones wait for the current stream, the others only submit

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        refuse_in_capture()
        self.copy_from_device_async(src, size)
        machine.synchronize(current_queue())

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        target, source = self._bytes(size), src._bytes(size)
        machine.submit(lambda: np.copyto(target, source), queue_of(stream), "copy")

    def copy_from_host(self, mem: Any, size: int) -> None:
        refuse_in_capture()
        self.copy_from_host_async(mem, size)
        machine.synchronize(current_queue())

    def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        refuse_in_capture()
        target, address = self._bytes(size), address_of(mem)
        source = host_bytes(address, size)
        if not is_pinned(address):
            source = source.copy()  # pageable memory is read before the call returns
        machine.submit(lambda: np.copyto(target, source), queue_of(stream), "copy from host")

    def copy_from(self, mem: Any, size: int) -> None:
        if isinstance(mem, MemoryPointer):
            self.copy_from_device(mem, size)
        else:
            self.copy_from_host(mem, size)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        if isinstance(mem, MemoryPointer):
            self.copy_from_device_async(mem, size, stream)
        else:
            self.copy_from_host_async(mem, size, stream)

    def copy_to_host(self, mem: Any, size: int) -> None:
        refuse_in_capture()
        self.copy_to_host_async(mem, size)
        machine.synchronize(current_queue())

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        refuse_in_capture()
        source, address = self._bytes(size), address_of(mem)
        target, queue = host_bytes(address, size), queue_of(stream)
        machine.submit(lambda: np.copyto(target, source), queue, "copy to host")
        if not is_pinned(address):
            machine.synchronize(queue)  # to pageable memory the call returns when it is done

    def memset(self, value: int, size: int) -> None:
        refuse_in_capture()
        self.memset_async(value, size)
        machine.synchronize(current_queue())

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        target = self._bytes(size)
        machine.submit(lambda: target.fill(value % 256), queue_of(stream), "memset")


def address_of(mem: Any) -> int:
    value = getattr(mem, "value", mem)
    return int(getattr(value, "ptr", value) or 0)


def host_bytes(address: int, size: int) -> np.ndarray:
    if not size:
        return np.empty(0, np.uint8)
    view: Any = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(view, np.uint8)


def current_queue():
    from .cuda import get_current_stream

    return machine.queue(get_current_stream().ptr)


def queue_of(stream: Any):
    return current_queue() if stream is None else machine.queue(stream.ptr)


def refuse_in_capture() -> None:
    """Copies between host and device are refused while the current stream is recorded."""
    if current_queue().capture is not None:
        raise RuntimeError(
            "the current stream is capturing, so synchronous API calls are disallowed"
        )


class MemoryHook:
    """Base of what wants to know about allocations; entered as a context, for one thread."""

    name = "MemoryHook"

    def __enter__(self):
        active = _hooks.__dict__.setdefault("active", {})
        if self.name in active:
            raise KeyError(f"memory hook {self.name} already exists")
        active[self.name] = self
        return self

    def __exit__(self, *exc) -> None:
        del _hooks.active[self.name]

    def alloc_preprocess(self, **kwargs) -> None: ...
    def alloc_postprocess(self, **kwargs) -> None: ...
    def malloc_preprocess(self, **kwargs) -> None: ...
    def malloc_postprocess(self, **kwargs) -> None: ...
    def free_preprocess(self, **kwargs) -> None: ...
    def free_postprocess(self, **kwargs) -> None: ...


class MemoryPool:
    """CuPy's pool: best fit in the arena of the current stream, in units of 512 bytes."""

    def __init__(self, allocator: Any = None):
        self._allocator = allocator
        self._arenas: dict[tuple[int, int], Arena] = {}
        self._blocks: dict[int, list[Memory]] = {}
        self._used: dict[int, int] = {}
        self._limit: dict[int, int] = {}
        self._returned: deque[Chunk] = deque()
        self._busy = False

    def malloc(self, size: int) -> MemoryPointer:
        with machine.lock:
            self._busy = True
            try:
                return self._malloc(size)
            finally:
                self._busy = False
                self._take_back()

    def _malloc(self, size: int) -> MemoryPointer:
        if not size:
            return MemoryPointer(Memory(0), 0)
        rounded, device = -(-size // UNIT) * UNIT, machine.device
        hooks = list(getattr(_hooks, "active", {}).values())
        for hook in hooks:
            hook.malloc_preprocess(device_id=device, size=size, mem_size=rounded)
        arena = self._arena(device)
        chunk = arena.best(rounded)
        if chunk is None:
            chunk = self._grow(rounded, device, arena, hooks)
        rest = chunk.split(rounded)
        if rest is not None:
            arena.put(rest)
        self._used[device] = self._used.get(device, 0) + rounded
        made = PooledMemory(self, chunk)
        for hook in hooks:
            hook.malloc_postprocess(
                device_id=device, size=size, mem_size=rounded, mem_ptr=made.ptr, pmem_id=id(made)
            )
        return MemoryPointer(made, 0)

    def _arena(self, device: int) -> Arena:
        queue = current_queue()
        key = (device, id(queue))
        found = self._arenas.get(key)
        if found is None or found.queue is not queue:
            found = self._arenas[key] = Arena(device, queue.handle)
            found.queue = queue
        return found

    def _grow(self, size: int, device: int, arena: Arena, hooks: list) -> Chunk:
        total = sum(m.size for m in self._blocks.get(device, ()))
        limit = self._limit.get(device, 0)
        if limit and total + size > limit:
            self.free_all_blocks()
            total = sum(m.size for m in self._blocks.get(device, ()))
            if total + size > limit:
                raise OutOfMemoryError(size, total, limit)
        for hook in hooks:
            hook.alloc_preprocess(device_id=device, mem_size=size)
        try:
            memory = Memory(size)
        except OutOfMemoryError:
            self.free_all_blocks()
            memory = Memory(size)
        for hook in hooks:
            hook.alloc_postprocess(device_id=device, mem_size=size, mem_ptr=memory.ptr)
        self._blocks.setdefault(device, []).append(memory)
        return Chunk(memory, 0, size, arena)

    def _give_back(self, chunk: Chunk) -> None:
        """At once; from a finaliser that runs in the middle of an allocation, after it."""
        if machine is None:  # the interpreter ends
            return
        with machine.lock:
            self._returned.append(chunk)
            if not self._busy:
                self._take_back()

    def _take_back(self) -> None:
        while self._returned:
            try:
                chunk = self._returned.popleft()
            except IndexError:  # a finaliser ran since, and took back all of them
                return
            arena = chunk.arena
            self._used[arena.device] -= chunk.size
            if machine.poison and machine.lost is None and arena.queue.capture is None:
                raw = chunk.raw
                machine.submit(lambda raw=raw: raw.fill(POISON), arena.queue, "poison")
            arena.put(chunk)

    def free_all_blocks(self, stream: Any = None) -> None:
        """Give unsplit free blocks back to the device."""
        with machine.lock:
            for arena in self._arenas.values():
                if stream is not None and arena.queue is not machine.queue(stream.ptr):
                    continue
                whole = [c for c in arena.free if c.preceding is None and c.following is None]
                for chunk in whole:
                    arena.free.remove(chunk)
                    self._blocks[arena.device].remove(chunk.memory)

    free_all_free = free_all_blocks

    def n_free_blocks(self) -> int:
        device = machine.device
        return sum(len(a.free) for a in self._arenas.values() if a.device == device)

    def used_bytes(self) -> int:
        return self._used.get(machine.device, 0)

    def total_bytes(self) -> int:
        return sum(m.size for m in self._blocks.get(machine.device, ()))

    def free_bytes(self) -> int:
        return self.total_bytes() - self.used_bytes()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._limit[machine.device] = size or int((fraction or 0) * machine.memory)

    def get_limit(self) -> int:
        return self._limit.get(machine.device, 0)


default_pool = MemoryPool()
_allocator: list = [default_pool.malloc]
_local = threading.local()


def get_allocator():
    return getattr(_local, "allocator", None) or _allocator[0]


def set_allocator(allocator: Any = None) -> None:
    if getattr(_local, "allocator", None) is not None:
        raise ValueError(
            "Can't change the global allocator inside `using_allocator` context manager"
        )
    _allocator[0] = allocator or (lambda size: MemoryPointer(Memory(size), 0))


def alloc(size: int) -> MemoryPointer:
    return get_allocator()(size)


@contextlib.contextmanager
def using_allocator(allocator: Any = None):
    """Another allocator for this thread."""
    before = getattr(_local, "allocator", None)
    _local.allocator = allocator or (lambda size: MemoryPointer(Memory(size), 0))
    try:
        yield
    finally:
        _local.allocator = before
