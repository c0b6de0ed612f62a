"""batch_norm: one node that keeps its input, the mean and 1 / standard deviation of each channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...op.declare import declare
from ...op.expose import SCALAR_TYPE, function, write_same
from ...op.vmap import is_logical, refuse_shared
from ...tape.device import beside
from ...tape.lazy import raw_values, store
from ...tape.modes import AUTOCAST, is_captured, shared, state, unrecorded
from ...tape.storage import before_write, bump
from ...tape.tensor import Tensor
from ...tape.valueless import Valueless
from ..kinds import F4, F8, check_kind, check_parameters, narrow, wide_or_none
from .layer_norm import moments

SHARED = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
    "were not batched.\nWith track_running_stats=False a layer has none."
)

# -- batch_norm: statistics for each channel, over all other dimensions ----------------------------------------------


def as_channels(x):
    """A view (or copy) of (N, C, ...) as (N, C, L), or as (M, C) where channels are the fastest in memory."""
    if x.ndim == 2:
        return x
    if x.ndim > 2 and not x.flags.c_contiguous:
        moved = x.transpose(0, *range(2, x.ndim), 1)
        if moved.flags.c_contiguous:
            return moved.reshape(-1, x.shape[1])
    return x.reshape(x.shape[0], x.shape[1], -1)


def like_channels(flat, x):
    """The inverse of `as_channels`: shape (and storage order) of `x`."""
    if flat.ndim == 2 and x.ndim > 2:
        return flat.reshape(x.shape[0], *x.shape[2:], x.shape[1]).transpose(
            0, x.ndim - 1, *range(1, x.ndim - 1)
        )
    return flat.reshape(x.shape)


def same_layout(g, x):
    """`g` as channels, in the layout that `x` has there."""
    flat = as_channels(x)
    if flat.ndim == 2 and x.ndim > 2:
        return g.transpose(0, *range(2, x.ndim), 1).reshape(flat.shape), flat
    return g.reshape(flat.shape), flat


def _channel_moments(xp, x):
    """Mean and (biased) variance of each channel; x as from `as_channels`."""
    axes = (0,) if x.ndim == 2 else (0, 2)
    return x.mean(axis=axes), x.var(axis=axes)


def _scale_shift(xp, x, scale, shift):
    """``x * scale + shift`` for each channel."""
    if x.ndim == 3:
        scale, shift = scale[:, None], shift[:, None]
    return x * scale + shift


class Statistics(list):
    """What batch_norm in training leaves for running statistics: mean, biased variance, number of values of a channel.

    A kernel may move the running statistics itself while it has those of the batch: it asks for their memory
    (`offered`), says that it will write there (`taken`), and does so.
    """

    __slots__ = ("momentum", "moved", "running")

    def __init__(self, running: tuple, momentum: float):
        super().__init__()
        self.running, self.momentum, self.moved = running, momentum, False

    def offered(self) -> tuple | None:
        """The raw arrays of the running mean and variance; None where they are not to be written, or not like that."""
        arrays = tuple([t._array for t in self.running])
        if self.moved or shared.batches or not isinstance(self.momentum, (float, int)):
            return None
        if is_captured():  # by a plan, which has a box of its own
            return None
        return None if any([isinstance(a, Valueless) for a in arrays]) else arrays

    def taken(self) -> None:
        """To be called before a kernel that moves what was offered."""
        for tensor in self.running:
            before_write(tensor)
        self.moved = True


def batch_norm_by(moments, scale_shift):
    """The forward function of batch_norm, in float32 for half types; moments, scale_shift: as above."""

    def forward(
        xp, input, weight=None, bias=None, running_mean: Any = None, running_var: Any = None, *, training, eps, box,
    ):  # fmt: skip
        d = input.dtype
        if d is not F4 and d is not F8:
            check_kind(input, "batch_norm")
        for p in (weight, bias, running_mean, running_var):
            if p is not None and p.dtype is not d:
                check_parameters(input, weight, bias, running_mean, running_var)
                break
        if d is not F4 and d is not F8:
            input, weight, bias = xp.wide(input), wide_or_none(xp, weight), wide_or_none(xp, bias)
        x = as_channels(input)
        if training:
            mean, var = moments(xp, x)
            if box is not None:
                box[:] = mean, var, x.size // x.shape[1]
        else:
            mean, var = (a.astype(x.dtype, copy=False) for a in (running_mean, running_var))
        rstd = 1 / xp.sqrt(var + eps)
        scale = rstd if weight is None else rstd * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        out = like_channels(scale_shift(xp, x, scale, shift), input)
        return narrow(out, d), mean, rstd

    return forward


def _batch_norm_vjp(F, g, input, weight, result1, result2, training, needs):
    dims = tuple(i for i in range(g.ndim) if i != 1)
    column = (-1,) + (1,) * (g.ndim - 2)
    mean, rstd = F.reshape(result1, column), F.reshape(result2, column)
    xhat = (input - mean) * rstd
    dx = dw = db = None
    if needs[0]:
        scale = rstd if weight is None else rstd * F.reshape(weight, column)
        if training:
            g_mean, slope = F.mean(g, dims, True), F.mean(g * xhat, dims, True)
            dx = scale * (g - g_mean - xhat * slope)
        else:
            dx = scale * g
    if needs[1]:
        dw = F.sum(g * xhat, dims, False)
    if needs[2]:
        db = F.sum(g, dims, False)
    like = input if weight is None else weight  # a bias may come alone
    return (*map(F.in_dtype_of, (dx, dw, db), (input, like, like)), None, None)


def _channel_mean(F, input, running_mean, training):
    return (
        F.mean(input, tuple(i for i in range(input.ndim) if i != 1), False)
        if training
        else running_mean
    )


def _channel_rstd(F, input, running_var, result1, training, eps):
    if not training:
        return F.rsqrt(running_var + eps)
    dims = tuple(i for i in range(input.ndim) if i != 1)
    mean = F.reshape(result1, (-1,) + (1,) * (input.ndim - 2))
    return F.rsqrt(F.mean(F.square(input - mean), dims, False) + eps)


def _batch_norm_samples(t):
    still = {"requires_grad": False}
    return [
        (t(4, 3), t(3), t(3), None, None, True, 1e-5, None),
        (t(2, 3, 4), t(3), None, None, None, True, 1e-3, None),
        (t(2, 3, 2, 2), None, None, t(3, **still), t(3, low=0.5, **still), False, 1e-5, None),
        (t(4, 2), t(2), t(2), t(2, **still), t(2, low=0.5, **still), False, 1e-5, None),
        (t(0, 3), t(3), t(3), t(3, **still), t(3, low=0.5, **still), False, 1e-5, None),
    ]


batch_norm_op = declare(
    "native_batch_norm", batch_norm_by(_channel_moments, _scale_shift),
    implementations="cudnn_batch_norm miopen_batch_norm", promote="free", vjp=_batch_norm_vjp, dependent="input weight",
    channels_last="input",
    hidden={"result1": _channel_mean, "result2": _channel_rstd}, samples=_batch_norm_samples,
)  # fmt: skip


@function("batch_norm")
def _batch_norm_public(
    input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True,
):  # fmt: skip
    """``nn.functional.batch_norm`` with its arguments in another order, also of one value per channel.

    Args:
        input: (N, C, ...).
        weight, bias: (C,), or None.
        running_mean, running_var: (C,), or None in training.
        training: whether the statistics are those of `input`.
        momentum: how much the batch counts in the update.
        eps: added to the variance.
        cudnn_enabled: without effect.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: shapes that do not fit, or no running statistics when not training.

    Example:
        >>> gradlib.batch_norm(gradlib.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)
        tensor([[-1.],
                [ 1.]])
    """
    return _normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5,
):  # fmt: skip
    """Each channel normalised over all other dimensions, then times `weight` plus `bias`.

    Args:
        input: (N, C, ...).
        running_mean, running_var: (C,), or None in training: the statistics that are used without `training`; with it
            they move towards those of `input` by the fraction `momentum`.
        weight, bias: (C,), or None.
        training: whether the statistics are those of `input`.
        momentum: how much the batch counts in the update.
        eps: added to the variance.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: training on one value per channel, or with an `eps` of 0 or less.
        RuntimeError: shapes that do not fit, or no running statistics when not training.

    Example:
        >>> F.batch_norm(gradlib.tensor([[1.0], [3.0]]), gradlib.zeros(1), gradlib.ones(1), eps=0.0)
        tensor([[1.],
                [3.]])
    """
    shape = input._array.shape
    if eps <= 0 and (training or eps < 0):
        limit = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {limit}, but got {eps}")
    if training and len(shape) > 1 and 0 < math.prod(shape) == shape[1]:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    return _normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)


def _normalized(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """``batch_norm``, also of one value per channel and with any `eps`."""
    shape = input._array.shape
    if not input._array.size:
        return nothing(input, weight, bias)
    if len(shape) < 2:
        raise IndexError(
            f"batch_norm: expected 2 or more dimensions of input, but got {len(shape)}"
        )
    for name, value in (
        ("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias),
    ):  # fmt: skip
        if value is None:
            if not training and name.startswith("running"):
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        elif value._array.size != shape[1]:
            raise RuntimeError(f"{name} should contain {shape[1]} elements not {value._array.size}")
    if training and running_mean is not None:
        kinds = {t.dtype for t in (input, running_mean, running_var)}
        if len(kinds) > 1 and not state.bits & AUTOCAST:
            check_kind(input._array, "batch_norm")
            given = (weight, bias, running_mean, running_var)
            check_parameters(input._array, *(None if t is None else t._array for t in given))
    running = running_mean, running_var
    box = Statistics(running, momentum) if training and running_mean is not None else None
    if not training:
        return batch_norm_op.call(input, weight, bias, running_mean, running_var, False, eps, None)
    out = batch_norm_op.call(input, weight, bias, None, None, True, eps, box)
    if box is not None and box.moved:
        for statistic in running:
            bump(statistic)
    elif box is not None and not follows_inside(input, running, False, momentum):
        mean, var, count = box
        unrecorded(update_running, running_mean, running_var, mean, var, count, momentum)
    return out


def bessel(count: int) -> float:
    """What makes the variance of `count` values the unbiased one; nan for a single value, which has none."""
    return count / (count - 1) if count > 1 else math.nan


def follows_inside(input: Tensor, running: tuple, alone: bool, momentum: float) -> bool:
    """Inside vmap: move running statistics by ops, and True; those that entries share cannot follow them.

    alone: the statistics of each sample (instance_norm), averaged.
    """
    if not shared.batches or not any([is_logical(t) for t in (input, *running)]):
        return False
    refuse_shared(running, input, SHARED)
    x = input.detach()
    dims = tuple(range(2, x.ndim)) if alone else (0, *range(2, x.ndim))
    count = math.prod([x.shape[d] for d in dims])
    unbiased = bessel(count)
    for statistic, value in zip(
        running, (x.mean(dims), x.var(dims, correction=0) * unbiased), strict=True
    ):
        if statistic is not None:
            fresh = value.mean(0) if alone else value
            statistic.mul_(1 - momentum).add_(fresh.to(statistic.dtype) * momentum)
    return True


def nothing(input, weight, bias):
    """batch_norm of no elements: a copy that depends on the parameters. IndexError if there are none."""
    out = input.clone()
    if weight is not None:
        out = out * weight[0]
    return out if bias is None else out + bias[0]


@function("native_batch_norm")
def native_batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps, *, out=None
):
    """``batch_norm``, and what it needs for its gradient.

    Args:
        input: (N, C, ...).
        weight, bias: one number for each channel, or None.
        running_mean, running_var: the statistics that are used without `training`, and updated with it; or None.
        training: whether the statistics are those of the batch.
        momentum: how much the batch counts in the update.
        eps: added to the variance.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A tuple (output, mean, 1 / standard deviation): the last two of the batch, empty if not training, without
            gradient.

    Raises:
        RuntimeError: as many numbers as there are no channels.

    Example:
        >>> gradlib.native_batch_norm(gradlib.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)[1]
        tensor([2.])
    """

    result = _normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if training:
        dims = tuple(i for i in range(input.ndim) if i != 1)
        stats = moments(Tensor._make(input._array), dims, eps, keepdim=False)
    else:
        stats = input.new_empty(0), input.new_empty(0)
    return write_same(out, (result, *stats), SCALAR_TYPE)


def update_running(running_mean, running_var, mean, var, count: int, momentum: float) -> None:
    """Move running statistics towards those of a batch of `count` values; the variance becomes the unbiased one."""
    with beside(mean):
        for running, value in ((running_mean, mean), (running_var, var * bessel(count))):
            if running is not None:
                before_write(running)
                _move(running, value, momentum)
                bump(running)


def _move(running: Tensor, value: Any, momentum: float) -> None:
    array = running._array
    if array.__class__ is np.ndarray and array.dtype is value.dtype:
        array *= 1 - momentum
        array += value * momentum
    else:
        store(running, raw_values(running) * (1 - momentum) + value * momentum)
