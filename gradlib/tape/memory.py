"""Raw memory behind tensors: who owns it, how much there is, arrays made on it, and its replacement by other memory."""

from __future__ import annotations

import gc
import math
import mmap
import os
import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from . import dtypes, handed
from .arrays import backend_of
from .device import beside
from .modes import shared


def _raw(array) -> Any:
    """The array on the memory itself: inside vmap, that of all entries; of a lazy view, what it is a view of."""
    while hasattr(array, "physical"):
        array = array.physical._array
    return array


def address(array) -> int:
    """Address of the place of the first element, even if there is none; inside vmap, of that of the first entry."""
    array = _raw(array)
    return array.__array_interface__["data"][0] if isinstance(array, ndarray) else array.data.ptr


def address_of_memory(array) -> int:
    """Address of the memory that `array` is a part of."""
    array = _raw(array)
    return address(owner(array)) if isinstance(array, ndarray) else array.data.mem.ptr


def pointer(array) -> int:
    """Address of the first element; 0 where there is none."""
    array = _raw(array)
    if array.__class__ is ndarray:
        return array.__array_interface__["data"][0] if array.size else 0
    return address(array)


def owner(array: Any) -> Any:
    """The raw array whose memory `array` is a part of."""
    array = _raw(array)
    kind: Any = ndarray if isinstance(array, ndarray) else type(array)
    while isinstance(array.base, kind):
        array = array.base
    return array


def whole(array) -> Any:
    """The raw array that stands for all the memory that `array` is a part of."""
    root = owner(array)
    if isinstance(root, ndarray) or root.data.ptr == root.data.mem.ptr:
        return root
    return _block(root)


def _block(array) -> Any:
    """All the memory of a device array, as it was allocated: uint8. Views made by address do not know their base."""

    memory = array.data.mem
    first = array[(slice(0, 1),) * array.ndim].reshape(-1).view(np.uint8)
    return backend_of(array).as_strided(first, (memory.size,), (1,), memory.ptr - array.data.ptr)


def key(array) -> int:
    """What arrays on the same memory have in common. Not all views of a device array have a base."""
    array = _raw(array)
    if array.__class__ is shared.sparse:
        array = array.values
    return id(owner(array)) if isinstance(array, ndarray) else id(array.data.mem)


def extent(array) -> tuple[int, int]:
    """The address and the size in bytes of the memory that `array` is a part of; on a device, of the whole block."""
    if array.__class__ is ndarray:
        root = owner(array)
        return pointer(root), size_of(root)
    if hasattr(array, "physical"):
        return extent(_raw(array))
    memory = array.data.mem  # a view made by address has no base
    return memory.ptr, memory.size


# id of an owner -> (weak reference to it, bytes), where fewer bytes count than it has: its storage was made smaller
# than its tensors need. They read zeros there, and the others' memory stays theirs.
_shrunk: dict[int, tuple[Any, int]] = {}


def size_of(root) -> int:
    """The bytes of an owner that count as memory of its tensors."""
    return _shrunk[id(root)][1] if id(root) in _shrunk else root.nbytes


def _count_only(root, nbytes: int) -> None:
    number = id(root)
    if nbytes < root.nbytes:
        _shrunk[number] = weakref.ref(root, lambda _: _shrunk.pop(number, None)), nbytes


class _Foreign:
    """Memory that somebody else owns: the base of the array through which tensors see it."""

    def __init__(self, array: ndarray, address: int, nbytes: int):
        self.array = array
        self.__array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, not array.flags.writeable), "version": 3,
        }  # fmt: skip


_NOT_OURS = (_Foreign, memoryview, mmap.mmap)


def adopt(array: ndarray) -> ndarray:
    """An array on the same foreign memory whose owner is exactly the bytes from its first to its last element."""
    if not array.size:
        return array
    if array.flags.c_contiguous and array.dtype.kind != "V":
        flat = np.frombuffer(array.data, array.dtype)  # its base is a memoryview
        return flat if array.ndim == 1 else flat.reshape(array.shape)
    nbytes = sum([(n - 1) * s for n, s in zip(array.shape, array.strides)]) + array.itemsize
    held = _Foreign(array, array.__array_interface__["data"][0], nbytes)
    return ndarray(array.shape, array.dtype, np.asarray(held), 0, array.strides)


def resizable(root) -> bool:
    """Whether the memory was allocated here, and so may be exchanged for more."""
    return not isinstance(root.base, _NOT_OURS)


