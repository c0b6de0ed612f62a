"""layer_norm and softmax of rows, with their gradients."""

from __future__ import annotations

import math

import numpy as np

from ....operators.kinds import F4, F8, is_half, narrow
from ....operators.nn.layer_norm import layer_norm_by
from .. import before, parallel
from ..blocks import PIECE, row_blocks
from ..half_bits import hand_back, in_float32, widened
from ..sums import ones
from . import FEW, jit
from .elementwise import exp_low as exp

f4, i4 = np.float32, np.int32
_SIGN, _LOWEST = i4(0x7FFFFFFF), i4(-0x80000000)
LONG = 1 << 13  # elements of a row from which its sum needs more care; NumPy's kernels take it


def suits(x: np.ndarray, dim: int = -1) -> bool:
    """Whether `x` is an array of rows that these kernels are for, along its last dimension."""
    return (
        (x.dtype is F4 or is_half(x))
        and x.size > FEW
        and (dim == -1 or dim == x.ndim - 1)
        and x.shape[-1] <= LONG
        and x.flags.c_contiguous
    )


# -- layer_norm --------------------------------------------------------------------------------------------------------


@jit("reassoc")
def _layer_norm(x, out, weight, bias, eps, mean, rstd):
    rows, n = x.shape
    for i in range(rows):
        total = f4(0)
        for j in range(n):
            total += x[i, j]
        m = total / f4(n)
        squares = f4(0)
        for j in range(n):
            d = x[i, j] - m
            squares += d * d
        r = f4(1) / np.sqrt(squares / f4(n) + eps)
        mean[i, 0], rstd[i, 0] = m, r
        for j in range(n):
            out[i, j] = (x[i, j] - m) * r * weight[j] + bias[j]


@jit("reassoc")
def _layer_norm_grad(g, x, mean, rstd, weight, dx):
    rows, n = x.shape
    for i in range(rows):
        m, r = mean[i, 0], rstd[i, 0]
        shift, slope = f4(0), f4(0)
        for j in range(n):
            scaled = g[i, j] * weight[j]
            shift += scaled
            slope += scaled * (x[i, j] - m)
        shift /= f4(n)
        slope *= r * r / f4(n)
        for j in range(n):
            dx[i, j] = (g[i, j] * weight[j] - shift - (x[i, j] - m) * slope) * r


@jit()
def _layer_norm_grad_of_weights(g, x, mean, rstd, dw, db):
    """Added to dw and db."""
    rows, n = x.shape
    for i in range(rows):
        m, r = mean[i, 0], rstd[i, 0]
        for j in range(n):
            dw[j] += g[i, j] * ((x[i, j] - m) * r)
            db[j] += g[i, j]


def _layer_norm_rows(xp, x, weight, bias, eps: float):
    rows, n = x.shape
    x = np.ascontiguousarray(x)
    out = np.empty((rows, n), x.dtype)
    mean, rstd = np.empty((rows, 1), F4), np.empty((rows, 1), F4)
    w = ones(n, F4) if weight is None else weight
    b = np.zeros(n, F4) if bias is None else bias

    def block(i: int, j: int) -> None:
        in_float32(
            lambda x, out: _layer_norm(x, out, w, b, f4(eps), mean[i:j], rstd[i:j]),
            out[i:j],
            x[i:j],
        )

    if x.size <= PIECE and x.dtype is F4:
        _layer_norm(x, out, w, b, f4(eps), mean, rstd)
        return out, mean, rstd
    parallel.each(row_blocks(rows, n), x.size, block)
    return out, mean, rstd


_native_layer_norm = layer_norm_by(_layer_norm_rows, 0)


def _plain(*arrays) -> bool:
    """Whether these are float32, or of a half type, without gaps, or None."""
    return all([a is None or (_is_plain(a) and a.flags.c_contiguous) for a in arrays])


def _is_plain(a) -> bool:
    return a.dtype is F4 or is_half(a)


def _is_vector(a) -> bool:
    return a is not None and a.dtype is F4 and a.ndim == 1 and a.flags.c_contiguous


@before("native_layer_norm")
def layer_norm(xp, input, weight=None, bias=None, *, normalized_shape, eps):
    if (
        input.ndim == 2
        and len(normalized_shape) == 1
        and input.size <= PIECE
        and input.dtype is F4
        and suits(input)
        and _is_vector(weight)
        and _is_vector(bias)
    ):
        out, n = np.empty(input.shape, F4), len(input)
        mean, rstd = np.empty((n, 1), F4), np.empty((n, 1), F4)
        _layer_norm(input, out, weight, bias, f4(eps), mean, rstd)
        return out, mean, rstd
    n = math.prod(normalized_shape)
    if not input.size > FEW or not 0 < n <= LONG or not _plain(input, weight, bias):
        return NotImplemented
    return _native_layer_norm(xp, input, weight, bias, normalized_shape=normalized_shape, eps=eps)


