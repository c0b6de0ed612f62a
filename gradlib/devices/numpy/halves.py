"""Half types, float16 and bfloat16: widened to float32, computed, and rounded once.

NumPy has loops for them that convert each number on its own. Here whole blocks are converted, small enough to stay in
the cache, and the kernels of float32 compute:

    through_float32(np.add, a, b)            # an elementwise kernel of arrays, some of a half type

The conversions are those of `half_bits.py`.
Where results lie, and what they are where they are not float32, is as the kernel has it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...op import halves
from ...operators.kinds import F4, F8, is_half, narrow
from ...tape.dtypes import HALVES, bfloat16, float16
from . import blocks, half_bits, parallel
from .half_bits import LONG, narrow_half, widen_half

_BFLOAT16, _FLOAT16 = bfloat16.np, float16.np
_ndarray = np.ndarray


def float_arrays(kernel: Callable) -> Callable:
    """An overlay for float32 and float64 made to take half types too (through float32) and to decline what is else.

    It declines 0-dim and empty arrays as well.
    """

    def overlay(xp, self, *rest, **attrs):
        if not self.size or not self.ndim:
            return NotImplemented
        d = self.dtype
        if d is F4 or d is F8 or (d.kind == "f" and d.itemsize > 2):
            return kernel(xp, self, *rest, **attrs)
        if not is_half(self):
            return NotImplemented
        wide = [xp.wide(r) if hasattr(r, "dtype") else r for r in rest]
        return narrow(kernel(xp, xp.wide(self), *wide, **attrs), d)

    return overlay


# -- elementwise kernels -----------------------------------------------------------------------------------------------

compiled: Callable[..., Any] | None = (
    None  # ``compiled(ufunc, operands, out)``, or NotImplemented: `compiled/halves.py`
)
_BITS = {  # what is done to the bits alone
    np.negative: (np.bitwise_xor, np.array(0x8000, np.uint16)),
    np.absolute: (np.bitwise_and, np.array(0x7FFF, np.uint16)),
}
_ARRAYS = (np.ndarray, np.generic)
_SMALL = 1 << 12  # elements of arrays that are converted as a whole, with little around that


def through_float32(kernel: Any, *operands: Any, out: np.ndarray | None = None) -> Any:
    """``kernel(*operands)``, where some are arrays of a half type: in float32, and the result is rounded once.

    Each element of the result depends on those at its place alone. float32 results get the half type, others (truth
    values) stay as they are. Where the kernel gives an operand back, so does this.

    Args:
        kernel: a ufunc, or a function of arrays that are contiguous and of one shape, or broadcast.
        operands: arrays of one half type, numbers as float32 arrays without dimensions, and whatever else it takes.
        out: is written to instead of a new array.
    """
    if compiled is not None and kernel.__class__ is np.ufunc:
        made = compiled(kernel, operands, out)
        if made is not NotImplemented:
            return made
    given, half, large = [], None, False
    for a in operands:  # one loop: of small arrays this is most of the time
        if a.__class__ is _ndarray:
            d = a.dtype
            if a.size > _SMALL:
                large = True
            elif d is _BFLOAT16 or d is _FLOAT16:
                half = d
                a = a.astype(F4) if compiled is None else widen_half(a)
        elif isinstance(a, np.generic) and a.dtype in HALVES:
            half = a.dtype
            a = a.astype(F4)
        given.append(a)
    if large or half is None:
        half = next(a.dtype for a in operands if isinstance(a, _ARRAYS) and a.dtype in HALVES)
    if kernel.__class__ is np.ufunc:
        made = _by_ufunc(kernel, half, operands, out)
        if made is not NotImplemented:
            return made
    try:
        made = _in_blocks(kernel, half, operands, out) if large else NotImplemented
        if made is NotImplemented:
            if large:
                given = [_wide(a) for a in operands]
            made = kernel(*given)
            if made.dtype is F4:
                for a, wide in zip(operands, given, strict=True):
                    if made is wide:
                        made = a
                        break
                else:
                    made = narrow_half(made, half)
    except Exception:
        kernel(*operands)  # which says it of the half type
        raise
    if out is None or made is out:
        return made
    out[...] = made
    return out


def formula_through_float32(kernel: Callable, xp: Any, *operands: Any, **attrs: Any) -> Any:
    """``kernel(xp, *operands, **attrs)`` likewise."""
    if len(operands) == 1 and operands[0].size <= _SMALL:
        (x,) = operands
        wide = x.astype(F4) if compiled is None else widen_half(x)
        made = kernel(xp, wide, **attrs)
        if made is wide or made.dtype is not F4:
            return x if made is wide else made
        return made.astype(x.dtype) if compiled is None else narrow_half(made, x.dtype)
    return through_float32(lambda *some: kernel(xp, *some, **attrs), *operands)


def whole_through_float32(kernel: Callable, xp: Any, *operands: Any, **attrs: Any) -> Any:
    """``kernel(xp, *operands, **attrs)`` of whole arrays, which may be a reduction."""
    half = next(a.dtype for a in operands if isinstance(a, _ARRAYS) and a.dtype in HALVES)
    made = kernel(xp, *[_wide(a) for a in operands], **attrs)
    return narrow_half(made, half) if made.dtype is F4 else made


def gradient_through_float32(formula: Callable, *values: Any) -> Any:
    """``formula(*values)`` of a gradient formula likewise, if there are arrays of a half type among `values`."""
    for v in values:
        if isinstance(v, _ARRAYS) and v.dtype in HALVES:
            ufunc = None if compiled is None else single_ufunc(formula, len(values))
            return through_float32(formula if ufunc is None else ufunc, *values)
    return formula(*values)


class _Probe:
    """Stands for an array where it is asked which ufunc of its arguments, in their order, a formula is."""

    def __init__(self, number: int, ufunc: Any = None):
        self.number, self.ufunc = number, ufunc

    def conjugate(self) -> _Probe:
        return self

    def __mul__(self, other: Any) -> Any:
        return self._of(np.multiply, other)

    def __truediv__(self, other: Any) -> Any:
        return self._of(np.true_divide, other)

    def _of(self, ufunc: np.ufunc, other: Any) -> Any:
        if other.__class__ is not _Probe or (self.number, other.number) != (0, 1):
            raise TypeError("no single ufunc")
        return _Probe(-1, ufunc)


@functools.cache
def single_ufunc(formula: Callable, count: int) -> Any:
    """The ufunc of two arrays that a formula is, or None."""
    if count != 2:
        return None
    try:
        made = formula(_Probe(0), _Probe(1))
    except Exception:
        return None
    return made.ufunc if made.__class__ is _Probe else None


def _by_ufunc(ufunc: np.ufunc, half: np.dtype, operands: tuple, out: np.ndarray | None) -> Any:
    """By NumPy's own loops for halves where those are quicker: they round once, too. Or NotImplemented."""
    if len(operands) == 1:
        (x,) = operands
        if ufunc in _BITS:
            change, bits = _BITS[ufunc]
            if out is None:
                return change(x.view(np.uint16), bits).view(half)
            change(x.view(np.uint16), bits, out.view(np.uint16))
            return out
        if x.size > halves.FEW_OF_ONE and not (half is _FLOAT16 and _has_loop(ufunc)):
            return NotImplemented
    elif max([a.size for a in operands]) > halves.FEW_OF_SEVERAL:
        return NotImplemented
    if out is not None:
        return ufunc(*operands, out=out, casting="same_kind")
    made = ufunc(*operands)
    return made.astype(half) if made.dtype is F4 else made  # beside a number in float32


