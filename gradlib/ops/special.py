"""The error function and its relatives, without SciPy.

Rational approximations of erf and erfc: W. J. Cody, Rational Chebyshev approximations for the error function,
Math. Comp. 23 (1969). In float32 erf is a tanh of an odd polynomial, fitted for this library: fewer passes over memory.
"""

from __future__ import annotations

import math

from ._blocks import F4, floating, in_pieces
from .elementwise import unary

ROOT_PI = math.sqrt(math.pi)

# numerators and denominators, highest power first; arguments: x^2, |x|, 1/x^2
_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
_MIDDLE = (
    (
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
        8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
    ),
    (
        1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ),
)  # fmt: skip
_FAR = (
    (
        1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
        1.60837851487422766e-2, 6.58749161529837803e-4,
    ),
    (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip
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
    middle = xp.minimum(a, 4.0)
    out = _ratio(_MIDDLE, middle)
    if bool((a > 4.0).any()):
        far = xp.maximum(a, 4.0)
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
    out = in_pieces(xp, _erf_f4 if self.dtype is F4 else _erf_f8, self)
    return out.reshape(self.shape)


@floating
def erfc_kernel(xp, self):
    """erfc = 1 - erf, within 8 units in the last place, for large arguments too."""
    if self.dtype is F4:  # the error of exp(-x^2) in float32 would show
        return in_pieces(xp, _erfc_f8, self.astype("f8")).reshape(self.shape).astype(F4)
    return in_pieces(xp, _erfc_f8, self).reshape(self.shape)


erf = unary(
    "erf", lambda F, g, self: g * (2.0 / ROOT_PI) * F.exp(-self * self), forward=erf_kernel,
    doc="The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to each element.",
)  # fmt: skip
erfc = unary(
    "erfc", lambda F, g, self: g * (-2.0 / ROOT_PI) * F.exp(-self * self), forward=erfc_kernel,
    doc="The complementary error function ``1 - erf(input)``.",
)  # fmt: skip
