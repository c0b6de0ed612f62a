"""Piecewise linear activation functions: pointwise, each with one node as in PyTorch.

Their first derivatives are piecewise constant; `dependent` makes them functions of the arguments all the same.
"""

from __future__ import annotations

from ...op.declare import declare
from ...op.expose import FOUND, PUBLIC, function, write_same
from ...op.inplace import inplace
from ...op.plain_numbers import SMALL, plain_number, python_number
from ...op.pointwise import unary
from ...op.vmap import draws
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.modes import AUTOCAST, state
from ...tape.tensor import Tensor
from ..kinds import check_kind, floating, unsupported
from ..random.draw import draw_new
from ..random.uniform_normal import draw_uniform
from .activation import activation, run

BOOL = dtypes.bool_.np


def _relu(xp, self):
    if self.dtype is BOOL:
        raise RuntimeError("Boolean inputs not supported for relu")
    return xp.maximum(0, self)  # in this order -0.0 stays what it is


relu_op = unary(
    "relu",
    lambda F, g, result: F.where(result <= 0, 0.0, g),
    dependent="self",
    forward=_relu,
    promote="same",
    domain=(0.1, 2.0),
    complex=False,
    refuses="complex/bool",
    doc="max(x, 0) of each element; nan stays nan. The gradient at 0 is 0.",
    example=("gradlib.relu(gradlib.tensor([-1.0, 2.0]))", "tensor([0., 2.])"),
)


def _leaky_relu(xp, self, *, negative_slope):
    if 0 < negative_slope <= 1:  # not 0, which times infinity is nan
        return xp.maximum(self, self * negative_slope)
    return xp.where(self > 0, self, self * negative_slope)


leaky_relu_op = activation(
    "leaky_relu", _leaky_relu, lambda F, g, self, negative_slope: F.where(self > 0, g, g * negative_slope),
    ((0.01,), (-0.5,)), domain=(0.1, 2.0), dependent="self",
)  # fmt: skip


@floating
def _hardtanh_floating(xp, self, *, min_val, max_val):
    return xp.clip(self, min_val, max_val)


