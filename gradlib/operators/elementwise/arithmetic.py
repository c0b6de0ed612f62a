"""Pointwise arithmetic and powers, with broadcasting; the operators of Tensor are in operators.py."""

from __future__ import annotations

import cmath
import math

import numpy as np

from ...op.declare import declare
from ...op.describe import in_place_text
from ...op.expose import (
    FOUND,
    apart,
    function,
    legacy,
    method,
    write_out,
)
from ...op.inplace import inplace
from ...op.pointwise import pointwise, unary
from ...op.updates import WHOLE, in_the_way, scaled
from ...tape import dtypes, errors
from ...tape.tensor import Tensor
from ..kinds import missing, unsupported
from .alpha import times_alpha

_NO_MASK = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."


def _refuse_bool_minus(args):
    """The error for a difference with a bool operand."""
    bools = [getattr(a, "dtype", type(a)) in (dtypes.bool_, bool, np.bool_) for a in args]
    if all(bools):
        return RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    if any(bools):
        return RuntimeError(
            f"Subtraction, the `-` operator, with a bool tensor is not supported. {_NO_MASK}"
        )
    return None


def _refuse_bool_negative(args):
    if args[0].dtype is dtypes.bool_:
        return RuntimeError(
            f"Negation, the `-` operator, on a bool tensor is not supported. {_NO_MASK}"
        )
    return None


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
    check=_refuse_bool_minus,
)
mul = pointwise(
    "mul", "multiply", "multiply", args="self other",
    self=lambda g, other: g * other.conjugate(),
    other=lambda g, self: g * self.conjugate(),
    doc="``input * other``, with broadcasting.",
    example=("gradlib.mul(gradlib.tensor([1.0, 2.0]), 3)", "tensor([3., 6.])"),
    complex=True, wide_numbers=True)  # fmt: skip
div_op = declare(
    "div", "true_divide", args="self other", elementwise=True, promote="float", wide_numbers=True,
    self=lambda g, other: g / other.conjugate(),
    # divided twice, since a square may leave the range of the type
    other=lambda g, self, other: -g * (self / other / other).conjugate(), complex=True)  # fmt: skip
neg = unary(
    "neg",
    lambda g: -g,
    "negative",
    forward="negative",
    promote="same",
    complex=True,
    exact_out=FOUND,
    check=_refuse_bool_negative,
    refuses="/bool",
    doc="Each element with the other sign.",
    example=("gradlib.neg(gradlib.tensor([1.0, -2.0]))", "tensor([-1.,  2.])"),
)
reciprocal = unary(
    "reciprocal",
    lambda g, result: -g * (result * result).conjugate(),
    autocast="cuda:float32",
    domain=(0.3, 2.0),
    complex=True,
    doc="1 / x of each element; inf at 0.",
    example=("gradlib.reciprocal(gradlib.tensor([2.0, -4.0]))", "tensor([ 0.5000, -0.2500])"),
)
square = unary(
    "square",
    lambda g, self: g * (2 * self).conjugate(),
    promote="number",
    complex=True,
    doc="x * x of each element; of integers without what does not fit into their dtype.",
    example=("gradlib.square(gradlib.tensor([-2.0, 3.0]))", "tensor([4., 9.])"),
)


@function("positive", method=True)
def positive(input):
    """`input` itself: the unary ``+``.

    Args:
        input: a tensor of any dtype but bool.

    Returns:
        The same tensor.

    Raises:
        RuntimeError: a bool tensor.

    Example:
        >>> gradlib.positive(gradlib.tensor([1, -2]))
        tensor([ 1, -2])
    """
    if input._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def _legacy(name: str, *args) -> tuple[list, list]:
    """``add(input, alpha, other)``: ([input, other], [alpha])."""
    tensors, factors = legacy(name, args, {"alpha": 1})
    if len(tensors) != 2:
        raise TypeError(f"{name}() takes 2 tensors besides alpha, but {len(tensors)} were given")
    return tensors, factors


def _times_alpha(name: str, op, input, other, alpha):
    """``alpha * other`` of a sum or difference, whose operands are checked before: the product is no bool."""
    if op is sub_op and (wrong := _refuse_bool_minus((input, other))) is not None:
        raise wrong
    return times_alpha(name, input, other, alpha)


