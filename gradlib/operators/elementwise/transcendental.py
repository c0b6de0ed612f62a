"""Exponentials, logarithms, trigonometric and hyperbolic functions of each element."""

from __future__ import annotations

import math
from typing import Any

from ...op.declare import Op
from ...op.pointwise import pointwise, unary
from ..kinds import narrow, refuse

# -- exponentials, logarithms, trigonometric and hyperbolic functions -----------------------------------------------


def _acosh_gradient(F, g, self):
    if F.is_complex(self):
        return g * (F.rsqrt(self - 1) * F.rsqrt(self + 1)).conjugate()
    return g * F.rsqrt(self * self - 1)


_SINGLE: dict[str, Any] = {"autocast": "cuda:float32"}
_LOG: dict[str, Any] = {**_SINGLE, "domain": (0.1, 3.0)}

# Of each function that has a derivative of complex numbers and a kernel in NumPy: the name, the gradient, what else is
# declared, what it is of each element, and the arguments and results of an example; last its name in NumPy if another.
_FUNCTIONS: list[tuple[Any, ...]] = [
    ("exp", lambda g, result: g * result.conjugate(), _SINGLE, "e to the power of each element.",
        "0.0, 1.0", "1.0000, 2.7183"),
    ("exp2", lambda g, result: g * (result * math.log(2.0)).conjugate(), {}, "2 to the power of each element.",
        "0.5, 3.0", "1.4142, 8.0000"),
    ("expm1", lambda g, result: g * (result + 1).conjugate(), _SINGLE, "e^x - 1 of each element, exact near 0.",
        "0.0, 1.0", "0.0000, 1.7183"),
    ("log", lambda g, self: g / self.conjugate(), _LOG,
        "The natural logarithm of each element; -inf at 0, nan below it.", "1.0, 10.0", "0.0000, 2.3026"),
    ("log2", lambda g, self: g / (self * math.log(2.0)).conjugate(), _LOG,
        "The logarithm of each element to the base 2; -inf at 0, nan below it.", "3.0, 8.0", "1.5850, 3.0000"),
    ("log10", lambda g, self: g / (self * math.log(10.0)).conjugate(), _LOG,
        "The logarithm of each element to the base 10; -inf at 0, nan below it.", "2.0, 1000.0", "0.3010, 3.0000"),
    ("sin", lambda F, g, self: g * F.cos(self).conjugate(), {}, "The sine of each element, in radians.",
        "0.0, 1.0", "0.0000, 0.8415"),
    ("cos", lambda F, g, self: -g * F.sin(self).conjugate(), {}, "The cosine of each element, in radians.",
        "0.0, 1.0", "1.0000, 0.5403"),
    ("tan", lambda g, result: g * (1 + result * result).conjugate(), {**_SINGLE, "domain": (-1.2, 1.2)},
        "The tangent of each element, in radians.", "0.0, 1.0", "0.0000, 1.5574"),
    ("sinh", lambda F, g, self: g * F.cosh(self).conjugate(), _SINGLE,
        "The hyperbolic sine of each element: (e^x - e^-x) / 2.", "0.0, 1.0", "0.0000, 1.1752"),
    ("cosh", lambda F, g, self: g * F.sinh(self).conjugate(), _SINGLE,
        "The hyperbolic cosine of each element: (e^x + e^-x) / 2.", "0.0, 1.0", "1.0000, 1.5431"),
    ("tanh", lambda g, result: g * (1 - result * result).conjugate(), {},
        "The hyperbolic tangent of each element: (e^x - e^-x) / (e^x + e^-x), in [-1, 1].",
        "0.0, 1.0", "0.0000, 0.7616"),
    ("asin", lambda F, g, self: g * F.rsqrt(1 - self * self).conjugate(), {**_SINGLE, "domain": (-0.9, 0.9)},
        "The inverse sine of each element, in [-pi/2, pi/2]; nan outside of [-1, 1].",
        "0.0, 1.0", "0.0000, 1.5708", "arcsin"),
    ("acos", lambda F, g, self: -g * F.rsqrt(1 - self * self).conjugate(), {**_SINGLE, "domain": (-0.9, 0.9)},
        "The inverse cosine of each element, in [0, pi]; nan outside of [-1, 1].",
        "1.0, 0.0", "0.0000, 1.5708", "arccos"),
    ("atan", lambda g, self: g / (self * self + 1).conjugate(), {},
        "The inverse tangent of each element, in [-pi/2, pi/2].", "0.0, 1.0", "0.0000, 0.7854", "arctan"),
    ("asinh", lambda F, g, self: g * F.rsqrt(self * self + 1).conjugate(), {},
        "The inverse hyperbolic sine of each element: log(x + sqrt(x^2 + 1)).",
        "0.0, 1.0", "0.0000, 0.8814", "arcsinh"),
    ("acosh", _acosh_gradient, {"domain": (1.1, 3.0)},
        "The inverse hyperbolic cosine of each element: log(x + sqrt(x^2 - 1)); nan below 1.",
        "1.0, 2.0", "0.0000, 1.3170", "arccosh"),
    ("atanh", lambda g, self: g / (1 - self * self).conjugate(), {"domain": (-0.9, 0.9)},
        "The inverse hyperbolic tangent of each element: log((1 + x) / (1 - x)) / 2; nan outside of [-1, 1].",
        "0.0, 0.5", "0.0000, 0.5493", "arctanh"),
]  # fmt: skip
for _name, _gradient, _facts, _what, _at, _shown, *_numpy in _FUNCTIONS:
    unary(
        _name,
        _gradient,
        *_numpy,
        forward=_numpy[0] if _numpy else _name,
        complex=True,
        doc=_what,
        example=(f"gradlib.{_name}(gradlib.tensor([{_at}]))", f"tensor([{_shown}])"),
        **_facts,
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
    autocast="cuda:float32",
    forward=_log1p,
    domain=(-0.5, 3.0),
    complex=True,
    doc="log(1 + x) of each element, exact near 0; nan below -1.",
    example=("gradlib.log1p(gradlib.tensor([0.0, 1.0]))", "tensor([0.0000, 0.6931])"),
)