def dense_bytes(array) -> Any:
    """A dense array's memory as uint8 [nbytes], shared; None if it has gaps or repeated elements.

    Dense means: C order after a permutation of the dimensions.
    """
    if array.size == 0:
        return None
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    dense = array.transpose(order)
    if not dense.flags.c_contiguous:
        return None
    return dense.reshape(-1).view(np.uint8)


def flat_bytes(root) -> Any:
    """All the memory of an owner as uint8 [size_of(root)], shared."""

    xp = backend_of(root)
    flat = dense_bytes(root)
    if flat is None:  # empty, or an array that was made with gaps
        first = root[(slice(0, 1),) * root.ndim].reshape(-1).view(np.uint8)
        spanned = root.size and sum(
            [(n - 1) * s for n, s in zip(root.shape, root.strides, strict=True)], root.itemsize
        )
        flat = xp.as_strided(first, (spanned,), (1,)) if spanned else xp.empty(0, np.uint8)
    flat = np.asarray(flat) if isinstance(flat, ndarray) else flat  # of a memmap, too
    return flat[: size_of(root)] if id(root) in _shrunk else flat


def view_of(
    raw: Any, dtype: dtypes.dtype, offset: int, shape: Iterable[int], strides: Iterable[int]
) -> Any:
    """An array on the memory of `raw`.

    Args:
        raw: uint8 array [nbytes] on any device.
        dtype: type of the elements.
        offset: position of the first element, in elements.
        shape: lengths of the dimensions.
        strides: strides in elements.

    Raises:
        ValueError: the array would reach outside `raw`; shows the sizes.
    """
    shape, strides = tuple(shape), tuple(strides)
    if not all([isinstance(n, int) for n in (offset, *shape, *strides)]):
        raise ValueError("sizes, strides and offset of a tensor must be integers")
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise ValueError(f"invalid geometry: size {shape}, stride {strides}, offset {offset}")
    need = bytes_needed(dtype.itemsize, offset, shape, strides)
    if need > raw.nbytes:
        raise ValueError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {dtype.itemsize} requiring a storage size of {need} "
            f"are out of bounds for storage of size {raw.nbytes}"
        )
    steps = tuple([s * dtype.itemsize for s in strides])
    if isinstance(raw, ndarray):
        start = offset * dtype.itemsize
        return ndarray(shape, dtype.np, raw, start if need else min(start, raw.nbytes), steps)

    whole = raw[: raw.nbytes // dtype.itemsize * dtype.itemsize].view(dtype.np)
    return backend_of(raw).as_strided(whole, shape, steps, offset * dtype.itemsize)


def bytes_needed(itemsize: int, offset: int, shape: tuple, strides: tuple) -> int:
    """The bytes of a storage up to the end of an array in it; 0 for an empty one."""
    if not math.prod(shape):
        return 0
    return (1 + offset + sum([(n - 1) * s for n, s in zip(shape, strides)])) * itemsize


# -- other memory for the same tensors ---------------------------------------------------------------------------------


def enlarged(root, nbytes: int) -> Any:
    """New memory of `nbytes` that begins with the bytes of an owner; the rest is zero."""

    with beside(root):
        fresh = backend_of(root).zeros(nbytes, np.uint8)
        old = flat_bytes(root) if isinstance(root, ndarray) else _block(root)
        kept = min(old.nbytes, nbytes)
        fresh[:kept] = old[:kept]
    return fresh


def resize(root, nbytes: int) -> Any:
    """Give all tensors on the memory of `root` memory of `nbytes`, with the same bytes as far as they go.

    Where a tensor needs more than that, there is more, which is zero and does not count. Returns the new owner.
    """
    users = _users(root)
    start = address_of_memory(root)
    need = max([nbytes, *[_end(u._array, start) for u in users]])
    fresh = enlarged(root, need)
    if nbytes < size_of(root):
        fresh[nbytes:] = 0
    _move(users, root, fresh)
    _count_only(fresh, nbytes)
    return fresh


SHARED_FOLDER = "/dev/shm"
# Files that have no name until they are given one: Linux has them.
CAN_NAME = hasattr(os, "O_TMPFILE") and os.access(SHARED_FOLDER, os.W_OK)


class _Map(mmap.mmap):
    """Memory that other processes can map: it keeps its file open, which a plain map keeps to itself."""

    descriptor: int | None = None

    def __del__(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)


def _unnamed_file(nbytes: int) -> int | None:
    """The descriptor of a new file without a name, in memory where there is such a thing; None but on Unix."""
    if CAN_NAME:
        descriptor = os.open(SHARED_FOLDER, os.O_TMPFILE | os.O_RDWR, 0o600)
        os.posix_fallocate(
            descriptor, 0, nbytes
        )  # a page that cannot be had later ends the process
        return descriptor
    if os.name != "posix":
        return None
    import tempfile  # which takes longer to import than most of gradlib

    descriptor, path = tempfile.mkstemp(prefix="gradlib-")
    os.unlink(path)
    os.truncate(descriptor, nbytes)
    return descriptor


def shared_bytes(nbytes: int, descriptor: int | None = None) -> ndarray:
    """Memory as uint8 [nbytes] that processes share: of an open file, which it owns from now on, or new.

    Raises:
        OSError: there is not so much shared memory.
    """
    size = max(nbytes, 1)
    if descriptor is None:
        descriptor = _unnamed_file(size)
    made = _Map(-1 if descriptor is None else descriptor, size)
    made.descriptor = descriptor
    return np.frombuffer(made, np.uint8, nbytes)


def _references(tensor: Any) -> int:
    array = tensor._array
    return sys.getrefcount(array)


class _Holder:
    __slots__ = ("_array",)


_holder = _Holder()
_holder._array = np.empty(1)
_ALONE = _references(_holder)  # what is counted where nobody but the tensor holds an array


def share(root: ndarray, tensor: Any = None) -> Any:
    """Move all tensors on the memory of `root` to memory that processes can share. Returns the new owner.

    tensor: one of them; where it is the only one, it is not looked for.
    """
    alone = tensor is not None and tensor._array is root and _references(tensor) - 1 == _ALONE
    flat = flat_bytes(root)
    fresh = shared_bytes(flat.nbytes)
    fresh[:] = flat
    _move([tensor] if alone else _users(root), root, fresh)
    return fresh


def is_shared(root) -> bool:
    """Whether `share` has made this memory, here or in another process."""
    return isinstance(getattr(root.base, "obj", None), _Map)


def descriptor_of(root) -> int | None:
    """The open file that shared memory is; None on systems that have no such files."""
    return root.base.obj.descriptor


def _users(root) -> list:
    """The tensors that use the memory of `root`. They are not listed anywhere: all objects are looked through."""

    wanted, found = key(root), []
    for candidate in gc.get_objects():
        if issubclass(type(candidate), handed.Tensor):
            try:
                array = getattr(candidate, "_array", None)
            except ValueError:  # a parameter that waits for its shape
                continue
            plain = ndarray if isinstance(root, ndarray) else type(root)  # no entries of a batch
            if array.__class__ is plain and key(array) == wanted:
                found.append(candidate)
    return found


def _end(array, start: int) -> int:
    if not array.size:
        return 0
    last = sum([(n - 1) * s for n, s in zip(array.shape, array.strides)])
    return address(array) - start + last + array.itemsize


def _move(users: list, root, fresh) -> None:
    """Let `users` see in `fresh` (uint8, flat) what they see in `root`, and its storage object own `fresh`."""

    start = address_of_memory(root)
    for tensor in users:
        array = tensor._array
        kind, item = dtypes.BY_NP[array.dtype], array.itemsize
        strides = [s // item for s in array.strides] if array.size else tensor.stride()
        offset = (address(array) - start) // item
        tensor._array = view_of(fresh, kind, offset, array.shape, strides)
    handed.replace_root(root, fresh)


def kept(node: Any) -> Iterator[Any]:
    """The raw arrays that `node` keeps: saved arguments that are no leaves, saved results, hidden values."""
    for slot in [s for cls in type(node).__mro__ for s in vars(cls).get("__slots__", ())]:
        if slot[:2] not in ("s_", "h_"):
            continue
        value: Any = getattr(node, slot, None)
        if hasattr(value, "_array"):  # a Tensor
            if value.is_leaf and value.requires_grad:
                continue
            value = value._array
        if hasattr(value, "nbytes") and getattr(value, "ndim", 0):
            yield value


def repeats_itself(array: Any) -> bool:
    """Whether several elements of a raw array lie at one place in memory, as in an expanded tensor."""
    return bool(
        0 in array.strides
        and array.size
        and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
    )
