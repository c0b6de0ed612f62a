"""softmax and log_softmax, blocks of rows at a time that stay in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import forward, parallel
from .blocks import spans
from .halves import float_arrays
from .namespace import backend
from .sums import MAX, row_products, row_sums

ROWS = 1 << 15  # elements of a block of rows
SMALL = 1 << 11  # elements below which the maximum of each row is quicker than the test
LOW_SUM = (
    1e-2  # where a logarithm is wanted, a shared shift must not be far above a row's own maximum
)


def exp_rows(x, out, exact: float):
    """exp(x - shift) of a 2-D block into `out`: returns (row sums, shift), the shift a number or a column.

    One shift for the block is cheaper than one for each row; it serves if every row sum stays above `exact`.
    """
    if x.size > SMALL:
        shift = MAX(x, None)
        np.subtract(x, shift, out)
        backend.exp(out, out)
        total = row_sums(out)
        shared = np.minimum.reduce(total) > exact
    else:
        shared = False
    if not shared:
        shift = MAX(x, 1, None, None, True)
        np.subtract(x, shift, out)
        backend.exp(out, out)
        total = row_sums(out)
    return total[:, None], shift


def _softmax_block(x, out):
    total, _ = exp_rows(x, out, 1e-12)
    np.divide(out, total, out)


def _log_softmax_block(x, out):
    total, shift = exp_rows(x, out, LOW_SUM)
    np.subtract(x, shift, out)
    out -= backend.log(total, total)


def _softmax_grad_block(g, y, out):
    inner = row_products(g, y)[:, None]
    np.subtract(g, inner, out)
    out *= y


def _log_softmax_grad_block(g, y, out):
    total = row_sums(g)[:, None]
    backend.exp(y, out)
    out *= total
    np.subtract(g, out, out)


def by_rows(block, dim: int, *arrays):
    """Run a kernel for blocks of rows (rows, n) along `dim`, which is moved to the end if need be."""
    first = arrays[0]
    last = first.ndim - 1
    if dim == last == 1 and first.size <= ROWS:
        out = np.empty(first.shape, first.dtype)
        block(*arrays, out)
        return out
    if dim != last:
        out = by_rows(block, last, *[np.moveaxis(a, dim, last) for a in arrays])
        return np.ascontiguousarray(np.moveaxis(out, last, dim))
    shape = first.shape
    flat = [a.reshape(-1, shape[last]) for a in arrays]
    out = np.empty(flat[0].shape, first.dtype)
    step = max(1, ROWS // max(shape[last], 1))
    rows = out.shape[0]
    if rows <= step:
        block(*flat, out)
    else:
        parallel.each(
            spans(rows, step), out.size, lambda i, j: block(*[a[i:j] for a in flat], out[i:j])
        )
    return out.reshape(shape)


@forward("softmax")
@float_arrays
def softmax(xp: Any, self: Any, *, dim: int) -> Any:
    return by_rows(_softmax_block, dim, self)


@forward("log_softmax")
@float_arrays
def log_softmax(xp: Any, self: Any, *, dim: int) -> Any:
    return by_rows(_log_softmax_block, dim, self)


@forward("softmax_grad")
@float_arrays
def softmax_grad(xp: Any, grad: Any, output: Any, *, dim: int) -> Any:
    return by_rows(_softmax_grad_block, dim, grad, output)


@forward("log_softmax_grad")
@float_arrays
def log_softmax_grad(xp: Any, grad: Any, output: Any, *, dim: int) -> Any:
    return by_rows(_log_softmax_grad_block, dim, grad, output)
