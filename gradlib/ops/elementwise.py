"""Pointwise arithmetic, powers, exponentials, trigonometry, rounding: each element by itself, with broadcasting.

In a formula, `x.conjugate()` is written wherever a derivative multiplies a gradient: that is PyTorch's convention for
complex numbers, costs next to nothing on real arrays, and works on Python numbers too.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.formulas import formula_function
from ..core.inplace import inplace
from ..core.op import Op, declare
from ..core.tensor import Tensor
from .expose import PUBLIC, function, inplace_method, method, write_out


def pointwise(
    name: str, forward: Any, /, *aliases: str, doc: str = "", inplace: bool = True, **spec: Any
) -> Op:
    """Declare an elementwise op and publish it as function, method and in-place method, under all its names."""
    op = declare(name, forward, elementwise=True, **spec)
    op.call.__doc__ = doc or f"``{name}`` of each element."
    for key in (name, *aliases):
        PUBLIC[key] = op.call
        setattr(Tensor, key, op.call)
        if inplace:
            inplace_method(op, key + "_")
    return op


def unary(
    name: str,
    formula: Any = None,
    /,
    *aliases: str,
    forward: Any = None,
    promote: str = "float",
    **spec: Any,
) -> Op:
    """A pointwise op of one argument; `formula` is its gradient."""
    if formula is not None:
        spec["self"] = formula
    return pointwise(name, forward or name, *aliases, promote=promote, **spec)


# -- arithmetic --------------------------------------------------------------------------------------------------

add_op = declare(
    "add",
    "add",
    args="self other",
    elementwise=True,
    self=lambda g: g,
    other=lambda g: g,
    complex=True,
)
sub_op = declare(
    "sub",
    "subtract",
    args="self other",
    elementwise=True,
    self=lambda g: g,
    other=lambda g: -g,
    complex=True,
)
mul = pointwise(
    "mul", "multiply", "multiply", args="self other",
    self=lambda g, other: g * other.conjugate(),
    other=lambda g, self: g * self.conjugate(),
    doc="``input * other``, with broadcasting.", complex=True)  # fmt: skip
div_op = declare(
    "div", "true_divide", args="self other", elementwise=True, promote="float",
    self=lambda g, other: g / other.conjugate(),
    other=lambda g, self, other: -g * (self / (other * other)).conjugate(), complex=True)  # fmt: skip
neg = unary("neg", lambda g: -g, "negative", forward="negative", promote="same", complex=True)
positive = unary("positive", lambda g: g, promote="same", inplace=False, complex=True)
reciprocal = unary(
    "reciprocal",
    lambda g, result: -g * (result * result).conjugate(),
    domain=(0.3, 2.0),
    complex=True,
)
square = unary("square", lambda g, self: g * (2 * self).conjugate(), promote="same", complex=True)


@function("add", method=True)
def add(input, other, *, alpha=1, out=None):
    """``input + alpha * other``, with broadcasting."""
    return add_op.call(input, other if alpha == 1 else other * alpha, out=out)


@function("sub", "subtract", method=True)
def sub(input, other, *, alpha=1, out=None):
    """``input - alpha * other``, with broadcasting."""
    return sub_op.call(input, other if alpha == 1 else other * alpha, out=out)


@function("rsub", method=True)
def rsub(input, other, *, alpha=1):
    """``other - alpha * input``."""
    return sub(other, input, alpha=alpha) if isinstance(other, Tensor) else -input * alpha + other


@function("div", "divide", method=True)
def div(input, other, *, rounding_mode=None, out=None):
    """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers)."""
    if rounding_mode is None:
        return div_op.call(input, other, out=out)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    op = floor_divide_op if rounding_mode == "floor" else trunc_divide_op
    return write_out(out, op.call(input, other))


@function("true_divide", method=True)
def true_divide(input, other, *, out=None):
    """``input / other``."""
    return div_op.call(input, other, out=out)


def _check_zero(xp, other):
    if other.dtype.kind in "iub" and not xp.all(other):
        raise RuntimeError("ZeroDivisionError")


def _floor_divide(xp, self, other):
    _check_zero(xp, other)
    return xp.floor_divide(self, other)


def _trunc_divide(xp, self, other):
    _check_zero(xp, other)
    if self.dtype.kind in "iu":
        quotient = xp.floor_divide(self, other)
        return quotient + ((quotient < 0) & (quotient * other != self))
    return xp.trunc(xp.true_divide(self, other))


floor_divide_op = declare(
    "floor_divide", _floor_divide, elementwise=True,
    self=lambda F, g: F.zeros_like(g), other=lambda F, g: F.zeros_like(g), node="DivBackward0",
    complex=False)  # fmt: skip
trunc_divide_op = declare(
    "trunc_divide", _trunc_divide, elementwise=True,
    self=lambda F, g: F.zeros_like(g), other=lambda F, g: F.zeros_like(g), node="DivBackward0",
)  # fmt: skip


@function("floor_divide", method=True)
def floor_divide(input, other, *, out=None):
    """``floor(input / other)``."""
    return write_out(out, floor_divide_op.call(input, other))


remainder = pointwise(
    "remainder", lambda xp, self, other: (_check_zero(xp, other), xp.remainder(self, other))[1],
    self=lambda g: g, other=lambda F, g, self, other: -g * F.floor(self / other),
    doc="Remainder of the division, with the sign of `other`.", complex=False)  # fmt: skip
fmod = pointwise(
    "fmod", lambda xp, self, other: (_check_zero(xp, other), xp.fmod(self, other))[1],
    self=lambda g: g, other=lambda F, g, self, other: -g * F.trunc(self / other),
    doc="Remainder of the division, with the sign of `input`.", complex=False)  # fmt: skip


# -- powers ------------------------------------------------------------------------------------------------------


def _pow(xp, self, other):
    if self.dtype.kind in "iu" and other.dtype.kind == "i" and xp.any(other < 0):
        if other.ndim == 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        ok = other >= 0
        unit = xp.where(self == 1, 1, xp.where(self == -1, xp.where(other % 2 == 0, 1, -1), 0))
        return xp.where(ok, xp.power(self, xp.where(ok, other, 0)), unit).astype(self.dtype)
    return xp.power(self, other)


def _grad_base(F, g, base, exponent):
    """g * d(base**exponent)/d(base), 0 where the exponent is 0 (also at base 0)."""
    if not hasattr(exponent, "shape"):
        if exponent == 0:
            return F.zeros_like(g)
        if exponent == 1:
            return g
        return g * (F.pow_number(base, exponent - 1) * exponent).conjugate()
    return F.where(
        exponent == 0, 0.0, g * (exponent * F.pow_tensors(base, exponent - 1)).conjugate()
    )


def _grad_exponent(F, g, base, result, exponent):
    """g * result * log(base), 0 where base is 0 and the exponent is not negative."""
    if not hasattr(base, "shape"):
        return (
            g * (result * (math.log(base) if base else -math.inf)).conjugate()
            if base
            else F.where(exponent.real >= 0, 0.0, g * (result * -math.inf))
        )
    zero = (base == 0) & (exponent.real >= 0)
    return F.where(
        zero, 0.0, g * (result * F.log(F.where(zero, 1.0 + 0.0 * base, base))).conjugate()
    )


def _pow_number(xp, self, *, exponent):
    """Powers that products and roots give, quickly; NumPy's power for the others."""
    if exponent == 2:
        return xp.multiply(self, self)
    if exponent == 3:
        return self * self * self
    if exponent == 4:
        square = self * self
        return square * square
    if self.dtype.kind in "fc":
        if exponent == 0.5:
            return xp.sqrt(self)
        if exponent == -1:
            return xp.reciprocal(self)
        if exponent == -2:
            return xp.reciprocal(self * self)
    return xp.power(self, exponent)


