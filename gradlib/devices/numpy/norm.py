"""layer_norm, rms_norm and group_norm in blocks of rows that fit into the cache."""

from __future__ import annotations

import math

import numpy as np

from ...op.plain_numbers import number_array
from ...operators.kinds import F4, F8, is_half, narrow, wide_or_none
from ...operators.nn.layer_norm import layer_norm_by, rms_norm_by
from ...operators.nn.normalization import group_norm_by
from ...tape.layout import copy_in, suggested
from . import forward, parallel, vjp
from .blocks import PIECE, row_blocks
from .half_bits import BLOCK, hand_back, in_float32, widened
from .half_bits import narrow as narrow_vector
from .softmax import SMALL
from .sums import ADD, LONG, RUN, column_sums, ones, row_products, row_sums

# -- layer_norm --------------------------------------------------------------------------------------------------------


def _row_moments(x, centred, eps: float):
    """Centre the rows of a block into `centred`; returns (mean, 1 / standard deviation) as columns."""
    n = x.shape[1]
    mean = row_sums(x)
    count = number_array(n, mean.dtype)
    mean /= count
    mean = mean[:, None]
    np.subtract(x, mean, centred)
    rstd = row_products(centred, centred)
    rstd /= count
    rstd += number_array(eps, rstd.dtype)
    np.sqrt(rstd, rstd)
    return mean, np.reciprocal(rstd, rstd)[:, None]


def _layer_norm_rows(xp, x, weight, bias, eps: float):
    """On (rows, n): (result, mean, rstd), the last two as columns."""
    rows, n = x.shape
    out = np.empty((rows, n), x.dtype)
    if x.size <= PIECE:
        return out, *_layer_norm_block(x, out, weight, bias, eps)
    how = {"weight": weight, "bias": bias, "eps": eps}
    x = np.ascontiguousarray(x) if is_half(x) else x
    kind = F4 if is_half(x) else x.dtype
    mean, rstd = np.empty((rows, 1), kind), np.empty((rows, 1), kind)

    def block(i: int, j: int) -> None:
        mean[i:j], rstd[i:j] = in_float32(_layer_norm_block, out[i:j], x[i:j], **how)

    parallel.each(row_blocks(rows, n), x.size, block)
    return out, mean, rstd


def _layer_norm_block(x, out, weight, bias, eps: float):
    """The result of a block into `out`; returns (mean, rstd) as columns."""
    mean, rstd = _row_moments(x, out, eps)
    out *= rstd
    if weight is not None:
        out *= weight
    if bias is not None:
        out += bias
    return mean, rstd


def _layer_norm_grad_of_few(g, x, mean, rstd, weight, needs):
    """`_layer_norm_grad_rows` of one block, in as few calls as can be."""
    rows, n = x.shape
    xhat = x - mean
    xhat *= rstd
    product, down = g * xhat, ones(rows, x.dtype)
    dw, db = down.dot(product) if needs[1] else None, down.dot(g) if needs[2] else None
    if not needs[0]:
        return None, dw, db
    w = ones(n, x.dtype) if weight is None else weight
    means = np.empty((2, rows, 1), x.dtype)
    product.dot(w, means[0, :, 0])
    g.dot(w, means[1, :, 0])
    means /= number_array(n, x.dtype)
    xhat *= means[0]
    xhat += means[1]
    if weight is None:
        np.subtract(g, xhat, xhat)
    else:
        np.subtract(g * w, xhat, xhat)
    xhat *= rstd
    return xhat, dw, db


def _layer_norm_grad(g, x, mean, rstd, weight, needs):
    if x.size <= SMALL and len(x) <= RUN:
        return _layer_norm_grad_of_few(g, x, mean, rstd, weight, needs)
    return _layer_norm_grad_rows(g, x, mean, rstd, weight, needs)


