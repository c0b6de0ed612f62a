"""Products with sparse matrices (`kernels/sparse.cu`): one launch, no temporaries, the same bits in every run.

CuPy refuses cuSPARSE while a stream is captured, and gives it no half types and dense operands by columns alone, so
it is not used. Complex numbers and what is empty are left to the formula.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ....operators.sparse.base import beside
from ....tape.sparse import Pattern
from ..kernels import FLOATS, MOST_BLOCKS, blocks_for, dense, family
from . import forward

MODULE = family("sparse", rows_times=product(FLOATS), dots=product(FLOATS))
MOST_COLUMNS = 65535  # blocks of the second dimension of a grid
THREADS = 256


def _power_of_two(n: int, most: int) -> int:
    """The least power of two that is not below `n`, at most `most`."""
    return min(most, 1 << max(0, n - 1).bit_length())


def _by_rows(xp: Any, pattern: Pattern) -> tuple[Any, Any, Any]:
    """(where the values of each row begin, their columns, their places among the values or None: as they are)."""
    rows, cols = pattern.indices
    order = None
    if not pattern.coalesced:
        order = xp.argsort(rows, kind="stable")
        rows, cols = rows[order], cols[order]
    starts = xp.searchsorted(rows, xp.arange(pattern.shape[0] + 1))
    return starts, xp.ascontiguousarray(cols), order


@forward("sparse_mm")
def sparse_mm(xp: Any, values: Any, other: Any, *, pattern: Pattern) -> Any:
    rows, width = pattern.shape[0], other.shape[1]
    if values.dtype not in FLOATS or other.dtype != values.dtype:
        return NotImplemented
    if not rows * width * pattern.count:
        return NotImplemented  # nothing to add up
    across = _power_of_two(width, 32)
    parts = _power_of_two(pattern.count // rows, THREADS // across)
    grid = blocks_for(rows, THREADS // (across * parts)), blocks_for(width, across)
    if grid[0] > MOST_BLOCKS or grid[1] > MOST_COLUMNS:
        return NotImplemented
    pattern = beside(pattern, values)
    starts, cols, order = pattern.kept("by rows", lambda: _by_rows(xp, pattern))
    out = xp.empty((rows, width), values.dtype)
    sizes = np.int64(rows), np.int64(width), np.int32(across), np.int32(parts)
    given = dense(xp, values), order, starts, cols, dense(xp, other), out, *sizes
    MODULE.launch(xp, ("rows_times", values.dtype), grid, THREADS, *given)
    return out


@forward("sparse_dots")
def sparse_dots(xp: Any, self: Any, other: Any, *, pattern: Pattern) -> Any:
    count, width = pattern.count, self.shape[1]
    across = _power_of_two(width, 32)
    blocks = blocks_for(count, THREADS // across)
    if self.dtype not in FLOATS or other.dtype != self.dtype or not count * width:
        return NotImplemented
    if blocks > MOST_BLOCKS:
        return NotImplemented
    rows, cols = beside(pattern, self).indices
    out = xp.empty((count,), self.dtype)
    sizes = np.int64(count), np.int64(width), np.int32(across)
    given = dense(xp, self), dense(xp, other), dense(xp, rows), dense(xp, cols), out, *sizes
    MODULE.launch(xp, ("dots", self.dtype), blocks, THREADS, *given)
    return out
