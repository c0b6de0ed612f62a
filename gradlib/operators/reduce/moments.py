"""Variance and standard deviation, alone and together with the mean."""

from __future__ import annotations

import builtins
import math

import numpy as np

from ...devices.numpy.blocks import PIECE, row_blocks
from ...devices.numpy.sums import ADD, LARGE, ones
from ...op.declare import declare
from ...op.expose import function, need_tensor, write_out
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..kinds import F8
from .sums import count, dims_of, kept, over, sum_floats


def _freedom(n: int, correction):
    """The degrees of freedom, an int where possible: half types stay themselves when divided by it."""
    return n - int(correction) if correction == int(correction) else n - correction


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
    space = np.empty((blocks[0][1], n))
    for i, j in blocks:
        d = space[: j - i]
        d[...] = x[i:j]
        m = mean[i:j] = d.dot(one) / n
        if narrow:
            squares = np.vecdot(d, d)
            left = total[i:j] = squares - n * m * m
            if not (left < SURE * squares).any():
                continue
        d -= m[:, None]
        total[i:j] = np.vecdot(d, d)
    return total, mean


def _of_long_rows(x):
    rows, n = x.shape
    total, mean, space = np.empty(rows), np.empty(rows), np.empty(PIECE)
    narrow, parts = x.dtype.itemsize < 8, [slice(i, i + PIECE) for i in range(0, n, PIECE)]

    def of(row, p):
        part = row[p]
        d = space[: part.size]
        d[...] = part
        return d

    for k, row in enumerate(x):
        if narrow:
            sums = [(d.dot(ones(d.size, F8)), d.dot(d)) for d in (of(row, p) for p in parts)]
            whole, squares = (math.fsum(s) for s in zip(*sums, strict=True))
            m = mean[k] = whole / n
            left = total[k] = squares - whole * m
            if not left < SURE * squares:
                continue
        else:
            m = mean[k] = math.fsum([np.add.reduce(row[p]) for p in parts]) / n
        total[k] = math.fsum([d.dot(d) for d in (of(row, p) - m for p in parts)])
    return total, mean


def _of_columns(x):
    """The same of each column."""
    n, blocks, narrow = len(x), row_blocks(*x.shape), x.dtype.itemsize < 8
    mean, total = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    space = np.empty((blocks[0][1], x.shape[1]))
    for i, j in blocks:
        d = space[: j - i]
        d[...] = x[i:j]
        mean += ones(j - i, F8).dot(d)
        if narrow:
            d *= d
            total += ones(j - i, F8).dot(d)
    mean /= n
    if narrow:
        squares = total
        total = squares - n * mean * mean
        if not (total < SURE * squares).any():
            return total, mean
        total = np.zeros(x.shape[1])
    for i, j in blocks:
        d = space[: j - i]
        d[...] = x[i:j]
        d -= mean
        d *= d
        total += ones(j - i, F8).dot(d)
    return total, mean


def _in_float64(self, n, dim, keepdim):
    """(sum of the squares around the mean, mean) of a NumPy array; the mean has its dimensions kept."""
    shape = self.shape
    if not dim and not keepdim and n <= PIECE:
        flat = self.astype(F8).reshape(-1)
        mean = ADD(flat) / (n or math.nan)
        flat -= mean
        return flat.dot(flat), mean.reshape((1,) * len(shape))
    if self.size < LARGE:
        wide = self.astype(F8)
        mean = ADD(wide, dim or None, None, None, True)
        mean /= n or math.nan
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


def _moments(xp, self, dim, correction, keepdim):
    """(variance, mean), the mean with its dimensions kept; in a wide type (float64 in host memory)."""
    n = count(self.shape, dim) if dim else self.size
    if xp.name == "numpy" and self.dtype.kind in "fV":
        total, mean = _in_float64(self, n, dim, keepdim)
    elif xp.name == "numpy":
        (total, mean), (more, imag) = (
            _in_float64(x, n, dim, keepdim) for x in (self.real, self.imag)
        )
        total, mean = total + more, mean + 1j * imag
    else:
        wide = xp.wide(self)
        mean = sum_floats(xp, wide, dim, True)
        mean = mean / n if n else mean * math.nan
        d = wide - mean
        total = sum_floats(xp, d.real * d.real + d.imag * d.imag, dim, keepdim)
    free = n - correction if correction.__class__ is int else _freedom(n, correction)
    free = free if free > 0 else 0
    return total / (free or xp.zeros((), total.dtype)), mean


def _real(array):
    return array.real.dtype if array.dtype.kind == "c" else array.dtype


