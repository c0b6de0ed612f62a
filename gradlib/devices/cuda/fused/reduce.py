"""Sums and means over neighbouring dimensions (`kernels/reduce.cu`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ..kernels import F4, FLOATS, HALVES, blocks_for, family, pack_size, parts_launch, rows_launch
from . import forward

MODULE = family(
    "reduce", sum_rows=product(FLOATS), sum_columns=product(FLOATS), sum_parts=product(FLOATS)
)
ENOUGH_BLOCKS = 1024  # fill a large GPU
LEAST, LEAST_ROWS = 2048, 64  # elements of a row, rows of columns that a part should have
MAX_OUTER = 65535  # of the third dimension of a grid


def _merged(shape: tuple, dim: tuple) -> tuple[int, int, int] | None:
    """(outer, n, inner) if the reduced dimensions are neighbours (ones in between do not count), else None."""
    if not dim:
        return 1, math.prod(shape), 1
    reduced = [d in dim for d in range(len(shape))]
    places = [d for d, n in enumerate(shape) if reduced[d] and n != 1]
    if not places:
        return math.prod(shape), 1, 1
    first, last = places[0], places[-1]
    if any(not reduced[d] and shape[d] != 1 for d in range(first, last)):
        return None
    parts = (shape[:first], shape[first : last + 1], shape[last + 1 :])
    return math.prod(parts[0]), math.prod(parts[1]), math.prod(parts[2])


def _ends(shape: tuple, dim: tuple) -> tuple[int, int, int] | None:
    """(first, kept, last) if leading and trailing dimensions are reduced and those between are not, else None."""
    kept = [d for d, n in enumerate(shape) if d not in dim and n != 1]
    first, last = kept[0], kept[-1] + 1  # _merged has found that there are some
    if any(d in dim and shape[d] != 1 for d in range(first, last)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def _in_memory(x: Any, dim: tuple) -> tuple[Any, tuple]:
    """`x` and `dim` with the dimensions in the order that they have in memory, if the kept ones keep theirs."""
    if x.flags.c_contiguous or not dim:
        return x, dim
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    kept = [d for d in order if d not in dim]
    if kept != sorted(kept):
        return x, dim
    return x.transpose(order), tuple([i for i, d in enumerate(order) if d in dim])


def _parts(blocks: int, n: int, least: int) -> int:
    """Into how many parts a sum over n is cut, given how many blocks there are without cutting."""
    return max(1, min(ENOUGH_BLOCKS // max(blocks, 1), n // least))


def _sum(xp: Any, x: Any, dim: tuple, shape: tuple, mean: bool) -> Any:
    """The sum or mean over `dim` (() is all) in a new array of `shape`."""
    if x.dtype not in FLOATS or not x.size:
        return NotImplemented
    x, dim = _in_memory(x, dim)
    if not x.flags.c_contiguous:
        return NotImplemented
    merged = _merged(x.shape, dim)
    if merged is None:
        return _sum_ends(xp, x, dim, shape, mean)
    if merged[2] > 1 and merged[0] > MAX_OUTER:
        return NotImplemented
    outer, n, inner = merged
    lines, columns = outer * inner, inner > 1
    grid: tuple
    if columns:
        blocks, block = blocks_for(inner, 32 * pack_size(x.dtype)), (32, 8)
        parts = _parts(blocks * outer, n, LEAST_ROWS)
        grid = (blocks, parts, outer)
    else:
        parts = _parts(outer, n, LEAST)
        blocks, block = rows_launch(outer, -(-n // parts), pack_size(x.dtype))
        grid = (blocks, parts)
    out = xp.empty(shape, x.dtype)
    partial = xp.empty((parts, lines), F4 if x.dtype in HALVES else x.dtype) if parts > 1 else None
    factor = np.float64(1 / n if mean else 1.0)
    sizes = (np.int64(n), np.int64(inner)) if columns else (np.int64(outer), np.int64(n))
    kernel = ("sum_columns" if columns else "sum_rows", x.dtype)
    MODULE.launch(xp, kernel, grid, block, x, partial, out, *sizes, factor)
    if parts > 1:
        add_parts(xp, partial, out, factor)
    return out


def _sum_ends(xp: Any, x: Any, dim: tuple, shape: tuple, mean: bool) -> Any:
    """The same over leading and trailing dimensions, as for the gradient of a bias of channels."""
    ends = _ends(x.shape, dim)
    if ends is None:
        return NotImplemented
    first, kept, last = ends
    rows = first * kept
    parts = _parts(rows, last, LEAST)
    blocks, block = rows_launch(rows, -(-last // parts), pack_size(x.dtype))
    out = xp.empty(shape, x.dtype)
    partial = xp.empty((parts * first, kept), F4 if x.dtype in HALVES else x.dtype)
    sizes = (np.int64(rows), np.int64(last), np.float64(1))
    MODULE.launch(xp, ("sum_rows", x.dtype), (blocks, parts), block, x, partial, None, *sizes)
    add_parts(xp, partial, out, np.float64(1 / (first * last) if mean else 1.0))
    return out


def add_parts(xp: Any, partial: Any, out: Any, factor: Any) -> None:
    """The sums of `partial` [parts, lines] times a factor, into the elements of `out`."""
    parts, lines = partial.shape
    given = (partial, out, np.int64(parts), np.int64(lines), factor)
    MODULE.launch(xp, ("sum_parts", out.dtype), *parts_launch(lines, parts), *given)


def _reduced(shape: tuple, dim: tuple, keepdim: bool) -> tuple:
    gone = [not dim or d in dim for d in range(len(shape))]
    if keepdim:
        return tuple(1 if out else n for n, out in zip(shape, gone))
    return tuple(n for n, out in zip(shape, gone) if not out)


@forward("sum")
def sum_dim(xp, self, *, dim, keepdim):
    return _sum(xp, self, dim, _reduced(self.shape, dim, keepdim), False)


@forward("mean")
def mean_dim(xp, self, *, dim, keepdim):
    return _sum(xp, self, dim, _reduced(self.shape, dim, keepdim), True)


@forward("sum_all")
def sum_all(xp, self):
    return _sum(xp, self, (), (), False)


@forward("mean_all")
def mean_all(xp, self):
    return _sum(xp, self, (), (), True)
