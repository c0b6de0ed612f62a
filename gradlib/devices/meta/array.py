"""MetaArray: shape, dtype and strides without memory, in the place of a NumPy array."""

from __future__ import annotations

import ctypes
import itertools
import math
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

# Addresses that are nobody's: arrays over them have true strides and offsets, and are never read.
_ADDRESSES = 1 << 60
_NOWHERE = (ctypes.c_char * _ADDRESSES).from_address(1 << 61)
_START = 1 << 61
_GAP = 64
NO_DATA = "Cannot copy out of meta tensor; no data!"
ITEM = "Tensor.item() cannot be called on meta tensors"


class _Memory:
    """What stands for the memory of an array and its views: a range of addresses that is nobody else's."""

    __slots__ = ("ptr", "size")
    _next = 0

    def __init__(self, nbytes: int):
        start = _Memory._next
        if start + nbytes + _GAP > _ADDRESSES:  # the first ones are long gone
            start = 0
        _Memory._next = start + (nbytes + 2 * _GAP) // _GAP * _GAP
        self.ptr, self.size = _START + start, nbytes


class _Data:
    """An address in the memory of an array, as device arrays have it."""

    __slots__ = ("mem", "ptr")
    device_id = None

    def __init__(self, mem: _Memory, ptr: int):
        self.mem, self.ptr = mem, ptr


def ghost(shape: tuple, dtype: np.dtype, address: int, strides: Any = None) -> np.ndarray:
    """A NumPy array over addresses that are nobody's: for views and strides alone."""
    if math.prod(shape) * dtype.itemsize > _ADDRESSES:
        raise MemoryError(f"a tensor of size {list(shape)} is too large")
    return np.ndarray(shape, dtype, _NOWHERE, address - _START, strides)  # type: ignore[call-overload]


def fresh(shape: Any, dtype: Any = np.float64) -> MetaArray:
    """A row-major MetaArray of its own memory."""
    shape = tuple(map(int, shape)) if hasattr(shape, "__iter__") else (int(shape),)
    return MetaArray(shape, np.dtype(dtype))


def dense(shape: tuple, dtype: Any, strides: tuple) -> MetaArray:
    """A MetaArray without gaps, with its dimensions in the order of `strides`."""
    order = sorted(range(len(shape)), key=lambda d: -abs(strides[d]))
    made = fresh([shape[d] for d in order], dtype)
    return made.transpose([order.index(d) for d in range(len(shape))])


def refuse_value(*args: Any, **kwargs: Any) -> NoReturn:
    """The answer to who asks for values as Python numbers."""
    raise RuntimeError(ITEM)


def refuse_data(*args: Any, **kwargs: Any) -> NoReturn:
    """The answer to who asks for values as an array."""
    raise NotImplementedError(NO_DATA)


def refuse_shape(name: str) -> NoReturn:
    """The answer to a function whose result has a shape that values decide."""
    raise NotImplementedError(
        f"{name}: the shape of the result depends on values, which meta tensors have not"
    )


