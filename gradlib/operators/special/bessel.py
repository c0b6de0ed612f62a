"""Bessel functions, Airy's function and orthogonal polynomials.

Modified Bessel functions and J come from their integrals over a period by the trapezoidal rule, which converges
exponentially, and from asymptotic series for large arguments. Y and Ai are left to SciPy (CuPy on the GPU).
"""

from __future__ import annotations

import math
from functools import partial

from ...op import captures
from ...op.expose import need_tensor, write_out
from ...op.interpret import common_dtype
from ...op.pointwise import unary
from ...op.vmap import all_entries
from ...tape import dtypes
from ...tape.interop import values_of
from ...tape.tensor import Tensor
from ..kinds import floating, unsupported
from .erf import in_float64, special

POINTS = 64  # of the trapezoidal rule on half a period
EULER = 0.57721566490153286061
FAR = 40.0  # where the asymptotic series takes over

# -- integrals over a period -------------------------------------------------------------------------------------------


def _asymptotic(xp, x, order: int, sign: float):
    """Sum of the asymptotic series of I (sign -1) or K (sign 1) without its leading factor."""
    total, term = xp.ones_like(x), xp.ones_like(x)
    for k in range(1, 25):
        term = term * (sign * (4 * order * order - (2 * k - 1) ** 2) / (8.0 * k)) / x
        total = total + term
    return total


@in_float64
def scaled_i(xp, x, order):
    """exp(-|x|) * I_order(x) for order 0 or 1."""
    a = xp.absolute(x)
    near = xp.minimum(a, FAR)
    total = 0.5 * (1 + (-1) ** order * xp.exp(-2 * near))
    for j in range(1, POINTS):
        angle = math.pi * j / POINTS
        total = total + math.cos(order * angle) * xp.exp(near * (math.cos(angle) - 1))
    far = xp.maximum(a, FAR)
    value = xp.where(
        a <= FAR, total / POINTS, _asymptotic(xp, far, order, -1.0) / xp.sqrt(2 * math.pi * far)
    )
    value = xp.where(xp.isinf(a), 0.0, value)
    if order == 1:  # the sum cancels for small arguments: a few terms of the power series
        square = 0.25 * a * a
        series = 0.5 * a * (1 + square / 2 * (1 + square / 6 * (1 + square / 12))) * xp.exp(-a)
        value = xp.copysign(xp.where(a < 0.02, series, value), x)
    return xp.where(x == x, value, x)


@in_float64
def scaled_k(xp, x, order):
    """exp(x) * K_order(x) for order 0 or 1, x > 0: the integral of exp(x - x cosh t) cosh(order t)."""
    inside = (x > 1e-8) & (x < FAR)
    z = xp.where(inside, x, 1.0)
    end = xp.arccosh(1 + 45.0 / z)
    total = 0.5 * xp.ones_like(z)
    for j in range(1, 257):
        t = end * (j / 256)
        total = total + xp.exp(-2 * z * xp.sinh(0.5 * t) ** 2) * (xp.cosh(t) if order else 1.0)
    far = xp.where(x >= FAR, x, FAR)
    value = xp.where(
        inside, total * end / 256, _asymptotic(xp, far, order, 1.0) * xp.sqrt(math.pi / (2 * far))
    )
    value = xp.where(xp.isinf(x), 0.0, value)
    tiny = xp.where((x > 0) & (x <= 1e-8), x, 1e-8)  # the leading terms of the series
    limit = 1 / tiny if order else -xp.log(0.5 * tiny) - EULER
    value = xp.where((x > 0) & (x <= 1e-8), limit * xp.exp(tiny), value)
    return xp.where(x == 0, math.inf, xp.where(x < 0, math.nan, xp.where(x == x, value, x)))


@in_float64
def bessel_j(xp, x, order):
    """J_order(x) for order 0 or 1."""
    a = xp.absolute(x)
    near = xp.minimum(a, FAR)
    total = 0.5 * (1.0 + (-1) ** order) * xp.ones_like(near)
    for j in range(1, POINTS):
        angle = math.pi * j / POINTS
        total = total + xp.cos(order * angle - near * math.sin(angle))
    # beyond FAR: Hankel's expansion P cos(c) - Q sin(c), P and Q the even and odd terms of the series
    far = xp.maximum(a, FAR)
    even, odd, term = xp.ones_like(far), xp.zeros_like(far), xp.ones_like(far)
    for k in range(1, 22):
        term = term * ((4 * order * order - (2 * k - 1) ** 2) / (8.0 * k)) / far
        sign = 1 if k // 2 % 2 == 0 else -1
        if k % 2:
            odd = odd + sign * term
        else:
            even = even + sign * term
    phase = far - (0.5 * order + 0.25) * math.pi
    distant = xp.sqrt(2 / (math.pi * far)) * (even * xp.cos(phase) - odd * xp.sin(phase))
    value = xp.where(a <= FAR, total / POINTS, distant)
    value = xp.where(xp.isinf(a), 0.0, value)
    value = xp.where(x < 0, -value, xp.where(x == 0, x, value)) if order else value
    return xp.where(x == x, value, x)


