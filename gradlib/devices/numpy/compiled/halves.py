"""Half types: conversions, and arithmetic in float32 that rounds once, each in one loop.

A half type is told by the type of the words that a kernel is given: bfloat16 numbers as uint16, float16 as int16.
Operands of float32 are taken as they are. Results have the bits that NumPy's way through float32 gives.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from ....operators.kinds import F4
from ....tape.dtypes import bfloat16, float16
from .. import before, half_bits, halves, parallel
from ..blocks import spans
from . import jit

f4, u2, i2, u4 = np.float32, np.uint16, np.int16, np.uint32
WORDS = {bfloat16.np: np.dtype(u2), float16.np: np.dtype(i2)}
PIECE = 1 << 17  # elements that a thread takes at a time
FEW, FEW_OF_ROW = 1 << 9, 1 << 5  # elements up to which NumPy computes
_INFINITE = {d: np.array(-np.inf, d).view(u2)[()] for d in WORDS}
_UP = f4(2.0**112)  # between the biases of float32 and float16
_LEAST = f4(2.0**-14).view(u4)  # the least normal number of float16
_intrinsic: Any = intrinsic  # the functions that it makes take no context


# -- one number --------------------------------------------------------------------------------------------------------


@_intrinsic
def _extend(context: Any, words: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.int16), generate


@_intrinsic
def _truncate(context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.int16(types.float32), generate


def _processor_converts() -> bool:
    """Whether the processor that numba compiles for has instructions for float16."""
    target: Any = cpu_target.target_context
    triple, _, features = target.codegen().magic_tuple()
    return "+f16c" in features.split(",") or triple.startswith(("aarch64", "arm64"))


@jit()
def _widen_bits(h):
    """float16 to float32: see `half_bits`; infinities and nan are at the end of both."""
    word = u4(u2(h))
    bits = u4(u4(word & u4(0x7FFF)) << u4(13))
    made = f4(bits.view(f4) * _UP).view(u4)
    made = u4(bits + u4(0x70000000)) if bits >= u4(0x0F800000) else made
    return u4(made | u4(u4(word & u4(0x8000)) << u4(16))).view(f4)


@jit()
def _nan_of_float16(size, sign):
    """The bits of a nan, which keep what there is room for, from those of a float32 nan without its sign."""
    bits = u4(u4(0x7C00) | u4(u4(size >> u4(13)) & u4(0x3FF)))
    return u4((u4(0x7C01) if bits == u4(0x7C00) else bits) | sign)


@jit()
def _narrow_bits(x):
    """float32 to float16: see `half_bits`."""
    given = f4(x).view(u4)
    size = u4(given & u4(0x7FFFFFFF))
    power = u4(size & u4(0x7F800000))
    power = u4(_LEAST if power < _LEAST else power)
    power = u4(power + u4((13 << 23) + 0x400600))
    total = f4(size.view(f4) + power.view(f4)).view(u4)
    made = u4(u4(total + u4(total >> u4(13))) & u4(0x7FFF))
    made = u4(u4(0x7C00) if size >= u4(0x477FF000) else made)
    sign = u4(u4(given >> u4(16)) & u4(0x8000))
    return i2(_nan_of_float16(size, sign) if size > u4(0x7F800000) else u4(made | sign))


@jit()
def _widen_nan(h):
    """The processor's conversion, which makes every nan a quiet one, put right."""
    word = u4(u2(h))
    made = f4(_extend(i2(h))).view(u4)
    quiet = u4(u4(made & u4(0xFFBFFFFF)) | u4(u4(word & u4(0x200)) << u4(13)))
    return u4(quiet if u4(word & u4(0x7FFF)) > u4(0x7C00) else made).view(f4)


@jit()
def _narrow_nan(x):
    given = f4(x).view(u4)
    size, sign = u4(given & u4(0x7FFFFFFF)), u4(u4(given >> u4(16)) & u4(0x8000))
    return i2(_nan_of_float16(size, sign) if size > u4(0x7F800000) else u4(u2(_truncate(f4(x)))))


_BY_PROCESSOR = _processor_converts()
# Of arithmetic there is no nan that is not quiet, before or after.
_extended, _truncated = (_extend, _truncate) if _BY_PROCESSOR else (_widen_bits, _narrow_bits)
_widened, _narrowed = (_widen_nan, _narrow_nan) if _BY_PROCESSOR else (_widen_bits, _narrow_bits)


@jit()
def _lengthened(h):
    """bfloat16 to float32."""
    return u4(u4(u2(h)) << u4(16)).view(f4)