def _sigmoid(xp, self):
    if self.dtype.itemsize == 2:  # a half type: rounded once, at the end
        return narrow(_sigmoid(xp, xp.wide(self)), self.dtype)
    if self.ndim == 0:
        return 1 / (1 + xp.exp(-self))
    out = xp.negative(self)
    xp.exp(out, out=out)  # inf where self is very negative: the quotient is then 0, as it should be
    out += 1
    if self.size < 4096:
        return xp.reciprocal(out, out=out)
    return xp.divide(1, out, out=out)  # the same bits; NumPy takes half the time for many numbers


sigmoid = unary(
    "sigmoid",
    lambda g, result: g * (result * (1 - result)).conjugate(),
    "expit",
    forward=_sigmoid,
    complex=True,
    doc="1 / (1 + e^-x) of each element, in [0, 1].",
    example=("gradlib.sigmoid(gradlib.tensor([0.0, 1.0]))", "tensor([0.5000, 0.7311])"),
)


def logaddexp_kernel(xp, self, other):
    """log(e^a + e^b); of complex numbers the one with the larger real part is taken out of the sum."""
    kind = self.dtype.kind
    if kind == "f" or kind == "V":
        return xp.logaddexp(self, other)
    refuse("logaddexp_cpu", self, "iub")
    first = xp.real(self) >= xp.real(other)
    top, low = xp.where(first, self, other), xp.where(first, other, self)
    same = xp.isinf(xp.real(top)) & (xp.real(top) == xp.real(low))
    low = xp.where(same, top, low)
    difference = xp.where(xp.isfinite(low - top) | ~same, low - top, 0)
    total = top + xp.log(1 + xp.exp(difference))
    return xp.where(same & (xp.real(top) < 0), top, total)