def _scipy(xp, name: str):
    """A function of SciPy; RuntimeError that says what to install. From a device, values go to the host and back."""
    try:
        import scipy.special as functions
    except ImportError:
        raise RuntimeError(
            f"special function {name} needs SciPy: install it with pip install 'gradlib[scipy]'"
        ) from None
    fn = getattr(functions, name)
    if not xp.waits:
        return fn

    def through_host(x):
        out = fn(xp.to_host(x))
        return tuple(map(xp.asarray, out)) if isinstance(out, tuple) else xp.asarray(out)

    return through_host


@in_float64
def _spherical(xp, x):
    """sin(x) / x, 1 at 0 and 0 at infinity."""
    safe = xp.where(xp.isinf(x) | (x == 0), 1.0, x)
    return xp.where(xp.isinf(x), 0.0, xp.where(x == 0, 1.0, xp.sin(safe) / safe))


# -- ops ---------------------------------------------------------------------------------------------------------------


def _growing(order: int):
    return floating(lambda xp, self: scaled_i(xp, self, order) * xp.exp(xp.absolute(self)))


i0 = unary(
    "i0",
    lambda F, g, self: g * F.special_i1(self),
    forward=_growing(0),
    doc="The modified Bessel function I0.",
    example=("gradlib.i0(gradlib.tensor([0.0, 1.0]))", "tensor([1.0000, 1.2661])"),
)


def _safe_over(F, top, x):
    """``top / x`` with the limit 1/2 of I1(x) / x at 0."""
    zero = x == 0
    return F.where(zero, 0.5, top / F.where(zero, 1.0, x))


_declare = partial(special, domain=(0.3, 3.0))
i1_op = _declare(
    "special_i1", lambda xp, self: scaled_i(xp, self, 1) * xp.exp(xp.absolute(self)),
    lambda F, g, self, result: g * (F.i0(self) - _safe_over(F, result, self)),
)  # fmt: skip
i0e_op = _declare(
    "special_i0e", lambda xp, self: scaled_i(xp, self, 0),
    lambda F, g, self, result: g * (F.special_i1e(self) - F.sgn(self) * result), node="SpecialI0EBackward0",
)  # fmt: skip
i1e_op = _declare(
    "special_i1e",
    lambda xp, self: scaled_i(xp, self, 1),
    lambda F, g, self, result: (
        g * (F.special_i0e(self) - F.sgn(self) * result - _safe_over(F, result, self))
    ),
    node="SpecialI1EBackward0",
)
j0_op = _declare(
    "special_bessel_j0",
    lambda xp, self: bessel_j(xp, self, 0),
    lambda F, g, self: -g * F.special_bessel_j1(self),
)
j1_op = _declare(
    "special_bessel_j1",
    lambda xp, self: bessel_j(xp, self, 1),
    lambda F, g, self, result: g * (F.special_bessel_j0(self) - _safe_over(F, result, self)),
)
k0e_op = _declare(
    "special_scaled_modified_bessel_k0",
    lambda xp, self: scaled_k(xp, self, 0),
    lambda F, g, self, result: g * (result - F.special_scaled_modified_bessel_k1(self)),
)
k1e_op = _declare(
    "special_scaled_modified_bessel_k1", lambda xp, self: scaled_k(xp, self, 1),
    lambda F, g, self, result: g * (result - F.special_scaled_modified_bessel_k0(self) - result / self),
)  # fmt: skip
k0_op = _declare(
    "special_modified_bessel_k0", lambda xp, self: scaled_k(xp, self, 0) * xp.exp(-self),
    lambda F, g, self: -g * F.special_modified_bessel_k1(self),
)  # fmt: skip
k1_op = _declare(
    "special_modified_bessel_k1",
    lambda xp, self: scaled_k(xp, self, 1) * xp.exp(-self),
    lambda F, g, self, result: -g * (F.special_modified_bessel_k0(self) + result / self),
)
y0_op = _declare(
    "special_bessel_y0",
    lambda xp, self: _scipy(xp, "y0")(self),
    lambda F, g, self: -g * F.special_bessel_y1(self),
    captures=captures.HOST,
)
y1_op = _declare(
    "special_bessel_y1", lambda xp, self: _scipy(xp, "y1")(self),
    lambda F, g, self, result: g * (F.special_bessel_y0(self) - result / self),
    captures=captures.HOST,
)  # fmt: skip
airy_slope_op = _declare(
    "special_airy_ai_slope", lambda xp, self: _scipy(xp, "airy")(self)[1].astype(self.dtype),
    lambda F, g, self: g * self * F.special_airy_ai(self), captures=captures.HOST,
    node="SpecialAiryAiBackwardBackward0",
)  # fmt: skip
airy_op = _declare(
    "special_airy_ai", lambda xp, self: _scipy(xp, "airy")(self)[0].astype(self.dtype),
    lambda F, g, self: g * F.special_airy_ai_slope(self), captures=captures.HOST,
)  # fmt: skip
spherical_op = _declare(
    "special_spherical_bessel_j0",
    lambda xp, self: _spherical(xp, self),
    lambda F, g, self: g * (F.cos(self) * self - F.sin(self)) / (self * self),
)


