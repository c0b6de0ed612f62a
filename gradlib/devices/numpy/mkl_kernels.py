"""Kernels by functions that oneMKL has and NumPy lacks: erf, erfc, gelu. Imported where MKL is found (`mkl.path`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.elementwise.activation import NORMAL, ROOT_HALF
from ...operators.kinds import is_half
from ...tape.switches import switches
from . import forward, mkl
from .blocks import PIECE

LEAST = -87.0  # MKL takes long for smaller arguments of exp, whose results are small numbers or 0


def _function(name: str, x: Any, *others: Any) -> Any:
    """MKL's function for `x`, or None where it does not take that; `others` have to be laid out in the same way."""
    if x.size <= mkl.SMALL or switches.deterministic or not mkl.fits(x):
        return None
    if not x.flags.c_contiguous:
        return None
    for o in others:
        if o.dtype is not x.dtype or o.shape != x.shape or not o.flags.c_contiguous:
            return None
    return mkl.bare(name, x.dtype)


def _whole(name: str) -> Any:
    """An overlay for an op that is one function of MKL."""

    def overlay(xp, self):
        function = _function(name, self)
        return NotImplemented if function is None else mkl.run(function, self, np.empty_like(self))

    return overlay


forward("erf")(_whole("Erf"))
forward("erfc")(_whole("Erfc"))


def _pieces(*arrays: Any) -> Any:
    """The same pieces of contiguous arrays, flat: what is made of them stays in the cache."""
    flat = [a.reshape(-1) for a in arrays]
    return ([a[i : i + PIECE] for a in flat] for i in range(0, flat[0].size, PIECE))


@forward("gelu")
def gelu(xp, self, *, approximate):
    """x / 2 times 1 + erf(x / sqrt 2)."""
    if approximate != "none":
        return NotImplemented
    if is_half(self) and self.size > mkl.SMALL:
        out = gelu(xp, xp.wide(self), approximate=approximate)
        return out if out is NotImplemented else out.astype(self.dtype)
    erf = _function("Erf", self)
    if erf is None:
        return NotImplemented
    out = np.empty_like(self)
    for x, y in _pieces(self, out):
        np.multiply(x, ROOT_HALF, y)
        mkl.run(erf, y, y)
        y += 1
        y *= x
        y *= 0.5
    return out


@forward("gelu_grad")
def gelu_grad(xp, grad, self, *, approximate):
    """The gradient times the normal distribution function of x, plus x times its density."""
    if approximate != "none":
        return NotImplemented
    if is_half(self) and is_half(grad) and self.size > mkl.SMALL:
        out = gelu_grad(xp, xp.wide(grad), xp.wide(self), approximate=approximate)
        return out if out is NotImplemented else out.astype(self.dtype)
    erf = _function("Erf", self, grad)
    exp = _function("Exp", self)
    if erf is None or exp is None:
        return NotImplemented
    out = np.empty_like(self)
    for x, g, y in _pieces(self, grad, out):
        np.multiply(x, ROOT_HALF, y)
        slope = y * y
        np.negative(slope, slope)
        mkl.run(erf, y, y)
        y *= 0.5
        y += 0.5
        if np.minimum.reduce(slope) > LEAST:
            mkl.run(exp, slope, slope)
        else:
            np.exp(slope, slope)
        slope *= x
        slope *= NORMAL
        y += slope
        y *= g
    return out
