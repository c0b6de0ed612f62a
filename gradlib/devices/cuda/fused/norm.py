"""layer_norm, rms_norm and group_norm (`kernels/norm.cu`)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..kernels import (
    F4,
    FLOATS,
    HALVES,
    blocks_for,
    dense,
    family,
    instance,
    instances,
    launcher_of,
    pack_size,
    parts_launch,
    rows_launch,
)
from . import forward, vjp

FLAGS = (False, True)
KINDS = [(d, *flags) for d in FLOATS for flags in ((False, False), (True, False), (False, True))]
MODULE = family(
    "norm",
    [instance("norm", *kind) for kind in KINDS],
    [instance("norm_grad", *kind) for kind in KINDS],
    instances("norm_columns", FLOATS, FLAGS),
    instances("norm_channels", FLOATS),
    instances("norm_parts", FLOATS),
)
PART = 64  # rows that one block adds up for the gradient of the weights, at least
MOST_PARTS, ENOUGH_BLOCKS = 128, 1024  # of what a large GPU has work for there may be more parts


class _Rows:
    """How an array is read: `rows` rows of `n`; weights belong to columns, or to channels of `inner` elements."""

    def __init__(self, size: int, dtype: Any, n: int, groups: int = 0, inner: int = 1):
        self.rows, self.n, self.groups, self.inner = size // n, n, groups, inner
        self.wide = F4 if dtype in HALVES else dtype
        self.launch = rows_launch(self.rows, n)
        self.sizes = tuple(np.int64(k) for k in (self.rows, n, max(groups, 1), inner))


@lru_cache(4096)
def _layer_rows(shape: tuple, dtype: Any, normalized_shape: tuple) -> tuple[_Rows, tuple]:
    """How rows of layer_norm and rms_norm are read, and the shape of their statistics."""
    k = len(normalized_shape)
    how = _Rows(math.prod(shape), dtype, math.prod(normalized_shape))
    return how, shape[: len(shape) - k] + (1,) * k


@lru_cache(4096)
def _group_rows(shape: tuple, dtype: Any, groups: int) -> _Rows:
    return _Rows(
        math.prod(shape), dtype, math.prod(shape[1:]) // groups, groups, math.prod(shape[2:])
    )


def _fit(x: Any, *others: Any) -> bool:
    """Whether the kernels take these arrays."""
    return bool(
        x.dtype in FLOATS and x.size and all(a is None or a.dtype == x.dtype for a in others)
    )


def _norm(xp: Any, x: Any, weight: Any, bias: Any, how: _Rows, rms: bool, eps: float) -> tuple:
    """(result, mean or None, rstd); the statistics are flat."""
    out = xp.empty(x.shape, x.dtype)
    mean = None if rms else xp.empty(how.rows, how.wide)
    rstd = xp.empty(how.rows, how.wide)
    grid, block = how.launch
    given = (dense(xp, x), dense(xp, weight), dense(xp, bias), out, mean, rstd, *how.sizes)
    kernel = instance("norm", x.dtype, rms, how.groups > 0)
    launcher_of(xp).launch(MODULE, kernel, grid, block, (*given, np.float64(eps)))
    return out, mean, rstd


def _gradients(
    xp: Any,
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    how: _Rows,
    needs: tuple,
    shape: tuple,
) -> list:
    """Gradients of x, weight and bias (those that are needed); `shape` is that of weight and bias."""
    rms = mean is None
    g, x, weight, mean, rstd = (dense(xp, a) for a in (g, x, weight, mean, rstd))
    out: list = [None, None, None]
    launch = launcher_of(xp).launch
    if needs[0]:
        out[0] = xp.empty(x.shape, x.dtype)
        grid, block = how.launch
        kernel = instance("norm_grad", x.dtype, rms, how.groups > 0)
        given = (g, x, mean, rstd, weight, out[0], *how.sizes)
        launch(MODULE, kernel, grid, block, given)
    if any(needs[1:]):
        products, totals = _partial(xp, g, x, mean, rstd, how)
        for i in range(1, len(needs)):
            out[i] = xp.empty(shape, x.dtype) if needs[i] else None
        parts, n = products.shape
        given = (products, totals, out[1], out[2], np.int64(parts), np.int64(n))
        launch(MODULE, instance("norm_parts", x.dtype), *parts_launch(n, parts), given)
    return out


def _partial(xp: Any, g: Any, x: Any, mean: Any, rstd: Any, how: _Rows) -> tuple:
    """Partial sums of g * xhat and of g: (parts, weights) each."""
    if how.groups:
        per_group = how.n // how.inner
        lines = how.rows * per_group
        parts = how.rows // how.groups
        grid: Any
        grid, block = rows_launch(lines, how.inner)
        name, sizes = instance("norm_channels", x.dtype), (lines, how.inner, per_group)
    else:
        blocks = blocks_for(how.n, 32 * pack_size(x.dtype))
        parts = max(1, min(how.rows // PART, max(MOST_PARTS, ENOUGH_BLOCKS // blocks)))
        grid, block = (blocks, parts), (32, 8)
        name, sizes = instance("norm_columns", x.dtype, mean is None), (how.rows, how.n)
    n = how.groups * (how.n // how.inner) if how.groups else how.n
    products, totals = xp.empty((parts, n), how.wide), xp.empty((parts, n), how.wide)
    given = (g, x, mean, rstd, products, totals, *(np.int64(k) for k in sizes))
    launcher_of(xp).launch(MODULE, name, grid, block, given)
    return products, totals


@forward("native_layer_norm")
def layer_norm(xp, input, weight=None, bias=None, *, normalized_shape, eps):
    if not _fit(input, weight, bias):
        return NotImplemented
    how, stats = _layer_rows(input.shape, input.dtype, tuple(normalized_shape))
    out, mean, rstd = _norm(xp, input, weight, bias, how, False, eps)
    return out, mean.reshape(stats), rstd.reshape(stats)


@vjp("native_layer_norm")
def layer_norm_vjp(F, g, input, weight, result1, result2, normalized_shape, needs):
    if not _fit(input, g, weight):
        return NotImplemented
    shape = tuple(normalized_shape)
    how, _ = _layer_rows(input.shape, input.dtype, shape)
    return tuple(_gradients(F.backend, g, input, weight, result1, result2, how, needs, shape))


@forward("fused_rms_norm")
def rms_norm(xp, input, weight=None, *, normalized_shape, eps):
    if not _fit(input, weight):
        return NotImplemented
    how, stats = _layer_rows(input.shape, input.dtype, tuple(normalized_shape))
    out, _, rstd = _norm(xp, input, weight, None, how, True, eps)
    return out, rstd.reshape(stats)


@vjp("fused_rms_norm")
def rms_norm_vjp(F, g, input, weight, result1, normalized_shape, needs):
    if not _fit(input, g, weight):
        return NotImplemented
    shape = tuple(normalized_shape)
    how, _ = _layer_rows(input.shape, input.dtype, shape)
    return tuple(_gradients(F.backend, g, input, weight, None, result1, how, needs, shape)[:2])


@forward("native_group_norm")
def group_norm(xp, input, weight=None, bias=None, *, groups, eps):
    if not _fit(input, weight, bias):
        return NotImplemented
    out, mean, rstd = _norm(
        xp, input, weight, bias, _group_rows(input.shape, input.dtype, groups), False, eps
    )
    stats = (input.shape[0], groups)
    return out, mean.reshape(stats), rstd.reshape(stats)


@vjp("native_group_norm")
def group_norm_vjp(F, g, input, weight, result1, result2, groups, needs):
    if not _fit(input, g, weight):
        return NotImplemented
    how, shape = _group_rows(input.shape, input.dtype, groups), (input.shape[1],)
    return tuple(_gradients(F.backend, g, input, weight, result1, result2, how, needs, shape))