# -- orthogonal polynomials: three-term recurrences in recorded operations ---------------------------------------------


def polynomial(first, step):
    """A public function of (input, n): p0 = 1, p1 = first(x), p(k+1) = step(k, x, pk, p(k-1))."""

    def evaluate(x, n: int):
        if n < 0:
            return x * 0
        before, now = x * 0 + 1, first(x)
        if n == 0:
            return before
        for k in range(1, n):
            before, now = now, step(k, x, now, before)
        return now

    def call(input, n, *, out=None):
        x, degree = _polynomial_arguments(call.__name__, input, n)
        if not isinstance(degree, Tensor):
            return write_out(out, evaluate(x, int(degree)))
        x = x + degree * 0  # broadcast
        orders = degree.nan_to_num().expand(x.shape)
        result = x * 0
        for k in sorted(set(values_of(all_entries(orders).reshape(-1)))):
            result = result + evaluate(x, int(k)) * (orders == k)
        return write_out(out, result)

    return call


def _polynomial_arguments(name: str, x, n):
    """The argument of a polynomial as a floating tensor, and its degree: a number, or a tensor of the same dtype."""
    if not isinstance(x, Tensor) and not isinstance(n, Tensor):
        raise need_tensor("special_" + name, x)
    common = common_dtype((x, n))
    if common.category < dtypes.FLOATING:
        common = dtypes.get_default_dtype()
    if common.category == dtypes.COMPLEX:
        raise unsupported(f"{name}_cpu", common)
    if not isinstance(x, Tensor):
        return n.new_full((), x, dtype=common), n.to(common)
    return x.to(common), n.to(common) if isinstance(n, Tensor) else n


def _chebyshev(first, shifted: bool = False):
    def of(x):
        return 2 * x - 1 if shifted else x

    return polynomial(lambda x: first(of(x)), lambda k, x, now, before: 2 * of(x) * now - before)


POLYNOMIALS = {
    "hermite_polynomial_h": polynomial(lambda x: 2 * x, lambda k, x, a, b: 2 * x * a - 2 * k * b),
    "hermite_polynomial_he": polynomial(lambda x: x, lambda k, x, a, b: x * a - k * b),
    "laguerre_polynomial_l": polynomial(
        lambda x: 1 - x, lambda k, x, a, b: ((2 * k + 1 - x) * a - k * b) / (k + 1)
    ),
    "legendre_polynomial_p": polynomial(
        lambda x: x, lambda k, x, a, b: ((2 * k + 1) * x * a - k * b) / (k + 1)
    ),
}
for _prefix, _shifted in (("", False), ("shifted_", True)):
    for _letter, _first in (
        ("t", lambda x: x), ("u", lambda x: 2 * x), ("v", lambda x: 2 * x - 1), ("w", lambda x: 2 * x + 1),
    ):  # fmt: skip
        POLYNOMIALS[f"{_prefix}chebyshev_polynomial_{_letter}"] = _chebyshev(_first, _shifted)
for _name, _fn in POLYNOMIALS.items():
    _fn.__name__ = _fn.__qualname__ = _name
    _fn.__doc__ = (
        f"The polynomial {_name.replace('_', ' ')} of degree `n` (a number or a tensor) at `input`.\n\n"
        "Returns a tensor of the shape that both broadcast to; a negative degree gives 0. It has no gradient.\n\n"
        f"Example:\n    >>> gradlib.special.{_name}(gradlib.tensor([0.5]), 0)\n    tensor([1.])\n"
    )