@jit()
def _shortened(x):
    """float32 to bfloat16; nan is one for each sign."""
    given = f4(x).view(u4)
    upper = u4(given >> u4(16))
    made = u4(u4(u4(given + u4(0x7FFF)) + u4(upper & u4(1))) >> u4(16))
    return u2(u4(u4(upper & u4(0x8000)) | u4(0x7FC0)) if x != x else made)


def _at(x: Any, j: int) -> Any:
    """An element of an operand as float32."""


def _round(x: Any, out: Any) -> Any:
    """A float32 number as the words of `out`."""


def _row(x: Any, i: int) -> Any:
    """A row of an operand, or what serves for all."""


@overload(_row, inline="always")
def _row_(x, i):
    if isinstance(x, types.Array) and x.ndim == 2:
        return lambda x, i: x[i]
    return lambda x, i: x


@overload(_at, inline="always")
def _at_(x, j):
    if not isinstance(x, types.Array):
        return lambda x, j: x
    if x.dtype == types.uint16:
        return lambda x, j: _lengthened(x[j])
    if x.dtype == types.int16:
        return lambda x, j: _extended(x[j])
    return lambda x, j: x[j]


@overload(_round, inline="always")
def _round_(x, out):
    if out.dtype == types.boolean:
        return lambda x, out: x
    if out.dtype == types.uint16:
        return lambda x, out: _shortened(x)
    return lambda x, out: _truncated(f4(x))


# -- conversions -------------------------------------------------------------------------------------------------------


@jit()
def _widen_bfloat16(x, out):
    for i in range(x.size):
        out[i] = _lengthened(x[i])


@jit()
def _narrow_bfloat16(x, out):
    for i in range(x.size):
        out[i] = _shortened(x[i])


@jit()
def _widen_float16(x, out):
    for i in range(x.size):
        out[i] = _widened(x[i])


@jit()
def _narrow_float16(x, out):
    for i in range(x.size):
        out[i] = _narrowed(x[i])


half_bits.widening.update({
    bfloat16.np: lambda x, out: _widen_bfloat16(x.view(u2), out),
    float16.np: lambda x, out: _widen_float16(x.view(i2), out),
})  # fmt: skip
half_bits.narrowing.update({
    bfloat16.np: lambda x, out: _narrow_bfloat16(x, out.view(u2)),
    float16.np: lambda x, out: _narrow_float16(x, out.view(i2)),
})  # fmt: skip


@jit("reassoc")
def _sums_of_rows(x, out):
    for i in range(x.shape[0]):
        row, total = x[i], f4(0)
        for j in range(row.size):
            total += _at(row, j)
        out[i] = total


half_bits.row_sums = lambda x, out: _sums_of_rows(x.view(WORDS[x.dtype]), out)


# -- arithmetic --------------------------------------------------------------------------------------------------------


class _Loops:
    """A function of one or two numbers, for vectors and for rows."""

    def __init__(self, function: Callable, operands: int):
        self.of_vectors, self.of_rows = (
            _loops_of_one(function) if operands == 1 else _loops_of_two(function)
        )


def _loops_of_one(function: Callable) -> tuple[Callable, None]:
    @jit()
    def of_vectors(a, out):
        for j in range(out.size):
            out[j] = _round(function(_at(a, j)), out)

    return of_vectors, None


def _loops_of_two(function: Callable) -> tuple[Callable, Callable]:
    @jit()
    def of_vectors(a, b, out):
        for j in range(out.size):
            out[j] = _round(function(_at(a, j), _at(b, j)), out)

    @jit()
    def of_rows(a, b, out):
        for i in range(out.shape[0]):
            x, y, to = _row(a, i), _row(b, i), out[i]
            for j in range(to.size):
                to[j] = _round(function(_at(x, j), _at(y, j)), to)

    return of_vectors, of_rows


# Functions whose results are exact, or rounded as IEEE 754 has it, so that they are the same by whatever computes them.
LOOPS = {
    np.add: _Loops(operator.add, 2), np.subtract: _Loops(operator.sub, 2), np.multiply: _Loops(operator.mul, 2),
    np.true_divide: _Loops(operator.truediv, 2), np.less: _Loops(operator.lt, 2), np.greater: _Loops(operator.gt, 2),
    np.less_equal: _Loops(operator.le, 2), np.greater_equal: _Loops(operator.ge, 2), np.equal: _Loops(operator.eq, 2),
    np.not_equal: _Loops(operator.ne, 2), np.sqrt: _Loops(np.sqrt, 1),
}  # fmt: skip
TRUTH = {np.less, np.greater, np.less_equal, np.greater_equal, np.equal, np.not_equal}