@function("add", method=True)
def add(input, other, *more, alpha=1, out=None):
    """``input + alpha * other``, with broadcasting.

    Raises RuntimeError: shapes do not broadcast.

    Example:
        >>> gradlib.add(gradlib.ones(2), 3, alpha=2)
        tensor([7., 7.])
    """
    if more:
        (input, other), (alpha,) = _legacy("add", input, other, *more)
    if alpha.__class__ is not int or alpha != 1:
        other = times_alpha("add", input, other, alpha)
    return add_op.call(input, other, out=out)


@function("sub", "subtract", method=True)
def sub(input, other, *more, alpha=1, out=None):
    """``input - alpha * other``, with broadcasting.

    Raises RuntimeError: shapes do not broadcast. Bool tensors are refused.

    Example:
        >>> gradlib.sub(gradlib.ones(2), 3)
        tensor([-2., -2.])
    """
    if more:
        (input, other), (alpha,) = _legacy("sub", input, other, *more)
    if alpha.__class__ is not int or alpha != 1:
        other = _times_alpha("sub", sub_op, input, other, alpha)
    return sub_op.call(input, other, out=out)


@function("rsub")
def rsub(input, other, *, alpha=1):
    """``other - alpha * input``: ``sub`` with its first two arguments exchanged.

    Args:
        input, other: tensors whose shapes broadcast; `other` may be a number.
        alpha: a number; an integer for integers.

    Returns:
        A tensor of the shape that both broadcast to and of their common dtype.

    Raises:
        RuntimeError: the shapes do not broadcast, the tensor is bool, or a floating `alpha` meets integers.

    Example:
        >>> gradlib.rsub(gradlib.tensor([1, 2]), 10, alpha=2)
        tensor([8, 6])
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"rsub() received an invalid combination of arguments - got ({type(input).__name__}, "
            f"{type(other).__name__}), but expected one of:\n * (Tensor input, Tensor other, *, Number alpha = 1)\n"
            " * (Tensor input, Number other, Number alpha = 1)"
        )
    if isinstance(alpha, Tensor) and (alpha.ndim or alpha._rg):
        raise TypeError(
            "rsub() received an invalid combination of arguments - got (Tensor, "
            f"{type(other).__name__}, alpha=Tensor), but expected one of:\n"
            " * (Tensor input, Tensor other, *, Number alpha = 1)\n * (Tensor input, Number other, Number alpha = 1)"
        )
    return sub(other, input, alpha=alpha)


@function("div", "divide", method=True)
def div(input, other, *, rounding_mode=None, out=None):
    """``input / other``; rounding_mode "trunc" or "floor" rounds the quotient (integers stay integers).

    Raises RuntimeError: shapes do not broadcast, or another rounding_mode.

    Example:
        >>> gradlib.div(gradlib.tensor([7.0, -7.0]), 2, rounding_mode="floor")
        tensor([ 3., -4.])
    """
    if rounding_mode is None:
        return div_op.call(input, other, out=out)
    return write_out(apart(out, input, other), _rounded(rounding_mode).call(input, other))


def _rounded(rounding_mode):
    """The op for a rounding mode."""
    if rounding_mode == "trunc":
        return trunc_divide_op
    if rounding_mode == "floor":
        return floor_divide_op
    raise RuntimeError(
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
    )


@function("true_divide", method=True)
def true_divide(input, other, *, out=None):
    """``input / other``: ``div`` without rounding.

    Args:
        input, other: tensors whose shapes broadcast; `other` may be a number.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that both broadcast to, of their common floating dtype; for integers the default one.

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> gradlib.true_divide(gradlib.tensor([1, 2]), 2)
        tensor([0.5000, 1.0000])
    """
    return div_op.call(input, other, out=out)


def _check_integers(xp, self, other, name: str):
    """Refuse bools, and integers that would be divided by zero."""
    if other.dtype.kind == "b":
        raise unsupported(f"{name}_cpu", dtypes.bool_)
    some = getattr(self, "size", 1)  # a number is one
    if some and other.dtype.kind in "iub" and not xp.all(other):
        raise RuntimeError("ZeroDivisionError")


def _floor_divide(xp, self, other):
    _check_integers(xp, self, other, "div_floor")
    return xp.floor_divide(self, other)


def _trunc_divide(xp, self, other):
    _check_integers(xp, self, other, "div_trunc")
    if self.dtype.kind in "iu":
        quotient = xp.floor_divide(self, other)
        return quotient + ((quotient < 0) & (quotient * other != self))
    return xp.trunc(xp.true_divide(self, other))


floor_divide_op = declare(
    "floor_divide", _floor_divide, elementwise=True,
    self=lambda F, g: F.zeros_like(g), other=lambda F, g: F.zeros_like(g), node="DivBackward0",
    complex=False)  # fmt: skip
trunc_divide_op = declare(
    "trunc_divide", _trunc_divide, public="div", elementwise=True, in_float32=False,  # the quotient is rounded
    self=lambda F, g: F.zeros_like(g), other=lambda F, g: F.zeros_like(g), node="DivBackward0",
)  # fmt: skip


quotient_op = declare(
    "floor_quotient", _floor_divide, elementwise=True, node="NotImplemented", complex=False,
    self=missing("floor_divide", True), other=missing("floor_divide", True),
    public="div",
    samples=lambda t: [(t(3, 4, requires_grad=False), t(4, low=1, high=2, requires_grad=False))],
)  # fmt: skip


@function("floor_divide", method=True)
def floor_divide(input, other, *, out=None):
    """The largest whole number that is not above ``input / other``; unlike ``div`` with rounding it has no derivative.

    Args:
        input, other: real tensors whose shapes broadcast; `other` may be a number.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that both broadcast to and of their common dtype.

    Raises:
        RuntimeError: the shapes do not broadcast, or an integer is divided by 0.

    Example:
        >>> gradlib.floor_divide(gradlib.tensor([-3, 3]), 2)
        tensor([-2,  1])
    """
    return write_out(apart(out, input, other), quotient_op.call(input, other))


def _whole(F, self, other):
    """The whole number of times that `other` goes into `self`; floor(self / other) where there is no remainder.

    The remainder is computed again, not saved: an in-place op may be followed by other writes.
    """
    remainder = F.fmod(self, other)
    known = remainder == remainder
    return F.where(known, F.round((self - remainder) / other, 0), F.floor(self / other))


remainder = pointwise(
    "remainder", lambda xp, self, other: (_check_integers(xp, self, other, "remainder"), xp.remainder(self, other))[1],
    self=lambda g: g, other=lambda F, g, self, other: -g * F.floor_divide(self, other),
    refuses="bool complex", doc="Remainder of the division, with the sign of `other`.",
    example=("gradlib.remainder(gradlib.tensor([-3.0, 3.0]), 2)", "tensor([1., 1.])"),
    complex=False, numbers="one")  # fmt: skip
fmod = pointwise(
    "fmod", lambda xp, self, other: (_check_integers(xp, self, other, "fmod"), xp.fmod(self, other))[1],
    self=lambda g: g, other=lambda F, g, self, other: -g * _whole(F, self, other),
    refuses="bool complex", doc="Remainder of the division, with the sign of `input`.",
    example=("gradlib.fmod(gradlib.tensor([-3.0, 3.0]), 2)", "tensor([-1.,  1.])"),
    complex=False, numbers="second")  # fmt: skip


# -- powers ------------------------------------------------------------------------------------------------------


def _pow(xp, self, other):
    """Powers; of integers to negative powers only those of 1 and -1 are not 0."""
    if self.dtype.kind == "b":
        raise unsupported("pow", dtypes.bool_)
    if self.dtype.kind in "iu" and other.dtype.kind == "i" and xp.any(other < 0):
        ok = other >= 0
        unit = xp.where(self == 1, 1, xp.where(self == -1, xp.where(other % 2 == 0, 1, -1), 0))
        return xp.where(ok, xp.power(self, xp.where(ok, other, 0)), unit).astype(self.dtype)
    power = xp.power(self, other)
    if self.dtype.kind == "c":  # PyTorch leaves 0**0 undefined
        power = xp.where((self == 0) & (other == 0), complex(math.nan, math.nan), power)
    return power


def _grad_base(F, g, base, exponent):
    """g * d(base**exponent)/d(base), 0 where the exponent is 0 (also at base 0)."""
    if not hasattr(exponent, "shape"):
        if exponent == 0:
            return F.zeros_like(g)
        if exponent == 1:
            return g
        raw_square = exponent == 2 and F.backend is not None  # PyTorch calls pow for squares, too
        power = base if raw_square else F.pow_number(base, exponent - 1)
        return g * (power * exponent).conjugate()
    return F.where(
        exponent == 0, 0.0, g * (exponent * F.pow_tensors(base, exponent - 1)).conjugate()
    )


def _log(base, to_complex: bool):
    """The logarithm of a number that is not 0: nan of a negative one, as of a tensor, unless it is to be complex."""
    if to_complex or isinstance(base, complex):
        return cmath.log(base)
    return math.log(base) if base > 0 else math.nan


def _grad_exponent(F, g, base, result, exponent):
    """g * result * log(base), 0 where base is 0 and the exponent is not negative."""
    if not hasattr(base, "shape"):
        return (
            g * (result * _log(base, F.is_complex(exponent))).conjugate()
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
    if exponent is True:
        return self.copy()
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
    power = xp.power(self, exponent)  # NumPy makes float32 of bfloat16
    return power.astype(self.dtype) if self.dtype.kind == "V" else power


pow_number = declare(
    "pow_number",
    _pow_number,
    autocast="cuda:float32",
    public="pow",
    node="PowBackward0",
    jvp="elementwise",
    inplace=True,
    pointwise=True,
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
    batch="elementwise",
)
pow_tensors = declare(
    "pow_tensors", _pow,
    autocast="cuda:float32", public="pow", elementwise=True, node="PowBackward1", domain=(0.5, 2.0), complex=True,
    self=lambda F, g, self, other: _grad_base(F, g, self, other),
    other=lambda F, g, self, other, result: _grad_exponent(F, g, self, result, other),
)  # fmt: skip


def _invalid_pow(input, exponent) -> TypeError:
    given = f"({type(input).__name__}, {type(exponent).__name__})"
    return TypeError(
        f"pow() received an invalid combination of arguments - got {given}, but expected one of:\n"
        " * (Tensor input, Tensor exponent, *, Tensor out = None)\n"
        " * (Number self, Tensor exponent, *, Tensor out = None)\n"
        " * (Tensor input, Number exponent, *, Tensor out = None)"
    )


def _python_number(exponent):
    """A NumPy number as Python's, so that the dtype of it does not count; anything else as it is."""
    if not isinstance(exponent, np.generic) or exponent.dtype not in dtypes.BY_NP:
        return exponent
    return exponent.item()


