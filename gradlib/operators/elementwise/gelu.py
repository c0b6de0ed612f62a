"""gelu: products with the cumulative distribution of the normal distribution, exact or by tanh."""

from __future__ import annotations

import math

from ...op.declare import declare
from ...op.expose import FOUND, write_same
from ..kinds import F4, floating
from ..special import erf as special
from .activation import activation

ROOT_HALF = math.sqrt(0.5)
NORMAL = 1.0 / math.sqrt(2.0 * math.pi)  # density of the standard normal distribution at 0
TANH_K, TANH_C = math.sqrt(2.0 / math.pi), 0.044715


# With h = x / 2: erf(x / sqrt 2) = tanh(h * p(h^2)); p fitted to 7e-8 in x * (1 + erf) / 2, lowest power first.
_GELU_F4 = (
    1.5957684315449865, 0.2906742753461904, -0.0010601821322737404, -0.0070707115539191834, 0.0020321669235761415,
    -0.00027329361404845464, 1.4791154388973283e-05,
)  # fmt: skip


# The same with m = -x^2 / 2 in the place of h^2: erf(x / sqrt 2) = tanh(-x / 2 * q(m))
_GELU_GRAD_F4 = tuple(-c * (-0.5) ** k for k, c in enumerate(_GELU_F4))


def gelu_exact(xp, x):
    """The formula, on an array that need not be cut into pieces."""
    if x.dtype is F4 and x.ndim:
        h = x * 0.5
        out = special.horner(_GELU_F4[::-1], h * h)
        out *= h
        xp.tanh(out, out=out)
        out += 1
        out *= h
        return out
    out = special.erf_kernel(xp, x * ROOT_HALF) + 1
    out *= 0.5  # before the product, which could overflow
    out *= x
    return out


def _gelu_tanh(xp, x):
    return 0.5 * x * (1 + xp.tanh(TANH_K * x * (1 + TANH_C * (x * x))))


def _gelu(xp, self, *, approximate):
    return xp.in_pieces(gelu_exact if approximate == "none" else _gelu_tanh, self)


def gelu_grad_exact(xp, g, x):
    """The gradient `g` times the slope at `x`."""
    if x.dtype is F4 and x.ndim:
        h = x * -0.5
        slope = h * x
        t = special.horner(_GELU_GRAD_F4[::-1], slope)
        t *= h
        xp.tanh(t, out=t)
        t *= 0.5
        t += 0.5
        xp.exp(slope, out=slope)
        slope *= h
        slope *= -2 * NORMAL
    else:
        t = special.erf_kernel(xp, x * ROOT_HALF) * 0.5 + 0.5
        slope = xp.exp(x * x * -0.5) * x * NORMAL
    slope += t
    slope *= g
    return slope


def _gelu_grad_tanh(xp, g, x):
    square = x * x
    t = xp.tanh(TANH_K * x * (1 + TANH_C * square))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (TANH_K * (1 + 3 * TANH_C * square)))


@floating
def _gelu_grad(xp, grad, self, *, approximate):
    return xp.in_pieces(gelu_grad_exact if approximate == "none" else _gelu_grad_tanh, grad, self)


def _gelu_second(F, self, approximate):
    """The second derivative of gelu."""
    square = self * self
    if approximate == "none":
        return NORMAL * F.exp(-0.5 * square) * (2.0 - square)
    t = F.tanh(TANH_K * self * (1.0 + TANH_C * square))
    slope, bend = TANH_K * (1.0 + 3.0 * TANH_C * square), (6.0 * TANH_K * TANH_C) * self
    return (1.0 - t * t) * (slope + 0.5 * self * (bend - 2.0 * t * slope * slope))


def _normal_cdf(xp, x):
    """The normal distribution function of each element.

    In float32, and for half types, from erf, which costs half of erfc; where they differ most, below -5, gelu is less
    than 2e-6 and the error 6e-8 of |x|.
    """
    return 0.5 * xp.erf(x * ROOT_HALF) + 0.5 if x.dtype == F4 else 0.5 * xp.erfc(x * -ROOT_HALF)


def _gelu_expression(xp, x, approximate):
    return _gelu_tanh(xp, x) if approximate != "none" else x * _normal_cdf(xp, x)


def _gelu_grad_expression(xp, g, x, approximate):
    if approximate != "none":
        return _gelu_grad_tanh(xp, g, x)
    return g * (_normal_cdf(xp, x) + x * (NORMAL * xp.exp(x * x * -0.5)))


gelu_grad = declare(
    "gelu_grad", _gelu_grad, public="gelu_backward", elementwise=True, node="GeluBackwardBackward0",
    expression=_gelu_grad_expression,
    grad=lambda F, g, self, approximate: F.gelu_grad(g, self, approximate),
    self=lambda F, g, grad, self, approximate: g * grad * _gelu_second(F, self, approximate),
    samples=lambda t: [(t(3, 4), t(3, 4), a) for a in ("none", "tanh")] + [(t(), t(), "none"), (t(0), t(0), "tanh")],
)  # fmt: skip
gelu_op = activation(
    "gelu", _gelu, lambda F, g, self, approximate: F.gelu_grad(g, self, approximate), (("none",), ("tanh",)),
    expression=_gelu_expression, refused="GeluKernelImpl",
)  # fmt: skip


def gelu(input, approximate="none", *, out=None):
    """``x * P(X <= x)`` for a standard normal X.

    Args:
        input: a floating tensor of any shape.
        approximate: "none", or "tanh" for the formula with tanh.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: another `approximate`.
        NotImplementedError: integers.

    Example:
        >>> F.gelu(gradlib.tensor([-1.0, 1.0]))
        tensor([-0.1587,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    result = gelu_op.call(input, approximate)
    return result if out is None else write_same(out, result, FOUND)
