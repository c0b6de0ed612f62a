"""What kernels of several passes share: evaluation in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from . import parallel
from .mkl import dense

PIECE = 1 << 16  # elements: temporaries of this size stay in the second-level cache


def in_pieces(xp, kernel: Callable, *arrays) -> Any:
    """``kernel(xp, *arrays)`` for an elementwise kernel, piece by piece so that its temporaries stay in cache."""
    first = arrays[0]
    n = first.size
    if n <= PIECE + PIECE // 2:
        return kernel(xp, *arrays)
    flat = []
    for a in arrays:
        if a.shape != first.shape:
            return kernel(xp, *arrays)
        if a.flags.c_contiguous:
            flat.append(a.reshape(-1))
        elif any(a.strides):
            return kernel(xp, *arrays)
        else:  # a number that is repeated, as the gradient of a sum is
            flat.append(as_strided(a, (n,), (0,), writeable=False))
    out = np.empty(first.shape, first.dtype)
    target = out.reshape(-1)

    def piece(i: int, j: int) -> None:
        target[i:j] = kernel(xp, *[a[i:j] for a in flat])

    parallel.each(spans(n), n, piece)
    return out


def flat_alike(x: Any, *others: Any) -> tuple[Any, list]:
    """A new array laid out as `x`; and `x`, others of its shape and dtype, and the new one, flat and without gaps."""
    x = dense(x)
    out = np.empty_like(x)
    flat = [x.ravel("K")]
    for o in others:
        if o.strides != x.strides:
            alike = np.empty_like(x)
            alike[...] = o
            o = alike
        flat.append(o.ravel("K"))
    return out, [*flat, out.ravel("K")]


def spans(n: int, step: int = PIECE) -> list[tuple[int, int]]:
    """(start, stop) of pieces of `n` elements."""
    return [(i, min(i + step, n)) for i in range(0, n, step)]


def row_blocks(rows: int, width: int) -> list[tuple[int, int]]:
    """(start, stop) of blocks of rows."""
    return spans(rows, max(1, PIECE // max(width, 1)))
