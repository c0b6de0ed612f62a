"""Conversions between float32 and the half types, float16 and bfloat16, for whole arrays: by their bits, in blocks.

    widen_half(array)                        # as float32
    narrow_half(array, dtype)                # float32 numbers rounded to a half type, ties to even
    widen(x, out); narrow(x, out)            # the same of vectors without gaps

Each gives the bits that NumPy's own conversion gives, or that of `ml_dtypes`, which take numbers one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...operators.kinds import F4, is_half
from ...tape.dtypes import bfloat16, float16
from . import blocks, parallel
from .mkl import dense

BLOCK = 1 << 16  # elements: what a conversion makes of them on its way stays in the cache
LONG = 1 << 17  # the same of a kernel of float32, which makes less
FEW = 1 << 9  # elements below which float16 is converted by NumPy: the ways here are many calls
_BFLOAT16, _FLOAT16 = bfloat16.np, float16.np


# -- memory for blocks -------------------------------------------------------------------------------------------------

_kept: list[np.ndarray] = []


def borrow(count: int) -> list[np.ndarray]:
    """Vectors of `LONG` float32 numbers, which the caller hands back: new ones cost as much as a pass over them."""
    found = []
    while len(found) < count:
        try:
            found.append(_kept.pop())
        except IndexError:
            found.append(np.empty(LONG, F4))
    return found


def hand_back(vectors: list[np.ndarray]) -> None:
    _kept.extend(vectors)


# -- vectors -----------------------------------------------------------------------------------------------------------


def _word(value: int) -> np.ndarray:
    """A word as an array without dimensions, with which NumPy computes sooner."""
    return np.array(value, np.uint32)


_13, _16 = _word(13), _word(16)
_SIGN, _REST, _EXPONENT = _word(0x80000000), _word(0x7FFFFFFF), _word(0x7F800000)
_PARTS, _PLACES = _word(0x8FFFFFFF).view(np.int32), _13.view(np.int32)
_UP = np.array(2.0**112, np.float32)  # between the biases
# 2^-14 and 2^15, the powers of two of normal numbers of float16, many times: NumPy's maximum is slow beside a number
_LEAST, _MOST = (np.full(BLOCK, 2.0**n, np.float32).view(np.uint32) for n in (-14, 15))
_BEYOND = 0x47800000  # 2^16
# (1.5 + 1536 / 2^23) * 2^13 times a power of two, from its bits; see `_narrow_float16`
_ALIGN, _JOIN = _word((13 << 23) + 0x400600), _word((1 << 16) + 8)
_ONE, _SPECIAL = np.array(1, np.uint16), 0x7C00 << 1


def _widen_float16(x: np.ndarray, out: np.ndarray) -> None:
    """The bits of exponent and fraction at their places in float32 are a number that is 2^112 too small.

    Subnormal ones included; infinities and nan alone are something else.
    """
    words = out.view(np.int32)
    words[...] = x.view(np.int16)
    np.left_shift(words, _PLACES, words)
    np.bitwise_and(words, _PARTS, words)
    np.multiply(out, _UP, out)
    vectors = borrow(1)
    twice = np.left_shift(x.view(np.uint16), _ONE, vectors[0].view(np.uint16)[: x.size])
    if twice.max() >= _SPECIAL:
        places = np.flatnonzero(twice >= _SPECIAL)
        out[places] = x[places]
    hand_back(vectors)


def _narrow_float16(x: np.ndarray, out: np.ndarray) -> None:
    """float32 numbers rounded to float16.

    Beside 1.5 * 2^13 times its own power of two 2^e (at least 2^-14) a number has ten binary places left: the sum ends
    with them, as a whole number up to 2^11, and begins with e + 140. At the distance that a product with 2^16 + 8 makes
    them, they are added to what float16 has: (e + 14) * 2^10 plus that number. The rest of the difference is 1536 in
    the aligning number.
    """
    vectors = borrow(3)
    signs, made, powers = [v[: x.size].view(np.uint32) for v in vectors]
    given = x.view(np.uint32)
    np.bitwise_and(given, _SIGN, signs)
    np.bitwise_and(given, _REST, made)
    np.bitwise_and(given, _EXPONENT, powers)
    special = powers.max() >= _BEYOND
    if special:  # infinite, or nan, or too large
        places = np.flatnonzero(powers >= _BEYOND)
        made[places] = 0
        np.minimum(powers, _MOST[: x.size], out=powers)
    np.maximum(powers, _LEAST[: x.size], out=powers)
    np.add(powers, _ALIGN, powers)
    number = made.view(np.float32)
    np.add(number, powers.view(np.float32), number)
    np.multiply(made, _JOIN, made)
    np.bitwise_or(made, signs, made)
    np.right_shift(made, _16, made)
    out.view(np.uint16)[...] = made
    if special:
        out[places] = x[places]
    hand_back(vectors)


def _by_numpy(x: np.ndarray, out: np.ndarray) -> None:
    out[...] = x


# Of vectors of at most `BLOCK` elements, by their half type; what is compiled takes their places.
widening: dict[np.dtype, Callable[[Any, Any], None]] = {
    _BFLOAT16: _by_numpy,
    _FLOAT16: _widen_float16,
}
narrowing: dict[np.dtype, Callable[[Any, Any], None]] = {
    _BFLOAT16: _by_numpy,
    _FLOAT16: _narrow_float16,
}


def widen(x: np.ndarray, out: np.ndarray) -> None:
    """A vector of a half type as float32, in `out`."""
    _run(_by_numpy if x.size < FEW else widening[x.dtype], x, out)


def narrow(x: np.ndarray, out: np.ndarray) -> None:
    """A vector of float32 numbers rounded to the half type of `out`."""
    _run(_by_numpy if x.size < FEW else narrowing[out.dtype], x, out)


def _run(convert: Callable[[Any, Any], None], x: np.ndarray, out: np.ndarray) -> None:
    if x.size <= BLOCK or convert is _by_numpy:
        convert(x, out)
    else:
        for i, j in blocks.spans(x.size, BLOCK):
            convert(x[i:j], out[i:j])


# ``row_sums(x, out)``: the sum of each row of a half type in float32, if that is compiled.
row_sums: Callable[[Any, Any], None] | None = None


def is_compiled() -> bool:
    """Whether something else than NumPy converts both half types."""
    return narrowing[_BFLOAT16] is not _by_numpy


def copy_upper(x: np.ndarray, out: np.ndarray) -> None:
    """float32 numbers as bfloat16, most of which it has: the lower halves of their bits are zeros."""
    words = x.view(np.uint32)
    if np.bitwise_or.reduce(words) & 0xFFFF:
        narrow(x, out)
    else:
        out.view(np.uint16)[...] = np.right_shift(words, _16)


# -- blocks of kernels -------------------------------------------------------------------------------------------------


def _lent(part: np.ndarray, lent: list) -> np.ndarray:
    """An array of float32 of the shape of `part`, in borrowed memory if it has room there."""
    n = part.size
    if n > LONG:
        return np.empty(part.shape, F4)
    lent += borrow(1)
    return lent[-1][:n].reshape(part.shape)


def widened(part: np.ndarray, lent: list) -> np.ndarray:
    """An array without gaps as float32: of a half type in memory added to `lent`, which the caller hands back."""
    if not is_half(part):
        return part
    wide = _lent(part, lent)
    widen(part.reshape(-1), wide.reshape(-1))
    return wide


def in_float32(block: Callable, out: np.ndarray, *parts: np.ndarray, **how: Any) -> Any:
    """``block(*parts, out, **how)``, arrays without gaps, in float32 where they are of a half type."""
    if not is_half(out):
        return block(*parts, out, **how)
    lent: list[np.ndarray] = []
    given = [widened(p, lent) for p in parts]
    made = _lent(out, lent)
    found = block(*given, made, **how)
    narrow(made.reshape(-1), out.reshape(-1))
    hand_back(lent)
    return found


# -- arrays ------------------------------------------------------------------------------------------------------------


def widen_half(array: np.ndarray) -> np.ndarray:
    """An array of a half type in float32, laid out alike."""
    if array.size < FEW:
        return array.astype(F4)
    convert = widening[array.dtype]
    if convert is _by_numpy and _is_for_numpy(array.size):
        return array.astype(F4)
    return _converted(array, F4, convert)


def narrow_half(array: Any, dtype: np.dtype) -> Any:
    """An array in a half type, laid out alike: float32 numbers are rounded to nearest, ties to even."""
    if array.size < FEW or array.dtype is not F4:
        return array.astype(dtype)
    convert = narrowing.get(dtype)
    if convert is None or (convert is _by_numpy and _is_for_numpy(array.size)):
        return array.astype(dtype)
    return _converted(array, dtype, convert)


def _is_for_numpy(size: int) -> bool:
    """Whether an array is not for several threads."""
    return size < parallel.SHARED or parallel.width() == 1


def _converted(array: np.ndarray, dtype: np.dtype, convert: Callable) -> np.ndarray:
    x = dense(array)
    out = np.empty_like(x, dtype)
    given, target, n = x.ravel("K"), out.ravel("K"), x.size
    if n <= BLOCK:
        convert(given, target)
    else:
        step = BLOCK if convert is _narrow_float16 else LONG
        parallel.each(blocks.spans(n, step), n, lambda i, j: convert(given[i:j], target[i:j]))
    return out
