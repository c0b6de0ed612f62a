"""What CuPy does not have: ufunc methods reduce, accumulate and at for more dtypes; bfloat16; errors of linear algebra.

Only array functions are used: no loops over elements, no waiting, nothing that depends on values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .gemm import LARGEST

_REDUCTIONS = {"maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all"}
SOLVED = frozenset("cholesky det eigh eigvalsh inv lstsq matrix_rank pinv qr slogdet svd".split())
"""Functions that cuSOLVER computes."""
ATOMIC = frozenset(np.dtype(c) for c in "iIQfd")  # dtypes that CuPy's add.at takes, half apart
WIDENED = frozenset("cumprod cumsum divmod nanmean std unique var".split())
"""Functions that know no bfloat16, or give something else than bfloat16: computed in float32 and rounded."""
_VIEWED = {np.dtype(np.int64): np.dtype(np.uint64)}  # two's complement: the same additions


# -- bfloat16 ----------------------------------------------------------------------------------------------------------


def is_bfloat16(array: Any) -> bool:
    """Whether an operand has this dtype, which NumPy and CuPy count among the kinds unknown to them."""
    dtype = getattr(array, "dtype", None)
    return dtype is not None and dtype.kind == "V"


def rounded(result: Any, dtype: np.dtype) -> Any:
    """A result computed in float32 for an array of that dtype; results of other types are what they are."""
    if isinstance(result, (tuple, list)):
        return tuple(rounded(r, dtype) for r in result)
    return result.astype(dtype) if dtype.kind == "V" and result.dtype == np.float32 else result


def widened(function: Callable) -> Callable:
    """A function of CuPy that takes bfloat16 too."""

    def call(array, *args, **kwargs):
        if not is_bfloat16(array):
            return function(array, *args, **kwargs)
        result = function(array.astype(np.float32), *args, **kwargs)
        return result if kwargs.get("dtype") is not None else rounded(result, array.dtype)

    return call


def as_bits(function: Callable, array: Any, *args: Any) -> Any:
    """A function that copies elements or leaves zeros, for an array of any dtype."""
    if not is_bfloat16(array):
        return function(array, *args)
    return function(array.view(np.uint16), *args).view(array.dtype)


def chosen(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    """``where(condition, x, y)`` of bfloat16, by copying bits.

    Whole numbers become bfloat16, as in NumPy; beside what is wider (Python's floats are) the result is wide.
    """
    dtype = x.dtype if is_bfloat16(x) else y.dtype
    parts = [bits(operand, dtype) for operand in (x, y)]
    if any(part is None for part in parts):
        return xp.where(condition, x, y)
    return xp.where(condition, *parts).view(dtype)


def bits(operand: Any, dtype: np.dtype) -> Any:
    """An operand of `where` in a dtype of two bytes, as integers; None if that dtype is too narrow for it."""
    if isinstance(operand, int):
        operand = dtype.type(operand)
    elif not hasattr(operand, "dtype") or np.promote_types(operand.dtype, dtype) != dtype:
        return None
    return operand.astype(dtype, copy=False).view(np.uint16)


def countable(name: str, function: Callable) -> Callable:
    """A function of cuSOLVER, which refuses matrices that are too large for the library's numbers."""

    def call(array, *args, **kwargs):
        for a in (array, *args):
            if math.prod(getattr(a, "shape", ())[-2:]) > LARGEST:
                raise RuntimeError(
                    f"linalg.{name}: a matrix of {' x '.join(map(str, a.shape[-2:]))} has more than {LARGEST} "
                    "elements, which is what cuSOLVER's functions of 32 bits can count. Use device='cpu'."
                )
        return function(array, *args, **kwargs)

    return call


class Linalg:
    """CuPy's ``linalg``, with NumPy's broadcasting in `solve`; matrices of more than 2^31 elements are refused."""

    def __init__(self, xp: Any):
        self.xp = xp

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.xp.linalg, name)
        if name in SOLVED:
            value = countable(name, value)
        self.__dict__[name] = value
        return value

    def solve(self, a: Any, b: Any) -> Any:
        """x with ``a @ x == b``: a [..., n, n], b [..., n, k], batch dimensions broadcast."""
        if a.shape[:-2] != b.shape[:-2]:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            a, b = (self.xp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
        return countable("solve", self.xp.linalg.solve)(a, b)


class CheckedLinalg:
    """CuPy's ``linalg`` that waits to see whether cuSOLVER failed, and raises LinAlgError then as NumPy's does.

    CuPy's own does not wait: its result is without meaning then, mostly nan.
    """

    def __init__(self, module: Any, errstate: Callable):
        self.module, self.errstate = module, errstate

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.module, name)
        if callable(value) and not isinstance(value, type):
            value = self.errstate(linalg="raise")(value)
        self.__dict__[name] = value
        return value


