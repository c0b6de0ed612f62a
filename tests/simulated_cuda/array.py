"""The device array. Only what CuPy's has; NumPy functions do not take it for one of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import memory
from .machine import machine

IMPLICIT = (
    "Implicit conversion to a NumPy array is not allowed. "
    "Please use `.get()` to construct a NumPy array explicitly."
)


class Flags:
    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.forc = self.c_contiguous or self.f_contiguous
        self.fnc = self.f_contiguous and not self.c_contiguous
        self.owndata = True

    def __getitem__(self, name: str):
        return getattr(self, name.lower())


def strides_of(shape: tuple, itemsize: int, order: str) -> tuple:
    strides, step = [], itemsize
    for n in shape if order == "F" else reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(strides if order == "F" else reversed(strides))


def as_shape(shape: Any) -> tuple:
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    return tuple(int(n) for n in shape)


class ndarray:
    """``ndarray(shape, dtype=float, memptr=None, strides=None, order="C")``.

    `_host` is its memory as NumPy sees it.
    """

    __module__ = "cupy"
    __array_priority__ = 100
    __slots__ = ("__weakref__", "_host", "base", "data")

    if TYPE_CHECKING:  # methods.py puts in the rest
        _host: np.ndarray
        base: Any
        data: Any
        __getitem__: Any
        __setitem__: Any

        def __getattr__(self, name: str) -> Any: ...

    def __new__(
        cls,
        shape: Any,
        dtype: Any = float,
        memptr: Any = None,
        strides: Any = None,
        order: Any = "C",
    ):
        self = object.__new__(cls)
        shape, dtype = as_shape(shape), np.dtype(dtype)
        if dtype.kind in "OUSmM":
            raise ValueError(f"Unsupported dtype {dtype}")
        if order not in ("C", "F", None):
            raise ValueError(f"order not understood. order={order!r}")
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if memptr is None:
            memptr = memory.alloc(size)
        if strides is None:
            strides = strides_of(shape, dtype.itemsize, order or "C")
        self.data, self.base = memptr, None
        raw = memptr.mem.raw
        if size:
            self._host = np.ndarray(shape, dtype, raw, memptr._offset, strides)
        else:
            self._host = np.empty(shape, dtype)
        return self

    def __init_subclass__(cls) -> None:
        raise NotImplementedError("the simulated device has no subclasses of cupy.ndarray")

    # -- facts -------------------------------------------------------------------------------------------------------

    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: Flags(self._host.flags))
    device = property(lambda self: self.data.device)

    @property
    def shape(self) -> tuple:
        return self._host.shape

    @shape.setter
    def shape(self, shape: tuple) -> None:
        view = self._host.view()
        view.shape = shape
        self._host = view

    @property
    def __cuda_array_interface__(self) -> dict:
        from .cuda import get_current_stream

        return {
            "shape": self.shape, "typestr": self.dtype.str, "descr": self.dtype.descr, "version": 3,
            "strides": None if self.flags.c_contiguous else self.strides,
            "data": (self.data.ptr, False), "stream": get_current_stream().ptr or 1,
        }  # fmt: skip

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    __hash__ = None  # type: ignore[assignment]

    # -- to the host: waits for the current stream ---------------------------------------------------------------------

    def __array__(self, dtype=None, copy=None):
        raise TypeError(IMPLICIT)

    def get(self, stream=None, order="C", out=None, blocking=True):
        """The values as a NumPy array."""
        from .transfer import get

        return get(self, stream, order, out, blocking)

    def set(self, arr, stream=None) -> None:
        """Copy a NumPy array of the same shape and dtype here."""
        from .transfer import set_from

        set_from(self, arr, stream)

    def item(self):
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    def tolist(self):
        return self.get().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self.get().tobytes(order)

    def __bool__(self) -> bool:
        if self.size == 0:
            raise ValueError("The truth value of an empty array is ambiguous.")
        if self.size > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. "
                "Use a.any() or a.all()"
            )
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, spec: str) -> str:
        return format(self.get(), spec)

    def __reduce__(self):
        from .transfer import restore

        return (restore, (self.get(),))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        from .cuda import Device

        with Device(self.data.device_id):
            return self.copy()

    def __dlpack__(self, *, stream=None, **kwargs):
        raise BufferError("the simulated device has no DLPack")

    def __dlpack_device__(self):
        return (2, self.data.device_id)

    # -- NumPy's protocols: dispatched to the functions here ---------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        from . import ufunc as ours

        out = kwargs.get("out")
        if out is not None:
            if any(not isinstance(o, ndarray) for o in out):
                return NotImplemented
            kwargs["out"] = out if len(out) > 1 else out[0]
        name = ufunc.__name__
        if any(not isinstance(i, ours.OPERANDS) and hasattr(i, "__array_ufunc__") for i in inputs):
            return NotImplemented
        if method in ("__call__", "outer", "at", "reduce", "accumulate", "reduceat"):
            found = ours.UFUNCS.get(name) or ours.UFUNCS.get(ALIASES.get(name, ""))
            if name in ("matmul",) and method == "__call__":
                from . import functions

                return functions.matmul(*inputs, **kwargs)
            if found is None:
                return NotImplemented
            if method == "__call__":
                return found(*inputs, **kwargs)
            return getattr(found, method)(*inputs, **kwargs)
        return NotImplemented

    def __array_function__(self, func, types, args, kwargs):
        import sys

        module: Any = sys.modules["cupy"]
        for part in func.__module__.split(".")[1:]:
            module = getattr(module, part, None)
        ours = getattr(module, func.__name__, None)
        if ours is None or ours is func:
            return NotImplemented
        if any(issubclass(t, np.ndarray) for t in types):
            return NotImplemented
        return ours(*args, **kwargs)


ALIASES = {"concat": "concatenate", "acos": "arccos", "asin": "arcsin", "atan": "arctan"}


def wrap(host: np.ndarray, source: ndarray) -> ndarray:
    """A device array for a NumPy view into the memory of `source`."""
    made = object.__new__(ndarray)
    mem = source.data.mem
    if host.size:
        offset = host.__array_interface__["data"][0] - mem.ptr
        made._host = np.ndarray(host.shape, host.dtype, mem.raw, offset, host.strides)
    else:
        offset = source.data._offset
        made._host = np.empty(host.shape, host.dtype)
    made.data = memory.MemoryPointer(mem, offset)
    made.base = source if source.base is None else source.base
    return made


def is_view(host: np.ndarray, source: ndarray) -> bool:
    return host.size == 0 or np.may_share_memory(host, source._host)


def new_like(source: ndarray, dtype=None) -> ndarray:
    return ndarray(source.shape, source.dtype if dtype is None else dtype)


def device_index() -> int:
    return machine.device