def _hardtanh(xp, self, *, min_val, max_val):
    kind = self.dtype.kind
    if kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if kind not in "iu":
        return _hardtanh_floating(xp, self, min_val=min_val, max_val=max_val)
    if kind == "u" and (int(min_val) < 0 or int(max_val) < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return xp.clip(self, int(min_val), int(max_val))


hardtanh_op = declare(
    "hardtanh", _hardtanh, elementwise=True, dependent="self",
    self=lambda F, g, self, min_val, max_val: F.where((self <= min_val) | (self >= max_val), 0.0, g),
    samples=lambda t: [(t(3, 4), -1.0, 1.0), (t(3, 4), -0.5, 3.0), (t(), -1.0, 1.0), (t(0, 2), -1.0, 1.0)],
)  # fmt: skip
hardsigmoid_op = activation(
    "hardsigmoid", lambda xp, self: xp.clip(self * (1 / 6) + 0.5, 0, 1),
    lambda F, g, self: F.where((self > -3) & (self < 3), g * (1 / 6), 0.0), domain=(-4.0, 4.0), dependent="self",
)  # fmt: skip
hardswish_op = activation(
    "hardswish", lambda xp, self: self * xp.clip(self + 3, 0, 6) * (1 / 6),
    lambda F, g, self: F.where(self <= -3, 0.0, g * F.where(self >= 3, 1.0, self * (1 / 3) + 0.5)), domain=(-4.0, 4.0),
)  # fmt: skip
hardshrink_op = activation(
    "hardshrink",
    lambda xp, self, *, lambd: xp.where((self >= -lambd) & (self <= lambd), 0, self).astype(
        self.dtype, copy=False
    ),
    lambda F, g, self, lambd: F.where((self >= -lambd) & (self <= lambd), 0.0, g),
    ((0.5,), (1.0,)),
    dependent="self",
)
softshrink_op = activation(
    "softshrink", lambda xp, self, *, lambd: self - xp.clip(self, -lambd, lambd),
    lambda F, g, self, lambd: F.where((self >= -lambd) & (self <= lambd), 0.0, g), ((0.5,), (1.0,)), dependent="self",
    refused="softshrink_check",
)  # fmt: skip


def _threshold(xp, self, *, threshold, value):
    if self.dtype.kind in "bc":
        raise unsupported("threshold_cpu", self)
    return xp.where(self <= threshold, xp.number(value, self.dtype), self)


threshold_op = declare(
    "threshold", _threshold, elementwise=True, dependent="self",
    self=lambda F, g, self, threshold: F.where(self <= threshold, 0.0, g),
    samples=lambda t: [(t(3, 4), 0.1, 20.0), (t(), -1, 2), (t(0, 2), 0, 0)],
)  # fmt: skip


def _limits(input, threshold, value) -> tuple:
    """Both numbers in the dtype of `input`, in which PyTorch compares and stores them."""
    threshold = python_number(threshold, "threshold(): argument 'threshold'")
    value = python_number(value, "threshold(): argument 'value'")
    if input.dtype.category in (dtypes.BOOL, dtypes.COMPLEX):
        return threshold, value
    return plain_number(threshold, input.dtype), plain_number(value, input.dtype)


@function("threshold")
def threshold(input, threshold, value, inplace=False):
    """`input` where it is above `threshold`, else `value`.

    Args:
        input: a real tensor of any shape.
        threshold, value: numbers.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype; its gradient is 0 where `value` stands.

    Example:
        >>> gradlib.threshold(gradlib.tensor([-1.0, 2.0]), 0.5, 9.0)
        tensor([9., 2.])
    """
    return run(threshold_op, input, inplace, *_limits(input, threshold, value))


@function("threshold_")
def threshold_(input, threshold, value):
    """In-place version of ``threshold``."""
    return inplace(threshold_op, input, (), _limits(input, threshold, value))


def relu(input, inplace=False):
    """``max(x, 0)``; nan stays nan. The gradient at 0 is 0.

    Args:
        input: a real tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: a bool tensor.

    Example:
        >>> F.relu(gradlib.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return input.relu_() if inplace else relu_op.call(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``x`` where positive, else ``negative_slope * x``.

    Args:
        input: a floating tensor of any shape.
        negative_slope: a number.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.leaky_relu(gradlib.tensor([-1.0, 2.0]))
        tensor([-0.0100,  2.0000])
    """
    if negative_slope.__class__ is not float:
        negative_slope = python_number(negative_slope, "leaky_relu(): argument 'negative_slope'")
    return run(leaky_relu_op, input, inplace, negative_slope)


def leaky_relu_(input, negative_slope=0.01):
    """In-place version of ``leaky_relu``: the result is written into `input`.

    Args:
        input: a floating tensor of any shape.
        negative_slope: a number.

    Returns:
        `input`.

    Raises:
        RuntimeError: a leaf that requires grad, or a view of one.

    Example:
        >>> F.leaky_relu_(gradlib.tensor([-1.0, 2.0]))
        tensor([-0.0100,  2.0000])
    """
    slope = python_number(negative_slope, "leaky_relu_(): argument 'negative_slope'")
    return inplace(leaky_relu_op, input, (), (slope,))


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """`input` limited to [min_val, max_val]; its gradient is 0 at the bounds and beyond them.

    Args:
        input: a real tensor of any shape.
        min_val, max_val: numbers in this order.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: `min_val` is above `max_val`.

    Example:
        >>> F.hardtanh(gradlib.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    dtype = input.dtype
    category = dtype.category
    for bound in (min_val, max_val):
        if category == dtypes.INTEGER:
            bound = plain_number(bound, dtypes.int64)
        if category < dtypes.COMPLEX:
            plain_number(bound, dtype)
    if min_val.__class__ is not float or max_val.__class__ is not float:
        min_val = python_number(min_val, "hardtanh(): argument 'min_val'")
        max_val = python_number(max_val, "hardtanh(): argument 'max_val'")
    return run(hardtanh_op, input, inplace, min_val, max_val)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """In-place version of ``hardtanh``: the result is written into `input`.

    Args:
        input: a real tensor of any shape.
        min_val, max_val: numbers in this order.

    Returns:
        `input`.

    Raises:
        RuntimeError: a leaf that requires grad, or a view of one.

    Example:
        >>> F.hardtanh_(gradlib.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    return hardtanh(input, min_val, max_val, True)


def relu6(input, inplace=False):
    """``min(max(x, 0), 6)``.

    Args:
        input: a real tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> F.relu6(gradlib.tensor([-1.0, 2.0, 8.0]))
        tensor([0., 2., 6.])
    """
    return run(hardtanh_op, input, inplace, 0.0, 6.0)


def hardsigmoid(input, inplace=False):
    """``min(max(x + 3, 0), 6) / 6``: a sigmoid of three straight lines.

    Args:
        input: a floating tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.hardsigmoid(gradlib.tensor([-4.0, 0.0, 1.5]))
        tensor([0.0000, 0.5000, 0.7500])
    """
    return run(hardsigmoid_op, input, inplace)


def hardswish(input, inplace=False):
    """``x * min(max(x + 3, 0), 6) / 6``.

    Args:
        input: a floating tensor of any shape.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> F.hardswish(gradlib.tensor([-4.0, 1.5, 4.0]))
        tensor([-0.0000, 1.1250, 4.0000])
    """
    return run(hardswish_op, input, inplace)


@function("hardshrink", method=True)
def hardshrink(input, lambd=0.5, *, out=None):
    """0 where ``|x| <= lambd``, else `input`.

    Args:
        input: a floating tensor of any shape.
        lambd: the bound.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        NotImplementedError: integers.

    Example:
        >>> gradlib.hardshrink(gradlib.tensor([-1.0, 0.25, 2.0]))
        tensor([-1.,  0.,  2.])
    """
    plain_number(lambd, input.dtype)
    lambd = python_number(lambd, "hardshrink(): argument 'lambd'")
    result = hardshrink_op.call(input, lambd)
    return result if out is None else write_same(out, result, FOUND)


def softshrink(input, lambd=0.5, *, out=None):
    """`input` moved towards 0 by `lambd`; 0 where ``|x| <= lambd``.

    Args:
        input: a floating tensor of any shape.
        lambd: a number, 0 or more.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: a negative `lambd`.
        NotImplementedError: integers.

    Example:
        >>> F.softshrink(gradlib.tensor([-1.0, 0.25, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """
    if not 0 <= lambd <= SMALL and input.is_floating_point():
        high = dtypes.finfo(input.dtype).max
        if not 0 <= lambd <= high:
            raise RuntimeError(
                f"lambda must be in range [0, {high:g}] for input dtype {input.dtype.scalar_type}, but found {lambd:g}"
            )
    lambd = python_number(lambd, "softshrink(): argument 'lambd'")
    result = softshrink_op.call(input, lambd)
    return result if out is None else write_same(out, result, FOUND)


# -- with a second tensor or a mask ------------------------------------------------------------------------------------


def _prelu(xp, self, weight):
    check_kind(self, "prelu_cpu")
    return xp.where(self > 0, self, self * weight)


def _refuse_mixed(args: tuple) -> RuntimeError | None:
    kinds = [a.dtype.scalar_type for a in args]
    if kinds[0] == kinds[1]:
        return None
    return RuntimeError("prelu: Type promoting not supported. Got {} and {}".format(*kinds))


prelu_op = declare(
    "prelu_kernel", _prelu, autocast="lower", public="_prelu_kernel", elementwise=True, check=_refuse_mixed,
    dependent="self weight",
    self=lambda F, g, self, weight: F.where(self > 0, g, g * weight),
    weight=lambda F, g, self: F.where(self > 0, 0.0, g * self),
    samples=lambda t: [(t(3, 4), t(3, 4)), (t(2, 3, 4), t(3, 1)), (t(), t()), (t(0, 2), t(1))],
)  # fmt: skip


@function("prelu", method=True)
def prelu(input, weight):
    """``x`` where positive, else ``weight * x``, with a slope that can be learnt.

    Args:
        input: a floating tensor of any shape.
        weight: a tensor of one element, or a vector with one for each channel (dimension 1), of the dtype of `input`.

    Returns:
        A tensor of the same shape and dtype; gradients flow to both.

    Raises:
        RuntimeError: another number of weights, or another dtype.

    Example:
        >>> gradlib.prelu(gradlib.tensor([[-1.0, -1.0]]), gradlib.tensor([0.5, 0.25]))
        tensor([[-0.5000, -0.2500]])
    """
    wrong = _refuse_mixed((input, weight))
    if wrong is not None and not state.bits & AUTOCAST:
        raise wrong
    check_kind(input._array, "prelu_cpu")
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if input.ndim > 1 and weight.ndim == 1:
        weight = weight.view(-1, *[1] * (input.ndim - 2)) if weight.numel() != 1 else weight
    elif input.ndim == 0:
        weight = weight.reshape(())
    return prelu_op.call(input, weight)


@function("rrelu")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky relu with a random slope for each negative element.

    Args:
        input: a floating tensor of any shape.
        lower, upper: the slopes are drawn from [lower, upper).
        training: without it the slope is ``(lower + upper) / 2`` and nothing is drawn.
        inplace: write the result into `input`.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: `lower` is above `upper`.
        NotImplementedError: `input` is not floating.

    Example:
        >>> gradlib.rrelu(gradlib.tensor([-1.0, 2.0]), 0.25, 0.75)
        tensor([-0.5000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not inplace:
        input = input.contiguous()  # the result is row-major whatever the input
    if not training:
        slope = python_number((lower + upper) / 2, "rrelu(): argument 'lower'")
        return run(leaky_relu_op, input, inplace, slope)
    check_kind(input._array, "rrelu_with_noise_out_cpu")
    # a product, so that the factors are saved as all tensors are: hooks see them, and backward frees them
    factor = _slope(input.detach(), lower, upper).where(input.detach() <= 0, 1)
    return input.mul_(factor) if inplace else input * factor


@draws
def _slope(like, lower: float, upper: float) -> Tensor:
    """Random slopes for the elements of `like`."""

    x = like._array
    slope = draw_new(None, like.device, draw_uniform, x.shape, x.dtype, lower, upper)
    return Tensor._make(backend_of(x).asarray(slope))


@function("rrelu_")
def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """In-place version of ``rrelu``."""
    return rrelu(input, lower, upper, training, True)


PUBLIC.setdefault("relu", relu_op.call)