def _keeps_dtype(input: Tensor, exponent) -> bool:
    """Whether a power by a number has the dtype of `input`; RuntimeError for negative powers of integers."""
    kind = input._array.dtype.kind
    if exponent.__class__ in (int, float) and kind in "fc":
        return True
    if not isinstance(exponent, (int, float, complex, np.number, np.bool_)):
        raise _invalid_pow(input, exponent)
    if kind in "iub" and isinstance(exponent, int) and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if kind == "b" and exponent is True:
        return True
    if isinstance(exponent, (float, np.floating)):
        return kind in "fc"
    return kind in ("c" if isinstance(exponent, complex) else "iufcV")


@function("pow", method=True)
def pow(input, exponent, *, out=None):
    """``input ** exponent`` for tensors and numbers on either side.

    Raises RuntimeError: a negative power of integers, or shapes that do not broadcast.

    Example:
        >>> gradlib.pow(gradlib.tensor([2.0, 3.0]), 2)
        tensor([4., 9.])
    """
    if not isinstance(exponent, Tensor):
        if not isinstance(input, Tensor):
            raise _invalid_pow(input, exponent)
        exponent = _python_number(exponent)
        op = pow_number if _keeps_dtype(input, exponent) else pow_tensors
        if out is None:
            return op.call(input, exponent)
        return write_out(apart(out, input), op.call(input, exponent))
    return write_out(apart(out, input, exponent), pow_tensors.call(input, exponent))


