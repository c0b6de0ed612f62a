"""batch_norm in blocks that fit into the cache."""

from __future__ import annotations

import numpy as np

from ...op.plain_numbers import number_array
from ...operators.kinds import F8, narrow, wide_or_none
from ...operators.nn.batch_norm import batch_norm_by, like_channels, same_layout
from . import forward, parallel, vjp
from .blocks import row_blocks
from .softmax import SMALL
from .sums import STRIDED_RUN, add_up, column_sums, ones, row_products, row_sums


def _of_few(x) -> bool:
    """Whether the number of calls decides, and not what they do."""
    return 0 < x.size <= SMALL and len(x) <= STRIDED_RUN


def _by_channel(x, values):
    """`values` of channels in the shape in which they go with x."""
    return values if x.ndim == 2 else values[:, None]


def _few_sums(x):
    """The sum of each channel of few elements."""
    if x.ndim == 2:
        return ones(len(x), x.dtype).dot(x)
    n, c, length = x.shape
    rows = x.reshape(n * c, length).dot(ones(length, x.dtype))
    return ones(n, x.dtype).dot(rows.reshape(n, c))


def _channel_moments(xp, x):
    """Mean and (biased) variance of each channel; x as from `as_channels`."""
    count = x.size // x.shape[1]
    if _of_few(x):
        mean, n = _few_sums(x), number_array(count, x.dtype)
        mean /= n
        centred = x - _by_channel(x, mean)
        centred *= centred
        var = _few_sums(centred)
        var /= n
        return mean, var
    if x.ndim == 2:
        mean = column_sums(x) / count
        var = np.zeros(mean.shape, F8)

        def squares(i: int, j: int):
            centred = x[i:j] - mean
            centred *= centred
            return column_sums(centred)

        for part in parallel.in_order(row_blocks(*x.shape), x.size, squares):
            var += part
        return mean, (var / count).astype(x.dtype, copy=False)
    n, c, length = x.shape
    mean = add_up(row_sums(x.reshape(-1, length)).reshape(n, c), (0,)) / count
    var = np.zeros(mean.shape, F8)
    shift = mean[:, None]

    def squares_of(i: int, j: int):
        centred = x[i:j] - shift
        return add_up(row_products(centred, centred), (0,))

    for part in parallel.in_order(row_blocks(n, c * length), x.size, squares_of):
        var += part
    return mean, (var / count).astype(x.dtype, copy=False)


def _scale_shift(xp, x, scale, shift):
    """``x * scale + shift`` for each channel."""
    scale, shift = _by_channel(x, scale), _by_channel(x, shift)
    if _of_few(x) and x.dtype == scale.dtype:
        out = x * scale
        out += shift
        return out
    out = np.empty(x.shape, x.dtype)

    def block(i: int, j: int) -> None:
        o = out[i:j]
        np.multiply(x[i:j], scale, out=o)
        o += shift

    parallel.each(row_blocks(x.shape[0], x[0].size if len(x) else 1), x.size, block)
    return out


forward("native_batch_norm")(batch_norm_by(_channel_moments, _scale_shift))


def _channel_sums(x, g, mean):
    """For each channel the sums of g and of g * (x - mean)."""
    if _of_few(x):
        t = x - _by_channel(x, mean)
        t *= g
        return _few_sums(g), _few_sums(t)
    if x.ndim == 2:
        total, with_x = column_sums(g), np.zeros(mean.shape, F8)

        def products(i: int, j: int):
            t = x[i:j] - mean
            t *= g[i:j]
            return column_sums(t)

        for part in parallel.in_order(row_blocks(*x.shape), x.size, products):
            with_x += part
        return total, with_x.astype(x.dtype, copy=False)
    n, c, length = x.shape
    total = add_up(row_sums(g.reshape(-1, length)).reshape(n, c), (0,))
    with_x = np.zeros(mean.shape, F8)

    def products_of(i: int, j: int):
        return add_up(row_products(x[i:j] - mean[:, None], g[i:j]), (0,))

    for part in parallel.in_order(row_blocks(n, c * length), x.size, products_of):
        with_x += part
    return total, with_x.astype(x.dtype, copy=False)


def _channel_gradient(g, x, a, b, c):
    """``a * g + b * x + c`` for each channel."""
    a, b, c = _by_channel(x, a), _by_channel(x, b), _by_channel(x, c)
    if _of_few(x) and g.dtype == x.dtype == a.dtype:
        out = g * a
        out += x * b
        out += c
        return out
    out = np.empty(x.shape, x.dtype)

    def block(i: int, j: int) -> None:
        o, t = out[i:j], x[i:j] * b
        np.multiply(g[i:j], a, out=o)
        o += t
        o += c

    parallel.each(row_blocks(x.shape[0], x[0].size), x.size, block)
    return out


@vjp("native_batch_norm")
def batch_norm_vjp(F, g, input, weight, result1, result2, training, needs):
    if not g.size:
        return NotImplemented
    xp, d = F.backend, input.dtype
    gf, x = same_layout(xp.wide(g), xp.wide(input))
    w = wide_or_none(xp, weight)
    scale = result2 if w is None else result2 * w
    dx = dw = db = None
    if training or needs[1] or needs[2]:
        total, with_x = _channel_sums(x, gf, result1)
        dw = (with_x * result2).astype(d, copy=False) if needs[1] else None
        db = total.astype(d, copy=False) if needs[2] else None
    if needs[0]:
        if training:
            m = x.size // x.shape[1]
            share = number_array(-1.0 / m, x.dtype)
            b = with_x * result2 * result2 * share * scale
            flat = _channel_gradient(gf, x, scale, b, total * scale * share - b * result1)
        else:
            flat = gf * (scale if x.ndim == 2 else scale[:, None])
        dx = narrow(like_channels(flat, input), d)
    return dx, dw, db, None, None
