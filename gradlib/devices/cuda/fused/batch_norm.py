"""batch_norm in training and in evaluation (`kernels/batch_norm.cu`)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ....operators.nn.batch_norm import Statistics, as_channels, like_channels, same_layout
from ..kernels import (
    BF2,
    F2,
    F4,
    FLOATS,
    HALVES,
    SINGLES,
    blocks_for,
    dense,
    family,
    pack_size,
    packs_for,
    parts_launch,
)  # fmt: skip
from . import forward, vjp
from .norm import STORED, stored

FLAGS = (False, True)
KEPT = [(F4, F2), (F4, BF2), *((d, d) for d in SINGLES)]
"""Dtypes that statistics are computed in, and those of running ones."""
MODULE = family(
    "batch_norm",
    batch_moments=product(FLOATS, FLAGS),
    batch_moments_parts=KEPT,
    batch_running=KEPT,
    batch_apply=STORED,
    batch_sums=product(FLOATS, FLAGS),
    batch_sums_parts=product(FLOATS),
    batch_apply_grad=STORED,
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
        each = pack_size(self.x.dtype)  # elements that a thread reads at once
        if self.columns:
            packs, threads = blocks_for(self.channels, each), 1
            while threads < 32 and threads < packs:
                threads *= 2
            blocks, block = blocks_for(packs, threads), (threads, 256 // threads)
        else:
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

    def apply(self, xp: Any, kernel: str, kind: Any, x: Any, *args: Any) -> None:
        """Run a kernel that works on each element of `x` by the numbers of its channel; kind: the dtype of weights."""
        sizes = (np.int64(x.size), *self.sizes()[1:])
        MODULE.launch(xp, (kernel, x.dtype, kind), packs_for(x.size, x.dtype), 256, *args, *sizes)


def _moments(xp: Any, how: _Channels, x: Any, eps: float, box: Any) -> tuple:
    """Mean, biased variance and 1 / standard deviation of each channel; moves the running statistics of `box`."""
    grid, block = how.launch()
    parts = grid[1]
    means, squares = (xp.empty((parts, how.channels), how.wide) for _ in range(2))
    kernel = ("batch_moments", x.dtype, how.columns)
    MODULE.launch(xp, kernel, grid, block, x, means, squares, *how.sizes())
    mean, var, rstd = (xp.empty(how.channels, how.wide) for _ in range(3))
    running = box.offered() if isinstance(box, Statistics) else None
    kind, momentum = how.wide, 0.0
    if running is not None and _takes(how, running):
        kind, momentum = running[0].dtype, box.momentum
        box.taken()
    else:
        running = (None, None)
    given = (means, squares, mean, var, rstd, *running, np.int64(parts), *how.sizes())
    size = parts_launch(how.channels, parts)
    numbers = (np.float64(eps), np.float64(momentum))
    MODULE.launch(xp, ("batch_moments_parts", how.wide, kind), *size, *given, *numbers)
    return mean, var, rstd


def _takes(how: _Channels, running: tuple) -> bool:
    """Whether the kernels read and write these running statistics as they are."""
    kinds = {a.dtype for a in running}
    return (
        len(kinds) == 1
        and (how.wide, *kinds) in KEPT
        and all(a.size == how.channels and a.flags.c_contiguous for a in running)
        and all(a.device == how.x.device for a in running)
    )


def _running(xp: Any, how: _Channels, running: tuple, eps: float) -> tuple:
    """Mean and 1 / standard deviation of each channel by running statistics."""
    if not _takes(how, running):
        mean, var = (a.astype(how.wide, copy=False) for a in running)
        return dense(xp, mean), 1 / xp.sqrt(var + how.wide.type(eps))
    mean, rstd = (xp.empty(how.channels, how.wide) for _ in range(2))
    given = (*running, mean, rstd, np.int64(how.channels), np.float64(eps))
    kernel = ("batch_running", how.wide, running[0].dtype)
    MODULE.launch(xp, kernel, blocks_for(how.channels), 256, *given)
    return mean, rstd


@forward("native_batch_norm")
def batch_norm(
    xp, input, weight=None, bias=None, running_mean: Any = None, running_var: Any = None, *, training, eps, box
):  # fmt: skip
    kind = stored(input, weight, bias)
    if kind is None:
        return NotImplemented

    how = _Channels(input)
    x = dense(xp, how.x)
    if training:
        mean, var, rstd = _moments(xp, how, x, eps, box)
        if box is not None:
            box[:] = mean, var, how.samples * how.inner
    else:
        mean, rstd = _running(xp, how, (running_mean, running_var), eps)
    out = xp.empty(x.shape, x.dtype)
    given = (x, mean, rstd, dense(xp, weight), dense(xp, bias), out)
    how.apply(xp, "batch_apply", kind, x, *given)
    return like_channels(out, input), mean, rstd


@vjp("native_batch_norm")
def batch_norm_vjp(F, g, input, weight, result1, result2, training, needs):
    kind = stored(input, weight)
    if kind is None or g.dtype != input.dtype:
        return NotImplemented

    xp, how = F.backend, _Channels(input)
    flat, x = (dense(xp, a) for a in same_layout(g, input))
    mean, rstd, weight = dense(xp, result1), dense(xp, result2), dense(xp, weight)
    dx = dw = db = g_mean = slope = None
    if training or needs[1] or needs[2]:
        dw, db, g_mean, slope = _sums(xp, how, flat, x, mean, rstd, kind, needs)
    if needs[0]:
        out = xp.empty(x.shape, x.dtype)
        means = (g_mean, slope) if training else (None, None)
        how.apply(xp, "batch_apply_grad", kind, x, flat, x, mean, rstd, weight, *means, out)
        dx = like_channels(out, input)
    return dx, dw, db, None, None


def _sums(
    xp: Any, how: _Channels, g: Any, x: Any, mean: Any, rstd: Any, kind: Any, needs: tuple
) -> tuple:
    """Gradients of weight and bias (None where not needed) in dtype `kind`; mean(g), mean(g * xhat) of each channel."""
    grid, block = how.launch()
    parts, channels = grid[1], how.channels
    totals, products = (xp.empty((parts, channels), how.wide) for _ in range(2))
    kernel = ("batch_sums", x.dtype, how.columns)
    MODULE.launch(xp, kernel, grid, block, g, x, mean, totals, products, *how.sizes())
    dw, db = (xp.empty(channels, kind) if needs[i] else None for i in (1, 2))
    g_mean, slope = xp.empty(channels, how.wide), xp.empty(channels, how.wide)
    sizes = (np.int64(parts), np.int64(channels), np.int64(how.samples * how.inner))
    given = (totals, products, rstd, dw, db, g_mean, slope, *sizes)
    MODULE.launch(xp, ("batch_sums_parts", kind), *parts_launch(channels, parts), *given)
    return dw, db, g_mean, slope
