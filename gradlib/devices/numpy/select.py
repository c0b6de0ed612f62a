"""NumPy's ``where`` without branches: the processor guesses those, and for a mask without a pattern guesses wrong.

A mask of whole words selects by "and" and "xor" what the condition selects by a branch for each element: for two
million float32 and a random condition 0.7 ms (one side 0) or 1.7 ms instead of 8.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.kinds import is_half

_ONE = np.int8(1)
_WORDS = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
# elements from which on it is quicker, by size of an element; below, the processor learns the condition by heart
_FROM_ZERO = 8192
_FROM = {2: 8192, 4: 16384, 8: 65536}


def where(condition: Any, *operands: Any) -> Any:
    """NumPy's where."""
    size = getattr(condition, "size", 0)
    if size < _FROM_ZERO or len(operands) != 2 or condition.dtype.kind != "b":
        return np.where(condition, *operands)
    x, y = operands
    a: Any = _array(x)
    b: Any = _array(y)
    shape = condition.shape
    like = a if a is not None else b
    if like is None or not (is_half(like) or (like.dtype.kind == "f" and like.itemsize in _WORDS)):
        return np.where(condition, x, y)
    strides = tuple([s * like.dtype.itemsize for s in condition.strides])
    for v in (a, b):  # all in the same order, so that the result is, too
        if v is not None and (v.shape != shape or v.strides != strides or v.dtype != like.dtype):
            return np.where(condition, x, y)
    word = _WORDS[like.dtype.itemsize]
    if a is None or b is None:
        number = x if a is None else y
        zero = _is_plain_zero(number)
        # beside Python's 0 half types stay what they are, too: NumPy would make bfloat16 float64
        stays = zero and is_half(like) and number.__class__ in (int, float)
        if not stays and np.result_type(like.dtype, number) != like.dtype:
            return np.where(condition, x, y)
        if zero:
            mask = _mask(condition, word, a is not None)
            return np.bitwise_and(mask, like.view(word), out=mask).view(like.dtype)
        other = np.asarray(number, like.dtype).view(word)
    else:
        other = b.view(word)
    if size < _FROM[word.itemsize]:
        return np.where(condition, x, y)
    mask = _mask(condition, word, a is not None)
    out = np.bitwise_xor(like.view(word), other)
    np.bitwise_and(out, mask, out=out)
    return np.bitwise_xor(out, other, out=out).view(like.dtype)


def _mask(condition: Any, word: Any, where: bool) -> Any:
    """All bits set where the condition is `where`, none elsewhere."""
    mask = condition.view(np.int8)  # 1 or 0: made -1 or 0 while it is one byte
    return (np.negative(mask) if where else np.subtract(mask, _ONE)).astype(word)


def _array(value: Any) -> Any:
    """An operand with elements; None for a single number."""
    return value if isinstance(value, np.ndarray) and value.ndim else None


def _is_plain_zero(number: Any) -> bool:
    """Whether it is 0, and not the negative zero of floats, which has a bit set."""
    return not number and not np.signbit(number)