logaddexp = pointwise(
    "logaddexp",
    logaddexp_kernel,
    inplace=False,
    numbers="none",
    complex=True,
    self=lambda F, g, self, other: g * F.sigmoid(self - other).conjugate(),
    other=lambda F, g, self, other: g * F.sigmoid(other - self).conjugate(),
    refuses="bool integer",
    doc="log(e^a + e^b) of two elements, without overflow.",
    example=(
        "gradlib.logaddexp(gradlib.tensor([0.0, 1000.0]), gradlib.tensor([0.0, 0.0]))",
        "tensor([6.9315e-01, 1.0000e+03])",
    ),
)
logaddexp2 = pointwise(
    "logaddexp2",
    lambda xp, self, other: (refuse("logaddexp2_cpu", self, "iub"), xp.logaddexp2(self, other))[1],
    inplace=False,
    numbers="none",
    complex=False,
    self=lambda F, g, self, other: g * F.sigmoid((self - other) * math.log(2.0)),
    other=lambda F, g, self, other: g * F.sigmoid((other - self) * math.log(2.0)),
    refuses="bool integer complex",
    doc="log2(2^a + 2^b) of two elements, without overflow.",
    example=(
        "gradlib.logaddexp2(gradlib.tensor([0.0, 2000.0]), gradlib.tensor([0.0, 0.0]))",
        "tensor([1.0000e+00, 2.0000e+03])",
    ),
)

# -- angles and lengths --------------------------------------------------------------------------------------------


def _turn(F, part, square):
    """``part / square``, 0 where the point is the origin."""
    zero = square == 0
    return F.where(zero, 0.0, part / F.where(zero, 1.0, square))


atan2 = pointwise(
    "atan2",
    "arctan2",
    "arctan2",
    autocast="cuda:promote",
    args="self other",
    promote="float",
    self=lambda F, g, self, other: g * _turn(F, other, self * self + other * other),
    other=lambda F, g, self, other: -g * _turn(F, self, self * self + other * other),
    domain=(0.2, 2.0),
    complex=False,
    numbers="none",
    doc=(
        "The angle of each point (other, input) in the plane, in [-pi, pi]: "
        "atan(input / other) in the right quadrant."
    ),
    example=(
        "gradlib.atan2(gradlib.tensor([1.0, -1.0]), gradlib.tensor([1.0, -1.0]))",
        "tensor([ 0.7854, -2.3562])",
    ),
)
hypot = pointwise(
    "hypot",
    lambda xp, self, other: (refuse("hypot_cpu", self, "iub"), xp.hypot(self, other))[1],
    self=lambda F, g, self, result: g * F.where(result == 0, 0.0 * self, self / result),
    other=lambda F, g, other, result: g * F.where(result == 0, 0.0 * other, other / result),
    domain=(0.2, 2.0),
    complex=False,
    numbers="none",
    refuses="bool integer complex",
    doc=(
        "The length of the vector of two elements: sqrt(input^2 + other^2), without "
        "overflow. At (0, 0) the gradient is 0."
    ),
    example=(
        "gradlib.hypot(gradlib.tensor([3.0, 5.0]), gradlib.tensor([4.0, 12.0]))",
        "tensor([ 5., 13.])",
    ),
)


def _scaled(name: str, factor: float, **texts: Any) -> Op:
    def forward(xp, self):
        if self.dtype.kind == "c":
            raise RuntimeError(f"{name} is not supported for complex tensors.")
        return self * self.dtype.type(factor)

    return unary(name, lambda g: g * factor, forward=forward, **texts)


deg2rad = _scaled(
    "deg2rad",
    math.pi / 180,
    refuses="/complex",
    doc="Each angle, given in degrees, in radians: x * pi / 180.",
    example=("gradlib.deg2rad(gradlib.tensor([180.0, 90.0]))", "tensor([3.1416, 1.5708])"),
)
rad2deg = _scaled(
    "rad2deg",
    180 / math.pi,
    refuses="/complex",
    doc="Each angle, given in radians, in degrees: x * 180 / pi.",
    example=("gradlib.rad2deg(gradlib.tensor([0.0, 1.0]))", "tensor([ 0.0000, 57.2958])"),
)