def _layer_norm_grad_rows(g, x, mean, rstd, weight, needs):
    """Gradients of input, weight and bias on (rows, n).

    Rows are centred but not scaled: their scale is part of the factors of sums.
    """
    rows, n = x.shape
    dx = np.empty((rows, n), x.dtype) if needs[0] else None
    d = F4 if is_half(x) else x.dtype
    total = F8 if rows > RUN else d  # sums of many blocks
    dw = np.zeros(n, total) if needs[1] else None
    db = np.zeros(n, total) if needs[2] else None
    # the weight is folded into the two row means: mean(g * w), mean(g * w * centred)
    w = ones(n, d) if weight is None else weight

    def block(i: int, j: int) -> tuple:
        """Writes the gradient of a block; returns what its rows add to those of weight and bias."""
        lent: list = []
        gb, scale = widened(g[i:j], lent), rstd[i:j]
        centred = widened(x[i:j], lent) - mean[i:j]
        product = gb * centred
        sums = (
            _weighted_sum(scale, product) if dw is not None else None,
            column_sums(gb) if db is not None else None,
        )
        if dx is None:
            hand_back(lent)
            return sums
        slope = _times_row(product, w)[:, None]
        slope *= scale
        slope *= scale
        slope /= n
        shift = _times_row(gb, w)[:, None]
        shift /= n
        centred *= slope
        centred += shift
        o = gb if lent else dx[i:j]
        if weight is None:
            np.subtract(gb, centred, o)
        else:
            np.multiply(gb, w, o)
            o -= centred
        o *= scale
        if o is gb:
            narrow_vector(o.reshape(-1), dx[i:j].reshape(-1))
        hand_back(lent)
        return sums

    return dx, *_summed(parallel.in_order(row_blocks(rows, n), x.size, block), dw, db)


def _times_row(x, w):
    """The sum of the products of each row of `x` with `w`."""
    return x.dot(w) if x.shape[1] <= LONG else row_products(x, w)


def _weighted_sum(scale, x):
    """The sum of the rows of `x`, each times its number in a column; few enough for one run."""
    return scale[:, 0].dot(x) if len(x) <= RUN else column_sums(x * scale)


def _summed(parts, *totals) -> tuple:
    """What blocks add to gradients that all rows share; None for one that nobody wants."""
    for some in parts:
        for total, part in zip(totals, some, strict=True):
            if total is not None:
                total += part
    return totals


_layer_norm = layer_norm_by(_layer_norm_rows, PIECE)


@forward("native_layer_norm")
def layer_norm(xp, input, weight=None, bias=None, *, normalized_shape, eps):
    d = input.dtype
    if (
        d is F4
        and input.ndim == 2
        and len(normalized_shape) == 1
        and 0 < input.size <= SMALL
        and (weight is None or weight.dtype is d)
        and (bias is None or bias.dtype is d)
    ):  # in one block, whose shapes are those of the results
        out = np.empty(input.shape, d)
        return out, *_layer_norm_block(input, out, weight, bias, eps)
    how = {"normalized_shape": normalized_shape, "eps": eps}
    return _layer_norm(xp, input, weight, bias, **how)


@vjp("native_layer_norm")
def layer_norm_vjp(F, g, input, weight, result1, result2, normalized_shape, needs):
    if not g.size:
        return NotImplemented
    n, d = math.prod(normalized_shape), input.dtype
    if d is F4 and g.ndim == 2 and len(normalized_shape) == 1 and g.dtype is d:
        found = _layer_norm_grad(g, input, result1, result2, weight, needs)
        if input.size <= SMALL:
            return found
        return tuple([None if a is None else a.astype(d, copy=False) for a in found])
    like = d if weight is None else weight.dtype
    kinds = (d, like, like)
    if is_half(input) and g.dtype is d and n <= BLOCK and input.size > PIECE:
        g_rows, rows = (np.ascontiguousarray(a).reshape(-1, n) for a in (g, input))
    else:
        g_rows, rows = (wide_or_none(F.backend, a).reshape(-1, n) for a in (g, input))
    mean, rstd = result1.reshape(-1, 1), result2.reshape(-1, 1)
    w = None if weight is None else wide_or_none(F.backend, weight).reshape(-1)
    found = _layer_norm_grad(g_rows, rows, mean, rstd, w, needs)
    shapes = (input.shape, normalized_shape, normalized_shape)
    return tuple(
        None if a is None else narrow(a.reshape(s), k)
        for a, s, k in zip(found, shapes, kinds, strict=True)
    )


# -- rms_norm and group_norm -------------------------------------------------------------------------------------------


def _squares(x):
    return row_products(x, x)[:, None]


def _rms_norm_grad(g, x, rstd, weight, needs):
    """Gradients of input and weight on (rows, n) of float32 or float64."""
    rows, n = x.shape
    dx = np.empty((rows, n), x.dtype) if needs[0] else None
    dw = np.zeros(n, F8) if needs[1] else None
    w = ones(n, x.dtype) if weight is None else weight

    def block(i: int, j: int) -> tuple:
        gb, xb, scale = g[i:j], x[i:j], rstd[i:j]
        product = gb * xb
        of_weight = _weighted_sum(scale, product) if dw is not None else None
        if dx is not None:
            slope = _times_row(product, w)[:, None]
            slope *= scale
            slope *= scale
            slope /= n
            o = dx[i:j]
            np.multiply(gb, w, o)
            o -= np.multiply(xb, slope, product)
            o *= scale
        return (of_weight,)

    return dx, *_summed(parallel.in_order(row_blocks(rows, n), x.size, block), dw)


