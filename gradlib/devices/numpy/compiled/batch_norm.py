"""batch_norm of channels, and its gradient.

x is (N, C, L), or (N, C) where each number is a channel of its own. Sums are kept as in `norms`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....operators.kinds import F4
from ....operators.nn.batch_norm import Statistics, batch_norm_by, bessel
from .. import before, parallel
from ..blocks import PIECE, row_blocks
from ..sums import ones
from . import jit
from .norms import plain, squares_of, sum_of, sums_of, values_or

f4, f8 = np.float32, np.float64


# -- forward -----------------------------------------------------------------------------------------------------------


@jit()
def _channel_moments(x, mean, var, low, high):
    """Of the channels from `low` to `high`."""
    n, _, length = x.shape
    for h in range(low, high):
        total = f8(0)
        for i in range(n):
            total += sum_of(x[i, h])
        middle = f4(total / (n * length))
        squares = f8(0)
        for i in range(n):
            squares += squares_of(x[i, h], middle)
        mean[h], var[h] = middle, f4(squares / (n * length))


@jit()
def _column_moments(x, mean, var):
    n, c = x.shape
    total = np.zeros(c, f8)
    for i in range(n):
        for h in range(c):
            total[h] += x[i, h]
    for h in range(c):
        mean[h] = total[h] / n
        total[h] = f8(0)
    for i in range(n):
        for h in range(c):
            d = x[i, h] - mean[h]
            total[h] += d * d
    for h in range(c):
        var[h] = total[h] / n


@jit()
def _scale_shift(x, scale, shift, out):
    n, c, length = x.shape
    for i in range(n):
        for h in range(c):
            row, target, a, b = x[i, h], out[i, h], scale[h], shift[h]
            for j in range(length):
                target[j] = row[j] * a + b


@jit()
def _scale_shift_columns(x, scale, shift, out):
    n, c = x.shape
    for i in range(n):
        for h in range(c):
            out[i, h] = x[i, h] * scale[h] + shift[h]


@jit()
def _factors(mean, var, weight, bias, eps, rstd, scale, shift):
    for h in range(mean.size):
        rstd[h] = f4(1) / np.sqrt(var[h] + eps)
        scale[h] = rstd[h] * weight[h]
        shift[h] = bias[h] - mean[h] * scale[h]


@jit(rounded=True)
def _move(running, values, factor, kept, momentum):
    """To the bits of `update_running`, which is how captured steps do it."""
    for h in range(running.size):
        running[h] = running[h] * kept + values[h] * factor * momentum


@jit()
def _few_channels(x, weight, bias, eps, mean, var, rstd, out):
    _channel_moments(x, mean, var, 0, x.shape[1])
    scale, shift = np.empty_like(mean), np.empty_like(mean)
    _factors(mean, var, weight, bias, eps, rstd, scale, shift)
    _scale_shift(x, scale, shift, out)


@jit()
def _few_columns(x, weight, bias, eps, mean, var, rstd, out):
    _column_moments(x, mean, var)
    scale, shift = np.empty_like(mean), np.empty_like(mean)
    _factors(mean, var, weight, bias, eps, rstd, scale, shift)
    _scale_shift_columns(x, scale, shift, out)


@jit(rounded=True)
def _move_both(running_mean, running_var, mean, var, unbiased, kept, momentum):
    _move(running_mean, mean, f4(1), kept, momentum)
    _move(running_var, var, unbiased, kept, momentum)


def _of_few(x, weight, bias, eps: float, box: Any) -> tuple:
    """All of it on one thread, the running statistics that the `box` offers included."""
    n, c = x.shape[:2]
    out = np.empty(x.shape, F4)
    mean, var, rstd = np.empty(c, F4), np.empty(c, F4), np.empty(c, F4)
    w, b = values_or(weight, ones(c, F4)), np.zeros(c, F4) if bias is None else bias
    if x.ndim == 2:
        _few_columns(x, w, b, f4(eps), mean, var, rstd, out)
    else:
        images = x.reshape(n, c, -1)
        _few_channels(images, w, b, f4(eps), mean, var, rstd, out.reshape(images.shape))
    if box is not None:
        count = x.size // c
        running = box.offered() if isinstance(box, Statistics) else None
        if running is not None and plain(x, *running):
            box.taken()
            momentum = box.momentum
            _move_both(*running, mean, var, f4(bessel(count)), f4(1 - momentum), f4(momentum))
        else:
            box[:] = mean, var, count
    return out, mean, rstd


def _by_channels(x, kernel, *others) -> None:
    """The kernel on blocks of channels of all images."""
    blocks = row_blocks(x.shape[1], x.size // x.shape[1])
    parallel.each(blocks, x.size, lambda i, j: kernel(*others, i, j))


def _moments(xp, x):
    mean, var = np.empty(x.shape[1], F4), np.empty(x.shape[1], F4)
    _by_channels(x, _channel_moments, x, mean, var)
    return mean, var


def _scaled(xp, x, scale, shift):
    out = np.empty(x.shape, F4)
    parallel.each(
        row_blocks(len(x), x[0].size), x.size,
        lambda i, j: _scale_shift(x[i:j], scale, shift, out[i:j]),
    )  # fmt: skip
    return out


_native_batch_norm = batch_norm_by(_moments, _scaled)


@before("native_batch_norm")
def batch_norm(
    xp, input, weight=None, bias=None, running_mean=None, running_var=None, *, training, eps, box
):
    given = input, weight, bias, running_mean, running_var
    if not plain(*given):
        return NotImplemented
    if training and input.size <= PIECE:
        return _of_few(input, weight, bias, eps, box)
    if input.ndim < 3:
        return NotImplemented
    return _native_batch_norm(xp, *given, training=training, eps=eps, box=box)


# -- backward ----------------------------------------------------------------------------------------------------------


@jit()
def _coefficients(total, along, mean, rstd, weight, count):
    """(of g, of x, the rest) in the gradient of x, from the sums of g and of g * (x - mean)."""
    r = f8(rstd)
    scale = r * weight
    slope = -along * r * r / count * scale
    return f4(scale), f4(slope), f4(-total * scale / count - slope * mean)


@jit()
def _batch_norm_grad(g, x, mean, rstd, weight, dx, dw, db, low, high):
    """Of the channels from `low` to `high`; that of x if there is room for it."""
    n, _, length = x.shape
    for h in range(low, high):
        total, along = f8(0), f8(0)
        for i in range(n):
            p, q = sums_of(g[i, h], x[i, h], mean[h])
            total += p
            along += q
        dw[h], db[h] = along * rstd[h], total
        if dx.size:
            u, v, s = _coefficients(total, along, mean[h], rstd[h], weight[h], n * length)
            for i in range(n):
                above, row, target = g[i, h], x[i, h], dx[i, h]
                for j in range(length):
                    target[j] = above[j] * u + row[j] * v + s


@jit()
def _columns_grad(g, x, mean, rstd, weight, dx, dw, db):
    n, c = x.shape
    total, along = np.zeros(c, f8), np.zeros(c, f8)
    for i in range(n):
        for h in range(c):
            total[h] += g[i, h]
            along[h] += g[i, h] * (x[i, h] - mean[h])
    u, v, s = np.empty(c, f4), np.empty(c, f4), np.empty(c, f4)
    for h in range(c):
        dw[h], db[h] = along[h] * rstd[h], total[h]
        u[h], v[h], s[h] = _coefficients(total[h], along[h], mean[h], rstd[h], weight[h], n)
    for i in range(len(dx)):
        for h in range(c):
            dx[i, h] = g[i, h] * u[h] + x[i, h] * v[h] + s[h]


@before("native_batch_norm", "vjp")
def batch_norm_vjp(F, g, input, weight, result1, result2, training, needs):
    if not training or g.dtype is not F4 or not plain(input, weight, result1, result2):
        return NotImplemented
    n, c = input.shape[:2]
    dw, db = np.empty(c, F4), np.empty(c, F4)
    w, above = values_or(weight, ones(c, F4)), np.ascontiguousarray(g)
    if input.ndim == 2:
        if input.size > PIECE:
            return NotImplemented
        dx = np.empty(input.shape if needs[0] else (0, 0), F4)
        _columns_grad(above, input, result1, result2, w, dx, dw, db)
    else:
        above, x = above.reshape(n, c, -1), input.reshape(n, c, -1)
        dx = np.empty(x.shape if needs[0] else (0, 0, 0), F4)
        _by_channels(x, _batch_norm_grad, above, x, result1, result2, w, dx, dw, db)
    return (
        dx.reshape(input.shape) if needs[0] else None,
        dw if needs[1] else None,
        db if needs[2] else None,
        None,
        None,
    )
