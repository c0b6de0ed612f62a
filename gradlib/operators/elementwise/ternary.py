"""Pointwise ops of three tensors: addcmul, addcdiv, lerp."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op.declare import declare
from ...op.expose import (
    FOUND,
    apart,
    c_type,
    function,
    legacy,
    method,
    need_tensor,
    write_out,
    write_same,
)
from ...op.inplace import inplace
from ...op.interpret import common_dtype
from ...op.plain_numbers import check_factor, python_number
from ...op.updates import combined
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..kinds import narrow, refuse, unsupported

# -- input + value * (tensor1 times or over tensor2) --------------------------------------------------------------


def _addcmul(xp, self, tensor1, tensor2, *, value):
    if self.dtype.kind == "b":
        raise unsupported("addcmul_cpu_out", dtypes.bool_)
    wide = xp.wide(self)
    product = xp.wide(tensor1) * xp.wide(tensor2)
    if value != 1:
        product = product * wide.dtype.type(value)
    return narrow(wide + product, self.dtype)


def _addcdiv(xp, self, tensor1, tensor2, *, value):
    wide = xp.wide(self)
    top = xp.wide(tensor1)
    if value != 1:
        top = top * wide.dtype.type(value)
    return narrow(wide + top / xp.wide(tensor2), self.dtype)


def _samples(t):
    return [
        (t(3, 4), t(4, low=0.5), t(3, 1, low=0.5), 0.5),
        (t(), t(2, 3, low=0.5), t(3, low=0.5), 1),
        (t(0, 2), t(2, low=0.5), t(low=0.5), 2.0),
    ]


addcmul_op = declare(
    "addcmul", _addcmul, autocast="cuda:promote", elementwise=True, complex=True, numbers="none", samples=_samples,
    self=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (tensor2 * value).conjugate(),
    tensor2=lambda g, tensor1, value: g * (tensor1 * value).conjugate(),
    expression=lambda xp, self, tensor1, tensor2, value: self + tensor1 * tensor2 * value,
)  # fmt: skip
addcdiv_op = declare(
    "addcdiv", _addcdiv, autocast="cuda:promote", elementwise=True, complex=True, numbers="none", samples=_samples,
    self=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (value / tensor2).conjugate(),
    tensor2=lambda g, tensor1, tensor2, value: -g * (value * tensor1 / (tensor2 * tensor2)).conjugate(),
    expression=lambda xp, self, tensor1, tensor2, value: self + tensor1 * value / tensor2,
)  # fmt: skip


def _factor(value: Any, *tensors) -> Any:
    """`value` in the kind of number of the result; RuntimeError for one that does not fit."""
    common = common_dtype(tensors)
    value = python_number(value, "addcmul(), addcdiv(): argument 'value'")
    fitting = check_factor(value, common)
    return fitting if common.category < dtypes.FLOATING else value


def _three(name: str, *args) -> None:
    """TypeError unless all of the arguments are tensors."""
    for i, (label, a) in enumerate(zip(("input", "tensor1", "tensor2"), args, strict=True)):
        if not isinstance(a, Tensor):
            raise need_tensor(name, a, label, i + 1)


def _legacy(name: str, *args) -> tuple[list, list]:
    """``addcmul(input, value, tensor1, tensor2)``: ([input, tensor1, tensor2], [value])."""
    tensors, factors = legacy(name, args, {"value": 1})
    if len(tensors) != 3:
        raise TypeError(f"{name}() takes 3 tensors, but {len(tensors)} were given")
    return tensors, factors


def _check_division(tensor1, tensor2) -> None:
    if max(tensor1.dtype.category, tensor2.dtype.category) < dtypes.FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: convert tensor1 or tensor2 to a floating-point "
            "dtype for a true division, or round the quotient with torch.trunc and add it yourself."
        )


@function("addcmul", method=True)
def addcmul(input, tensor1, tensor2, *more, value=1, out=None):
    """``input + value * tensor1 * tensor2``.

    Args:
        input, tensor1, tensor2: tensors whose shapes broadcast.
        more: in an old form of the call the factor comes second; it is deprecated.
        value: a number; an integer for integers.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that all broadcast to and of their common dtype.

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> gradlib.addcmul(gradlib.tensor([1.0]), gradlib.tensor([2.0]), gradlib.tensor([3.0]), value=0.5)
        tensor([4.])
    """
    if more:
        (input, tensor1, tensor2), (value,) = _legacy("addcmul", input, tensor1, tensor2, *more)
    _three("addcmul", input, tensor1, tensor2)
    value = _factor(value, input, tensor1, tensor2)
    return write_out(
        apart(out, input, tensor1, tensor2), addcmul_op.call(input, tensor1, tensor2, value)
    )


@function("addcdiv", method=True)
def addcdiv(input, tensor1, tensor2, *more, value=1, out=None):
    """``input + value * tensor1 / tensor2``.

    Args:
        input, tensor1, tensor2: tensors whose shapes broadcast.
        more: in an old form of the call the factor comes second; it is deprecated.
        value: a number.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that all broadcast to and of their common dtype.

    Raises:
        RuntimeError: the shapes do not broadcast; both parts of the quotient are integers.

    Example:
        >>> gradlib.addcdiv(gradlib.tensor([1.0]), gradlib.tensor([2.0]), gradlib.tensor([4.0]), value=3.0)
        tensor([2.5000])
    """
    if more:
        (input, tensor1, tensor2), (value,) = _legacy("addcdiv", input, tensor1, tensor2, *more)
    _three("addcdiv", input, tensor1, tensor2)
    _check_division(tensor1, tensor2)
    value = _factor(value, input, tensor1, tensor2)
    return write_out(
        apart(out, input, tensor1, tensor2), addcdiv_op.call(input, tensor1, tensor2, value)
    )


@method("addcmul_")
def addcmul_(self, tensor1, tensor2, *more, value=1):
    """In-place version of ``addcmul``."""
    if more:
        (self, tensor1, tensor2), (value,) = _legacy("addcmul_", self, tensor1, tensor2, *more)
    _three("addcmul_", self, tensor1, tensor2)
    if value.__class__ is float or value.__class__ is int:
        done = combined(addcmul_op, _add_product, self, (tensor1, tensor2), value)
        if done is not None:
            return done
    value = _factor(value, self, tensor1, tensor2)
    return inplace(addcmul_op, self, (tensor1, tensor2), (value,))


def _add_product(array, first, second, value):
    product = first * second
    if value is not None:
        product *= value
    array += product


@method("addcdiv_")
def addcdiv_(self, tensor1, tensor2, *more, value=1):
    """In-place version of ``addcdiv``."""
    if more:
        (self, tensor1, tensor2), (value,) = _legacy("addcdiv_", self, tensor1, tensor2, *more)
    _three("addcdiv_", self, tensor1, tensor2)
    if value.__class__ is float or value.__class__ is int:
        done = combined(addcdiv_op, _add_quotient, self, (tensor1, tensor2), value)
        if done is not None:
            return done
    _check_division(tensor1, tensor2)
    value = _factor(value, self, tensor1, tensor2)
    return inplace(addcdiv_op, self, (tensor1, tensor2), (value,))


def _add_quotient(array, first, second, value):
    if value is None:
        quotient = first / second
    else:
        quotient = first * value
        quotient /= second
    array += quotient


# -- linear interpolation ----------------------------------------------------------------------------------------


def _lerp_number(xp, self, end, *, weight):
    """From the nearer end, so that both ends are met exactly."""
    refuse("lerp_kernel_scalar", self, "iub")
    first, last = xp.wide(self), xp.wide(end)
    w = first.dtype.type(weight)
    if abs(w) < 0.5:
        out = first + w * (last - first)
    else:
        out = last - (last - first) * (1 - w)
    return narrow(out, self.dtype)


def _approach(array, end, weight):
    """The same in place; weight: None for 1."""
    if weight is None:
        weight = array.dtype.type(1)
    step = end - array
    if abs(weight) < 0.5:
        step *= weight
        array += step
    else:
        step *= 1 - weight
        np.subtract(end, step, array)


def _lerp_tensor(xp, self, end, weight):
    refuse("lerp_kernel_tensor", self, "iub")
    first, last, w = xp.wide(self), xp.wide(end), xp.wide(weight)
    return narrow(xp.in_pieces(_from_nearer_end, first, last, w), self.dtype)


def _from_nearer_end(xp, first, last, w):
    far = xp.absolute(w) >= 0.5
    step = (last - first) * (w - far)
    step += xp.where(far, last, first)
    return step


lerp_number = declare(
    "lerp_number", _lerp_number, public="lerp", elementwise=True, complex=True, numbers="none", node="LerpBackward0",
    self=lambda g, weight: g * (1 - weight).conjugate(),
    end=lambda g, weight: g * weight.conjugate(),
    samples=lambda t: [(t(3, 4), t(4), 0.25), (t(), t(3), 0.75), (t(0), t(), 0.5)],
)  # fmt: skip
lerp_tensor = declare(
    "lerp_tensor", _lerp_tensor, public="lerp", elementwise=True, complex=True, numbers="none", node="LerpBackward1",
    self=lambda g, weight: g * (1 - weight).conjugate(),
    end=lambda g, weight: g * weight.conjugate(),
    weight=lambda g, self, end: g * (end - self).conjugate(),
    samples=lambda t: [
        (t(3, 4), t(4), t(3, 1)), (t(), t(3), t(low=0.6, high=0.9)), (t(0), t(), t(low=0.1, high=0.4)),
    ],
)  # fmt: skip


def _check_lerp(input, end, weight):
    """The arguments of `lerp` in one dtype; TypeError or RuntimeError for what cannot be interpolated."""
    if not isinstance(weight, Tensor):
        weight = python_number(weight)
    numbers = isinstance(weight, (int, float, complex))
    if (
        not isinstance(input, Tensor)
        or not isinstance(end, Tensor)
        or not (numbers or isinstance(weight, Tensor))
    ):
        given = ", ".join(type(a).__name__ for a in (input, end, weight))
        raise TypeError(
            f"lerp() received an invalid combination of arguments - got ({given}), but expected one of:\n"
            " * (Tensor input, Tensor end, Tensor weight, *, Tensor out = None)\n"
            " * (Tensor input, Tensor end, Number weight, *, Tensor out = None)"
        )
    if end.dtype is not input.dtype:
        raise RuntimeError(f"expected dtype {c_type(input)} for `end` but got dtype {c_type(end)}")
    if numbers:
        floats = input.dtype.category >= dtypes.FLOATING
        return input, end, _factor(weight, input) if floats else weight
    if weight.dtype is not input.dtype and weight.ndim:
        raise RuntimeError(
            f"expected dtype {c_type(input)} for `weight` but got dtype {c_type(weight)}"
        )
    kind = dtypes.result_type((t.dtype, 2 if t.ndim else 1) for t in (input, end, weight))
    return input.to(kind), end.to(kind), weight.to(kind)


@function("lerp", method=True)
def lerp(input, end, weight, *, out=None):
    """``input + weight * (end - input)``, with broadcasting; `weight` is a number or a tensor.

    Raises RuntimeError: dtypes differ, or shapes do not broadcast.

    Example:
        >>> gradlib.lerp(gradlib.zeros(2), gradlib.ones(2), 0.25)
        tensor([0.2500, 0.2500])
    """
    input, end, weight = _check_lerp(input, end, weight)
    if isinstance(weight, Tensor):
        return write_same(out, lerp_tensor.call(input, end, weight), FOUND)
    return write_out(apart(out, input, end), lerp_number.call(input, end, weight))


@method("lerp_")
def lerp_(self, end, weight):
    """In-place version of ``lerp``."""
    if weight.__class__ is float and isinstance(end, Tensor):
        done = combined(lerp_number, _approach, self, (end,), weight)
        if done is not None:
            return done
    wide, end, weight = _check_lerp(self, end, weight)
    if wide.dtype.category > self.dtype.category:
        raise RuntimeError(
            f"result type {wide.dtype.scalar_type} can't be cast to the desired output type {self.dtype.scalar_type}"
        )
    if isinstance(weight, Tensor):
        return inplace(lerp_tensor, self, (end.to(self.dtype), weight.to(self.dtype)))
    return inplace(lerp_number, self, (end,), (weight,))
