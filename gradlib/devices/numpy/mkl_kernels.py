"""Kernels by functions that oneMKL has and NumPy lacks: erf, erfc, gelu. Imported where MKL is found (`mkl.path`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.elementwise.gelu import NORMAL, ROOT_HALF, gelu_exact, gelu_grad_exact
from ...operators.kinds import is_half, narrow
from . import forward, mkl
from .blocks import PIECE, flat_alike, spans

LEAST = -87.0  # MKL takes long for smaller arguments of exp, whose results are small numbers or 0


def _function(name: str, x: Any) -> Any:
    """MKL's function for `x`, or None where it is not for that."""
    return mkl.bare(name, x.dtype) if mkl.fits(x) else None


def _pieces(x: Any, *others: Any) -> Any:
    """The result, laid out as `x`; and pieces of `x`, of other arrays of its shape and dtype, and of the result.

    They are flat and without gaps, and what is made of them stays in the cache.
    """
    out, flat = flat_alike(x, *others)
    return out, ([a[i:j] for a in flat] for i, j in spans(x.size))


def _pays(xp: Any, name: str, dtype: np.dtype, kernel: Any, formula: Any, count: int) -> bool:
    """Whether a kernel of `count` arrays is quicker than its formula, which may do without MKL's functions."""

    def sample():
        return [np.linspace(-3, 3, PIECE, dtype=dtype)] * count

    return mkl.pays(name, dtype, kernel, lambda *arrays: formula(xp, *arrays), sample)


def _whole(name: str) -> Any:
    """An overlay for an op that is one function of MKL."""

    def overlay(xp, self):
        function = _function(name, self)
        if function is None:
            return NotImplemented
        x = mkl.dense(self)
        return mkl.run(function, x, np.empty_like(x))

    return overlay


forward("erf")(_whole("Erf"))
forward("erfc")(_whole("Erfc"))


@forward("gelu")
def gelu(xp, self, *, approximate):
    """x / 2 times 1 + erf(x / sqrt 2)."""
    if approximate != "none":
        return NotImplemented
    if is_half(self) and self.size > mkl.SMALL:
        out = gelu(xp, xp.wide(self), approximate=approximate)
        return out if out is NotImplemented else narrow(out, self.dtype)
    erf = _function("Erf", self)
    if erf is None or not _pays(xp, "gelu", self.dtype, _gelu, gelu_exact, 1):
        return NotImplemented
    return _gelu(self)


def _gelu(self: Any) -> Any:
    erf: Any = mkl.bare("Erf", self.dtype)
    out, pieces = _pieces(self)
    for x, y in pieces:
        np.multiply(x, ROOT_HALF, y)
        mkl.run(erf, y, y)
        y += 1
        y *= 0.5  # before the product, which could overflow
        y *= x
    return out


@forward("gelu_grad")
def gelu_grad(xp, grad, self, *, approximate):
    """The gradient times the normal distribution function of x, plus x times its density."""
    if approximate != "none" or grad.dtype != self.dtype or grad.shape != self.shape:
        return NotImplemented
    if is_half(self) and self.size > mkl.SMALL:
        out = gelu_grad(xp, xp.wide(grad), xp.wide(self), approximate=approximate)
        return out if out is NotImplemented else narrow(out, self.dtype)
    erf, exp = _function("Erf", self), _function("Exp", self)
    if erf is None or exp is None:
        return NotImplemented
    if not _pays(xp, "gelu_grad", self.dtype, _gelu_grad, gelu_grad_exact, 2):
        return NotImplemented
    return _gelu_grad(grad, self)


def _gelu_grad(grad: Any, self: Any) -> Any:
    erf: Any = mkl.bare("Erf", self.dtype)
    exp: Any = mkl.bare("Exp", self.dtype)
    out, pieces = _pieces(self, grad)
    for x, g, y in pieces:
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
