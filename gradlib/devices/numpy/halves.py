"""Half types, float16 and bfloat16: widened to float32, computed, and rounded once.

NumPy has loops for them that convert each number on its own. Here whole blocks are converted, small enough to stay in
the cache, and the kernels of float32 compute:

    widen_half(array)                        # as float32
    narrow_half(array, dtype)                # float32 numbers rounded to a half type, ties to even
    through_float32(np.add, a, b)            # an elementwise kernel of arrays, some of a half type

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
from . import blocks, parallel
from .mkl import dense

BLOCK = 1 << 17  # elements: in float32 an array of them stays in the second-level cache
FEW = 1 << 9  # elements below which float16 is converted by NumPy: the ways here are many calls
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


# -- conversions -------------------------------------------------------------------------------------------------------


def _word(value: int) -> np.ndarray:
    """A word as an array without dimensions, with which NumPy computes sooner."""
    return np.array(value, np.uint32)


_13, _16, _LOW_SIGN, _EXPONENT = _word(13), _word(16), _word(0x8000), _word(0x7F800000)
_PARTS, _PLACES = _word(0x8FFFFFFF).view(np.int32), _13.view(np.int32)
_LEAST = np.array(2.0**-14, np.float32)  # the least normal number of float16
_UP, _DOWN = np.array(2.0**112, np.float32), np.array(2.0**-112, np.float32)  # between the biases
_ALIGN = np.array(1.5 * 2**13, np.float32)
_ONE, _SPECIAL, _LARGEST = np.array(1, np.uint16), 0x7C00 << 1, 65504.0


def _widen_float16(x: np.ndarray, out: np.ndarray) -> None:
    """float16 numbers as float32, vectors both.

    The bits of exponent and fraction at their places in float32 are a number that is 2^112 too small, subnormal ones
    included; infinities and nan alone are something else.
    """
    if np.left_shift(x.view(np.uint16), _ONE).max() >= _SPECIAL:
        out[...] = x
        return
    words = out.view(np.int32)
    words[...] = x.view(np.int16)
    np.left_shift(words, _PLACES, words)
    np.bitwise_and(words, _PARTS, words)
    np.multiply(out, _UP, out)


def _narrow_float16(x: np.ndarray, out: np.ndarray) -> None:
    """float32 numbers rounded to float16, vectors both.

    Beside 1.5 * 2^13 times its own power of two (at least 2^-14) a number has ten binary places left, in float32. The
    rest is as in `_widen_float16`; signs are those from before, which zeros have lost.
    """
    if not (x.max() <= _LARGEST and x.min() >= -_LARGEST):  # or there is nan
        out[...] = x
        return
    given = x.view(np.uint32)
    powers = np.bitwise_and(given, _EXPONENT).view(np.float32)
    np.maximum(powers, _LEAST, out=powers)
    np.multiply(powers, _ALIGN, powers)
    made = np.add(x, powers)
    np.subtract(made, powers, made)
    np.multiply(made, _DOWN, made)
    words, signs = made.view(np.uint32), powers.view(np.uint32)
    np.right_shift(words, _13, words)
    np.right_shift(given, _16, signs)
    np.bitwise_and(signs, _LOW_SIGN, signs)
    np.bitwise_or(words, signs, words)
    out.view(np.uint16)[...] = words


def _round_to_float16(x: np.ndarray, out: np.ndarray) -> None:
    if x.size < FEW:
        out[...] = x
    else:
        _narrow_float16(x, out)


def _round(x: np.ndarray, out: np.ndarray) -> None:
    out[...] = x


def _take_upper(x: np.ndarray, out: np.ndarray) -> None:
    """float32 numbers as bfloat16, most of which it has: the lower halves of their bits are zeros."""
    words = x.view(np.uint32)
    if np.bitwise_or.reduce(words) & 0xFFFF:
        out[...] = x
    else:
        out.view(np.uint16)[...] = np.right_shift(words, _16)


def _rounding(some: np.ndarray, half: np.dtype) -> Callable[[np.ndarray, np.ndarray], None]:
    """How vectors of float32 of which `some` is one are rounded: ``f(vector, out)``."""
    if half == _FLOAT16:
        return _round_to_float16
    exact = not np.bitwise_or.reduce(some[:64].view(np.uint32)) & 0xFFFF
    return _take_upper if exact else _round


def widen_half(array: np.ndarray) -> np.ndarray:
    """An array of a half type in float32, laid out alike."""
    if array.size < FEW or array.dtype != _FLOAT16:
        return array.astype(F4)
    return _converted(array, F4, _widen_float16)


def narrow_half(array: Any, dtype: np.dtype) -> Any:
    """An array in a half type, laid out alike: float32 numbers are rounded to nearest, ties to even."""
    if dtype is not _FLOAT16 or array.dtype is not F4 or array.size < FEW:
        return array.astype(dtype)
    return _converted(array, dtype, _narrow_float16)


def _converted(array: np.ndarray, dtype: np.dtype, convert: Callable) -> np.ndarray:
    x = dense(array)
    out = np.empty_like(x, dtype)
    given, target, n = x.ravel("K"), out.ravel("K"), x.size
    parallel.each(blocks.spans(n, BLOCK), n, lambda i, j: convert(given[i:j], target[i:j]))
    return out


# -- elementwise kernels -----------------------------------------------------------------------------------------------

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
    given, half, large = [], None, False
    for a in operands:  # one loop: of small arrays this is most of the time
        if a.__class__ is _ndarray:
            d = a.dtype
            if a.size > _SMALL:
                large = True
            elif d is _BFLOAT16 or d is _FLOAT16:
                half = d
                a = a.astype(F4)
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
        made = kernel(xp, wide := x.astype(F4), **attrs)
        return x if made is wide else made.astype(x.dtype) if made.dtype is F4 else made
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
            return through_float32(formula, *values)
    return formula(*values)


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


def _given_back(made: Any, operands: tuple, given: list) -> Any:
    """The operand where the kernel gave it back as it got it."""
    return next((a for a, wide in zip(operands, given, strict=True) if made is wide), made)


def _in_blocks(kernel: Callable, half: np.dtype, operands: tuple, out: np.ndarray | None) -> Any:
    """Of large arrays that lie alike, or are rows and what is broadcast to them; NotImplemented for others."""
    arrays = [a for a in operands if a.__class__ is np.ndarray and a.ndim]
    if not arrays or max([a.size for a in arrays]) <= BLOCK:
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
        parts = [a.ravel("K") if a.__class__ is np.ndarray and a.ndim else None for a in operands]
        step = BLOCK
    else:
        if len(shape) < 2:
            return NotImplemented
        rows = len(shape), shape[0]
        parts = [
            a if a.__class__ is np.ndarray and (a.ndim, len(a) if a.ndim else 0) == rows else None
            for a in operands
        ]
        step = max(1, BLOCK // math.prod(shape[1:]))
    whole = [_wide(a) if part is None else None for a, part in zip(operands, parts, strict=True)]

    def given(i: int, j: int) -> list:
        pairs = zip(parts, whole, strict=True)
        return [a if part is None else _wide(part[i:j]) for part, a in pairs]

    n = math.prod(shape) if alike else shape[0]
    some, count = given(0, step), min(step, n)
    made = kernel(*some)
    if (found := _given_back(made, operands, some)) is not made:
        return found
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
    write = _rounding(made.reshape(-1), half) if made.dtype is F4 else _round

    def put(made: np.ndarray, i: int, j: int) -> None:
        write(np.ascontiguousarray(made).reshape(-1), target[i:j].reshape(-1))

    put(made, 0, step)
    spans = blocks.spans(n, step)[1:]
    if not spans:
        return out
    parallel.each(spans, out.size, lambda i, j: put(kernel(*given(i, j)), i, j))
    return out
