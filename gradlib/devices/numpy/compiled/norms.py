"""rms_norm of rows and group_norm of channels, with their gradients.

Sums are of float32 within runs of at most `RUN` numbers, and of float64 from run to run.
"""

from __future__ import annotations

import math

import numpy as np

from ....operators.kinds import F4, F8
from ....operators.nn.normalization import group_norm_by
from .. import before, parallel
from ..blocks import row_blocks
from ..sums import ADD, ones
from . import FEW, jit

f4, f8 = np.float32, np.float64
RUN = 4096


def plain(*arrays) -> bool:
    """Whether these are float32 arrays without gaps, the first of them large enough."""
    few = arrays[0].size <= FEW
    return not few and all([a is None or (a.dtype is F4 and a.flags.c_contiguous) for a in arrays])


def values_or(values, other):
    """The values of channels, or `other` of each if there are none."""
    return values if values is not None else other


# -- sums of rows ------------------------------------------------------------------------------------------------------


@jit("reassoc")
def _run_sum(x):
    total = f4(0)
    for j in range(x.size):
        total += x[j]
    return total


@jit("reassoc")
def _run_squares(x, mean):
    total = f4(0)
    for j in range(x.size):
        d = x[j] - mean
        total += d * d
    return total


@jit("reassoc")
def _run_sums(g, x, mean):
    total, along = f4(0), f4(0)
    for j in range(x.size):
        total += g[j]
        along += g[j] * (x[j] - mean)
    return total, along


@jit()
def sum_of(x):
    if x.size <= RUN:
        return f8(_run_sum(x))
    total = f8(0)
    for i in range(0, x.size, RUN):
        total += _run_sum(x[i : i + RUN])
    return total


@jit()
def squares_of(x, mean):
    """The sum of the squares of the distances from `mean`."""
    if x.size <= RUN:
        return f8(_run_squares(x, mean))
    total = f8(0)
    for i in range(0, x.size, RUN):
        total += _run_squares(x[i : i + RUN], mean)
    return total


@jit()
def sums_of(g, x, mean):
    """The sums of g and of g * (x - mean)."""
    total, along = f8(0), f8(0)
    for i in range(0, x.size, RUN):
        a, b = _run_sums(g[i : i + RUN], x[i : i + RUN], mean)
        total += a
        along += b
    return total, along


# -- rms_norm ----------------------------------------------------------------------------------------------------------


@jit()
def _rms_norm(x, weight, eps, out, rstd):
    rows, n = x.shape
    for i in range(rows):
        r = f4(1 / math.sqrt(squares_of(x[i], f4(0)) / n + eps))
        rstd[i] = r
        for j in range(n):
            out[i, j] = x[i, j] * r * weight[j]


@jit("reassoc")
def _run_products(g, x, weight):
    total = f4(0)
    for j in range(x.size):
        total += g[j] * weight[j] * x[j]
    return total


@jit()
def _rms_norm_grad(g, x, rstd, weight, dx, dw):
    """The gradient of x; that of the weight is added to dw, if that has a length."""
    rows, n = x.shape
    for i in range(rows):
        r, along = rstd[i], f8(0)
        for j in range(0, n, RUN):
            along += _run_products(g[i, j : j + RUN], x[i, j : j + RUN], weight[j : j + RUN])
        slope = f4(along * r * r / n)
        for j in range(n):
            dx[i, j] = (g[i, j] * weight[j] - x[i, j] * slope) * r
        for j in range(dw.size):
            dw[j] += g[i, j] * (x[i, j] * r)


@before("fused_rms_norm")
def rms_norm(xp, input, weight=None, *, normalized_shape, eps):
    n, k = math.prod(normalized_shape), len(normalized_shape)
    if not n or not plain(input, weight):
        return NotImplemented
    x = input.reshape(-1, n)
    out, rstd = np.empty(x.shape, F4), np.empty(len(x), F4)
    w = values_or(weight, ones(n, F4)).reshape(-1)

    def block(i: int, j: int) -> None:
        _rms_norm(x[i:j], w, float(eps), out[i:j], rstd[i:j])

    parallel.each(row_blocks(*x.shape), x.size, block)
    return out.reshape(input.shape), rstd.reshape(*input.shape[: input.ndim - k], *[1] * k)


