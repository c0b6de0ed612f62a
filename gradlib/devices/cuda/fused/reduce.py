"""Sums and means over neighbouring dimensions (`kernels/reduce.cu`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import (
    F4,
    FLOATS,
    HALVES,
    blocks_for,
    family,
    instance,
    instances,
    launcher_of,
    pack_size,
    parts_launch,
    rows_launch,
)
from . import forward

MODULE = family(
    "reduce",
    instances("sum_rows", FLOATS),
    instances("sum_columns", FLOATS),
    instances("sum_parts", FLOATS),
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
    split = (
        math.prod(shape[:first]),
        math.prod(shape[first : last + 1]),
        math.prod(shape[last + 1 :]),
    )
    return split


def _parts(blocks: int, n: int, least: int) -> int:
    """Into how many parts a sum over n is cut, given how many blocks there are without cutting."""
    return max(1, min(ENOUGH_BLOCKS // max(blocks, 1), n // least))


def _sum(xp: Any, x: Any, dim: tuple, shape: tuple, mean: bool) -> Any:
    """The sum or mean over `dim` (() is all) in a new array of `shape`."""
    merged = (
        _merged(x.shape, dim) if x.dtype in FLOATS and x.size and x.flags.c_contiguous else None
    )
    if merged is None or (merged[2] > 1 and merged[0] > MAX_OUTER):
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
        blocks, block = rows_launch(outer, -(-n // parts))
        grid = (blocks, parts)
    out = xp.empty(shape, x.dtype)
    partial = xp.empty((parts, lines), F4 if x.dtype in HALVES else x.dtype) if parts > 1 else None
    factor = np.float64(1 / n if mean else 1.0)
    sizes = (np.int64(n), np.int64(inner)) if columns else (np.int64(outer), np.int64(n))
    launch = launcher_of(xp).launch
    kernel = instance("sum_columns" if columns else "sum_rows", x.dtype)
    launch(MODULE, kernel, grid, block, (x, partial, out, *sizes, factor))
    if parts > 1:
        given = (partial, out, np.int64(parts), np.int64(lines), factor)
        launch(MODULE, instance("sum_parts", x.dtype), *parts_launch(lines, parts), given)
    return out


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
