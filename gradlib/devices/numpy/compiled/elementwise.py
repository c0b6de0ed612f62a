"""exp for other kernels, and gelu with its gradient."""

from __future__ import annotations

import numpy as np

from ....operators.elementwise.gelu import _GELU_F4, NORMAL
from ....operators.kinds import F4
from .. import before, parallel
from ..blocks import flat_alike, spans
from . import FEW, jit

f4, i4 = np.float32, np.int32

# e^x = 2^n e^r, r in [-ln(2) / 2, ln(2) / 2]; ln(2) in two parts, the first of few bits, so that n times it is exact.
# The polynomial, lowest power first, is fitted to (e^r - 1 - r) / r^2 and leaves 3e-9 of the result.
_PER_LN2, _LN2_HIGH, _LN2_LOW = f4(1.4426950408889634), f4(0.693359375), f4(-2.12194440e-4)
_LEAST, _MOST = f4(-104.0), f4(89.0)  # beyond them e^x is 0 or infinite
_E0, _E1, _E2, _E3, _E4 = (
    f4(c) for c in (0.49999994, 0.16666521, 0.04166839, 0.00836871, 0.0013814613)
)
_G0, _G1, _G2, _G3, _G4, _G5, _G6 = (f4(c) for c in _GELU_F4)
_ONE, _HALF, _QUARTER, _NORMAL = f4(1.0), f4(0.5), f4(0.25), f4(NORMAL)


@jit()
def exp(x):
    """e^x of a float32 number, small and infinite results included; nan of nan."""
    x = _LEAST if x < _LEAST else x  # in this form nan stays
    x = _MOST if x > _MOST else x
    n = np.floor(x * _PER_LN2 + _HALF)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r + _E1
    p = p * r + _E0
    p = (p * r * r + r) + _ONE
    # in two steps, since 2^n itself may be too small or too large for a normal number
    whole = i4(n)
    first = whole >> i4(1)
    return p * _power(first) * _power(whole - first)


@jit()
def _power(n):
    """2^n, from the bits of the number."""
    return i4((n + i4(127)) << i4(23)).view(f4)


@jit()
def _tail(x):
    """exp(-2u) with erf(x / sqrt 2) = tanh(u), so that the normal distribution function of x is 1 / (1 + it)."""
    s = _QUARTER * x * x
    p = _G6
    p = p * s + _G5
    p = p * s + _G4
    p = p * s + _G3
    p = p * s + _G2
    p = p * s + _G1
    p = p * s + _G0
    return exp(-x * p)


@jit()
def _gelu(x, out):
    for i in range(x.size):
        v = x[i]
        out[i] = v * (
            _ONE / (_ONE + _tail(v))
        )  # in this order minus infinity is nan, as its limits say nothing


@jit()
def _gelu_grad(x, g, out):
    for i in range(x.size):
        v = x[i]
        cdf = _ONE / (_ONE + _tail(v))
        density = exp(-_HALF * v * v) * _NORMAL
        out[i] = g[i] * (cdf + v * density)


def _pieces(kernel, x, *others):
    """The result of an elementwise kernel, laid out as `x`."""
    out, flat = flat_alike(x, *others)
    parallel.each(spans(out.size), out.size, lambda i, j: kernel(*[a[i:j] for a in flat]))
    return out


@before("gelu")
def gelu(xp, self, *, approximate):
    if approximate != "none" or self.dtype is not F4 or self.size <= FEW:
        return NotImplemented
    return _pieces(_gelu, self)


@before("gelu_grad")
def gelu_grad(xp, grad, self, *, approximate):
    if approximate != "none" or self.dtype is not F4 or self.size <= FEW:
        return NotImplemented
    if grad.dtype is not F4 or grad.shape != self.shape:
        return NotImplemented
    return _pieces(_gelu_grad, self, grad)