@before("fused_rms_norm", "vjp")
def rms_norm_vjp(F, g, input, weight, result1, normalized_shape, needs):
    n = math.prod(normalized_shape)
    if not n or g.dtype is not F4 or not plain(input, weight, result1):
        return NotImplemented
    above = np.ascontiguousarray(g).reshape(-1, n)
    x, rstd = input.reshape(-1, n), result1.reshape(-1)
    w, dx, width = (
        values_or(weight, ones(n, F4)).reshape(-1),
        np.empty(x.shape, F4),
        n if needs[1] else 0,
    )

    def block(i: int, j: int):
        dw = np.zeros(width, F4)
        _rms_norm_grad(above[i:j], x[i:j], rstd[i:j], w, dx[i:j], dw)
        return dw

    dw = np.zeros(width, F8)
    for part in parallel.in_order(row_blocks(*x.shape), x.size, block):
        dw += part
    dw = dw.astype(F4).reshape(normalized_shape) if needs[1] else None
    return dx.reshape(input.shape) if needs[0] else None, dw


# -- group_norm --------------------------------------------------------------------------------------------------------


@jit()
def _group_norm(x, groups, weight, bias, eps, out, mean, rstd):
    n, c, length = x.shape
    width = c // groups
    m = width * length
    for i in range(n):
        for k in range(groups):
            low = k * width
            group = x[i, low : low + width].reshape(-1)
            middle = f4(sum_of(group) / m)
            r = f4(1 / math.sqrt(squares_of(group, middle) / m + eps))
            mean[i, k], rstd[i, k] = middle, r
            for h in range(low, low + width):
                row, target, scale, shift = x[i, h], out[i, h], r * weight[h], bias[h]
                for j in range(length):
                    target[j] = (row[j] - middle) * scale + shift


@jit()
def _group_norm_grad(g, x, mean, rstd, weight, dx, dw, db):
    """The gradient of x; dw and db are those of weight and bias by sample."""
    n, c, length = x.shape
    groups = mean.shape[1]
    width = c // groups
    m = width * length
    for i in range(n):
        for k in range(groups):
            low, middle, r = k * width, mean[i, k], rstd[i, k]
            shift, slope = f8(0), f8(0)
            for h in range(low, low + width):
                total, along = sums_of(g[i, h], x[i, h], middle)
                dw[i, h], db[i, h] = along * r, total
                shift += total * weight[h]
                slope += along * weight[h]
            offset, rate = f4(shift / m * r), f4(slope / m * r * r * r)
            for h in range(low, low + width):
                above, row, target, scale = g[i, h], x[i, h], dx[i, h], weight[h] * r
                for j in range(length):
                    target[j] = above[j] * scale - (row[j] - middle) * rate - offset


def _group_norm_by(xp, x, groups: int, weight, bias, eps: float):
    n, c, length = x.shape
    out = np.empty(x.shape, F4)
    mean, rstd = np.empty((n, groups), F4), np.empty((n, groups), F4)
    w, b = values_or(weight, ones(c, F4)), np.zeros(c, F4) if bias is None else bias

    def block(i: int, j: int) -> None:
        _group_norm(x[i:j], groups, w, b, float(eps), out[i:j], mean[i:j], rstd[i:j])

    parallel.each(row_blocks(n, c * length), x.size, block)
    return out, mean, rstd


_native_group_norm = group_norm_by(_group_norm_by)


@before("native_group_norm")
def group_norm(xp, input, weight=None, bias=None, *, groups, eps):
    if not plain(input, weight, bias):
        return NotImplemented
    return _native_group_norm(xp, input, weight, bias, groups=groups, eps=eps)


@before("native_group_norm", "vjp")
def group_norm_vjp(F, g, input, weight, result1, result2, groups, needs):
    if g.dtype is not F4 or not plain(input, weight, result1, result2):
        return NotImplemented
    n, c = input.shape[:2]
    above, x = np.ascontiguousarray(g).reshape(n, c, -1), input.reshape(n, c, -1)
    dx, dw, db = np.empty(x.shape, F4), np.empty((n, c)), np.empty((n, c))
    w = values_or(weight, ones(c, F4))

    def block(i: int, j: int) -> None:
        given = above[i:j], x[i:j], result1[i:j], result2[i:j]
        _group_norm_grad(*given, w, dx[i:j], dw[i:j], db[i:j])

    parallel.each(row_blocks(n, x[0].size), x.size, block)
    return (
        dx.reshape(input.shape) if needs[0] else None,
        ADD(dw, 0).astype(F4) if needs[1] else None,
        ADD(db, 0).astype(F4) if needs[2] else None,
    )