def run(ufunc: np.ufunc, operands: tuple, out: Any) -> Any:
    """``ufunc(*operands)`` in one loop, for `halves.through_float32`; or NotImplemented."""
    loops, first = LOOPS.get(ufunc), None
    if loops is None:
        return NotImplemented
    half, arrays = None, []
    for a in operands:
        if a.__class__ is not np.ndarray:
            if not isinstance(a, np.generic):
                return NotImplemented
        elif a.ndim:
            arrays.append(a)
            if first is None or a.size > first.size:
                first = a
        if a.dtype in WORDS:
            half = a.dtype
    if first is None or half is None or first.size <= FEW:
        return NotImplemented
    shape = first.shape
    rows = not all([a.shape == shape for a in arrays])  # and what is repeated for each
    laid = arrays if out is None else [*arrays, out]
    if not all([a.flags.c_contiguous for a in laid]) and (
        rows or not all([a.flags.f_contiguous for a in laid])
    ):
        return NotImplemented
    given = []
    for a in operands:
        d = a.dtype
        if d is not half and d is not F4:
            return NotImplemented
        if not a.ndim:
            given.append(f4(a))
            continue
        if a.shape == shape:
            a = a.reshape(-1, shape[-1]) if rows else a.ravel("K")
        elif a.shape != shape[-1:] or a.size < FEW_OF_ROW:
            return NotImplemented
        given.append(a if d is F4 else a.view(WORDS[d]))
    dtype = np.dtype(bool) if ufunc in TRUTH else half
    if out is None:
        out = np.empty_like(first, dtype)
    elif out.dtype is not dtype or out.shape != shape or _shifted(out, arrays):
        return NotImplemented
    to = out.reshape(-1, shape[-1]) if rows else out.ravel("K")
    if dtype is half:
        to = to.view(WORDS[half])
    loop: Any = loops.of_rows if rows else loops.of_vectors
    n = len(to)
    if first.size < parallel.SHARED:
        loop(*given, to)
        return out
    cut = [a.__class__ is np.ndarray and len(a) == n and a.ndim == to.ndim for a in given]

    def piece(i: int, j: int) -> None:
        some = [a[i:j] if c else a for a, c in zip(given, cut, strict=True)]
        loop(*some, to[i:j])

    parallel.each(spans(n, max(1, PIECE * n // first.size)), first.size, piece)
    return out


def _shifted(out: np.ndarray, arrays: list) -> bool:
    """Whether the result lies over something that is read after it was written there."""
    return any([
        np.may_share_memory(a, out) and a.__array_interface__["data"] != out.__array_interface__["data"]
        for a in arrays
    ])  # fmt: skip


halves.compiled = run


# -- by bits alone -----------------------------------------------------------------------------------------------------


@jit()
def _relu(words, infinite, out):
    """0 for what lies after -0.0, up to minus infinity; what follows is nan."""
    for i in range(words.size):
        word = words[i]
        out[i] = u2(0) if u2(word - u2(0x8001)) <= u2(infinite - u2(0x8001)) else word


@jit()
def _relu_grad(words, result, out):
    for i in range(words.size):
        out[i] = u2(0) if u2(result[i] << u2(1)) == u2(0) else words[i]


def _by_words(kernel: Callable, x: np.ndarray, *others: Any) -> np.ndarray:
    """A kernel of words; what of `others` are arrays lies as `x` does."""
    out = np.empty_like(x)
    words, to = x.ravel("K").view(u2), out.ravel("K").view(u2)
    rest = [o.ravel("K").view(u2) if o.__class__ is np.ndarray else o for o in others]

    def piece(i: int, j: int) -> None:
        some = [o[i:j] if o.__class__ is np.ndarray else o for o in rest]
        kernel(words[i:j], *some, to[i:j])

    if x.size < parallel.SHARED:
        kernel(words, *rest, to)
    else:
        parallel.each(spans(x.size, PIECE), x.size, piece)
    return out


def _suits(x: np.ndarray) -> bool:
    return x.dtype in WORDS and x.size > FEW and (x.flags.c_contiguous or x.flags.f_contiguous)


@before("relu")
def relu(xp: Any, self: Any):
    if not _suits(self):
        return NotImplemented
    return _by_words(_relu, self, _INFINITE[self.dtype])


@before("relu", "vjp")
def relu_vjp(F: Any, g: Any, result: Any):
    if not _suits(g) or g.dtype is not result.dtype or g.strides != result.strides:
        return NotImplemented
    return (_by_words(_relu_grad, g, result),)
