"""layer_norm, rms_norm and group_norm (`kernels/norm.cu`)."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ..kernels import (
    F4,
    FLOATS,
    HALVES,
    blocks_for,
    dense,
    family,
    pack_size,
    parts_launch,
    rows_launch,
)  # fmt: skip
from . import forward, vjp

FLAGS = (False, True)
STORED = [(d, d) for d in FLOATS] + [(d, F4) for d in HALVES]
"""Dtypes of what is normalised and of weight and bias: half types may have those in float32, as under autocast."""
KINDS = [(*d, *flags) for d in STORED for flags in ((False, False), (True, False), (False, True))]
MODULE = family(
    "norm",
    norm=KINDS,
    norm_grad=KINDS,
    norm_columns=product(FLOATS, FLAGS),
    norm_channels=product(FLOATS),
    norm_parts=product(FLOATS),
)
PART = 64  # rows that one block adds up for the gradient of the weights, at least
MOST_PARTS, ENOUGH_BLOCKS = 128, 1024  # of what a large GPU has work for there may be more parts


def stored(x: Any, weight: Any, bias: Any = None) -> Any:
    """The dtype of the parameters of a normalisation (without any that of `x`); None if kernels do not take them."""
    kind = next((p.dtype for p in (weight, bias) if p is not None), x.dtype)
    if not x.size or (x.dtype, kind) not in STORED or (bias is not None and bias.dtype != kind):
        return None
    return kind


class _Rows:
    """How an array is read: `rows` rows of `n`; weights belong to columns, or to channels of `inner` elements."""

    def __init__(self, size: int, dtype: Any, n: int, groups: int = 0, inner: int = 1):
        self.rows, self.n, self.groups, self.inner = size // n, n, groups, inner
        self.wide = F4 if dtype in HALVES else dtype
        self.launch = rows_launch(self.rows, n, pack_size(dtype))
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


def _norm(
    xp: Any, x: Any, weight: Any, bias: Any, kind: Any, how: _Rows, rms: bool, eps: float
) -> tuple:
    """(result, mean or None, rstd); the statistics are flat. kind: the dtype of weight and bias."""
    out = xp.empty(x.shape, x.dtype)
    mean = None if rms else xp.empty(how.rows, how.wide)
    rstd = xp.empty(how.rows, how.wide)
    given = (dense(xp, x), dense(xp, weight), dense(xp, bias), out, mean, rstd, *how.sizes)
    kernel = ("norm", x.dtype, kind, rms, how.groups > 0)
    MODULE.launch(xp, kernel, *how.launch, *given, np.float64(eps))
    return out, mean, rstd


def _gradients(
    xp: Any,
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    kind: Any,
    how: _Rows,
    needs: tuple,
    shape: tuple,
) -> list:
    """Gradients of x, weight and bias (those that are needed); shape, kind: shape and dtype of weight and bias."""
    rms = mean is None
    g, x, weight, mean, rstd = (dense(xp, a) for a in (g, x, weight, mean, rstd))
    out: list = [None, None, None]
    if needs[0]:
        out[0] = xp.empty(x.shape, x.dtype)
        kernel = ("norm_grad", x.dtype, kind, rms, how.groups > 0)
        MODULE.launch(xp, kernel, *how.launch, g, x, mean, rstd, weight, out[0], *how.sizes)
    if any(needs[1:]):
        products, totals = _partial(xp, g, x, mean, rstd, how)
        for i in range(1, len(needs)):
            out[i] = xp.empty(shape, kind) if needs[i] else None
        parts, n = products.shape
        given = (products, totals, out[1], out[2], np.int64(parts), np.int64(n))
        MODULE.launch(xp, ("norm_parts", kind), *parts_launch(n, parts), *given)
    return out


def _partial(xp: Any, g: Any, x: Any, mean: Any, rstd: Any, how: _Rows) -> tuple:
    """Partial sums of g * xhat and of g: (parts, weights) each."""
    if how.groups:
        per_group = how.n // how.inner
        lines = how.rows * per_group
        parts = how.rows // how.groups
        grid: Any
        kernel: tuple
        grid, block = rows_launch(lines, how.inner, pack_size(x.dtype))
        kernel, sizes = ("norm_channels", x.dtype), (lines, how.inner, per_group)
    else:
        blocks = blocks_for(how.n, 32 * pack_size(x.dtype))
        parts = max(1, min(how.rows // PART, max(MOST_PARTS, ENOUGH_BLOCKS // blocks)))
        grid, block = (blocks, parts), (32, 8)
        kernel, sizes = ("norm_columns", x.dtype, mean is None), (how.rows, how.n)
    n = how.groups * (how.n // how.inner) if how.groups else how.n
    products, totals = xp.empty((parts, n), how.wide), xp.empty((parts, n), how.wide)
    given = (g, x, mean, rstd, products, totals, *(np.int64(k) for k in sizes))
    MODULE.launch(xp, kernel, grid, block, *given)
    return products, totals


@forward("native_layer_norm")
def layer_norm(xp, input, weight=None, bias=None, *, normalized_shape, eps):
    kind = stored(input, weight, bias)
    if kind is None:
        return NotImplemented
    how, stats = _layer_rows(input.shape, input.dtype, tuple(normalized_shape))
    out, mean, rstd = _norm(xp, input, weight, bias, kind, how, False, eps)
    return out, mean.reshape(stats), rstd.reshape(stats)


@vjp("native_layer_norm")
def layer_norm_vjp(F, g, input, weight, result1, result2, normalized_shape, needs):
    kind = stored(input, weight)
    if kind is None or g.dtype != input.dtype:
        return NotImplemented
    shape = tuple(normalized_shape)
    how, _ = _layer_rows(input.shape, input.dtype, shape)
    return tuple(_gradients(F.backend, g, input, weight, result1, result2, kind, how, needs, shape))


@forward("fused_rms_norm")
def rms_norm(xp, input, weight=None, *, normalized_shape, eps):
    kind = stored(input, weight)
    if kind is None:
        return NotImplemented
    how, stats = _layer_rows(input.shape, input.dtype, tuple(normalized_shape))
    out, _, rstd = _norm(xp, input, weight, None, kind, how, True, eps)
    return out, rstd.reshape(stats)


@vjp("fused_rms_norm")
def rms_norm_vjp(F, g, input, weight, result1, normalized_shape, needs):
    kind = stored(input, weight)
    if kind is None or g.dtype != input.dtype:
        return NotImplemented
    shape = tuple(normalized_shape)
    how, _ = _layer_rows(input.shape, input.dtype, shape)
    given = (g, input, weight, None, result1, kind, how, needs, shape)
    return tuple(_gradients(F.backend, *given)[:2])


@forward("native_group_norm")
def group_norm(xp, input, weight=None, bias=None, *, groups, eps):
    kind = stored(input, weight, bias)
    if kind is None:
        return NotImplemented
    out, mean, rstd = _norm(
        xp, input, weight, bias, kind, _group_rows(input.shape, input.dtype, groups), False, eps
    )
    stats = (input.shape[0], groups)
    return out, mean.reshape(stats), rstd.reshape(stats)


@vjp("native_group_norm")
def group_norm_vjp(F, g, input, weight, result1, result2, groups, needs):
    kind = stored(input, weight)
    if kind is None or g.dtype != input.dtype:
        return NotImplemented
    how, shape = _group_rows(input.shape, input.dtype, groups), (input.shape[1],)
    return tuple(_gradients(F.backend, g, input, weight, result1, result2, kind, how, needs, shape))