pow_number = declare(
    "pow_number",
    _pow_number,
    node="PowBackward0",
    jvp="elementwise",
    inplace=True,
    batch="elementwise",
    complex=True,
    self=lambda F, g, self, exponent: _grad_base(F, g, self, exponent),
    samples=lambda t: [
        (t(3, 4, low=0.5), 2.5),
        (t(4), 3),
        (t(4), 2),
        (t(4), 1),
        (t(4), 0),
        (t(low=0.5), -1.5),
        (t(2, 0), 2),
    ],
)
pow_tensors = declare(
    "pow_tensors", _pow, elementwise=True, node="PowBackward1", domain=(0.5, 2.0), complex=True,
    self=lambda F, g, self, other: _grad_base(F, g, self, other),
    other=lambda F, g, self, other, result: _grad_exponent(F, g, self, result, other),
)  # fmt: skip


@function("pow", method=True)
def pow(input, exponent, *, out=None):
    """``input ** exponent`` for tensors and numbers on either side."""
    if not isinstance(exponent, Tensor) and isinstance(input, Tensor):
        kind = input._array.dtype.kind
        if kind in "iub" and isinstance(exponent, int) and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if (
            (kind in "iubV" and isinstance(exponent, float))
            or isinstance(exponent, complex)
            or kind == "b"
        ):
            return write_out(out, pow_tensors.call(input, exponent))
        return write_out(out, pow_number.call(input, exponent))
    return write_out(out, pow_tensors.call(input, exponent))


