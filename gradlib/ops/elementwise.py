"""Pointwise arithmetic and powers, with broadcasting; the operators of Tensor are in operators.py."""

from __future__ import annotations

import math

from ..core.inplace import inplace
from ..core.op import declare
from ..core.tensor import Tensor
from .expose import function, method, write_out
from .pointwise import pointwise, unary

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
