"""softmax and log_softmax, in blocks that stay in the cache; of few elements in as few calls as can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...operators.kinds import F4, F8, is_half
from . import forward, parallel
from .blocks import spans
from .half_bits import in_float32
from .halves import float_arrays
from .namespace import backend
from .sums import (
    ADD,
    MAX,
    STRIDED_RUN,
    add_up,
    few_row_max,
    ones,
    row_max,
    row_products,
    row_sums,
)

# elements of a block of rows: a thread that is done with a loop waits for the lock of Python, so they are not short
ROWS = 1 << 17
SMALL = 1 << 11  # elements below which the maximum of each row is quicker than the test
# the sum of squares up to which exp of no element, nor a sum of few, leaves what float32 holds
MODEST = 80.0**2
# where a logarithm is wanted, a shared shift must not be far above a row's own maximum
LOW_SUM = 1e-2


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
        shift = row_max(x)[:, None]
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


# -- along another dimension than the last: blocks (outer, n, inner) ---------------------------------------------------


def _sums(x):
    """The sums along the second of three dimensions, which is kept."""
    return ADD(x, 1, None, None, True) if x.shape[1] <= STRIDED_RUN else add_up(x, (1,), True)


def _softmax_columns(x, out):
    np.subtract(x, MAX(x, 1, None, None, True), out)
    backend.exp(out, out)
    np.divide(out, _sums(out), out)


def _log_softmax_columns(x, out):
    np.subtract(x, MAX(x, 1, None, None, True), out)
    total = _sums(backend.exp(out))
    out -= backend.log(total, total)


def _softmax_grad_columns(g, y, out):
    np.multiply(g, y, out)
    np.subtract(g, _sums(out), out)
    out *= y


def _log_softmax_grad_columns(g, y, out):
    backend.exp(y, out)
    out *= _sums(g)
    np.subtract(g, out, out)


WIDE = 32  # elements of a row from which NumPy works along rows


def by_columns(block, dim: int, *arrays):
    """Run a kernel for blocks (outer, n, inner) along a dimension that is not the last; None where that is no gain."""
    shape = arrays[0].shape
    outer, n, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    if inner < WIDE or not all([a.flags.c_contiguous for a in arrays]):
        return None
    flat = [a.reshape(outer, n, inner) for a in arrays]
    out = np.empty((outer, n, inner), arrays[0].dtype)
    flat.append(out)
    pieces = [
        (slice(i, j), slice(None), slice(k, m))
        for i, j in spans(outer, max(1, ROWS // (n * inner)))
        # passes over parts of rows are slower, and the more so the shorter these are
        for k, m in spans(inner, max(32 * WIDE, ROWS // n))
    ]

    def piece(first: int, last: int) -> None:
        for part in pieces[first:last]:
            block(*[a[part] for a in flat])

    parallel.each(spans(len(pieces), 1), out.size, piece)
    return out.reshape(shape)


# -- rows --------------------------------------------------------------------------------------------------------------


def by_rows(block, along, dim: int, *arrays):
    """Run a kernel for blocks of rows (rows, n), or `along` for `by_columns`."""
    first = arrays[0]
    last = first.ndim - 1
    if dim == last == 1 and first.size <= ROWS:
        out = np.empty(first.shape, first.dtype)
        block(*arrays, out)
        return out
    if dim != last:
        out = by_columns(along, dim, *arrays)
        if out is not None:
            return out
        out = by_rows(block, along, last, *[np.moveaxis(a, dim, last) for a in arrays])
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
            spans(rows, step),
            out.size,
            lambda i, j: in_float32(block, out[i:j], *[a[i:j] for a in flat]),
        )
    return out.reshape(shape)


def float_rows(kernel):
    """An overlay of arrays and a dimension made to take half types: rows of them as they are, others in float32."""
    of_others = float_arrays(kernel)

    def overlay(xp, self, *rest, dim):
        d = self.dtype
        in_rows = is_half(self) and self.size > ROWS and dim == self.ndim - 1
        if in_rows and all([a.dtype is d and a.flags.c_contiguous for a in (self, *rest)]):
            return kernel(xp, self, *rest, dim=dim)
        return of_others(xp, self, *rest, dim=dim)

    return overlay


def of_few(x) -> bool:
    """Whether an array of float32 or float64, in rows, is so small that the number of calls decides."""
    few = 0 < x.size <= SMALL and x.ndim > 0 and (x.dtype is F4 or x.dtype is F8)
    return few and x.flags.c_contiguous


def rows_of_few(x, dim: int):
    """Such an array as rows (rows, n) along `dim`, if that is its last dimension; else None."""
    shape = x.shape
    if dim != len(shape) - 1:
        return None
    return x if dim == 1 else x.reshape(-1, shape[dim])


@forward("softmax")
def softmax(xp: Any, self: Any, *, dim: int) -> Any:
    if not of_few(self):
        return _softmax(xp, self, dim=dim)
    rows = rows_of_few(self, dim)
    if rows is not None:  # one call of BLAS is quicker than a reduction
        flat = self.ravel()
        if flat.dot(flat) < MODEST:
            out = np.exp(rows)
        else:
            out = rows - few_row_max(rows)[:, None]
            np.exp(out, out)
        out /= out.dot(ones(out.shape[1], out.dtype))[:, None]
        return out if dim == 1 else out.reshape(self.shape)
    out = self - MAX(self, dim, None, None, True)
    np.exp(out, out)
    out /= ADD(out, dim, None, None, True)
    return out


@float_rows
def _softmax(xp: Any, self: Any, *, dim: int) -> Any:
    return by_rows(_softmax_block, _softmax_columns, dim, self)


@forward("log_softmax")
def log_softmax(xp: Any, self: Any, *, dim: int) -> Any:
    if not of_few(self):
        return _log_softmax(xp, self, dim=dim)
    rows = rows_of_few(self, dim)
    if rows is not None:
        out = rows - few_row_max(rows)[:, None]
        total = np.exp(out).dot(ones(out.shape[1], out.dtype))
        out -= np.log(total, total)[:, None]
        return out if dim == 1 else out.reshape(self.shape)
    out = self - MAX(self, dim, None, None, True)
    total = ADD(np.exp(out), dim, None, None, True)
    out -= np.log(total, total)
    return out


@float_rows
def _log_softmax(xp: Any, self: Any, *, dim: int) -> Any:
    return by_rows(_log_softmax_block, _log_softmax_columns, dim, self)


@forward("softmax_grad")
def softmax_grad(xp: Any, grad: Any, output: Any, *, dim: int) -> Any:
    if not of_few(grad):
        return _softmax_grad(xp, grad, output, dim=dim)
    if dim == grad.ndim - 1:
        out = grad - np.vecdot(grad, output)[..., None]
        out *= output
        return out
    out = grad - ADD(grad * output, dim, None, None, True)
    out *= output
    return out


@float_rows
def _softmax_grad(xp: Any, grad: Any, output: Any, *, dim: int) -> Any:
    return by_rows(_softmax_grad_block, _softmax_grad_columns, dim, grad, output)


@forward("log_softmax_grad")
def log_softmax_grad(xp: Any, grad: Any, output: Any, *, dim: int) -> Any:
    if not of_few(grad):
        return _log_softmax_grad(xp, grad, output, dim=dim)
    out = np.exp(output)
    if dim == grad.ndim - 1:
        out *= grad.dot(ones(grad.shape[dim], grad.dtype))[..., None]
    else:
        out *= ADD(grad, dim, None, None, True)
    np.subtract(grad, out, out)
    return out


@float_rows
def _log_softmax_grad(xp: Any, grad: Any, output: Any, *, dim: int) -> Any:
    return by_rows(_log_softmax_grad_block, _log_softmax_grad_columns, dim, grad, output)


@forward("logsumexp")
def logsumexp(xp: Any, self: Any, *, dim: tuple, keepdim: bool) -> Any:
    """Of rows; NotImplemented where a sum is 0 or infinite, or a number is none."""
    d, last = self.dtype, self.ndim - 1
    if self.size <= ROWS or dim != (last,) or not (d is F4 or d is F8):
        return NotImplemented
    if not self.flags.c_contiguous:
        return NotImplemented
    shape = self.shape
    rows = self.reshape(-1, shape[last])
    out = np.empty((len(rows), 1), d)

    def block(i: int, j: int) -> None:
        part = rows[i:j]
        total, shift = exp_rows(part, np.empty_like(part), LOW_SUM)
        np.log(total, total)
        np.add(total, shift, out[i:j])

    parallel.each(spans(len(rows), max(1, ROWS // shape[last])), self.size, block)
    if not np.isfinite(out).all():
        return NotImplemented
    return out.reshape((*shape[:last], 1) if keepdim else shape[:last])
