"""Losses of the difference of two numbers: squared, absolute, smooth L1, Huber."""

from __future__ import annotations

import warnings

from ...op.declare import declare
from ...op.expose import PUBLIC
from ...op.inplace import check_cast
from ...op.plain_numbers import python_number
from ...tape.tensor import Tensor
from ..kinds import floating
from .loss_base import (
    MEAN,
    NONE,
    SUM,
    in_wide,
    pointwise_loss,
    reduced,
    reduction_number,
    share,
    sum_or_mean,
)


def _pair(input, target, name: str):
    """Input and target broadcast to one shape; a warning as PyTorch's when they differ."""
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}(): argument 'target' must be Tensor, not {type(target).__name__}")
    if input._array.shape != target._array.shape:
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        return PUBLIC["broadcast_tensors"](input, target)
    return input, target


@floating
def _mse(xp, self, target, *, reduction):
    difference = self - target
    if reduction == NONE:
        difference *= difference
        return difference
    flat = difference.reshape(-1)
    return sum_or_mean(xp.sum_of_squares(flat), flat.size, reduction)


mse_op = declare(
    "mse_loss_op", _mse, autocast="float32", node="MseLossBackward0",
    self=lambda F, g, self, target, reduction: in_wide(
        F, lambda g, x, y: (x - y) * share(g * 2.0, x, reduction), g, self, target
    ),
    target=lambda F, g, self, target, reduction: in_wide(
        F, lambda g, x, y: (y - x) * share(g * 2.0, x, reduction), g, self, target
    ),
    public="mse_loss",
    samples=lambda t: [
        (t(3, 4), t(3, 4), NONE), (t(3, 4), t(3, 4), MEAN), (t(3), t(3), SUM), (t(), t(), MEAN), (t(0), t(0), SUM),
    ],
    batch="losses",
)  # fmt: skip


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The squared error.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        weight: of the shape of `input`: each error times that, the mean over the sum of the weights.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.mse_loss(gradlib.tensor([1.0, 3.0]), gradlib.zeros(2))
        tensor(5.)
    """
    number = reduction_number(reduction, size_average, reduce)
    input, target = _pair(input, target, "mse_loss")
    if weight is None:
        return mse_op.call(input, target, number)
    return _weighted(mse_op.call(input, target, NONE), weight, input, number)


def _times_weight(losses, weight, input):
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    return losses * weight


def _weighted(losses, weight, input, number):
    losses = _times_weight(losses, weight, input)
    return losses.sum() / weight.sum() if number == MEAN else reduced(losses, number)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The absolute error; its gradient at 0 is 0.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        weight: of the shape of `input`: each error times that, the mean over the sum of the weights.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.l1_loss(gradlib.tensor([1.0, -3.0]), gradlib.zeros(2))
        tensor(2.)
    """
    number = reduction_number(reduction, size_average, reduce)
    input, target = _pair(input, target, "l1_loss")
    losses = (input - target).abs()
    return reduced(losses, number) if weight is None else _weighted(losses, weight, input, number)


def _huber_of(xp, self, target, delta, scale):
    """The error squared and halved up to `delta`, then straight on; all over `scale`."""

    def kernel(xp, x, y):
        e = xp.absolute(x - y)
        near = xp.clip(e, 0.0, delta)  # with it both branches are one expression
        e -= 0.5 * near
        if scale != 1:
            near /= scale
        e *= near
        return e

    return xp.in_pieces(kernel, self, target)


def _smooth_l1(xp, self, target, *, beta):
    return _huber_of(xp, self, target, beta, beta)


def _huber(xp, self, target, *, delta):
    return _huber_of(xp, self, target, delta, 1)


smooth_l1_op = pointwise_loss(
    "smooth_l1_loss",
    _smooth_l1,
    lambda F, x, y, beta: F.clamp_number((x - y) * (1 / beta), -1.0, 1.0),
    ((1.0,), (0.5,)),
    autocast="float32",
    node="SmoothL1LossBackward0",
    other=lambda F, x, y, beta: F.clamp_number((y - x) * (1 / beta), -1.0, 1.0),
)
huber_op = pointwise_loss(
    "huber_loss", _huber, lambda F, x, y, delta: F.clamp_number(x - y, -delta, delta), ((1.0,), (0.5,)),
    autocast="float32", node="HuberLossBackward0", other=lambda F, x, y, delta: F.clamp_number(y - x, -delta, delta),
)  # fmt: skip


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """``e**2 / (2 * beta)`` of errors below `beta`, ``|e| - beta / 2`` of larger ones.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        beta: where the parabola meets the line, 0 or more.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast; a negative `beta`.

    Example:
        >>> F.smooth_l1_loss(gradlib.tensor([0.5, -3.0]), gradlib.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    number = reduction_number(reduction, size_average, reduce)
    beta = python_number(beta, "smooth_l1_loss(): argument 'beta'")
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    input, target = _pair(input, target, "smooth_l1_loss")
    if beta == 0:
        return reduced((input - target).abs(), number)
    return smooth_l1_op.call(input, target, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """``e**2 / 2`` of errors up to `delta`, ``delta * (|e| - delta / 2)`` of larger ones.

    Args:
        input, target: tensors whose shapes broadcast; a warning if they differ.
        delta: where the parabola meets the line, positive.
        weight: of the shape of `input`: each error times that; the mean is one over all elements.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast; `delta` is not positive.

    Example:
        >>> F.huber_loss(gradlib.tensor([0.5, -3.0]), gradlib.zeros(2), reduction="none")
        tensor([0.1250, 2.5000])
    """
    number = reduction_number(reduction)
    delta = python_number(delta, "huber_loss(): argument 'delta'")
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    input, target = _pair(input, target, "huber_loss")
    check_cast(target.dtype, input.dtype)
    target = target.to(input.dtype)
    if weight is None:
        return huber_op.call(input, target, number, delta)
    losses = _times_weight(huber_op.call(input, target, NONE, delta), weight, input)
    return reduced(losses, number)
