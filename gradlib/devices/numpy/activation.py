"""Elementwise kernels that NumPy has a quicker function for, or a quicker way."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import spreading
from ...operators.kinds import F4, F8, is_half
from . import forward, parallel, vjp
from .blocks import PIECE, row_blocks
from .namespace import CLIP
from .sums import LARGE


def _positive(x, out=None):
    zero, most = _POSITIVE[x.dtype]
    return CLIP(x, zero, most, out=out)


def _relu_of_halves(x):
    """By bits: 0 for what lies after that of -0.0, up to -inf; what follows is nan."""
    bits = x.view(np.uint16)
    least = np.array(-np.inf, x.dtype).view(np.uint16)
    kept = bits - np.uint16(0x8001) > least - np.uint16(0x8001)
    return (bits * kept).view(x.dtype)


@forward("clamp_number")
def clamp_number(xp: Any, self: Any, *, min: Any, max: Any):
    """With one limit alone NumPy's clip is its maximum or minimum, which are slow beside a number."""
    if not (self.dtype is F4 or self.dtype is F8):
        return NotImplemented
    if min is None and max.__class__ in (int, float):
        return xp.clip(self, -np.inf, max)
    if max is None and min.__class__ in (int, float):
        return xp.clip(self, min, np.inf)
    return NotImplemented


@forward("nan_to_num")
def nan_to_num(xp: Any, self: Any, *, nan: Any, posinf: Any, neginf: Any):
    if self.size < LARGE or not (self.dtype is F4 or self.dtype is F8):
        return NotImplemented
    return self.copy("K") if np.isfinite(self).all() else NotImplemented


def _signs(x, out=None):
    """-1, 0 or 1; 0 for nan, as no comparison holds."""
    above, below = (x > 0).view(np.int8), (x < 0).view(np.int8)
    above -= below
    return above.astype(x.dtype) if out is None else np.copyto(out, above)


@forward("sign")
def sign(xp: Any, self: Any):
    if self.size < LARGE or not (self.dtype is F4 or self.dtype is F8):
        return NotImplemented
    if self.size >= spreading.LARGE:
        return spreading.spread(_signs, self)
    return _signs(self)


_ZERO, _ONE = np.uint16(0), np.uint16(1)
_POSITIVE = {d: (np.array(0.0, d), np.array(np.inf, d)) for d in (F4, F8)}


@forward("relu")
def relu(xp: Any, self: Any):
    if self.dtype.kind == "b":
        return NotImplemented
    if self.dtype.itemsize == 2 and is_half(self):
        return _relu_of_halves(self)
    if self.dtype is F4 or self.dtype is F8:
        if self.size >= spreading.LARGE:
            return spreading.spread(_positive, self)
        return CLIP(self, *_POSITIVE[self.dtype])  # NumPy's maximum is slow beside a number
    return np.maximum(0, self)  # in this order -0.0 stays what it is


@vjp("relu")
def relu_vjp(F: Any, g: Any, result: Any):
    """The bits of the gradient where the result is above 0, or nan."""
    if g.dtype.itemsize != 2 or not is_half(g) or g.shape != result.shape:
        return NotImplemented
    kept = np.left_shift(result.view(np.uint16), _ONE) != _ZERO  # the results are not below 0
    return ((g.view(np.uint16) * kept).view(g.dtype),)


# -- glu: a * sigmoid(b) of two halves ---------------------------------------------------------------------------------


def _halves(x: Any, dim: int) -> tuple:
    half = x.shape[dim] // 2
    lead = (slice(None),) * dim
    return x[(*lead, slice(0, half))], x[(*lead, slice(half, None))]


def _glu_serves(x: Any, dim: int) -> bool:
    return dim > 0 and x.size >= PIECE and (x.dtype is F4 or x.dtype is F8)


def _glu_block(x, dim: int, out) -> None:
    a, b = _halves(x, dim)
    np.negative(b, out)
    np.exp(out, out)  # inf where b is very negative: the quotient is then 0
    out += 1
    np.divide(1, out, out)
    out *= a


def _glu_grad_block(xp, g, x, dim: int, out) -> None:
    (a, b), (to_a, to_b) = _halves(x, dim), _halves(out, dim)
    s = xp.negative(b)
    xp.exp(s, s)
    s += 1
    np.divide(1, s, s)
    np.multiply(g, s, to_a)
    slope = 1 - s
    slope *= s
    slope *= g * a
    to_b[...] = slope


def _blocks_of(x: Any) -> list[tuple[int, int]]:
    return row_blocks(len(x), x.size // len(x))


@forward("glu")
def glu(xp: Any, self: Any, *, dim: int):
    if not _glu_serves(self, dim):
        return NotImplemented
    shape = list(self.shape)
    shape[dim] //= 2
    out = np.empty(shape, self.dtype)
    parallel.each(_blocks_of(self), self.size, lambda i, j: _glu_block(self[i:j], dim, out[i:j]))
    return out


@vjp("glu")
def glu_vjp(F: Any, g: Any, self: Any, dim: int):
    if not _glu_serves(self, dim) or g.dtype is not self.dtype:
        return NotImplemented
    out = np.empty(self.shape, self.dtype)
    xp = F.backend
    parallel.each(
        _blocks_of(self),
        self.size,
        lambda i, j: _glu_grad_block(xp, g[i:j], self[i:j], dim, out[i:j]),
    )
    return (out,)


@vjp("leaky_relu")
def leaky_relu_vjp(F: Any, g: Any, self: Any, negative_slope: float):
    d = self.dtype
    if self.size < LARGE or not (d is F4 or d is F8) or g.dtype is not d or g.shape != self.shape:
        return NotImplemented
    if not 0 < negative_slope <= 1:
        return NotImplemented
    return (spreading.spread_gradient(_leaky_gradient, g, self, negative_slope),)


def _leaky_gradient(g, x, slope):
    factor = (x > 0).astype(x.dtype)
    factor = factor.clip(slope, 1.0, out=factor)
    factor *= g
    return factor
