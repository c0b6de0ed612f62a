"""Methods and operators of the device array."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import indexing, reductions
from .array import ndarray, wrap
from .launch import check_device, compute
from .machine import machine
from .memory import current_queue
from .ufunc import OPERANDS, UFUNCS, scatter

BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARE = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _leaves(other: Any) -> bool:
    """Whether CuPy leaves a binary operator to the other operand, as NEP 13 has it."""
    asked = getattr(other, "__array_ufunc__", _leaves)
    return asked is None or (asked is _leaves and getattr(other, "__array_priority__", 0) > 100)


def _binary(name):
    fn, of_numpy = UFUNCS[name], getattr(np, name)

    def forward(self, other):
        if isinstance(other, OPERANDS):
            return fn(self, other)
        return NotImplemented if _leaves(other) else of_numpy(self, other)

    def backward(self, other):
        return NotImplemented if _leaves(other) else fn(other, self)

    def inplace(self, other):
        fn(self, other, self)
        return self

    return forward, backward, inplace


def _install_operators() -> None:
    for short, name in BINARY.items():
        forward, backward, inplace = _binary(name)
        setattr(ndarray, f"__{short}__", forward)
        setattr(ndarray, f"__r{short}__", backward)
        setattr(ndarray, f"__i{short}__", inplace)
    for short, name in COMPARE.items():
        setattr(ndarray, f"__{short}__", _binary(name)[0])
    for short, name in UNARY.items():
        setattr(ndarray, f"__{short}__", lambda self, fn=UFUNCS[name]: fn(self))
    ndarray.__matmul__ = lambda self, other: _matmul(self, other)  # type: ignore[attr-defined]
    ndarray.__rmatmul__ = lambda self, other: _matmul(other, self)  # type: ignore[attr-defined]
    ndarray.__divmod__ = lambda self, other: UFUNCS["divmod"](self, other)  # type: ignore[attr-defined]


def _matmul(a, b):
    from .functions import matmul

    return matmul(a, b)


def view_of(fn, a: ndarray) -> ndarray:
    """`fn` on the memory of the array if NumPy makes a view of it, otherwise computed."""
    host = fn(a._host)
    if host is a._host:
        return wrap(host.view(), a)
    if host.size == 0 or np.may_share_memory(host, a._host):
        return wrap(host, a)
    return compute(fn, (a,), label="copy")


def _axes(shape: tuple) -> Any:
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape


def reshape(self, *shape, order="C", copy=None):
    return view_of(lambda h: h.reshape(_axes(shape), order=order), self)


def transpose(self, *axes):
    axes = _axes(axes) if axes else None
    return view_of(lambda h: h.transpose(axes), self)


def ravel(self, order="C"):
    if order == "K":
        raise NotImplementedError("ravel with order='K' not yet implemented.")
    return view_of(lambda h: h.ravel(order), self)


def swapaxes(self, axis1, axis2):
    return view_of(lambda h: h.swapaxes(axis1, axis2), self)


def squeeze(self, axis=None):
    if isinstance(axis, list):
        raise TypeError("an integer is required")
    return view_of(lambda h: h.squeeze(axis), self)


def diagonal(self, offset=0, axis1=0, axis2=1):
    return view_of(lambda h: h.diagonal(offset, axis1, axis2), self)


def view(self, dtype=None, type=None):
    if type is not None:
        raise NotImplementedError("the simulated device has no subclasses of cupy.ndarray")
    return wrap(self._host.view() if dtype is None else self._host.view(dtype), self)


def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
    if casting is not None or subok is not None:
        raise TypeError("casting and subok are not supported yet")
    dtype = np.dtype(dtype)
    if not copy and dtype == self.dtype:
        return self
    return _copied(self, dtype, order)


def copy(self, order="C"):
    return _copied(self, self.dtype, order)


def _copied(self: ndarray, dtype: np.dtype, order: str) -> ndarray:
    from .transfer import empty_like

    if order == "A":
        order = "F" if self.flags.fnc else "C"
    if self.data.device_id != machine.device and self.size and dtype == self.dtype:
        return _across(self, order)
    made = empty_like(self, dtype, order)
    source, target = self._host, made._host
    check_device([self])

    def run():
        target[...] = cast(source, dtype)

    machine.submit(run, current_queue(), "copy")
    return made


def _across(self: ndarray, order: str) -> ndarray:
    """A copy from another device: made contiguous there, then copied on the current stream of this device."""
    from .cuda import Device

    source = self
    if not self.flags.forc:
        with Device(self.data.device_id):
            source = self.copy(order=order)
    made = ndarray(source.shape, source.dtype, order="F" if source.flags.fnc else "C")
    made.data.copy_from_device_async(source.data, source.nbytes)
    return made


def cast(host: Any, dtype: np.dtype) -> np.ndarray:
    if host.dtype.kind == "c" and dtype.kind not in "cb":
        host = host.real
    return host.astype(dtype, copy=False)


def flatten(self, order="C"):
    return ravel(self, order).copy()


def fill(self, value) -> None:
    if isinstance(value, np.ndarray):
        if value.shape != ():
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = value.item()
    if isinstance(value, ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    indexing.setitem(self, Ellipsis, value)


def real(self):
    return self if self.dtype.kind != "c" else wrap(self._host.real, self)


def imag(self):
    if self.dtype.kind == "c":
        return wrap(self._host.imag, self)
    return compute(np.zeros_like, (self,), label="imag")


def set_real(self, value) -> None:
    real(self)[...] = value


def set_imag(self, value) -> None:
    if self.dtype.kind != "c":
        raise TypeError("cannot set imag for a real array")
    wrap(self._host.imag, self)[...] = value


def conj(self):
    return UFUNCS["conjugate"](self) if self.dtype.kind == "c" else self


def clip(self, min=None, max=None, out=None):
    if min is None and max is None:
        raise ValueError("array_clip: must set either max or min")
    if (min is None or max is None) and self.dtype.kind not in "fiu":
        raise TypeError(f"Unsupported type {type(None)}")
    if max is None:
        return UFUNCS["maximum"](self, min, out=out)
    if min is None:
        return UFUNCS["minimum"](self, max, out=out)
    return UFUNCS["_clip"](self, min, max, out=out)


def sort(self, axis=-1, kind=None) -> None:
    refuse_kind(kind)
    if self.ndim == 0:
        raise np.exceptions.AxisError("Sorting arrays with the rank of zero is not supported")
    if not self.flags.c_contiguous:
        raise NotImplementedError("Sorting non-contiguous array is not supported.")
    sortable(self.dtype)
    target = self._host
    machine.submit(lambda: target.sort(axis, kind="stable"), current_queue(), "sort")


def argsort(self, axis=-1, kind=None):
    refuse_kind(kind)
    sortable(self.dtype)
    a = self if self.ndim else self.reshape(1)
    return compute(lambda h: h.argsort(axis, kind="stable"), (a,), label="argsort")


def refuse_kind(kind) -> None:
    if kind is not None and kind != "stable":
        raise ValueError("kind can only be None or 'stable'")


def sortable(dtype: np.dtype) -> None:
    """Thrust sorts these types only."""
    if dtype.char not in "?bBhHiIlLqQefdFD":
        raise NotImplementedError(f"Sorting arrays with dtype '{dtype}' is not supported")


def argpartition(self, kth, axis=-1):
    return argsort(self, axis)


def partition(self, kth, axis=-1) -> None:
    sort(self, axis)


def repeat(self, repeats, axis=None):
    if isinstance(repeats, (ndarray, np.ndarray)):
        raise ValueError("'repeats' should be int or sequence: an array given")
    return compute(lambda h: h.repeat(repeats, axis), (self,), label="repeat")


def searchsorted(self, v, side="left", sorter=None):
    from .functions import searchsorted as fn

    return fn(self, v, side, sorter)


def round_(self, decimals=0, out=None):
    kind = np.dtype(np.float32) if self.dtype.kind == "V" else self.dtype  # no loop for bfloat16
    return compute(lambda h: np.round(h.astype(kind), decimals), (self,), out=out, label="round")


def trace(self, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    return compute(lambda h: np.asarray(h.trace(offset, axis1, axis2, dtype)), (self,), out=out)


def nonzero(self):
    from .launch import blocking

    return blocking(lambda h: np.atleast_1d(h).nonzero(), (self,), label="nonzero")


def dot(self, b, out=None):
    from .functions import dot as fn

    return fn(self, b, out)


def reduced_view(self, dtype=None):
    return self


def scatter_add(self, slices, value) -> None:
    scatter(self, slices, value, "add")


def scatter_max(self, slices, value) -> None:
    scatter(self, slices, value, "maximum")


def scatter_min(self, slices, value) -> None:
    scatter(self, slices, value, "minimum")


def _install() -> None:
    _install_operators()
    plain = """reshape transpose ravel swapaxes squeeze diagonal view astype copy flatten fill conj clip sort argsort
        argpartition partition repeat searchsorted trace nonzero dot reduced_view scatter_add scatter_max scatter_min"""
    for name in plain.split():
        setattr(ndarray, name, globals()[name])
    for name, fn in reductions.METHODS.items():
        setattr(ndarray, name, fn)
    ndarray.conjugate = conj  # type: ignore[attr-defined]
    ndarray.round = round_  # type: ignore[attr-defined]
    ndarray.T = property(lambda self: self.transpose())  # type: ignore[attr-defined]
    ndarray.mT = property(lambda self: self.swapaxes(-1, -2))  # type: ignore[attr-defined]
    ndarray.real, ndarray.imag = property(real, set_real), property(imag, set_imag)  # type: ignore[attr-defined]
    ndarray.take, ndarray.put = indexing.take, indexing.put  # type: ignore[attr-defined]
    ndarray.__getitem__ = indexing.getitem  # type: ignore[attr-defined]
    ndarray.__setitem__ = indexing.setitem  # type: ignore[attr-defined]


_install()