@functools.cache
def _has_loop(ufunc: np.ufunc) -> bool:
    """Whether NumPy has a loop of `ufunc` for float16 that takes several numbers at once on this machine."""
    try:
        from numpy.lib.introspect import opt_func_info
    except ImportError:
        return False
    found = opt_func_info(func_name=f"^{ufunc.__name__}$", signature="^float16$")
    loop = found.get(ufunc.__name__, {}).get("ee", {})
    return not loop.get("current", "baseline").startswith("baseline")


def _wide(a: Any) -> Any:
    """An operand in float32 if it is of a half type."""
    if a.__class__ is _ndarray:
        return widen_half(a) if a.dtype in HALVES else a
    return a.astype(F4) if isinstance(a, np.generic) and a.dtype in HALVES else a


def _in_blocks(kernel: Callable, half: np.dtype, operands: tuple, out: np.ndarray | None) -> Any:
    """Of large arrays that lie alike, or are rows and what is broadcast to them; NotImplemented for others."""
    arrays = [a for a in operands if a.__class__ is np.ndarray and a.ndim]
    if not arrays or max([a.size for a in arrays]) <= LONG:
        return NotImplemented
    laid = arrays if out is None else [*arrays, out]
    first = arrays[0]
    if all([a.flags.c_contiguous for a in laid]):
        shape = first.shape if len(arrays) == 1 else np.broadcast(*arrays).shape
        alike = all([a.shape == shape for a in arrays])
    else:
        shape = first.shape
        alike = all([a.shape == shape and a.flags.f_contiguous for a in laid])
        if not alike:
            return NotImplemented
    if alike:  # as vectors
        parts: list[Any] = [
            a.ravel("K") if a.__class__ is np.ndarray and a.ndim else None for a in operands
        ]
        step = LONG
    else:
        if len(shape) < 2:
            return NotImplemented
        rows = len(shape), shape[0]
        parts = [
            a if a.__class__ is np.ndarray and (a.ndim, len(a) if a.ndim else 0) == rows else None
            for a in operands
        ]
        step = max(1, LONG // math.prod(shape[1:]))
    whole = [_wide(a) if part is None else None for a, part in zip(operands, parts, strict=True)]
    some = [k for k, part in enumerate(parts) if part is not None and part.dtype in HALVES]

    def made_of(i: int, j: int, to: list, within: bool) -> tuple[Any, list]:
        """What the kernel makes of a block, and what it was given: halves as float32 in the vectors `to`.

        within: it is made in the place of one of those.
        """
        given: list[Any] = list(whole)
        for k, part in enumerate(parts):
            if part is not None:
                given[k] = part[i:j]
        for k, vector in zip(some, to, strict=True):
            given[k] = _widened(given[k], vector)
        return kernel(*given, out=given[some[0]]) if within else kernel(*given), given

    n = math.prod(shape) if alike else shape[0]
    count = min(step, n)
    vectors = half_bits.borrow(len(some))
    made, given = made_of(0, step, vectors, False)
    for a, wide in zip(operands, given, strict=True):
        if made is wide:  # given back as it came
            return a
    if made.__class__ is not np.ndarray or made.shape != (
        (count,) if alike else (count, *shape[1:])
    ):
        return NotImplemented
    dtype = half if made.dtype is F4 else made.dtype
    if out is None:
        out = np.empty_like(first, dtype) if alike else np.empty(shape, dtype)
    elif out.dtype is not dtype:
        return NotImplemented
    target = out.ravel("K") if alike else out
    write = _rounding(made.reshape(-1), half) if made.dtype is F4 else _write

    def put(made: np.ndarray, i: int, j: int) -> None:
        write(np.ascontiguousarray(made).reshape(-1), target[i:j].reshape(-1))

    within = bool(some) and kernel.__class__ is np.ufunc and made.dtype is F4
    within = within and parts[some[0]].shape == out.shape

    def piece(i: int, j: int) -> None:
        vectors = half_bits.borrow(len(some))
        put(made_of(i, j, vectors, within)[0], i, j)
        half_bits.hand_back(vectors)

    put(made, 0, step)
    half_bits.hand_back(vectors)
    spans = blocks.spans(n, step)[1:]
    if spans:
        parallel.each(spans, out.size, piece)
    return out


def _widened(x: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """An array of a half type as float32, in a vector of `LONG` elements if it has room there."""
    if x.size > LONG:
        return widen_half(x)
    wide = vector[: x.size]
    half_bits.widen(x.reshape(-1), wide)
    return wide.reshape(x.shape)


def _write(x: np.ndarray, out: np.ndarray) -> None:
    out[...] = x


def _rounding(some: np.ndarray, half: np.dtype) -> Callable[[np.ndarray, np.ndarray], None]:
    """How vectors of float32 of which `some` is one are rounded: ``f(vector, out)``."""
    if half == _FLOAT16 or half_bits.is_compiled():
        return half_bits.narrow
    exact = not np.bitwise_or.reduce(some[:64].view(np.uint32)) & 0xFFFF
    return half_bits.copy_upper if exact else half_bits.narrow