@before("native_layer_norm", "vjp")
def layer_norm_vjp(F, g, input, weight, result1, result2, normalized_shape, needs):
    n = math.prod(normalized_shape)
    kept = input, weight, result1, result2
    if not input.size > FEW or not 0 < n <= LONG or not _plain(*kept) or not _is_plain(g):
        return NotImplemented
    x, above = input.reshape(-1, n), np.ascontiguousarray(g).reshape(-1, n)
    mean, rstd = result1.reshape(-1, 1), result2.reshape(-1, 1)
    w = ones(n, F4) if weight is None else F.backend.wide(weight).reshape(-1)
    dx = np.empty(x.shape, x.dtype) if needs[0] else None

    def block(i: int, j: int):
        lent: list = []
        rows = [widened(a[i:j], lent) for a in (above, x)]
        given = *rows, mean[i:j], rstd[i:j]
        sums = np.zeros((2, n), F4)
        if needs[1] or needs[2]:
            _layer_norm_grad_of_weights(*given, *sums)
        if dx is not None:
            in_float32(lambda out: _layer_norm_grad(*given, w, out), dx[i:j])
        hand_back(lent)
        return sums

    if x.size <= PIECE:
        totals = block(0, len(x))
    else:
        totals = np.zeros((2, n), F8)  # of sums of many blocks
        for sums in parallel.in_order(row_blocks(len(x), n), x.size, block):
            totals += sums
    kind = input.dtype if weight is None else weight.dtype
    dw, db = narrow(totals.astype(F4, copy=False), kind).reshape(2, *normalized_shape)
    return (
        None if dx is None else dx.reshape(input.shape),
        dw if needs[1] else None,
        db if needs[2] else None,
    )


# -- softmax -----------------------------------------------------------------------------------------------------------


@jit()
def maximum(x):
    """The maximum of a row, as that of integers in the order of its numbers, which is found many at a time.

    nan may be the largest of all or the least: what it is subtracted from, or what is subtracted from it, stays nan.
    """
    found = _LOWEST
    for j in range(x.size):
        bits = f4(x[j]).view(i4)
        bits = i4(bits ^ i4((bits >> i4(31)) & _SIGN))
        found = bits if bits > found else found
    return i4(found ^ i4((found >> i4(31)) & _SIGN)).view(f4)


@jit("reassoc")
def _softmax(x, out):
    rows, n = x.shape
    for i in range(rows):
        m, total = maximum(x[i]), f4(0)
        for j in range(n):
            e = exp(x[i, j] - m)
            out[i, j] = e
            total += e
        scale = f4(1) / total
        for j in range(n):
            out[i, j] *= scale


@jit("reassoc")
def log_sum(x, m):
    """The logarithm of the sum of exponentials over `m`."""
    total = f4(0)
    for j in range(x.size):
        total += exp(x[j] - m)
    return np.log(total)


@jit()
def _log_softmax(x, out):
    rows, n = x.shape
    for i in range(rows):
        m = maximum(x[i])
        total = log_sum(x[i], m)
        for j in range(n):  # in this order, since the difference of large scores is exact
            out[i, j] = (x[i, j] - m) - total


@jit("reassoc")
def _softmax_grad(g, y, out):
    rows, n = g.shape
    for i in range(rows):
        inner = f4(0)
        for j in range(n):
            inner += g[i, j] * y[i, j]
        for j in range(n):
            out[i, j] = (g[i, j] - inner) * y[i, j]


@jit("reassoc")
def _log_softmax_grad(g, y, out):
    rows, n = g.shape
    for i in range(rows):
        total = f4(0)
        for j in range(n):
            total += g[i, j]
        for j in range(n):
            out[i, j] = g[i, j] - exp(y[i, j]) * total


def _each(kernel, rows, *others):
    """The kernel on blocks of rows of arrays, the last of which it fills."""
    if rows.size <= PIECE and rows.dtype is F4:
        kernel(rows, *others)
        return

    def block(i: int, j: int) -> None:
        *given, out = [o[i:j] for o in others]
        in_float32(kernel, out, rows[i:j], *given)

    parallel.each(row_blocks(*rows.shape), rows.size, block)


def _forward(name: str, kernel) -> None:
    def overlay(xp, self, *, dim):
        if not suits(self, dim):
            return NotImplemented
        out = np.empty(self.shape, self.dtype)
        if self.ndim == 2 and self.size <= PIECE and self.dtype is F4:
            kernel(self, out)
            return out
        n = self.shape[-1]
        _each(kernel, self.reshape(-1, n), out.reshape(-1, n))
        return out

    before(name)(overlay)


def _backward(name: str, kernel) -> None:
    def overlay(xp, grad, output, *, dim):
        if not suits(output, dim) or grad.dtype != output.dtype or grad.shape != output.shape:
            return NotImplemented
        grad = np.ascontiguousarray(grad)
        out = np.empty(grad.shape, grad.dtype)
        n = grad.shape[-1]
        _each(kernel, grad.reshape(-1, n), output.reshape(-1, n), out.reshape(-1, n))
        return out

    before(name)(overlay)


_forward("softmax", _softmax)
_forward("log_softmax", _log_softmax)
_backward("softmax_grad", _softmax_grad)
_backward("log_softmax_grad", _log_softmax_grad)
