"""batch_norm in training and in evaluation (`kernels/batch_norm.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....operators.nn.batch_norm import as_channels, like_channels, same_layout
from ..kernels import (
    F4,
    FLOATS,
    HALVES,
    SINGLES,
    blocks_for,
    dense,
    family,
    instance,
    instances,
    launcher_of,
    pack_size,
    packs_for,
    parts_launch,
)
from . import forward, vjp

FLAGS = (False, True)
MODULE = family(
    "batch_norm",
    instances("batch_moments", FLOATS, FLAGS),
    instances("batch_moments_parts", SINGLES),
    instances("batch_apply", FLOATS),
    instances("batch_sums", FLOATS, FLAGS),
    instances("batch_sums_parts", FLOATS),
    instances("batch_apply_grad", FLOATS),
)
ENOUGH_BLOCKS = 1024  # fill a large GPU
ENOUGH = 4096  # elements that are worth a block


class _Channels:
    """An array as [samples, channels, inner] and the launch sizes of kernels that reduce over a channel."""

    def __init__(self, x: Any):

        flat = as_channels(x)
        self.x, self.shape = flat, flat.shape
        self.samples, self.channels = flat.shape[:2]
        self.inner = flat.shape[2] if flat.ndim == 3 else 1
        self.columns = self.inner == 1
        self.wide = F4 if x.dtype in HALVES else x.dtype

    def launch(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(grid, block); the second number of the grid is that of parts."""
        if self.columns:
            blocks, block = blocks_for(self.channels, 32), (32, 8)
        else:
            each = pack_size(self.x.dtype)  # elements that a thread reads at once
            steps = self.inner if self.inner % each else self.inner // each
            threads = 32
            while threads < 256 and threads < steps:
                threads *= 2
            blocks, block = self.channels, (threads, 256 // threads)
        # samples that a part should have at least
        per_part = min(block[1] * 4, blocks_for(ENOUGH, self.inner))
        parts = max(1, min(ENOUGH_BLOCKS // blocks, self.samples // per_part))
        return (blocks, parts), block

    def sizes(self) -> tuple:
        return np.int64(self.samples), np.int64(self.channels), np.int64(self.inner)


def _fit(x: Any, *others: Any) -> bool:
    return bool(
        x.dtype in FLOATS and x.size and all(a is None or a.dtype == x.dtype for a in others)
    )


def _moments(xp: Any, how: _Channels, x: Any, eps: float) -> tuple:
    """Mean, biased variance and 1 / standard deviation of each channel."""
    grid, block = how.launch()
    parts = grid[1]
    means, squares = (xp.empty((parts, how.channels), how.wide) for _ in range(2))
    launch = launcher_of(xp).launch
    kernel = instance("batch_moments", x.dtype, how.columns)
    launch(MODULE, kernel, grid, block, (x, means, squares, *how.sizes()))
    mean, var, rstd = (xp.empty(how.channels, how.wide) for _ in range(3))
    given = (means, squares, mean, var, rstd, np.int64(parts), *how.sizes(), np.float64(eps))
    kernel = instance("batch_moments_parts", how.wide)
    launch(MODULE, kernel, *parts_launch(how.channels, parts), given)
    return mean, var, rstd


@forward("native_batch_norm")
def batch_norm(
    xp, input, weight=None, bias=None, running_mean: Any = None, running_var: Any = None, *, training, eps, box
):  # fmt: skip
    if not _fit(input, weight, bias):
        return NotImplemented

    how = _Channels(input)
    x = dense(xp, how.x)
    if training:
        mean, var, rstd = _moments(xp, how, x, eps)
        if box is not None:
            box[:] = mean, var, how.samples * how.inner
    else:
        mean = running_mean.astype(how.wide, copy=False)
        rstd = 1 / xp.sqrt(running_var.astype(how.wide, copy=False) + how.wide.type(eps))
    out = xp.empty(x.shape, x.dtype)
    given = (x, dense(xp, mean), rstd, dense(xp, weight), dense(xp, bias), out)
    sizes = (np.int64(x.size), np.int64(how.channels), np.int64(how.inner))
    kernel = instance("batch_apply", x.dtype)
    launcher_of(xp).launch(MODULE, kernel, packs_for(x.size, x.dtype), 256, given + sizes)
    return like_channels(out, input), mean, rstd


@vjp("native_batch_norm")
def batch_norm_vjp(F, g, input, weight, result1, result2, training, needs):
    if not _fit(input, g, weight):
        return NotImplemented

    xp, how = F.backend, _Channels(input)
    flat, x = (dense(xp, a) for a in same_layout(g, input))
    mean, rstd, weight = dense(xp, result1), dense(xp, result2), dense(xp, weight)
    dx = dw = db = g_mean = slope = None
    if training or needs[1] or needs[2]:
        dw, db, g_mean, slope = _sums(xp, how, flat, x, mean, rstd, needs)
    if needs[0]:
        out = xp.empty(x.shape, x.dtype)
        means = (g_mean, slope) if training else (None, None)
        sizes = (np.int64(x.size), np.int64(how.channels), np.int64(how.inner))
        given = (flat, x, mean, rstd, weight, *means, out, *sizes)
        kernel = instance("batch_apply_grad", x.dtype)
        launcher_of(xp).launch(MODULE, kernel, packs_for(x.size, x.dtype), 256, given)
        dx = like_channels(out, input)
    return dx, dw, db, None, None


def _sums(xp: Any, how: _Channels, g: Any, x: Any, mean: Any, rstd: Any, needs: tuple) -> tuple:
    """Gradients of weight and bias (None where not needed), mean(g) and mean(g * xhat) of each channel."""
    grid, block = how.launch()
    parts, channels = grid[1], how.channels
    totals, products = (xp.empty((parts, channels), how.wide) for _ in range(2))
    launch = launcher_of(xp).launch
    given = (g, x, mean, totals, products, *how.sizes())
    launch(MODULE, instance("batch_sums", x.dtype, how.columns), grid, block, given)
    dw, db = (xp.empty(channels, x.dtype) if needs[i] else None for i in (1, 2))
    g_mean, slope = xp.empty(channels, how.wide), xp.empty(channels, how.wide)
    sizes = (np.int64(parts), np.int64(channels), np.int64(how.samples * how.inner))
    given = (totals, products, rstd, dw, db, g_mean, slope, *sizes)
    launch(MODULE, instance("batch_sums_parts", x.dtype), *parts_launch(channels, parts), given)
    return dw, db, g_mean, slope
