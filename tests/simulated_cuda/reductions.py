"""Reductions and scans: CuPy's parameters and result types; half types are summed in float32."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from . import api
from .array import ndarray
from .launch import compute
from .ufunc import wide


def _check(a: Any) -> ndarray:
    if not isinstance(a, ndarray):
        raise TypeError(f"Unsupported type {type(a)}")
    return a


def _plain_axis(axis: Any) -> Any:
    if axis is None or isinstance(axis, tuple):
        return axis
    try:
        return operator.index(axis)  # CuPy takes no lists
    except TypeError:
        raise TypeError(f"axis must be an int or a tuple of ints, not {type(axis)}") from None


class Reduction:
    """One of CuPy's reduction kernels: its loops, and NumPy's function of that name."""

    def __init__(self, name: str):
        self.name, self.fn = name, getattr(np, name)
        pairs = [t.split("->") for t in api.REDUCTIONS[name]]
        self.loops = [(api.dtype_of(i), api.dtype_of(o)) for i, o in pairs]

    def loop(self, given: np.dtype, dtype: Any) -> tuple[np.dtype, np.dtype]:
        for i, o in self.loops:
            if (o == np.dtype(dtype)) if dtype is not None else np.can_cast(given, i):
                return i, o
        raise TypeError(f"Wrong type ({dtype or given}) of arguments for cupy_{self.name}")

    def __call__(self, a: Any, axis, dtype, out, keepdims) -> Any:
        axis = _plain_axis(axis)
        if self.name[:3] == "arg" and dtype is not None:
            inner, kind = a.dtype, np.dtype(dtype)
        else:
            inner, kind = self.loop(_check(a).dtype, dtype)
        inner = kind if self.name in ("sum", "prod", "mean") else inner

        def run(h):
            total = self.fn(h.astype(wide(inner), copy=False), axis=axis, keepdims=bool(keepdims))
            return np.asarray(total).astype(kind, copy=False)

        return compute(run, (a,), out=out, label=self.name)


KERNELS = {name: Reduction(name) for name in api.REDUCTIONS}


def _summing(name: str):
    def method(self, axis=None, dtype=None, out=None, keepdims=False):
        return KERNELS[name](self, axis, dtype, out, keepdims)

    return method


def _extreme(name: str):
    def method(self, axis=None, out=None, keepdims=False):
        return KERNELS[name](self, axis, None, out, keepdims)

    return method


def _position(name: str):
    def method(self, axis=None, out=None, dtype=None, keepdims=False):
        return KERNELS[name](self, axis, dtype, out, keepdims)

    return method


def _ptp(self, axis=None, out=None, keepdims=False):
    return compute(
        lambda h: np.asarray(np.ptp(h, axis=axis, keepdims=keepdims)), (self,), out=out, label="ptp"
    )


def _result_type(a: ndarray, dtype: Any) -> np.dtype:
    if dtype is not None:
        return np.dtype(dtype)
    if a.dtype.kind in "biu":
        return np.dtype(np.uint64 if a.dtype.kind == "u" else np.int64)
    return a.dtype


def _scan(name: str):
    fn = getattr(np, name)

    def method(self, axis=None, dtype=None, out=None):
        kind = _result_type(_check(self), dtype)
        if kind.kind == "V":
            raise RuntimeError(f"the kernels of cupy.{name} do not compile for bfloat16")
        inner = wide(kind)

        def run(h):
            return fn(h.astype(inner, copy=False), axis=axis).astype(kind)

        return compute(run, (self,), out=out, label=name)

    method.__name__ = name
    return method


def _spread(name: str):
    fn = getattr(np, name)

    def method(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
        a, axis = _check(self), _plain_axis(axis)
        kind = np.dtype(dtype) if dtype is not None else np.zeros((), a.dtype).real.dtype
        kind = kind if kind.char in "ef" else np.dtype(float)  # so it is for bfloat16 too

        def run(h):
            h = h.astype(np.float64) if h.dtype.kind != "c" else h
            return np.asarray(fn(h, axis=axis, ddof=ddof, keepdims=keepdims)).astype(kind)

        return compute(run, (a,), out=out, label=name)

    method.__name__ = name
    return method


METHODS: dict[str, Any] = {
    **{n: _summing(n) for n in ("sum", "prod", "mean")},
    **{n: _extreme(n) for n in ("max", "min", "any", "all")},
    **{n: _position(n) for n in ("argmax", "argmin")},
    **{n: _scan(n) for n in ("cumsum", "cumprod")},
    **{n: _spread(n) for n in ("var", "std")},
    "ptp": _ptp,
}