@method("pow_")
def pow_(self, exponent):
    """In-place version of ``pow``."""
    exponent = _python_number(exponent)
    if isinstance(exponent, Tensor) or not _keeps_dtype(self, exponent):
        return inplace(pow_tensors, self, (exponent,))
    return inplace(pow_number, self, (), (exponent,))


def _widen(x):
    """An argument of float_power in double precision."""
    if isinstance(x, Tensor):
        return x.to(dtypes.complex128 if x.is_complex() else dtypes.float64)
    return x if isinstance(x, complex) else float(x)


@function("float_power", method=True)
def float_power(input, exponent, *, out=None):
    """``input ** exponent``, computed in float64, of complex arguments in complex128.

    Args:
        input, exponent: tensors whose shapes broadcast; one of them may be a number.
        out: written to instead of a new tensor.

    Returns:
        A float64 or complex128 tensor of the shape that both broadcast to.

    Raises:
        RuntimeError: the shapes do not broadcast; `out` is of another dtype.

    Example:
        >>> gradlib.float_power(gradlib.tensor([2, 3]), 2)
        tensor([4., 9.], dtype=torch.float64)
    """
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError(str(_invalid_pow(input, exponent)).replace("pow", "float_power", 1))
    some = input if isinstance(input, Tensor) else exponent
    wide = any(_is_complex(x) for x in (input, exponent))
    want = dtypes.complex128 if wide else dtypes.float64
    if out is not None and out.dtype is not want:
        raise RuntimeError(
            "the output given to float_power has dtype "
            f"{out.dtype.scalar_type} but the operation's result requires dtype {want.scalar_type}"
        )
    result = pow(_widen(input), _widen(exponent))
    return write_out(out, result.to(want) if some is not result else result)


