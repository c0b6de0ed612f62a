"""Variances of NumPy arrays, computed in double precision."""

from __future__ import annotations

import math

import numpy as np

from ...op.plain_numbers import number_array
from ...operators.kinds import F8
from ...operators.reduce.moments import MOMENTS, moments_by
from ...operators.reduce.sums import kept
from . import forward, parallel
from .blocks import PIECE, row_blocks, spans
from .sums import ADD, LARGE, ones

# Squares of single-precision numbers are exact in double precision, so that the sum of the squares and the sum are
# enough, but where nearly nothing is left of their difference.
SURE = 1e-4
FEW = 1024  # elements that are gathered from other than the last dimension quickly enough


def _of_rows(x):
    """(sum of the squares around the mean, mean) of each row of a 2-D array, in float64."""
    rows, n = x.shape
    if n > PIECE:
        return _of_long_rows(x)
    total, mean = np.empty(rows), np.empty(rows)
    blocks, narrow, one = row_blocks(rows, n), x.dtype.itemsize < 8, ones(n, F8)

    def block(i: int, j: int) -> None:
        d = x[i:j].astype(F8, order="C")
        m = mean[i:j] = d.dot(one) / n
        if narrow:
            squares = np.vecdot(d, d)
            left = total[i:j] = squares - n * m * m
            if not (left < SURE * squares).any():
                return
        d -= m[:, None]
        total[i:j] = np.vecdot(d, d)

    parallel.each(blocks, x.size, block)
    return total, mean


def _of_long_rows(x):
    rows, n = x.shape
    total, mean = np.empty(rows), np.empty(rows)
    narrow, parts = x.dtype.itemsize < 8, [slice(i, j) for i, j in spans(n)]

    def row(k: int, _: int) -> None:
        values, space = x[k], np.empty(PIECE)

        def of(p):
            part = values[p]
            d = space[: part.size]
            d[...] = part
            return d

        if narrow:
            sums = [(d.dot(ones(d.size, F8)), d.dot(d)) for d in (of(p) for p in parts)]
            whole, squares = (math.fsum(s) for s in zip(*sums, strict=True))
            m = mean[k] = whole / n
            left = total[k] = squares - whole * m
            if not left < SURE * squares:
                return
        else:
            m = mean[k] = math.fsum([np.add.reduce(values[p]) for p in parts]) / n
        total[k] = math.fsum([d.dot(d) for d in (of(p) - m for p in parts)])

    parallel.each(spans(rows, 1), x.size, row)
    return total, mean


def _of_columns(x):
    """The same of each column."""
    n, blocks, narrow = len(x), row_blocks(*x.shape), x.dtype.itemsize < 8

    def sums(i: int, j: int) -> tuple:
        """The sums of a block, and where the numbers are single-precision ones those of their squares."""
        d, one = x[i:j].astype(F8), ones(j - i, F8)
        total = one.dot(d)
        if not narrow:
            return (total, total)
        d *= d
        return total, one.dot(d)

    def squares_around(i: int, j: int):
        d = x[i:j].astype(F8)
        d -= mean
        d *= d
        return ones(j - i, F8).dot(d)

    mean, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for total, more in parallel.in_order(blocks, x.size, sums):
        mean += total
        squares += more
    mean /= n
    if narrow:
        total = squares - n * mean * mean
        if not (total < SURE * squares).any():
            return total, mean
    total = np.zeros(x.shape[1])
    for more in parallel.in_order(blocks, x.size, squares_around):
        total += more
    return total, mean


def _squares(xp, self, n, dim, keepdim):
    """(sum of the squares around the mean, mean), the mean with its dimensions kept; in float64 or complex128."""
    if self.dtype.kind == "c":
        (total, mean), (more, imag) = (
            _squares(xp, x, n, dim, keepdim) for x in (self.real, self.imag)
        )
        return total + more, mean + 1j * imag
    shape = self.shape
    if not dim and not keepdim and n <= PIECE:
        flat = self.astype(F8).reshape(-1)
        mean = ADD(flat) / (n or math.nan)
        flat -= mean
        return flat.dot(flat), mean.reshape((1,) * len(shape))
    if self.size < LARGE:
        wide = self.astype(F8)
        mean = ADD(wide, dim or None, None, None, True)
        mean /= number_array(n or math.nan, F8)
        wide -= mean
        if len(dim) == 1 and not keepdim and (dim[0] == len(shape) - 1 or self.size <= FEW):
            return np.vecdot(wide, wide, axis=dim[0]), mean  # type: ignore[call-overload]
        wide *= wide
        return ADD(wide, dim or None, None, None, keepdim), mean
    dims = dim or tuple(range(self.ndim))
    if len(dims) == max(dims) + 1 < len(shape) and self.flags.c_contiguous:
        total, mean = _of_columns(self.reshape(math.prod(shape[: len(dims)]), -1))
    else:
        others = [d for d in range(len(shape)) if d not in dims]
        total, mean = _of_rows(self.transpose(*others, *sorted(dims)).reshape(-1, n))
    narrow = kept(shape, dim)
    return (
        total.reshape(narrow if keepdim else [n for d, n in enumerate(shape) if d not in dims]),
        mean.reshape(narrow),
    )


for _op, _forward in zip(MOMENTS, moments_by(_squares), strict=True):
    forward(_op.name)(_forward)