@vjp("fused_rms_norm")
def rms_norm_vjp(F, g, input, weight, result1, normalized_shape, needs):
    d, n = input.dtype, math.prod(normalized_shape)
    if (
        g.size <= PIECE
        or not (d is F4 or d is F8)
        or g.dtype is not d
        or result1.dtype is not d
        or not (weight is None or weight.dtype is d)
    ):
        return NotImplemented
    w = None if weight is None else weight.reshape(-1)
    g_rows, rows = g.reshape(-1, n), input.reshape(-1, n)
    dx, dw = _rms_norm_grad(g_rows, rows, result1.reshape(-1, 1), w, needs)
    return (
        None if dx is None else dx.reshape(input.shape),
        None if dw is None else dw.reshape(normalized_shape).astype(d, copy=False),
    )


def _group_norm(xp, x, groups: int, weight, bias, eps: float):
    """x (N, C, L): the result, mean and 1 / standard deviation of groups (N, G)."""
    n, c, length = x.shape
    m = c // groups * length
    out = np.empty((n, c, length), x.dtype)
    mean, rstd = np.empty((n, groups), x.dtype), np.empty((n, groups), x.dtype)

    def block(i: int, j: int) -> None:
        rows, o = x[i:j].reshape(-1, m), out[i:j]
        middle, scale = _row_moments(rows, o.reshape(-1, m), eps)
        mean[i:j], rstd[i:j] = middle.reshape(-1, groups), scale.reshape(-1, groups)
        if weight is None:
            grouped = o.reshape(-1, m)
            grouped *= scale
        else:
            o *= (rstd[i:j].repeat(c // groups, 1) * weight)[:, :, None]
        if bias is not None:
            o += bias[:, None]

    parallel.each(row_blocks(n, c * length), x.size, block)
    return out, mean, rstd


@vjp("native_group_norm")
def group_norm_vjp(F, g, input, weight, result1, result2, groups, needs):
    if not g.size:
        return NotImplemented
    n, c = input.shape[:2]
    g_wide, x = (wide_or_none(F.backend, a).reshape(n, c, -1) for a in (g, input))
    w = wide_or_none(F.backend, weight)
    dx, *others = _group_norm_grad(g_wide, x, result1, result2, w, needs)
    if dx is not None:
        dx = narrow(dx.reshape(input.shape), input.dtype)
        if (wanted := suggested(input)) is not None:
            dx = copy_in(F.backend, dx, wanted)
    like = input.dtype if weight is None else weight.dtype
    return dx, *(None if a is None else narrow(a, like) for a in others)


def _group_norm_grad(g, x, mean, rstd, weight, needs):
    """Gradients of input, weight and bias; g and x (N, C, L), mean and rstd (N, G)."""
    n, c, length = x.shape
    groups = mean.shape[1]
    m = c // groups * length
    dx = np.empty((n, c, length), x.dtype) if needs[0] else None
    dw, db = (np.zeros(c, F8) if needed else None for needed in needs[1:])

    def block(i: int, j: int) -> tuple:
        """Writes the gradient of some samples; returns what they add to those of weight and bias."""
        gb, each = g[i:j], rstd[i:j].repeat(c // groups, 1)
        centred = x[i:j].reshape(-1, groups, m) - mean[i:j, :, None]
        sums = row_sums(gb.reshape(-1, length)).reshape(-1, c)
        products = row_products(centred.reshape(gb.shape), gb)
        if dx is not None:
            part, along = sums, products
            if weight is not None:
                part, along = part * weight, along * weight
            # both (samples, G): the mean gradient, and its share along what was centred
            shift, slope = (a.reshape(-1, groups, c // groups).sum(2) / m for a in (part, along))
            shift *= rstd[i:j]
            slope *= rstd[i:j] ** 3
            centred *= slope[:, :, None]
            centred += shift[:, :, None]
            scale = each if weight is None else each * weight
            np.multiply(gb, scale[:, :, None], dx[i:j])
            dx[i:j] -= centred.reshape(gb.shape)
        return ADD(products * each, 0, F8), ADD(sums, 0, F8)

    return dx, *_summed(parallel.in_order(row_blocks(n, c * length), x.size, block), dw, db)


forward("fused_rms_norm")(rms_norm_by(_squares))
forward("native_group_norm")(group_norm_by(_group_norm))