class Ufunc:
    """A CuPy ufunc with the methods that kernels use.

    Calls and attributes are those of the ufunc; `reduce`, `accumulate` and `at` work where CuPy refuses.
    """

    def __init__(self, backend: Any, ufunc: Any, name: str):
        self.backend, self.ufunc, self.__name__ = backend, ufunc, name

    def __call__(self, *args, **kwargs):
        return self.ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ufunc, name)

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        """NumPy's reduce over one axis, several, or (None) all."""
        if self.__name__ in ("add", "multiply"):
            return self.ufunc.reduce(array, axis, dtype, out, keepdims)
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        method = _REDUCTIONS.get(self.__name__)
        if method is not None:
            return getattr(array, method)(axis, out, keepdims)
        result = folded(self.backend.xp, self.ufunc, array, axis, keepdims)
        if out is None:
            return result
        out[...] = result
        return out

    def accumulate(self, array, axis=0, dtype=None, out=None):
        """NumPy's accumulate: each entry is the ufunc of all entries up to it."""
        if self.__name__ in ("add", "multiply") and not is_bfloat16(array):
            return self.ufunc.accumulate(array, axis, dtype, out)
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        result = running(self.backend.xp, self.ufunc, array, axis)
        if out is None:
            return result
        out[...] = result
        return out

    def at(self, out, indices, values) -> None:
        """``out[indices] = ufunc(out[indices], values)``, with every occurrence of an index counted."""
        if self.__name__ == "add":
            add_at(self.backend, out, indices, values)
        else:
            combine_at(self.backend.xp, self.ufunc, out, indices, values)


class Logical(Ufunc):
    """A logical ufunc, which CuPy has for real numbers alone."""

    def __call__(self, *args, **kwargs):
        return self.ufunc(*[_truth(a) for a in args], **kwargs)


def _truth(operand: Any) -> Any:
    """Complex numbers as bool, others as they are."""
    dtype = getattr(operand, "dtype", None)
    return operand != 0 if dtype is not None and dtype.kind == "c" else operand


def folded(xp: Any, ufunc: Any, array: Any, axis: Any, keepdims: bool):
    """All entries along the axes combined by an associative, commutative ufunc, in log2(n) steps."""
    axes = range(array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = sorted(a % array.ndim for a in axes)
    kept = tuple(n for i, n in enumerate(array.shape) if i not in axes)
    rest = xp.moveaxis(array, axes, range(len(axes))).reshape(-1, *kept)
    if not rest.shape[0]:
        raise ValueError(f"zero-size array to reduction operation {ufunc.name} has no identity")
    while rest.shape[0] > 1:
        half = rest.shape[0] // 2
        pairs = ufunc(rest[:half], rest[half : 2 * half])
        rest = xp.concatenate([pairs, rest[2 * half :]]) if rest.shape[0] % 2 else pairs
    shape = tuple(1 if i in axes else n for i, n in enumerate(array.shape)) if keepdims else kept
    return rest.reshape(shape)


def running(xp: Any, ufunc: Any, array: Any, axis: int):
    """Prefix results of an associative ufunc along one axis, in log2(n) steps (Hillis and Steele, CACM 29, 1986)."""
    result = array.copy()
    moved = xp.moveaxis(result, axis, 0)
    step = 1
    while step < moved.shape[0]:
        moved[step:] = ufunc(moved[:-step], moved[step:])
        step *= 2
    return result


def add_at(backend: Any, out: Any, key: Any, values: Any) -> None:
    """``out[key] += values``, every occurrence counted, for every dtype; sums of half types are rounded once."""
    dtype = out.dtype
    if not hasattr(values, "dtype"):
        values = backend.number(values, dtype)
    if dtype in ATOMIC:
        backend.xp.add.at(out, key, values)
    elif dtype in _VIEWED:
        same = _VIEWED[dtype]
        backend.xp.add.at(out.view(same), key, values.astype(dtype, copy=False).view(same))
    elif dtype.kind == "c":
        backend.xp.add.at(out.real, key, values.real)
        if values.dtype.kind == "c":
            backend.xp.add.at(out.imag, key, values.imag)
    else:
        wide = out.astype(np.float32 if dtype.kind in "fV" else np.int32)
        backend.xp.add.at(wide, key, values.astype(wide.dtype, copy=False))
        out[...] = wide != 0 if dtype.kind == "b" else wide.astype(dtype)


def combine_at(xp: Any, ufunc: Any, out: Any, key: Any, values: Any) -> None:
    """``out[key] = ufunc(out[key], values)`` for an associative, commutative ufunc, every occurrence counted.

    The values are sorted by position and combined within runs of one position; the last of each run is written.
    """
    places = xp.arange(out.size).reshape(out.shape)[key]
    if not places.size:
        return
    values = xp.broadcast_to(xp.asarray(values, out.dtype), places.shape).reshape(-1)
    places = places.reshape(-1)
    order = xp.argsort(places)
    places, values = places[order], values[order].astype(out.dtype)
    step = 1
    while step < places.size:
        same = places[step:] == places[:-step]
        values[step:] = xp.where(same, ufunc(values[:-step], values[step:]), values[step:])
        step *= 2
    last = xp.concatenate([places[1:] != places[:-1], xp.ones(1, bool)])
    flat = xp.concatenate(
        [out.reshape(-1), out.reshape(-1)[:1]]
    )  # the slot behind the end takes the rest
    flat[xp.where(last, places, out.size)] = ufunc(flat[places], values)
    out[...] = flat[:-1].reshape(out.shape)