@method("pow_")
def pow_(self, exponent):
    """In-place version of ``pow``."""
    if isinstance(exponent, Tensor):
        return inplace(pow_tensors, self, (exponent,))
    return inplace(pow_number, self, (), (exponent,))


@function("float_power", method=True)
def float_power(input, exponent, *, out=None):
    """``pow`` in float64 (complex128 for complex arguments)."""
    from ..core import dtypes

    def widen(x):
        if isinstance(x, Tensor):
            return x.to(dtypes.complex128 if x.is_complex() else dtypes.float64)
        return x if isinstance(x, complex) else float(x)

    return pow(widen(input), widen(exponent), out=out)


sqrt = unary(
    "sqrt", lambda g, result: g / (2 * result).conjugate(), domain=(0.1, 3.0), complex=True
)
rsqrt = unary(
    "rsqrt", lambda g, result: -0.5 * g * (result * result * result).conjugate(),
    forward=lambda xp, self: xp.reciprocal(xp.sqrt(self)), domain=(0.1, 3.0), complex=True)  # fmt: skip


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
log1p = unary("log1p", lambda g, self: g / (self + 1).conjugate(), domain=(-0.5, 3.0), complex=True)


def _sigmoid(xp, self):
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
logaddexp = pointwise(
    "logaddexp", lambda xp, self, other: xp.logaddexp(self, other), inplace=False,
    self=lambda F, g, self, result: g * F.exp(self - result).conjugate(),
    other=lambda F, g, other, result: g * F.exp(other - result).conjugate(),
)  # fmt: skip
logaddexp2 = pointwise(
    "logaddexp2", lambda xp, self, other: xp.logaddexp2(self, other), inplace=False,
    self=lambda F, g, self, result: g * F.exp2(self - result),
    other=lambda F, g, other, result: g * F.exp2(other - result),
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
    lambda F, g, self: g * (F.rsqrt(self - 1) * F.rsqrt(self + 1)).conjugate(),
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
atan2 = pointwise(
    "atan2", "arctan2", "arctan2", args="self other", promote="float",
    self=lambda g, self, other: g * other / (self * self + other * other),
    other=lambda g, self, other: -g * self / (self * self + other * other), domain=(0.2, 2.0),
    complex=False)  # fmt: skip
hypot = pointwise(
    "hypot",
    "hypot",
    args="self other",
    self=lambda F, g, self, result: g * F.where(result == 0, 0.0 * self, self / result),
    other=lambda F, g, other, result: g * F.where(result == 0, 0.0 * other, other / result),
    domain=(0.2, 2.0),
    complex=False,
)


def _scaled(name: str, factor: float) -> Op:
    def forward(xp, self):
        if self.dtype.kind == "c":
            raise RuntimeError(f"{name} is not supported for complex tensors.")
        return self * factor

    return unary(name, lambda g: g * factor, forward=forward)


deg2rad = _scaled("deg2rad", math.pi / 180)
rad2deg = _scaled("rad2deg", 180 / math.pi)

# -- rounding and sign -------------------------------------------------------------------------------------------


def _keeps_integers(name):
    def forward(xp, self):
        return self.copy() if self.dtype.kind in "iub" else getattr(xp, name)(self)

    return forward


def step(name: str, *aliases: str, forward: Any = None, domain: tuple = (0.1, 0.9)) -> Op:
    """A rounding function: its gradient is zero."""
    return unary(
        name,
        lambda F, g: F.zeros_like(g),
        *aliases,
        forward=forward or _keeps_integers(name),
        promote="same",
        domain=domain,
    )


floor = step("floor")
ceil = step("ceil")
trunc = step("trunc", "fix")


def _sign(xp, self):
    if self.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    return xp.sign(self) if self.dtype.kind != "b" else self.copy()


sign = step("sign", forward=_sign, domain=(0.1, 2.0))
frac = unary(
    "frac",
    lambda g: g,
    forward=lambda xp, self: self - xp.trunc(self),
    promote="same",
    domain=(0.1, 0.9),
)
round_op = declare(
    "round",
    lambda xp, self, *, decimals: (
        self.copy() if self.dtype.kind in "iub" else xp.round(self, decimals)
    ),
    self=lambda F, g: F.zeros_like(g),
    samples=lambda t: [(t(3, 4), 0), (t(4), 2), (t(), 0), (t(0), 0)],
    inplace=True,
    batch="elementwise",
    jvp="elementwise",
)


@function("round", method=True)
def round(input, *, decimals=0, out=None):
    """Round to the nearest number with `decimals` digits after the point; halves go to the even neighbour."""
    return write_out(out, round_op.call(input, decimals))


@method("round_")
def round_(self, *, decimals=0):
    """In-place version of ``round``."""
    return inplace(round_op, self, (), (decimals,))


signbit = unary(
    "signbit",
    nondifferentiable="bool",
    forward=lambda xp, self: xp.signbit(self) if self.dtype.kind != "b" else xp.zeros_like(self),
    promote="same",
    inplace=False,
)
copysign = pointwise(
    "copysign", "copysign", args="self other", promote="float",
    self=lambda F, g, self, result: F.where(self == 0, 0.0, g * F.sign(self) * F.sign(result)),
    other=lambda F, g: F.zeros_like(g), domain=(0.1, 2.0))  # fmt: skip
nextafter = pointwise(
    "nextafter", "nextafter", args="self other", nondifferentiable="its derivative is not defined"
)

# -- absolute value, extrema -------------------------------------------------------------------------------------

abs = unary(
    "abs",
    lambda F, g, self: g * F.sgn(self),
    "absolute",
    forward="absolute",
    promote="same",
    jvp=lambda F, self, self_t: (
        (self_t * F.sgn(self).conj()).real if self.is_complex() else self_t * F.sgn(self)
    ),
    domain=(0.1, 2.0),
    complex=True,
)


def _sgn(xp, self):
    if self.dtype.kind != "c":
        return xp.sign(self) if self.dtype.kind != "b" else self.copy()
    size = xp.absolute(self)
    return self / xp.where(size == 0, xp.ones_like(size), size)


def _sgn_grad(F, g, self, result):
    """Of z/|z|: the part of g that turns z, divided by |z|; 0 at 0 and for real arguments."""
    if not F.is_complex(self):
        return F.zeros_like(g)
    size = F.abs(self)
    safe = F.where(size == 0, 1.0 + 0.0 * size, size)
    return F.where(size == 0, 0.0, (g - F.real(g * result.conjugate()) * result) / safe)


sgn = unary(
    "sgn",
    _sgn_grad,
    forward=_sgn,
    promote="same",
    jvp=lambda F, self, self_t, result: _sgn_grad(F, self_t, self, result),
    domain=(0.2, 2.0),
    complex=True,
)


def _share_ties(F, g, self, other, mine):
    """The gradient goes to the larger (smaller) argument, one half to each where they are equal."""
    return F.where(mine, g, 0.0) + F.where(self == other, 0.5 * g, 0.0)


maximum = pointwise(
    "maximum", "maximum", args="self other", inplace=False,
    self=lambda F, g, self, other: _share_ties(F, g, self, other, self > other),
    other=lambda F, g, self, other: _share_ties(F, g, self, other, other > self), complex=False)  # fmt: skip
minimum = pointwise(
    "minimum", "minimum", args="self other", inplace=False,
    self=lambda F, g, self, other: _share_ties(F, g, self, other, self < other),
    other=lambda F, g, self, other: _share_ties(F, g, self, other, other < self), complex=False)  # fmt: skip
fmax = pointwise(
    "fmax",
    "fmax",
    args="self other",
    inplace=False,
    self=lambda F, g, self, other: (
        F.where((self > other) | F.isnan(other), g, 0.0) + F.where(self == other, 0.5 * g, 0.0)
    ),
    other=lambda F, g, self, other: (
        F.where((other > self) | F.isnan(self), g, 0.0) + F.where(self == other, 0.5 * g, 0.0)
    ),
    complex=False,
)
fmin = pointwise(
    "fmin",
    "fmin",
    args="self other",
    inplace=False,
    self=lambda F, g, self, other: (
        F.where((self < other) | F.isnan(other), g, 0.0) + F.where(self == other, 0.5 * g, 0.0)
    ),
    other=lambda F, g, self, other: (
        F.where((other < self) | F.isnan(self), g, 0.0) + F.where(self == other, 0.5 * g, 0.0)
    ),
    complex=False,
)
relu = unary(
    "relu",
    lambda g, result: g * (result > 0),
    forward=lambda xp, self: xp.maximum(self, 0),
    promote="same",
    domain=(0.1, 2.0),
    complex=False,
)
clamp_number = declare(
    "clamp_number",
    lambda xp, self, *, min, max: xp.clip(self, min, max).astype(self.dtype, copy=False),
    node="ClampBackward0",
    self=lambda F, g, self, min, max: g * F.clamp_mask(self, min, max),
    jvp="elementwise",
    inplace=True,
    batch="elementwise",
    samples=lambda t: [
        (t(3, 4), -1.0, 1.0),
        (t(5), None, 0.5),
        (t(5), 0.5, None),
        (t(), 0, 1),
        (t(0), 0, 1),
    ],
)
clamp_op = declare(
    "clamp",
    lambda xp, self, min=None, max=None: xp.clip(self, min, max),
    node="ClampBackward1",
    self=lambda F, g, self, min, max, self_shape: F.sum_to_size(
        g * F.clamp_mask(self, min, max), self_shape
    ),
    min=lambda F, g, self, min, max: F.sum_to_size(
        F.where(_below(self, min, max), g, 0.0), F.shape_of(min)
    ),
    max=lambda F, g, self, max: F.sum_to_size(F.where(self > max, g, 0.0), F.shape_of(max)),
    inplace=True,
    batch="elementwise",
    samples=lambda t: [
        (t(3, 4), t(4), t(3, 1, low=2)),
        (t(3, 4), None, t()),
        (t(3), t(3), None),
        (t(0), t(), t(low=3, high=4)),
    ],
)


def _below(self, min, max):
    return self < min if max is None else (self < min) & (min < max)


@formula_function()
def clamp_mask(F, self, min, max):
    """Where clamp passes the gradient: inside its bounds, the bounds included."""
    if min is None:
        return self <= max
    return self >= min if max is None else (self >= min) & (self <= max)


@formula_function()
def shape_of(F, x):
    return getattr(x, "shape", ())


@function("clamp", "clip", method=True)
def clamp(input, min=None, max=None, *, out=None):
    """Limit each element to [min, max]; bounds are numbers, tensors or None. The gradient at a bound is 1."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return write_out(
        out, (clamp_number if _plain(input, min, max) else clamp_op).call(input, min, max)
    )


def _plain(input, min, max) -> bool:
    """Whether the bounds are numbers that do not change the dtype of `input`."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return False
    whole = not isinstance(min, float) and not isinstance(max, float)
    return input._array.dtype.kind in ("iufV" if whole else "fV")


@function("clamp_min", method=True)
def clamp_min(input, min, *, out=None):
    """``max(input, min)`` elementwise."""
    return clamp(input, min=min, out=out)


@function("clamp_max", method=True)
def clamp_max(input, max, *, out=None):
    """``min(input, max)`` elementwise."""
    return clamp(input, max=max, out=out)


@method("clamp_", "clip_")
def clamp_(self, min=None, max=None):
    """In-place version of ``clamp``."""
    return (
        inplace(clamp_number, self, (), (min, max))
        if _plain(self, min, max)
        else inplace(clamp_op, self, (min, max))
    )


@method("clamp_min_")
def clamp_min_(self, min):
    """In-place version of ``clamp_min``."""
    return clamp_(self, min)


@method("clamp_max_")
def clamp_max_(self, max):
    """In-place version of ``clamp_max``."""
    return clamp_(self, max=max)


for _name, _fn, _op in (
    ("add", add, add_op),
    ("sub", sub, sub_op),
    ("subtract", sub, sub_op),
    ("div", div, div_op),
    ("divide", div, div_op),
    ("true_divide", true_divide, div_op),
    ("floor_divide", floor_divide, floor_divide_op),
):

    def _in_place(self, other, *, alpha=1, rounding_mode=None, _op=_op):
        op = _op
        if rounding_mode is not None:
            op = floor_divide_op if rounding_mode == "floor" else trunc_divide_op
        return inplace(op, self, (other if alpha == 1 else other * alpha,))

    _in_place.__name__ = _in_place.__qualname__ = _name + "_"
    _in_place.__doc__ = f"In-place version of ``{_name}``."
    setattr(Tensor, _name + "_", _in_place)

# -- operators ---------------------------------------------------------------------------------------------------


def _reflected(op: Op):
    """``number <op> tensor``."""

    def reflected(self, other):
        first = op.number_first
        if first is not None and other.__class__ in (float, int):
            return first(other, self)
        return op.call(other, self)

    reflected.__name__ = f"__r{op.name}__"
    return reflected


Tensor.__add__ = Tensor.__radd__ = add_op.call
Tensor.__sub__, Tensor.__rsub__ = sub_op.call, _reflected(sub_op)
Tensor.__mul__ = Tensor.__rmul__ = mul.call
Tensor.__truediv__ = Tensor.__div__ = div_op.call
Tensor.__rtruediv__ = Tensor.__rdiv__ = _reflected(div_op)
Tensor.__floordiv__ = floor_divide
Tensor.__rfloordiv__ = lambda self, other: floor_divide_op.call(other, self)
Tensor.__mod__, Tensor.__rmod__ = remainder.call, lambda self, other: remainder.call(other, self)
Tensor.__pow__, Tensor.__rpow__ = pow, lambda self, other: pow_tensors.call(other, self)
Tensor.__neg__, Tensor.__pos__, Tensor.__abs__ = neg.call, positive.call, abs.call
for _operator, _method in {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
}.items():
    setattr(Tensor, _operator, getattr(Tensor, _method))
