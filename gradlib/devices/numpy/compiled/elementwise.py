"""exp for other kernels, and gelu and silu with their gradients."""

from __future__ import annotations

import math

import numpy as np

from ....operators.elementwise.gelu import _GELU_F4, NORMAL
from ....operators.kinds import F4, is_half
from .. import before, parallel
from ..blocks import PIECE, flat_alike, spans
from . import FEW, jit

f4, i4 = np.float32, np.int32
LN2 = math.log(2)

# e^x = 2^n e^r, r in [-ln(2) / 2, ln(2) / 2]; ln(2) in two parts, the first of few bits, so that n times it is exact.
# The polynomial, lowest power first, is fitted to (e^r - 1 - r) / r^2 and leaves 3e-9 of the result.
_PER_LN2, _LN2_HIGH, _LN2_LOW = f4(1.4426950408889634), f4(0.693359375), f4(-2.12194440e-4)
_LEAST, _MOST = f4(-104.0), f4(89.0)  # beyond them e^x is 0 or infinite
_E0, _E1, _E2, _E3, _E4 = (
    f4(c) for c in (0.49999994, 0.16666521, 0.04166839, 0.00836871, 0.0013814613)
)
# A number of the size of 3 * 2^22 ends at its units: added to it, x / ln(2) is rounded to n, which the last bits hold.
# 64 is added to n, or taken from it, since 2^n may be too small or too large for a normal number.
_SHIFT, _HALVES = 64, f4(3 << 22)
_UP, _DOWN = f4(_HALVES + _SHIFT), f4(_HALVES - _SHIFT)
_SMALL, _LARGE = f4(2.0**-_SHIFT), f4(2.0**_SHIFT)
# The same for 2^x, and that of gelu for it: r is exact there.
_P0, _P1, _P2, _P3, _P4 = (
    f4(float(c) * LN2 ** (k + 2)) for k, c in enumerate((_E0, _E1, _E2, _E3, _E4))
)
_G0, _G1, _G2, _G3, _G4, _G5, _G6 = (f4(-c / LN2 / 4**k) for k, c in enumerate(_GELU_F4))
_LN2, _LEAST2, _MOST2 = f4(LN2), f4(-150.0), f4(128.5)
_ZERO, _ONE, _HALF, _NORMAL = f4(0.0), f4(1.0), f4(0.5), f4(NORMAL)


@jit()
def _scaled_exp(x, shift, scale):
    """e^x times a power of two, by which `shift` differs from _HALVES, and the number `scale`."""
    t = x * _PER_LN2 + shift
    n = t - shift
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = _E4
    p = p * r + _E3
    p = p * r + _E2
    p = p * r + _E1
    p = p * r + _E0
    p = (p * r + _ONE) * r + _ONE
    # n is added to the exponent of p
    return i4(f4(p).view(i4) + i4(f4(t).view(i4) << i4(23))).view(f4) * scale


@jit()
def exp(x):
    """e^x of a float32 number, small and infinite results included; nan of nan."""
    y = _LEAST if x < _LEAST else x
    y = _MOST if y > _MOST else y
    found = _scaled_exp(y, _UP if y < _ZERO else _DOWN, _SMALL if y < _ZERO else _LARGE)
    return found if x == x else x


@jit()
def exp_low(x):
    """The same, sooner, of a number below 40."""
    y = _LEAST if x < _LEAST else x
    found = _scaled_exp(y, _UP, _SMALL)
    return found if x == x else x


@jit()
def _tail(x):
    """exp(-2u) with erf(x / sqrt 2) = tanh(u), so that the normal distribution function of x is 1 / (1 + it).

    As a power of two, like `exp` else.
    """
    s = x * x
    p = _G6
    p = p * s + _G5
    p = p * s + _G4
    p = p * s + _G3
    p = p * s + _G2
    p = p * s + _G1
    p = p * s + _G0
    y = x * p
    y = _LEAST2 if y < _LEAST2 else y
    y = _MOST2 if y > _MOST2 else y
    shift = _UP if y < _ZERO else _DOWN
    t = y + shift
    r = y - (t - shift)
    p = _P4
    p = p * r + _P3
    p = p * r + _P2
    p = p * r + _P1
    p = p * r + _P0
    p = (p * r + _LN2) * r + _ONE
    power = i4(f4(p).view(i4) + i4(f4(t).view(i4) << i4(23))).view(f4)
    return power * (_SMALL if y < _ZERO else _LARGE)


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
        density = exp_low(-_HALF * v * v) * _NORMAL
        out[i] = g[i] * (cdf + v * density)


@jit()
def _silu(x, out):
    for i in range(x.size):
        out[i] = x[i] / (_ONE + exp(-x[i]))


@jit()
def _silu_grad(x, g, out):
    for i in range(x.size):
        s = _ONE / (_ONE + exp(-x[i]))
        out[i] = g[i] * (s * (x[i] * (_ONE - s) + _ONE))


def _pieces(kernel, x, *others):
    """The result of an elementwise kernel, laid out as `x`."""
    if x.size <= PIECE and all([a.flags.c_contiguous for a in (x, *others)]):
        out = np.empty(x.shape, F4)
        kernel(*[a.reshape(-1) for a in (x, *others, out)])
        return out
    out, flat = flat_alike(x, *others)
    parallel.each(spans(out.size), out.size, lambda i, j: kernel(*[a[i:j] for a in flat]))
    return out


def _elementwise(xp, kernel, x, *others):
    """The kernel on large arrays of one shape, all of float32 or of one half type, which are computed in float32."""
    half = is_half(x)
    if x.size <= FEW or not (half or x.dtype is F4):
        return NotImplemented
    if not all([o.dtype is x.dtype and o.shape == x.shape for o in others]):
        return NotImplemented
    if half:
        return xp.through_float32(lambda *some: _pieces(kernel, *some), x, *others)
    return _pieces(kernel, x, *others)


@before("gelu")
def gelu(xp, self, *, approximate):
    return NotImplemented if approximate != "none" else _elementwise(xp, _gelu, self)


@before("gelu_grad")
def gelu_grad(xp, grad, self, *, approximate):
    return NotImplemented if approximate != "none" else _elementwise(xp, _gelu_grad, self, grad)


@before("silu")
def silu(xp, self):
    return _elementwise(xp, _silu, self)


@before("silu_grad")
def silu_grad(xp, grad, self):
    return _elementwise(xp, _silu_grad, self, grad)
