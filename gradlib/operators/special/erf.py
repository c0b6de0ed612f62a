"""The error function and its relatives, without SciPy.

Rational approximations of erf and erfc: W. J. Cody, Rational Chebyshev approximations for the error function,
Math. Comp. 23 (1969). In float32 erf is a tanh of an odd polynomial, fitted for this library: fewer passes over memory.
"""

from __future__ import annotations

import math
from typing import Any

from ...op.declare import Op, declare
from ...op.expose import apart, function, method, write_out
from ...op.inplace import inplace
from ...op.plain_numbers import python_number
from ...op.pointwise import unary
from ..kinds import F4, at_least, at_most, check_kind, floating, raw


def in_float64(kernel):
    """Compute a kernel of floats in float64 whatever the dtype: these series need it, and are rare enough."""

    def wide(xp, *arrays, **attrs):
        d = arrays[0].dtype
        out = kernel(
            xp,
            *[a.astype("f8", copy=False) if hasattr(a, "astype") else a for a in arrays],
            **attrs,
        )
        return xp.asarray(out).astype(d, copy=False)

    return wide


ROOT_PI = math.sqrt(math.pi)

# numerators and denominators, highest power first; arguments: x^2, |x|, 1/x^2
_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
_MIDDLE = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
_FAR = (
    (
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    (
        1.0,
        2.56852019228982242,
        1.87295284992346725,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)
# atanh(erf(x)) / x as a polynomial in x^2, lowest power first
_ERF_F4 = (
    1.128379274314438, 0.1027690555906288, -0.0001918300714464098, -0.0006197855117331026, 8.763772741902341e-05,
    -5.668553266995279e-06, 1.4185733979596185e-07,
)  # fmt: skip


def horner(coefficients, x):
    """A polynomial, coefficients from the highest power down, written over one temporary."""
    total = x * coefficients[0]
    for c in coefficients[1:-1]:
        total += c
        total *= x
    total += coefficients[-1]
    return total


def _ratio(pair, x):
    top, bottom = pair
    out = horner(top, x)
    out /= horner(bottom, x) if bottom[0] != 1.0 else _monic(bottom, x)
    return out


def _monic(coefficients, x):
    total = x + coefficients[1]
    for c in coefficients[2:]:
        total *= x
        total += c
    return total


def _tail(xp, a):
    """erfc(a) * exp(a^2) for a >= 0.46875, without overflow."""
    middle = at_most(xp, a, 4.0)
    out = _ratio(_MIDDLE, middle)
    if xp.may(a > 4.0):
        far = at_least(xp, a, 4.0)
        inverse = 1.0 / (far * far)
        out = xp.where(a > 4.0, (1.0 / ROOT_PI - inverse * _ratio(_FAR, inverse)) / far, out)
    return out


def _gauss(xp, a):
    """exp(-a^2) to full precision: a is split so that the square of the leading part is exact."""
    lead = xp.trunc(a * 16.0) / 16.0
    return xp.exp(-lead * lead) * xp.exp(-(a - lead) * (a + lead))


def _erfc_parts(xp, x):
    """|x|, erf(x) where |x| is below 0.46875 (elsewhere of the clipped x), erfc(|x|) elsewhere."""
    a = xp.absolute(x)
    small = xp.clip(x, -0.46875, 0.46875)
    near = small * _ratio(_NEAR, small * small)
    big = xp.clip(a, 0.46875, 27.5)
    return a, near, _gauss(xp, big) * _tail(xp, big)


def _erf_f8(xp, x):
    x = x.reshape(-1)
    a, near, far = _erfc_parts(xp, x)
    out = xp.where(a <= 0.46875, near, xp.copysign(1.0 - far, x))
    return xp.where(a == a, out, x)


def _erfc_f8(xp, x):
    x = x.reshape(-1)
    a, near, far = _erfc_parts(xp, x)
    out = xp.where(a <= 0.46875, 1.0 - near, xp.where(x > 0, far, 2.0 - far))
    return xp.where(a == a, out, x)


def _erf_f4(xp, x):
    x = x.reshape(-1)
    out = horner(_ERF_F4[::-1], x * x)
    out *= x
    return xp.tanh(out, out=out)


@floating
def erf_kernel(xp, self):
    """erf, within 4 units in the last place."""
    out = xp.in_pieces(_erf_f4 if self.dtype is F4 else _erf_f8, self)
    return out.reshape(self.shape)


@floating
def erfc_kernel(xp, self):
    """erfc = 1 - erf, within 8 units in the last place, for large arguments too."""
    if self.dtype is F4:  # the error of exp(-x^2) in float32 would show
        return xp.in_pieces(_erfc_f8, self.astype("f8")).reshape(self.shape).astype(F4)
    return xp.in_pieces(_erfc_f8, self).reshape(self.shape)


erf = unary(
    "erf", lambda F, g, self: g * (2.0 / ROOT_PI) * F.exp(-self * self), forward=erf_kernel,
    expression=lambda xp, x: xp.erf(x),
    doc="The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to each element.",
    example=("gradlib.erf(gradlib.tensor([0.0, 1.0]))", "tensor([0.0000, 0.8427])"),
)  # fmt: skip
erfc = unary(
    "erfc", lambda F, g, self: g * (-2.0 / ROOT_PI) * F.exp(-self * self), forward=erfc_kernel,
    expression=lambda xp, x: xp.erfc(x),
    doc="The complementary error function ``1 - erf(input)``.",
    example=("gradlib.erfc(gradlib.tensor([0.0, 1.0]))", "tensor([1.0000, 0.1573])"),
)  # fmt: skip


# -- inverses and relatives ------------------------------------------------------------------------------------------


def _erfinv_start(xp, log_term):
    """Winitzki's approximation from log(1 - y^2), two digits."""
    half = 2 / (math.pi * 0.147) + log_term / 2
    return xp.sqrt(xp.sqrt(half * half - log_term / 0.147) - half)


def _tail_inverse(xp, log_q):
    """x >= 0 with log(erfc(x)) = log_q, by Newton's method on the logarithm."""
    q = xp.exp(log_q)
    x = _erfinv_start(xp, log_q + xp.log1p(xp.maximum(1 - q, 0)))
    for _ in range(5):
        erfcx = _erfcx_positive(xp, x)
        # log erfc(x) = log erfcx(x) - x^2, and its slope is -2 / (sqrt(pi) * erfcx(x))
        x = xp.maximum(x + (xp.log(erfcx) - x * x - log_q) * (0.5 * ROOT_PI) * erfcx, 0)
    return x


def _erfcx_positive(xp, a):
    """exp(a^2) * erfc(a) for a >= 0."""
    small = at_most(xp, a, 0.46875)
    square = small * small
    near = xp.exp(square) * (1 - small * _ratio(_NEAR, square))
    return xp.where(a <= 0.46875, near, _tail(xp, at_least(xp, a, 0.46875)))


@in_float64
def _erfinv(xp, y):
    a = xp.absolute(y)
    small = at_most(xp, a, 0.5)
    x = _erfinv_start(xp, xp.log1p(-small * small))
    for _ in range(3):  # near 0: Newton's method on erf itself
        x = x - (erf_kernel(xp, x) - small) * (0.5 * ROOT_PI) * xp.exp(x * x)
    far = _tail_inverse(xp, xp.log1p(-xp.clip(a, 0.5, 1 - 1e-16)))
    out = xp.copysign(xp.where(a <= 0.5, xp.where(a == 0, 0.0, x), far), y)
    out = xp.where(a == 1, xp.copysign(math.inf, y), out)
    return xp.where(a > 1, math.nan, xp.where(a == a, out, y))


@in_float64
def _ndtri(xp, p):
    q = xp.minimum(p, 1 - p)  # the smaller tail
    safe = xp.where((q > 0) & (q <= 0.5), q, 0.25)
    x = math.sqrt(2) * _tail_inverse(xp, xp.log(2 * safe))
    out = xp.where(p < 0.5, -x, xp.where(p == 0.5, 0.0, x))
    out = xp.where(p == 0, -math.inf, xp.where(p == 1, math.inf, out))
    return xp.where((p < 0) | (p > 1) | (p != p), math.nan, out)


@in_float64
def _erfcx(xp, x):
    positive = _erfcx_positive(xp, xp.maximum(x, 0))
    out = xp.where(x < 0, 2 * xp.exp(x * x) - _erfcx_positive(xp, xp.maximum(-x, 0)), positive)
    return xp.where(x == x, out, x)


@in_float64
def _log_ndtr(xp, x):
    t = x * math.sqrt(0.5)
    left = xp.log(0.5 * _erfcx_positive(xp, xp.maximum(-t, 0))) - t * t
    out = xp.where(t < -1, left, xp.log1p(-0.5 * erfc_kernel(xp, t)))
    return xp.where(x == x, out, x)


erfinv = unary(
    "erfinv",
    # of the argument, not the result: that may be written to, also by erfinv_ itself
    lambda F, g, self: g * (0.5 * ROOT_PI) * F.exp(F.square(F.erfinv(self))),
    autocast="cuda:float32",
    forward=floating(lambda xp, self: _erfinv(xp, self)),
    domain=(-0.9, 0.9),
    doc="The inverse of ``erf``.",
    example=("gradlib.erfinv(gradlib.tensor([0.0, 0.5]))", "tensor([0.0000, 0.4769])"),
)


def special(name: str, forward, formula, **facts: Any) -> Op:
    """Declare a function of each element of a floating tensor; formula: its gradient."""
    return declare(
        name, floating(forward), elementwise=True, promote="float", self=formula, **facts
    )


ndtri_op = special(
    "special_ndtri",
    lambda xp, self: _ndtri(xp, self),
    lambda F, g, result: g * math.sqrt(2 * math.pi) * F.exp(0.5 * result * result),
    domain=(0.05, 0.95),
)
erfcx_op = special(
    "special_erfcx",
    lambda xp, self: _erfcx(xp, self),
    lambda g, self, result: g * (2.0 * self * result - 2.0 / ROOT_PI),
)
log_ndtr_op = special(
    "special_log_ndtr",
    lambda xp, self: _log_ndtr(xp, self),
    # phi(x) / Phi(x) = sqrt(2 / pi) / erfcx(-x / sqrt 2)
    lambda F, g, self: g * math.sqrt(2 / math.pi) / F.special_erfcx(self * -math.sqrt(0.5)),
)
ndtr_op = special(
    "special_ndtr",
    lambda xp, self: 0.5 * erfc_kernel(xp, self * -math.sqrt(0.5)),
    lambda F, g, self: g * F.exp(-0.5 * self * self) * (1 / math.sqrt(2 * math.pi)),
)


def _sinc_grad(F, g, self):
    z = self * math.pi
    none = self == 0
    slope = (F.cos(z) - F.sin(z) / F.where(none, 1.0, z)) / F.where(none, 1.0, self)
    square = z * z  # near 0 the series, since cos(z) - sin(z) / z has few digits there
    near = math.pi * z * (square * (1 / 30 - square * (1 / 840)) - 1 / 3)
    slope = F.where(F.abs(z) < 0.02, near, slope)
    return g * F.where(self == 0, 0.0, slope).conjugate()


def _sinc(xp, self):
    return xp.sinc(self) if self.dtype.kind == "c" else floating_sinc(xp, self)


floating_sinc = floating(lambda xp, self: xp.sinc(self))


sinc = unary(
    "sinc", _sinc_grad, forward=_sinc, domain=(0.2, 2.0), complex=True,
    doc="``sin(pi x) / (pi x)``, and 1 at 0.",
    example=("gradlib.sinc(gradlib.tensor([0.0, 0.5]))", "tensor([1.0000, 0.6366])"),
)  # fmt: skip


def _logit_bounds(array, eps):
    """The bounds that `eps` stands for, rounded to the dtype of `array`; None for an `eps` that is none."""
    if eps is None or eps < 0:
        return None
    kind = array.dtype.type
    low = float(kind(eps))
    return low, float(kind(1 - low))


def _logit(xp, self, *, eps):
    check_kind(self, "logit_cpu")
    bounds, z = _logit_bounds(self, eps), xp.wide(self)
    if bounds:  # the lower one first, also where it is the greater one
        z = xp.where(z < bounds[0], bounds[0], xp.where(z > bounds[1], bounds[1], z))
    return xp.log(z / (1 - z)).astype(self.dtype, copy=False)


def _logit_grad(F, g, self, eps):
    bounds = _logit_bounds(raw(self), eps)
    low, high = bounds or (0.0, 1.0)
    outside = (self < low) | (self > high)
    slope = g / (self * (1.0 - self) + 0.0)  # the sum makes 0 of -0
    return F.where(outside, 0.0 if bounds else math.nan, slope)


logit_op = declare(
    "logit_of", _logit, elementwise=True, promote="float", self=_logit_grad, node="LogitBackward0",
    public="logit", in_float32=False,  # bounds are numbers of the dtype
    domain=(0.15, 0.85),
    samples=lambda t: [(t(3, 4), None), (t(3, 4), 0.1), (t(), None), (t(0), 0.2)],
)  # fmt: skip


@function("logit", method=True)
def logit(input, eps=None, *, out=None):
    """``log(x / (1 - x))``, the inverse of the sigmoid; -inf at 0, inf at 1, nan outside of [0, 1].

    Args:
        input: a real tensor of any shape.
        eps: the input is first limited to [eps, 1 - eps]; not if None.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape; integers and bool become the default floating dtype.

    Raises:
        NotImplementedError: complex numbers.

    Example:
        >>> gradlib.logit(gradlib.tensor([0.5, 0.75]))
        tensor([0.0000, 1.0986])
    """
    if eps is not None:
        eps = python_number(eps, "logit(): argument 'eps'")
    return write_out(apart(out, input), logit_op.call(input, eps))


@method("logit_")
def logit_(self, eps=None):
    """In-place version of ``logit``."""
    if eps is not None:
        eps = python_number(eps, "logit_(): argument 'eps'")
    return inplace(logit_op, self, (), (eps,))