def _is_complex(x) -> bool:
    return x.is_complex() if isinstance(x, Tensor) else isinstance(x, complex)


@method("float_power_")
def float_power_(self, exponent):
    """In-place version of ``float_power``; the tensor must have the dtype of the result."""
    want = dtypes.complex128 if _is_complex(self) or _is_complex(exponent) else dtypes.float64
    if self.dtype is not want:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.scalar_type} but the operation's result requires "
            f"dtype {want.scalar_type}"
        )
    return pow_(self, _widen(exponent))


sqrt = unary(
    "sqrt",
    lambda g, result: g / (2 * result).conjugate(),
    domain=(0.1, 3.0),
    complex=True,
    doc="The square root of each element; nan below 0.",
    example=("gradlib.sqrt(gradlib.tensor([4.0, 2.0]))", "tensor([2.0000, 1.4142])"),
)
rsqrt = unary(
    "rsqrt",
    lambda g, result: -0.5 * g * (result * result * result).conjugate(),
    autocast="cuda:float32",
    forward=lambda xp, self: xp.reciprocal(xp.sqrt(self)),
    domain=(0.1, 3.0),
    complex=True,
    doc="1 / sqrt(x) of each element; inf at 0, nan below it.",
    example=("gradlib.rsqrt(gradlib.tensor([4.0, 0.25]))", "tensor([0.5000, 2.0000])"),
)


for _name, _fn, _op in (
    ("add", add, add_op),
    ("sub", sub, sub_op),
    ("subtract", sub, sub_op),
    ("div", div, div_op),
    ("divide", div, div_op),
    ("true_divide", true_divide, div_op),
    ("floor_divide", floor_divide, quotient_op),
):

    def _in_place(self, other, *, alpha=1, rounding_mode=None, _op=_op, _name=_name + "_"):
        op = _op
        if rounding_mode is not None:
            op = _rounded(rounding_mode)
        if alpha.__class__ is not int or alpha != 1:
            if alpha.__class__ is float or (alpha.__class__ is int and -WHOLE < alpha < WHOLE):
                done = scaled(op, self, other, float(alpha))
                if done is not None:
                    return done
            if isinstance(other, Tensor) and other is not self and in_the_way(op, self, other):
                raise RuntimeError(errors.PARTIAL_OVERLAP)
            other = _times_alpha(_name, op, self, other, alpha)
        elif rounding_mode is None and (done := scaled(op, self, other, None)) is not None:
            return done
        return inplace(op, self, (other,))

    _in_place.__name__ = _in_place.__qualname__ = _name + "_"
    _in_place.__doc__ = in_place_text(_name)
    setattr(Tensor, _name + "_", _in_place)
