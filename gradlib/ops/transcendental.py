"""Exponentials, logarithms, trigonometric and hyperbolic functions of each element."""

from __future__ import annotations

import math

from ..core.op import Op
from ._blocks import kind_name
from .pointwise import pointwise, unary


def refuse_integers(array, name: str) -> None:
    """NotImplementedError for a kernel that takes only floating-point numbers."""
    if array.dtype.kind in "iub":
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind_name(array)}'")


# -- exponentials and logarithms ---------------------------------------------------------------------------------

exp = unary("exp", lambda g, result: g * result.conjugate(), complex=True)
exp2 = unary("exp2", lambda g, result: g * (result * math.log(2.0)).conjugate(), complex=True)
expm1 = unary("expm1", lambda g, result: g * (result + 1).conjugate(), complex=True)
log = unary("log", lambda g, self: g / self.conjugate(), domain=(0.1, 3.0), complex=True)
log2 = unary(
    "log2", lambda g, self: g / (self * math.log(2.0)).conjugate(), domain=(0.1, 3.0), complex=True
)
log10 = unary(
    "log10",
    lambda g, self: g / (self * math.log(10.0)).conjugate(),
    domain=(0.1, 3.0),
    complex=True,
)


def _log1p(xp, self):
    if self.dtype.kind != "c":
        return xp.log1p(self)
    out = xp.asarray(xp.log1p(self))
    x, y = self.real, self.imag
    # near 0 the logarithm of |1 + self| is computed from |1 + self|^2 - 1, which keeps the digits of a small real part
    near = xp.absolute(self) < 0.5
    out.real = xp.where(near, 0.5 * xp.log1p(xp.where(near, x * (2 + x) + y * y, 0)), out.real)
    return out


log1p = unary(
    "log1p",
    lambda g, self: g / (self + 1).conjugate(),
    forward=_log1p,
    domain=(-0.5, 3.0),
    complex=True,
)


def _sigmoid(xp, self):
    if self.dtype.itemsize == 2:  # a half type: rounded once, at the end
        return _sigmoid(xp, xp.wide(self)).astype(self.dtype)
    if self.ndim == 0:
        return 1 / (1 + xp.exp(-self))
    out = xp.negative(self)
    xp.exp(out, out=out)  # inf where self is very negative: the quotient is then 0, as it should be
    out += 1
    return xp.reciprocal(out, out=out)


sigmoid = unary(
    "sigmoid",
    lambda g, result: g * (result * (1 - result)).conjugate(),
    "expit",
    forward=_sigmoid,
    complex=True,
)


def logaddexp_kernel(xp, self, other):
    """log(e^a + e^b); of complex numbers the one with the larger real part is taken out of the sum."""
    kind = self.dtype.kind
    if kind == "f" or kind == "V":
        return xp.logaddexp(self, other)
    refuse_integers(self, "logaddexp")
    first = xp.real(self) >= xp.real(other)
    top, low = xp.where(first, self, other), xp.where(first, other, self)
    same = xp.isinf(xp.real(top)) & (xp.real(top) == xp.real(low))
    low = xp.where(same, top, low)
    difference = xp.where(xp.isfinite(low - top) | ~same, low - top, 0)
    total = top + xp.log(1 + xp.exp(difference))
    return xp.where(same & (xp.real(top) < 0), top, total)


logaddexp = pointwise(
    "logaddexp", logaddexp_kernel, inplace=False, numbers="none", complex=True,
    self=lambda F, g, self, other: g * F.sigmoid(self - other).conjugate(),
    other=lambda F, g, self, other: g * F.sigmoid(other - self).conjugate(),
)  # fmt: skip
logaddexp2 = pointwise(
    "logaddexp2", lambda xp, self, other: (refuse_integers(self, "logaddexp2"), xp.logaddexp2(self, other))[1],
    inplace=False, numbers="none", complex=False,
    self=lambda F, g, self, other: g * F.sigmoid((self - other) * math.log(2.0)),
    other=lambda F, g, self, other: g * F.sigmoid((other - self) * math.log(2.0)),
)  # fmt: skip

# -- trigonometric and hyperbolic --------------------------------------------------------------------------------

sin = unary("sin", lambda F, g, self: g * F.cos(self).conjugate(), complex=True)
cos = unary("cos", lambda F, g, self: -g * F.sin(self).conjugate(), complex=True)
tan = unary(
    "tan", lambda g, result: g * (1 + result * result).conjugate(), domain=(-1.2, 1.2), complex=True
)
sinh = unary("sinh", lambda F, g, self: g * F.cosh(self).conjugate(), complex=True)
cosh = unary("cosh", lambda F, g, self: g * F.sinh(self).conjugate(), complex=True)
tanh = unary("tanh", lambda g, result: g * (1 - result * result).conjugate(), complex=True)
asin = unary(
    "asin",
    lambda F, g, self: g * F.rsqrt(1 - self * self).conjugate(),
    "arcsin",
    forward="arcsin",
    domain=(-0.9, 0.9),
    complex=True,
)
acos = unary(
    "acos",
    lambda F, g, self: -g * F.rsqrt(1 - self * self).conjugate(),
    "arccos",
    forward="arccos",
    domain=(-0.9, 0.9),
    complex=True,
)
atan = unary(
    "atan",
    lambda g, self: g / (self * self + 1).conjugate(),
    "arctan",
    forward="arctan",
    complex=True,
)
asinh = unary(
    "asinh",
    lambda F, g, self: g * F.rsqrt(self * self + 1).conjugate(),
    "arcsinh",
    forward="arcsinh",
    complex=True,
)
acosh = unary(
    "acosh",
    lambda F, g, self: (
        g * (F.rsqrt(self - 1) * F.rsqrt(self + 1)).conjugate()
        if F.is_complex(self)
        else g * F.rsqrt(self * self - 1)
    ),
    "arccosh",
    forward="arccosh",
    domain=(1.1, 3.0),
    complex=True,
)
atanh = unary(
    "atanh",
    lambda g, self: g / (1 - self * self).conjugate(),
    "arctanh",
    forward="arctanh",
    domain=(-0.9, 0.9),
    complex=True,
)


def _turn(F, part, square):
    """``part / square``, 0 where the point is the origin."""
    zero = square == 0
    return F.where(zero, 0.0, part / F.where(zero, 1.0, square))


atan2 = pointwise(
    "atan2", "arctan2", "arctan2", args="self other", promote="float",
    self=lambda F, g, self, other: g * _turn(F, other, self * self + other * other),
    other=lambda F, g, self, other: -g * _turn(F, self, self * self + other * other), domain=(0.2, 2.0),
    complex=False, numbers="none")  # fmt: skip
hypot = pointwise(
    "hypot",
    lambda xp, self, other: (refuse_integers(self, "hypot"), xp.hypot(self, other))[1],
    self=lambda F, g, self, result: g * F.where(result == 0, 0.0 * self, self / result),
    other=lambda F, g, other, result: g * F.where(result == 0, 0.0 * other, other / result),
    domain=(0.2, 2.0),
    complex=False,
    numbers="none",
)


def _scaled(name: str, factor: float) -> Op:
    def forward(xp, self):
        if self.dtype.kind == "c":
            raise RuntimeError(f"{name} is not supported for complex tensors.")
        return self * self.dtype.type(factor)

    return unary(name, lambda g: g * factor, forward=forward)


deg2rad = _scaled("deg2rad", math.pi / 180)
rad2deg = _scaled("rad2deg", 180 / math.pi)
