"""Max and average pooling (`kernels/pool.cu`), and values at chosen positions of planes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ....operators.nn.windows import windows
from ....tape.switches import switches
from ..kernels import FLOATS, MAX_BLOCK, blocks_for, dense, family
from . import forward, scatter
from .reduce import mean_dim
from .windows import layout

TAPS, POSITIONS = np.dtype(np.uint8), np.dtype(np.int64)
MODULE = family(
    "pool",
    max_pool=product(FLOATS, (TAPS, POSITIONS)),
    pool_put=product(FLOATS),
    pool_pick=product(FLOATS),
    avg_pool=product(FLOATS),
    avg_pool_grad=product(FLOATS),
)


def _windows(
    space: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> tuple[tuple, Any]:
    """The sizes of the result, and the windows as kernels take them (None: they do not)."""

    out = windows(space, kernel, stride, padding, dilation, ceil_mode).out
    return out, layout(space, out, kernel, stride, padding, dilation)


def _launch(xp: Any, kernel: tuple, out: Any, *args: Any) -> Any:
    """Run a kernel with a thread for each element of `out`, which is returned."""
    if out.size:
        MODULE.launch(xp, kernel, blocks_for(out.size), 256, *args, np.int64(out.size))
    return out


# -- max ---------------------------------------------------------------------------------------------------------------


def _max_pool(xp: Any, x: Any, kind: Any, kernel_size: tuple, *how: Any) -> Any:
    """(the maxima, taps or positions)."""
    if x.dtype not in FLOATS or (kind is TAPS and math.prod(kernel_size) > 256):
        return NotImplemented
    n = x.ndim - len(kernel_size)
    out, w = _windows(x.shape[n:], kernel_size, *how)
    if w is None:
        return NotImplemented
    where = xp.empty(x.shape[:n] + out, kind)
    best = xp.empty(where.shape, x.dtype)
    return _launch(xp, ("max_pool", x.dtype, kind), best, dense(xp, x), best, where, w), where


@forward("max_pool2d_op", "max_pool3d_op")
def max_pool(xp, self, *, kernel_size, stride, padding, dilation, ceil_mode):
    return _max_pool(xp, self, TAPS, kernel_size, stride, padding, dilation, ceil_mode)


@forward("max_pool_with_indices")
def max_pool_indices(xp, self, *, kernel_size, stride, padding, dilation, ceil_mode):
    return _max_pool(xp, self, POSITIONS, kernel_size, stride, padding, dilation, ceil_mode)


@forward("pool_put")
def pool_put(xp, self, *, taps, space, kernel_size, stride, padding, dilation, ceil_mode):
    _, w = _windows(space, kernel_size, stride, padding, dilation, ceil_mode)
    if self.dtype not in FLOATS or taps.dtype != TAPS or w is None or taps.shape != self.shape:
        return NotImplemented
    result = xp.empty(self.shape[: self.ndim - len(space)] + tuple(space), self.dtype)
    return _launch(
        xp, ("pool_put", self.dtype), result, dense(xp, self), dense(xp, taps), result, w
    )


@forward("pool_pick")
def pool_pick(xp, self, *, taps, kernel_size, stride, padding, dilation, ceil_mode):
    space = self.shape[self.ndim - len(kernel_size) :]
    _, w = _windows(space, kernel_size, stride, padding, dilation, ceil_mode)
    if self.dtype not in FLOATS or taps.dtype != TAPS or w is None:
        return NotImplemented
    result = xp.empty(taps.shape, self.dtype)
    return _launch(
        xp, ("pool_pick", self.dtype), result, dense(xp, self), dense(xp, taps), result, w
    )


# -- average -----------------------------------------------------------------------------------------------------------


def _average(xp: Any, kernel: str, x: Any, shape: tuple, w: Any, padded: bool, divisor: Any) -> Any:
    if x.dtype not in FLOATS or w is None:
        return NotImplemented
    result = xp.empty(shape, x.dtype)
    numbers = (np.int32(padded), np.float64(divisor or 0))
    return _launch(xp, (kernel, x.dtype), result, dense(xp, x), result, *numbers, w)


@forward("avg_pool1d_op", "avg_pool2d_op", "avg_pool3d_op")
def avg_pool(
    xp, self, *, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    n = self.ndim - len(kernel_size)
    space = self.shape[n:]
    if (
        kernel_size == space and not any(padding) and not divisor_override
        and math.prod(space) >= MAX_BLOCK
    ):  # fmt: skip
        return mean_dim(xp, self, dim=tuple(range(n, self.ndim)), keepdim=True)
    out, w = _windows(space, kernel_size, stride, padding, (1,) * len(space), ceil_mode)
    shape = self.shape[:n] + out
    return _average(xp, "avg_pool", self, shape, w, count_include_pad, divisor_override)


@forward("avg_pool2d_grad", "avg_pool3d_grad")
def avg_pool_grad(
    xp, self, *, space, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    _, w = _windows(space, kernel_size, stride, padding, (1,) * len(space), ceil_mode)
    shape = self.shape[: self.ndim - len(space)] + tuple(space)
    return _average(xp, "avg_pool_grad", self, shape, w, count_include_pad, divisor_override)


# -- values at chosen positions ----------------------------------------------------------------------------------------


def _lines(array: Any, space: int) -> Any:
    """(..., *space dims) as (planes, positions)."""
    k = array.ndim - space
    return array.reshape(math.prod(array.shape[:k]), math.prod(array.shape[k:]))


@forward("gather_plane")
def gather_plane(xp, self, index, *, space):
    found = scatter.gather(xp, _lines(self, space), _lines(index, space), dim=1)
    return found if found is NotImplemented else found.reshape(index.shape)


@forward("scatter_plane")
def scatter_plane(xp, self, index, *, shape):
    if switches.deterministic and self.shape != index.shape:
        return NotImplemented
    k, n = len(shape), self.ndim - len(shape)
    lines = (math.prod(self.shape[:n]), math.prod(shape))
    values, where = _lines(self, k), _lines(index, k)
    sums = scatter.gather_backward(xp, values, where, shape=lines, dim=1)
    return sums if sums is NotImplemented else sums.reshape(self.shape[:n] + tuple(shape))
