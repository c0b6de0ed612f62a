"""Elementwise kernels that NumPy has a quicker function for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import spreading
from ...operators.kinds import is_half
from . import forward, vjp
from .sums import LARGE


def _clip(x, out=None):
    return x.clip(0.0, np.inf, out=out)


def _relu_of_halves(x):
    """By bits: 0 for what lies after that of -0.0, up to -inf; what follows is nan."""
    bits = x.view(np.uint16)
    least = np.array(-np.inf, x.dtype).view(np.uint16)
    kept = bits - np.uint16(0x8001) > least - np.uint16(0x8001)
    return (bits * kept).view(x.dtype)


_ZERO, _ONE = np.uint16(0), np.uint16(1)


@forward("relu")
def relu(xp: Any, self: Any):
    if self.dtype.kind == "b":
        return NotImplemented
    if self.dtype.itemsize == 2 and is_half(self):
        return _relu_of_halves(self)
    if self.size >= LARGE and self.dtype.kind == "f":
        if self.size >= spreading.LARGE:
            return spreading.spread(_clip, self)
        return self.clip(0.0, np.inf)  # NumPy's maximum is slow beside a number
    return np.maximum(0, self)  # in this order -0.0 stays what it is


@vjp("relu")
def relu_vjp(F: Any, g: Any, result: Any):
    """The bits of the gradient where the result is above 0, or nan."""
    if g.dtype.itemsize != 2 or not is_half(g) or g.shape != result.shape:
        return NotImplemented
    kept = np.left_shift(result.view(np.uint16), _ONE) != _ZERO  # the results are not below 0
    return ((g.view(np.uint16) * kept).view(g.dtype),)
