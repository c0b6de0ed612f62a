"""Reductions and scans: CuPy's parameters and result types; half types are summed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import ndarray
from .launch import compute
from .ufunc import wide


def _result_type(a: ndarray, dtype: Any, sums: bool) -> np.dtype:
    if dtype is not None:
        return np.dtype(dtype)
    if sums and a.dtype.kind in "biu":
        return np.dtype(np.uint64 if a.dtype.kind == "u" else np.int64)
    return a.dtype


def _check(a: Any) -> ndarray:
    if not isinstance(a, ndarray):
        raise TypeError(f"Unsupported type {type(a)}")
    return a


def _plain_axis(axis: Any) -> Any:
    if isinstance(axis, (ndarray, np.ndarray)):
        raise TypeError(f"axis must be an int or a tuple of ints, not {type(axis)}")
    return tuple(axis) if isinstance(axis, list) else axis


def _summing(name: str, keepdims_default: Any = False):
    fn = getattr(np, name)

    def method(self, axis=None, dtype=None, out=None, keepdims=keepdims_default):
        kind, axis = _result_type(_check(self), dtype, True), _plain_axis(axis)
        inner = wide(kind)

        def run(h):
            total = fn(h.astype(inner, copy=False), axis=axis, keepdims=bool(keepdims))
            return np.asarray(total).astype(kind)

        return compute(run, (self,), out=out, label=name)

    method.__name__ = name
    return method


def _scan(name: str):
    fn = getattr(np, name)

    def method(self, axis=None, dtype=None, out=None):
        kind = _result_type(_check(self), dtype, True)
        inner = wide(kind)

        def run(h):
            return fn(h.astype(inner, copy=False), axis=axis).astype(kind)

        return compute(run, (self,), out=out, label=name)

    method.__name__ = name
    return method


def _extreme(name: str):
    fn = getattr(np, name)

    def method(self, axis=None, out=None, keepdims=False):
        axis = _plain_axis(axis)
        return compute(
            lambda h: np.asarray(fn(h, axis=axis, keepdims=keepdims)), (_check(self),), out=out, label=name
        )

    method.__name__ = name
    return method


def _position(name: str):
    fn = getattr(np, name)

    def method(self, axis=None, out=None, dtype=None, keepdims=False):
        kind = np.dtype(dtype or np.int64)

        def run(h):
            return np.asarray(fn(h, axis=axis, keepdims=keepdims)).astype(kind)

        return compute(run, (_check(self),), out=out, label=name)

    method.__name__ = name
    return method


def _mean(self, axis=None, dtype=None, out=None, keepdims=False):
    a, axis = _check(self), _plain_axis(axis)
    kind = np.dtype(dtype) if dtype is not None else a.dtype
    kind = np.dtype(float) if kind.kind in "biu" else kind

    def run(h):
        return np.asarray(np.mean(h.astype(wide(kind), copy=False), axis=axis, keepdims=keepdims)).astype(kind)

    return compute(run, (a,), out=out, label="mean")


def _spread(name: str):
    fn = getattr(np, name)

    def method(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
        a, axis = _check(self), _plain_axis(axis)
        kind = np.dtype(dtype) if dtype is not None else a.dtype
        kind = np.dtype(float) if kind.kind in "biu" else kind

        def run(h):
            h = h.astype(wide(kind) if kind.kind != "c" else kind, copy=False)
            return np.asarray(fn(h, axis=axis, ddof=ddof, keepdims=keepdims)).astype(
                np.zeros((), kind).real.dtype
            )

        return compute(run, (a,), out=out, label=name)

    method.__name__ = name
    return method


METHODS: dict[str, Any] = {
    "sum": _summing("sum"), "prod": _summing("prod", None), "cumsum": _scan("cumsum"), "cumprod": _scan("cumprod"),
    "max": _extreme("max"), "min": _extreme("min"), "any": _extreme("any"), "all": _extreme("all"),
    "ptp": _extreme("ptp"), "argmax": _position("argmax"), "argmin": _position("argmin"), "mean": _mean,
    "var": _spread("var"), "std": _spread("std"),
}  # fmt: skip
