"""gather and scatter_add along one dimension (`kernels/scatter.cu`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ....operators.index.scatter import places
from ....tape.switches import switches
from ..kernels import F4, FLOATS, HALVES, SINGLES, blocks_for, dense, family, words
from . import forward
from .embedding import INDICES, WORDS, sum_rows

SUMS = {
    **{d: d for d in SINGLES},
    np.dtype(np.int32): "unsigned",  # sums of either sign are the same bits
    np.dtype(np.int64): "uint64",
}
MODULE = family(
    "scatter", gather=product(WORDS, INDICES), scatter_add=product(SUMS.values(), INDICES)
)


def _sizes(shape: tuple, index: Any, dim: int) -> tuple | None:
    """(count, k, inner, n) as kernel arguments; None unless `index` covers all of the other dimensions."""
    if index.dtype not in INDICES or len(shape) != index.ndim:
        return None
    if shape[:dim] + shape[dim + 1 :] != index.shape[:dim] + index.shape[dim + 1 :]:
        return None
    if not shape:
        return tuple(np.int64(1) for _ in range(4))
    numbers = (index.size, index.shape[dim], math.prod(shape[dim + 1 :]), shape[dim])
    return tuple(np.int64(n) for n in numbers)


@forward("gather")
def gather(xp, self, index, *, dim):
    sizes = _sizes(self.shape, index, dim)
    if sizes is None:
        return NotImplemented
    out = xp.empty(index.shape, self.dtype)
    if out.size:
        given = (dense(xp, self), dense(xp, index), out, *sizes)
        kernel = ("gather", words(self.dtype), index.dtype)
        MODULE.launch(xp, kernel, blocks_for(out.size), 256, *given)
    return out


def _summed(xp: Any, shape: tuple, start: Any, index: Any, src: Any, dim: int) -> Any:
    """`start` (zeros if None) plus `src` at the places of `index`; NotImplemented where the kernels do not fit."""
    if switches.deterministic and src.dtype in FLOATS and src.shape == index.shape:
        return _summed_in_order(xp, shape, start, index, src, dim)
    sizes, dtype = _sizes(shape, index, dim), src.dtype
    wide = F4 if dtype in HALVES else dtype
    if sizes is None or wide not in SUMS or src.shape != index.shape:
        return NotImplemented
    out = xp.empty(shape, wide)
    out[...] = 0 if start is None else start
    if index.size:
        given = (dense(xp, src.astype(wide, copy=False)), dense(xp, index), out, *sizes)
        kernel = ("scatter_add", SUMS[wide], index.dtype)
        MODULE.launch(xp, kernel, blocks_for(index.size), 256, *given)
    return out.astype(dtype, copy=False)


def _summed_in_order(xp: Any, shape: tuple, start: Any, index: Any, src: Any, dim: int) -> Any:
    """The same, the same bits in every run: the rows of an embedding, one element wide."""

    spots = places(xp, index, shape, dim).reshape(-1)
    sums = sum_rows(xp, src.reshape(-1, 1), spots, math.prod(shape), in_order=True)
    if sums is NotImplemented:
        return NotImplemented
    sums = sums.reshape(shape)
    return sums if start is None else sums + start


@forward("gather_backward")
def gather_backward(xp, grad, index, *, shape, dim):
    return _summed(xp, tuple(shape), None, index, grad, dim)


@forward("scatter_add")
def scatter_add(xp, self, index, src, *, dim):
    if self.dtype != src.dtype:
        return NotImplemented
    return _summed(xp, self.shape, self, index, src, dim)
