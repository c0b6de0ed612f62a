"""Sums of float32 and float64 NumPy arrays, long ones included: the rounding error does not grow with the length.

What is added one after the other (by BLAS, or by NumPy along any axis but the fastest) is a run of at most `RUN`
numbers; the sums of runs are added in turn. The relative error of a sum of n positive numbers then stays within about
``(sqrt(RUN) + log2(n)) * eps`` of the sum, in practice within 3e-7 for 10^7 float32 numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ...op import spreading
from ...operators.kinds import is_half
from ...tape import handed
from . import half_bits, parallel
from .blocks import PIECE, row_blocks, spans
from .half_bits import BLOCK, widen_half

RUN, STRIDED_RUN = 1024, 256  # by BLAS, which keeps several sums at once; by NumPy
SHORT = 8192  # most elements that NumPy sums itself where all are summed: pairwise, and no slower than BLAS
LARGE = 4096  # elements from which an array is worth another look at its layout
LENGTH = 1 << 18  # of products of vectors that a thread takes at a time
LONG = 1 << 15  # longer rows are summed in runs, one row at a time
F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
_FIRST = (0,)

_kept: dict = {}
_starts: dict = {}
ADD: Any = np.add.reduce
MAX: Any = np.maximum.reduce
MIN: Any = np.minimum.reduce
PLENTY, LENGTHS = (
    256,
    range(64, 2048),
)  # rows, and their lengths, whose extrema are sooner looked up than reduced to


def ones(n: int, dtype):
    """A vector of ones, kept for the next time."""
    found = _kept.get((n, dtype))
    if found is None:
        if len(_kept) > 256:
            _kept.clear()
        found = _kept[n, dtype] = np.ones(n, dtype)
    return found


def starts(rows: int, n: int):
    """Where each of so many rows of n elements starts, kept for the next time if they are few."""
    if rows > LARGE:
        return np.arange(0, rows * n, n)
    found = _starts.get((rows, n))
    if found is None:
        if len(_starts) > 256:
            _starts.clear()
        found = _starts[rows, n] = np.arange(0, rows * n, n)
    return found


def largest(x):
    """The largest element of a contiguous array that is not empty; nan where there is one."""
    return x.item(x.argmax())


def smallest(x):
    """The smallest."""
    return x.item(x.argmin())


def few_row_max(x):
    """`row_max` of a contiguous array of few rows, none of them empty."""
    return x.ravel().take(x.argmax(1) + starts(*x.shape))


def row_max(x):
    """The largest element of each row of a 2-D array; nan where there is one."""
    rows, n = x.shape
    if rows < PLENTY or n not in LENGTHS:
        return MAX(x, 1)
    if x.size >= parallel.SHARED and parallel.width() > 1:
        return _of_rows(row_max, x)
    return x[np.arange(rows), x.argmax(1)]


def row_min(x):
    """The smallest."""
    rows, n = x.shape
    if rows < PLENTY or n not in LENGTHS:
        return MIN(x, 1)
    if x.size >= parallel.SHARED and parallel.width() > 1:
        return _of_rows(row_min, x)
    return x[np.arange(rows), x.argmin(1)]


def _of_rows(function, x):
    """``function(x)``, which gives a number for each row, in blocks."""
    out = np.empty(len(x), x.dtype)

    def block(i: int, j: int) -> None:
        out[i:j] = function(x[i:j])

    parallel.each(row_blocks(*x.shape), x.size, block)
    return out


def row_sums(x):
    """The sum of each row of a 2-D array."""
    n = x.shape[1]
    if n <= LONG:
        return x.dot(ones(n, x.dtype))
    whole, run = n - n % RUN, ones(RUN, x.dtype)
    parts = [ADD(row[:whole].reshape(-1, RUN).dot(run)) for row in x]
    out = np.array(parts, x.dtype)
    if whole < n:
        out += x[:, whole:].dot(ones(n - whole, x.dtype))
    return out


def row_products(a, b):
    """The sum of the products of each row of `a` with that of `b`."""
    n = a.shape[-1]
    if n <= LONG:
        return np.vecdot(a, b)
    a, b = np.broadcast_arrays(a, b)
    out = np.empty(a.shape[:-1], a.dtype)
    for place in np.ndindex(out.shape):
        out[place] = long_product(a[place], b[place])
    return out


def long_product(p, q):
    """The sum of the products of two long vectors, as a scalar of float64."""
    return _summed_runs(len(p), p.dtype, lambda i, j: (p[i:j], q[i:j]), LENGTH)


def _summed_runs(n: int, dtype, part, step: int = PIECE):
    """The sum of the products of ``p, q = part(i, j)``, elements i to j of two vectors of length n, in float64."""
    whole = n - n % RUN
    runs = np.empty(whole // RUN, dtype)

    def block(i: int, j: int) -> None:
        p, q = part(i, j)
        np.vecdot(p.reshape(-1, RUN), q.reshape(-1, RUN), runs[i // RUN : j // RUN])

    parallel.each(spans(whole, step), n, block)
    return ADD(runs, dtype=F8) + (np.vecdot(*part(whole, n)) if whole < n else 0.0)


def squared_distance(x, y):
    """The sum of the squares of the differences of two long vectors."""

    def part(i: int, j: int) -> tuple:
        d = x[i:j] - y[i:j]
        return d, d

    return x.dtype.type(_summed_runs(len(x), x.dtype, part))


def sum_of_squares(flat):
    """The sum of the squares of a vector."""
    return flat.dot(flat) if flat.size <= LONG else flat.dtype.type(long_product(flat, flat))


def row_squares(x):
    """The sum of the squares of each row of a contiguous 2-D array; None where rows do not fall into equal runs."""
    n = x.shape[1]
    row = _run_of(n)
    if row < 32 < n:
        return None
    runs = x.reshape(-1, row)
    out = np.empty(len(runs), x.dtype)

    def block(i: int, j: int) -> None:
        np.vecdot(runs[i:j], runs[i:j], out[i:j])

    parallel.each(row_blocks(*runs.shape), x.size, block)
    return out if row == n else ADD(out.reshape(-1, n // row), 1)


def column_sums(x):
    """The sum of each column of a contiguous 2-D array."""
    n, m = x.shape
    if x.size >= parallel.SHARED and parallel.width() > 1:
        if n <= RUN:
            return parallel.one(column_sums, x)
        x = _sums_of_runs(x)
        n = len(x)
    while n > RUN:
        whole = n - n % RUN
        parts = np.matmul(ones(RUN, x.dtype), x[:whole].reshape(-1, RUN, m))
        if whole < n:
            last = ones(n - whole, x.dtype).dot(x[whole:])
            parts = np.concatenate((parts, last[None]))
        x, n = parts, len(parts)
    return np.dot(ones(n, x.dtype), x)


def _sums_of_runs(x):
    """The column sums of each run of rows: as `column_sums` has them, on several threads."""
    n, m = x.shape
    count = n // RUN
    whole = count * RUN
    runs, one = x[:whole].reshape(-1, RUN, m), ones(RUN, x.dtype)
    out = np.empty((-(-n // RUN), m), x.dtype)

    def piece(k: int) -> None:
        if k < count:
            np.matmul(one, runs[k : k + 1], out=out[k : k + 1])
        else:
            out[k] = ones(n - whole, x.dtype).dot(x[whole:])

    parallel.run(len(out), piece)
    return out


@lru_cache(256)
def _run_of(n: int) -> int:
    """The length of equal runs that rows of `n` elements fall into: the largest, 1 for a prime that is too large."""
    if n <= RUN:
        return n
    row = math.gcd(n, RUN)
    return row if row >= 32 else max([k for k in range(1, RUN + 1) if not n % k])


def _run_sums(runs):
    """The sum of each row, of at most `RUN` elements: those of many rows on several threads."""
    one = ones(runs.shape[1], runs.dtype)
    if runs.size < parallel.SHARED or parallel.width() == 1:
        return runs.dot(one)
    out = np.empty(len(runs), runs.dtype)
    # BLAS takes several rows at once: pieces end where it ends with some
    step = max(64, (1 << 17) // len(one) // 64 * 64)
    spans = [(i, min(i + step, len(runs))) for i in range(0, len(runs), step)]
    parallel.each(spans, runs.size, lambda i, j: np.dot(runs[i:j], one, out[i:j]))
    return out


def _run_sums_of_halves(runs):
    """The same of a half type, in float32, by the compiled kernel."""
    out = np.empty(len(runs), F4)
    kernel: Any = half_bits.row_sums
    step = spans(len(runs), max(1, BLOCK // runs.shape[1]))
    parallel.each(step, runs.size, lambda i, j: kernel(runs[i:j], out[i:j]))
    return out


def add_up(array, dim: tuple, keepdim: bool = False):
    """``add.reduce`` over `dim` (() for all dimensions).

    Trailing dimensions of large contiguous arrays, and leading ones, are summed by BLAS, which is also the quickest.
    Sums of many numbers of a half type are float32.
    """
    size = array.size
    if size < LARGE:
        if dim == _FIRST and not keepdim and array.ndim == 2 and array.dtype in (F4, F8):
            return array.T.dot(ones(array.shape[0], array.dtype))  # in less time than `reduce`
        return ADD(array, dim or None, None, None, keepdim)
    if array.itemsize == 2 and is_half(array):
        return _add_up_halves(array, dim, keepdim)
    if size >= spreading.LARGE:
        spreading.met(size)
    if len(dim) in (0, array.ndim) and array.flags.c_contiguous:
        if size <= SHORT:
            return ADD(array, dim or None, None, None, keepdim)
        row = math.gcd(size, RUN)
        if row >= 32 and not keepdim and array.dtype.kind == "f":  # the most usual case
            return ADD(_run_sums(array.reshape(-1, row)))
    if not array.flags.c_contiguous or array.dtype.kind != "f":
        if array.flags.f_contiguous and array.dtype.kind == "f":
            return add_up(array.T, tuple([array.ndim - 1 - d for d in dim]), keepdim).T
        return _add_strided(array, dim, keepdim)
    shape, ndim = array.shape, array.ndim
    first = ndim
    while first and (not dim or first - 1 in dim):
        first -= 1
    inner = math.prod(shape[first:])
    row = _run_of(inner)
    if inner == 1 and len(dim) == max(dim) + 1:
        k = len(dim)
        if k == 1 and ndim == 2 and not keepdim:
            return column_sums(array)
        out = column_sums(array.reshape(math.prod(shape[:k]), -1)).reshape(shape[k:])
        return out.reshape((1,) * k + out.shape) if keepdim else out
    if inner == 1 or row < 32 < inner:
        return _add_strided(array, dim, keepdim)
    parts = _run_sums(array.reshape(-1, row))
    parts = parts.reshape((*shape[:first], inner // row))
    left = tuple([d for d in dim if d < first])
    if inner != row or left:
        parts = _add_strided(parts, (*left, first), False)
    out = parts.reshape([n for d, n in enumerate(shape) if dim and d not in dim])
    if keepdim:
        return out.reshape([1 if not dim or d in dim else n for d, n in enumerate(shape)])
    return out


def _add_up_halves(array, dim: tuple, keepdim: bool):
    """The same of a half type, in float32: trailing dimensions of a contiguous array by what is compiled."""
    shape, first = array.shape, array.ndim
    if half_bits.row_sums is None or array.size <= SHORT:
        return add_up(widen_half(array), dim, keepdim)
    while first and (not dim or first - 1 in dim):
        first -= 1
    inner = math.prod(shape[first:])
    row = inner if inner <= RUN else math.gcd(inner, RUN)
    if row < 32 or len(dim) not in (0, array.ndim - first) or not array.flags.c_contiguous:
        return add_up(widen_half(array), dim, keepdim)
    parts = _run_sums_of_halves(array.reshape(-1, row))
    if not first and not keepdim:
        return ADD(parts)
    out = parts.reshape((*shape[:first], inner // row))
    out = _add_strided(out, (first,), False) if inner != row else out.reshape(shape[:first])
    return out.reshape([*shape[:first], *[1] * (array.ndim - first)]) if keepdim else out


def _add_strided(array, dim: tuple, keepdim: bool):
    """The same for an array of any strides: the longest dimensions are shortened first."""
    if array.size < LARGE:
        return ADD(array, dim or None, None, None, keepdim)
    if array.size >= parallel.SHARED and parallel.width() > 1:
        return parallel.one(_add_strided, array, dim, keepdim)
    dims = dim or tuple(range(array.ndim))
    while True:
        fastest = min(
            (abs(s), -d) for d, (n, s) in enumerate(zip(array.shape, array.strides)) if n > 1
        )
        slow = [d for d in dims if d != -fastest[1]]
        if math.prod([array.shape[d] for d in slow]) <= STRIDED_RUN:
            break
        array = _shorter(array, max(slow, key=array.shape.__getitem__))
        if array.size < LARGE:
            break
    return ADD(array, dims, None, None, keepdim)


def _shorter(array, d: int):
    """`array` with the sums of runs along `d` in their places."""
    shape = array.shape
    n, lead, rest = shape[d], shape[:d], shape[d + 1 :]
    width = math.prod(rest)
    blas = array.dtype.kind == "f" and array.flags.c_contiguous and width * n >= LARGE
    run = min(n, RUN if blas else STRIDED_RUN)
    runs = n // run
    whole = runs * run
    if blas and whole == n:
        blocks = array.reshape(math.prod(lead) * runs, run, width)
        return np.matmul(ones(run, array.dtype), blocks).reshape(*lead, runs, *rest)
    head = (*(slice(None),) * d, slice(0, whole))
    parts = ADD(array[head].reshape(*lead, runs, run, *rest), d + 1)
    if whole == n:
        return parts
    tail = ADD(array[(*(slice(None),) * d, slice(whole, n))], d, None, None, True)
    return np.concatenate((parts, tail), d)


handed.over(add_up)