def _var(xp, self, *, dim, correction, keepdim):
    return _moments(xp, self, dim, correction, keepdim)[0].astype(_real(self), copy=False)


def _std(xp, self, *, dim, correction, keepdim):
    return xp.sqrt(_moments(xp, self, dim, correction, keepdim)[0]).astype(_real(self), copy=False)


def _with_mean(root: bool):
    def forward(xp, self, *, dim, correction, keepdim):
        var, mean = _moments(xp, self, dim, correction, keepdim)
        if root:
            var = xp.sqrt(var)
        if not keepdim:
            mean = mean.reshape(var.shape)
        return xp.asarray(var, _real(self)), mean.astype(self.dtype, copy=False)

    return forward


def _var_self(F, g, self, dim, correction, keepdim):
    n = count(self.shape, dim)
    free = _freedom(n, correction)
    if not hasattr(self, "_array") and self.dtype.itemsize == 2:  # rounded once
        g, wide = F.backend.wide(g), F.backend.wide(self)
        return _var_self(F, g, wide, dim, correction, keepdim).astype(self.dtype)
    scaled = F.keep_dims(g, self.shape, dim, keepdim) * 2
    scaled = scaled / free if free else scaled * math.inf
    return scaled * (self - F.mean(self, dim, True))


def _std_self(F, g, result, self, dim, correction, keepdim):
    zero = result == 0
    half = F.where(zero, 0, g / (2 * F.where(zero, 1, result)))
    return _var_self(F, half, self, dim, correction, keepdim)


def _with_mean_self(root: bool):
    def both(F, gs, self, result0, dim, correction, keepdim):
        total = None
        if gs[0] is not None:
            total = (
                _std_self(F, gs[0], result0, self, dim, correction, keepdim)
                if root
                else _var_self(F, gs[0], self, dim, correction, keepdim)
            )
        if gs[1] is None:
            return total
        share = over(F, gs[1], builtins.max(count(self.shape, dim), 1))
        part = F.spread(share, self.shape, dim, keepdim)
        return part if total is None else total + part

    if root:
        return both
    return lambda F, gs, self, dim, correction, keepdim: both(
        F, gs, self, None, dim, correction, keepdim
    )


def _moment_samples(t):
    return [
        (t(3, 4), (1,), 1, False), (t(2, 3, 4), (0, 2), 0, True), (t(5), (), 1, False), (t(2, 3, 2), (), 2, True),
        (t(0, 3), (1,), 1, False),
    ]  # fmt: skip


var_op = declare(
    "var",
    _var,
    row_major=True,
    self=_var_self,
    complex=True,
    samples=_moment_samples,
    batch="same_rank",
)
std_op = declare(
    "std",
    _std,
    row_major=True,
    self=_std_self,
    complex=True,
    samples=_moment_samples,
    batch="same_rank",
)
var_mean_op = declare(
    "var_mean",
    _with_mean(False),
    n_out=2,
    self=_with_mean_self(False),
    complex=True,
    samples=_moment_samples,
    batch="same_rank",
)
std_mean_op = declare(
    "std_mean",
    _with_mean(True),
    n_out=2,
    self=_with_mean_self(True),
    complex=True,
    samples=_moment_samples,
    batch="same_rank",
)


def _moment(op, input, dim, unbiased, keepdim, correction, out, axis=None):
    if not isinstance(input, Tensor):
        raise need_tensor(op.name, input)
    if input._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = 1 if unbiased else 0
    elif correction is None:
        correction = 1
    result = op.call(input, dims_of(axis if dim is None else dim, input.ndim), correction, keepdim)
    return write_out(out, result) if out is not None else result


def _publish_moment(op, text: str):
    def moment(
        input,
        dim=None,
        unbiased=None,
        keepdim=False,
        *,
        correction=None,
        out=None,
        axis=None,
        keepdims=False,
    ):
        return _moment(op, input, dim, unbiased, keepdim or keepdims, correction, out, axis)

    moment.__name__ = moment.__qualname__ = op.name
    moment.__doc__ = (
        f"The {text} over the dimension(s) `dim` (all by default).\n\n"
        "    correction: the divisor is the number of elements minus this (default 1); ``unbiased=False`` means 0.\n"
        "    The gradient of the standard deviation of equal values is 0."
    )
    return function(op.name, method=op.n_out == 1)(moment)


var = _publish_moment(var_op, "variance")
std = _publish_moment(std_op, "standard deviation")
var_mean = _publish_moment(var_mean_op, "variance and the mean, as a tuple,")
std_mean = _publish_moment(std_mean_op, "standard deviation and the mean, as a tuple,")