class MetaArray(NDArrayOperatorsMixin):
    """What a meta tensor holds: the geometry of an array, its place in a memory that is not there, and a dtype.

    `functions` adds what NumPy's functions make of it, and those of them that arrays have as methods.
    """

    __slots__ = ("__weakref__", "_ghost", "base", "memory")
    base: MetaArray | None
    device = SimpleNamespace(id=None)
    __array_priority__ = 100
    __hash__ = object.__hash__  # type: ignore[assignment]
    __array_function__: Any
    conj: Any
    conjugate: Any

    def __init__(self, shape: tuple, dtype: np.dtype, strides: tuple | None = None):
        """An array of its own memory without gaps, row-major without `strides` (in bytes)."""
        self.memory = _Memory(math.prod(shape) * dtype.itemsize)
        self._ghost, self.base = ghost(shape, dtype, self.memory.ptr, strides), None

    shape = property(lambda self: self._ghost.shape)
    dtype = property(lambda self: self._ghost.dtype)
    strides = property(lambda self: self._ghost.strides)
    ndim = property(lambda self: self._ghost.ndim)
    size = property(lambda self: self._ghost.size)
    itemsize = property(lambda self: self._ghost.itemsize)
    nbytes = property(lambda self: self._ghost.nbytes)
    flags = property(lambda self: self._ghost.flags)
    T = property(lambda self: self._view(self._ghost.T))
    mT = property(lambda self: self._view(self._ghost.mT))  # noqa: N815

    @property
    def nowhere(self) -> int:
        """Where its memory begins, which is nobody's: users see addresses relative to it."""
        return self.memory.ptr

    @property
    def data(self) -> _Data:
        """Where the first element would lie."""
        return _Data(self.memory, self._ghost.__array_interface__["data"][0])

    def __repr__(self) -> str:
        return f"MetaArray(shape={self.shape}, dtype={self.dtype})"

    def __len__(self) -> int:
        return len(self._ghost)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    # -- values: there are none ----------------------------------------------------------------------------------

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __contains__ = item = refuse_value
    get = tolist = tobytes = __array__ = refuse_data

    def __dlpack__(self, **kwargs: Any) -> NoReturn:
        raise BufferError("Cannot pack tensors on meta")

    def __dlpack_device__(self) -> NoReturn:
        raise BufferError("Cannot pack tensors on meta")

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError  # see `functions`

    # -- views ---------------------------------------------------------------------------------------------------

    def _view(self, like: np.ndarray) -> MetaArray:
        view = object.__new__(MetaArray)
        view._ghost, view.memory, view.base = (
            like,
            self.memory,
            self if self.base is None else self.base,
        )
        return view

    def transpose(self, *axes: Any) -> MetaArray:
        return self._view(self._ghost.transpose(*axes))

    def swapaxes(self, first: int, second: int) -> MetaArray:
        return self._view(self._ghost.swapaxes(first, second))

    def squeeze(self, axis: Any = None) -> MetaArray:
        return self._view(self._ghost.squeeze(axis))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> MetaArray:
        return self._view(self._ghost.diagonal(offset, axis1, axis2))

    def view(self, dtype: Any = None) -> MetaArray:
        return self._view(self._ghost.view() if dtype is None else self._ghost.view(dtype))

    def reshape(self, *shape: Any, order: str = "C") -> MetaArray:
        shape = shape[0] if len(shape) == 1 else shape
        try:
            return self._view(self._ghost.reshape(shape, order=order, copy=False))  # type: ignore[call-overload]
        except ValueError:
            like = fresh(self.shape, self.dtype)  # fails again where the number of elements differs
            return like._view(like._ghost.reshape(shape, order=order, copy=False))  # type: ignore[call-overload]

    def ravel(self, order: str = "C") -> MetaArray:
        if order in "KA":
            order = "C"
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> MetaArray:
        return fresh(self.size, self.dtype)

    def as_strided(self, shape: tuple, strides: tuple, offset: int) -> MetaArray:
        """A view with byte strides, `offset` bytes after the first element; ValueError outside of the memory."""
        last = sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
        start = self.data.ptr + offset
        if math.prod(shape) and start + last + self.itemsize > self.memory.ptr + self.memory.size:
            raise ValueError("the view would reach outside of the memory")
        return self._view(ghost(tuple(shape), self.dtype, start, tuple(strides)))

    def broadcast_to(self, shape: tuple) -> MetaArray:
        return self._view(np.broadcast_to(self._ghost, shape))

    @property
    def real(self) -> MetaArray:
        return self._view(np.real(self._ghost))

    @property
    def imag(self) -> MetaArray:
        return (
            self._view(np.imag(self._ghost))
            if self.dtype.kind == "c"
            else fresh(self.shape, self.dtype)
        )

    @real.setter
    def real(self, value: Any) -> None:
        _check_room(np.shape(value), self.shape)

    @imag.setter
    def imag(self, value: Any) -> None:
        _check_room(np.shape(value), self.shape)

    def __getitem__(self, key: Any) -> MetaArray:
        parts = key if isinstance(key, tuple) else (key,)
        if any([_is_array(part) for part in parts]):
            return fresh(_chosen_shape(self.shape, parts), self.dtype)
        whole = () if any([part is Ellipsis for part in parts]) else (Ellipsis,)
        return self._view(self._ghost[(*parts, *whole)])  # an array even of one element

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, (MetaArray, np.ndarray)) and value.ndim and not _has_mask(key):
            _check_room(value.shape, self[key].shape)

    # -- copies --------------------------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> MetaArray:
        return self.astype(self.dtype, order)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> MetaArray:
        return self.copy("K")

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> MetaArray:
        dtype = np.dtype(dtype)
        if not copy and dtype == self.dtype:
            return self
        if order in "KA" and not self.flags.c_contiguous:
            return dense(self.shape, dtype, self.strides)
        made = fresh(self.shape[::-1] if order == "F" else self.shape, dtype)
        return made.T if order == "F" else made

    def fill(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: there is no memory."""

    sort = partition = setflags = fill


def _is_array(part: Any) -> bool:
    return isinstance(part, (MetaArray, np.ndarray, list, bool, np.bool_))


def _has_mask(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any([isinstance(p, MetaArray) and p.dtype.kind == "b" for p in parts])


def _chosen_shape(shape: tuple, parts: tuple) -> tuple:
    """The shape of ``array[parts]`` where index arrays are among the parts."""
    items: list[Any] = []
    for part in parts:
        if isinstance(part, MetaArray) and part.dtype.kind == "b":
            refuse_shape("nonzero")
        if isinstance(part, (list, bool, np.bool_)):
            part = np.asarray(part)
        if isinstance(part, np.ndarray) and part.dtype.kind == "b":
            items += part.nonzero()
        else:
            items.append(part)
    missing = len(shape) - sum([item is not None and item is not Ellipsis for item in items])
    if not any([item is Ellipsis for item in items]):
        items.append(Ellipsis)
    at = next(i for i, item in enumerate(items) if item is Ellipsis)
    items[at : at + 1] = [slice(None)] * missing
    kept: list[tuple[bool, int]] = []  # (an index stands here, the length of the dimension)
    chosen: list[tuple] = []
    lengths = iter(shape)
    for item in items:
        if item is None:
            kept.append((False, 1))
            continue
        n = next(lengths)
        if isinstance(item, slice):
            kept.append((False, len(range(*item.indices(n)))))
        else:
            kept.append((True, 0))
            chosen.append(np.shape(item) if not isinstance(item, MetaArray) else item.shape)
    common = np.broadcast_shapes(*chosen)
    runs = [index for index, _ in itertools.groupby([index for index, _ in kept])]
    first = next(i for i, (index, _) in enumerate(kept) if index) if runs.count(True) == 1 else 0
    rest = [n for index, n in kept if not index]
    return (*rest[:first], *common, *rest[first:])


def _check_room(given: tuple, wanted: tuple) -> None:
    while len(given) > len(wanted) and given[0] == 1:
        given = given[1:]
    if np.broadcast_shapes(given, wanted) != wanted:
        raise ValueError(f"could not broadcast input array from shape {given} into shape {wanted}")
