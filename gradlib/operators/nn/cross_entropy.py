"""nll_loss and cross_entropy: with class indices one node each, softmax included."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...op.declare import declare
from ...op.plain_numbers import python_number
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.tensor import Tensor
from ..kinds import F4, floating, raw, same_dtype
from .loss_base import MEAN, NONE, SUM, reduction_number
from .softmax import log_softmax_op

# -- pieces ------------------------------------------------------------------------------------------------------------


def classes_last(x):
    """(C,), (N, C) or (N, C, ...) as (rows, C)."""
    if x.ndim == 2:
        return x
    if x.ndim > 2:
        x = x.transpose(0, *range(2, x.ndim), 1)
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def classes_second(rows, shape):
    """The inverse of `classes_last`."""
    if len(shape) > 2:
        return rows.reshape(shape[0], *shape[2:], shape[1]).transpose(
            0, len(shape) - 1, *range(1, len(shape) - 1)
        )
    return rows.reshape(shape)


def class_rows(xp, target, weight, classes: int, ignore_index: int, dtype):
    """Flat class numbers (0 where ignored), weights of the rows (None: all one), and which rows count (None: all).

    Raises IndexError for a class out of range.
    """
    flat = target.reshape(-1)
    if flat.dtype.kind not in "iu":
        kind = "Double" if flat.dtype.itemsize == 8 else "Float"
        raise RuntimeError(f"expected scalar type Long but found {kind}")
    kept = None
    if xp.waits:  # what is out of range makes the loss nan
        kept = flat != ignore_index
        wrong = ((flat < 0) | (flat >= classes)) & kept
        marks = xp.where(wrong, dtype.type(math.nan), kept.astype(dtype))
        flat = xp.where(kept & ~wrong, flat, 0)
        return (
            flat,
            marks if weight is None else weight.astype(dtype, copy=False)[flat] * marks,
            kept,
        )
    # as unsigned numbers negative ones are large: one test serves for both ends
    if flat.size and (
        0 <= ignore_index < classes
        or np.maximum.reduce(flat.astype(np.int64, copy=False).view(np.uint64)) >= classes
    ):
        kept = flat != ignore_index
        wrong = ((flat < 0) | (flat >= classes)) & kept
        if wrong.any():
            raise IndexError(f"Target {int(flat[wrong][0])} is out of bounds.")
        flat = xp.where(kept, flat, 0)
    if weight is not None:
        weights = weight.astype(dtype, copy=False)[flat]
        return flat, weights if kept is None else weights * kept, kept
    return flat, None if kept is None else kept.astype(dtype), kept


def _total(weights, count: int):
    """What the mean divides by."""
    return count if weights is None else weights.sum()


def _reduced(xp, losses, weights, kept, reduction: int, shape):
    """Losses of rows, weighted, those that do not count set to zero, and reduced."""
    if weights is not None:
        losses = losses * weights
    if kept is not None:
        losses = xp.where(kept, losses, losses.dtype.type(0))  # also where a loss is infinite
    if reduction == NONE:
        return losses.reshape(shape)
    total = xp.add.reduce(losses, None)
    if reduction == SUM:
        return total
    count = _total(weights, losses.size)
    return total / count if losses.size else total * math.nan


def _factors(xp, weights, kept, reduction: int, count: int):
    """What the reduction multiplies each row by: an array, or a number for all; 0 where a row does not count."""
    if reduction != MEAN:
        return 1 if weights is None else weights
    if weights is None:
        return 1 / max(count, 1)
    shares = weights / weights.sum()
    return shares if kept is None else xp.where(kept, shares, shares.dtype.type(0))


def row_shares(xp, g, weights, kept, reduction: int, count: int):
    """What each row's negative log probability is multiplied by in the gradient: a row or a number."""
    g = g.reshape(-1) if reduction == NONE else g
    return g * _factors(xp, weights, kept, reduction, count)


# -- nll_loss ----------------------------------------------------------------------------------------------------------


@partial(floating, refused="nll_loss_out_frame")
def _nll_loss(xp, self, target, weight=None, *, reduction, ignore_index):
    rows = classes_last(self)
    classes, weights, kept = class_rows(xp, target, weight, rows.shape[1], ignore_index, rows.dtype)
    losses = -rows[xp.arange(len(rows)), classes]
    return _reduced(xp, losses, weights, kept, reduction, target.shape)


@floating
def _nll_grad(xp, grad, target, weight=None, *, shape, reduction, ignore_index):
    classes_of = shape[0] if len(shape) == 1 else shape[1]
    classes, weights, kept = class_rows(xp, target, weight, classes_of, ignore_index, grad.dtype)
    out = xp.zeros((classes.size, classes_of), grad.dtype)
    out[xp.arange(len(out)), classes] = -row_shares(xp, grad, weights, kept, reduction, len(out))
    out = classes_second(out, shape)
    return out if out.flags.c_contiguous else xp.ascontiguousarray(out)


def _class_samples(t, extra):
    def whole(*shape):
        return t(*shape, dtype=dtypes.int64, low=0, high=4)

    still = {"requires_grad": False}
    return [
        (t(3, 4), whole(3), None, MEAN, *extra), (t(3, 4), whole(3), t(4, low=0.5, **still), MEAN, 1),
        (t(2, 4, 3), whole(2, 3), t(4, low=0.5, **still), SUM, *extra), (t(4), whole(), None, MEAN, *extra),
        (t(3, 4), whole(3), None, NONE, 2), (t(0, 4), whole(0), None, SUM, *extra),
    ]  # fmt: skip


def _nll_grad_samples(t):
    index = t(3, dtype=dtypes.int64, low=0, high=4)
    return [(t(), index, None, (3, 4), MEAN, -100), (t(3), index, None, (3, 4), NONE, 1)]


nll_loss_op = declare(
    "nll_loss_op", _nll_loss,
    implementations="nll_loss_forward nll_loss2d_forward",
    autocast="float32", public="nll_loss", promote="free", node="NllLossBackward0", dependent="self",
    self=lambda F, g, target, weight, self_shape, reduction, ignore_index: F.nll_loss_grad(
        g, target, weight, tuple(self_shape), reduction, ignore_index
    ),
    jvp=lambda F, self_t, target, weight, reduction, ignore_index: F.nll_loss_op(
        self_t, target, weight, reduction, ignore_index
    ),
    samples=lambda t: _class_samples(t, (-100,)),
    batch="class_losses",
)  # fmt: skip
declare(
    "nll_loss_grad",
    _nll_grad,
    public="nll_loss_backward",
    promote="free",
    node="NllLossBackwardBackward0",
    grad=lambda F, g, target, weight, reduction, ignore_index: F.nll_loss_op(
        g, target, weight, reduction, ignore_index
    ),
    jvp="linear",
    samples=_nll_grad_samples,
    batch="nll_loss_grad",
)


# -- cross_entropy with class indices ----------------------------------------------------------------------------------


def _log_sums(xp, rows):
    """The maximum of each row, and the logarithm of the sum of exponentials over it."""
    top = rows.max(axis=1)
    return top, xp.log(xp.exp(rows - top[:, None]).sum(axis=1))


def cross_entropy_by(log_sums):
    """The forward function for scores of more than two bytes, with what gradients use; log_sums: as `_log_sums`."""

    def forward(xp, self, target, weight=None, *, reduction, ignore_index):
        rows = classes_last(self)
        n, width = rows.shape
        classes, weights, kept = class_rows(xp, target, weight, width, ignore_index, rows.dtype)
        top, logs = log_sums(xp, rows)
        # in this order the difference of large scores is exact
        losses = logs - (rows[xp.arange(n), classes] - top)
        return _reduced(xp, losses, weights, kept, reduction, target.shape), top, logs

    return forward


def _cross_entropy_grad(F, g, self, target, weight, reduction, ignore_index):
    array, shape = raw(self), tuple(self.shape)
    xp, recorded = backend_of(array), array is not self
    dim = 0 if len(shape) == 1 else 1
    d = array.dtype if array.dtype.itemsize > 2 else F4
    classes, weights, kept = class_rows(xp, raw(target), raw(weight), shape[dim], ignore_index, d)
    picked = xp.zeros((classes.size, shape[dim]), d)
    picked[xp.arange(len(picked)), classes] = 1
    column = shape[:dim] + (1,) + shape[dim + 1 :]
    if reduction == NONE:
        g = F.reshape(g, column)
    scores = self if recorded else xp.wide(self)

    def constant(array):
        array = array.astype(raw(scores).dtype, copy=False)
        return Tensor._make(array) if recorded else array

    factors: Any = _factors(xp, weights, kept, reduction, classes.size)
    g = g * (constant(factors.reshape(column)) if weights is not None else factors)
    out = (F.softmax(scores, dim) - constant(classes_second(picked, shape))) * g
    return out if recorded else xp.ascontiguousarray(out).astype(array.dtype, copy=False)


cross_entropy_op = declare(
    "cross_entropy_op", floating(cross_entropy_by(_log_sums), refused="log_softmax_lastdim_kernel_impl"),
    autocast="float32", public="cross_entropy_loss", promote="free", node="NllLossBackward0",
    hidden={"result1": None, "result2": None},  # only overlays use them
    self=_cross_entropy_grad, samples=lambda t: _class_samples(t, (-100,)),
    apart="cross_entropy",
)  # fmt: skip


# -- public ------------------------------------------------------------------------------------------------------------


def _check_classes(input: Tensor, target: Tensor, weight, name: str) -> None:
    shape, ndim = input._array.shape, input._array.ndim
    if not ndim:
        raise RuntimeError(f"{name}: input should have at least one dimension")
    expected = shape[:0] if ndim == 1 else (shape[0], *shape[2:])
    found = target._array.shape
    if ndim > 1 and (not found or found[0] != shape[0]):
        if name == "cross_entropy" or ndim == 2:
            raise ValueError(
                f"Expected input batch_size ({shape[0]}) to match target batch_size ({found[0] if found else 1})."
            )
        raise ValueError(f"Expected target size {list(expected)}, got {list(found)}")
    if found != expected and not (ndim == 1 and found == (1,)):
        if ndim == 2:
            raise RuntimeError(
                "0D or 1D target tensor expected, multi-target not supported"
                if len(found) > 1
                else f"size mismatch (got input: {list(shape)}, target: {list(found)})"
            )
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(found)}")
    kind = target.dtype
    if kind is not dtypes.int64 and (kind is not dtypes.uint8 or ndim > 2):
        raise RuntimeError(
            "expected scalar type Long but found Byte"
            if kind is dtypes.uint8
            else f"expected target dtype to be Long or Byte, but got {kind.scalar_type}"
        )
    classes = shape[0] if ndim == 1 else shape[1]
    if weight is not None:
        same_dtype(input, weight)
    if weight is not None and weight._array.shape != (classes,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all or no classes"
            if name == "cross_entropy"
            else f"weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )


def nll_loss(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
):  # fmt: skip
    """The negative log likelihood of classes: minus the log probability of the target.

    Args:
        input: log probabilities (N, C, ...), or (C,).
        target: class indices (N, ...) of int64.
        weight: (C,): one number for each class; the mean is weighted.
        size_average, reduce: an old way to say `reduction`, which warns.
        ignore_index: a target that counts for nothing.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (N, ...) with "none".

    Raises:
        IndexError: a class that does not exist.
        ValueError: another number of samples.

    Example:
        >>> F.nll_loss(gradlib.tensor([[-1.0, -2.0]]), gradlib.tensor([1]))
        tensor(2.)
    """
    number = reduction_number(reduction, size_average, reduce)
    _check_classes(input, target, weight, "nll_loss")
    return nll_loss_op.call(input, target, weight, number, ignore_index)


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """Cross entropy of scores against classes or probabilities.

    Args:
        input: scores (N, C, ...), or (C,).
        target: class indices (N, ...) of int64, or probabilities of the shape of `input`.
        weight: (C,): one number for each class; the mean over indices is weighted.
        size_average, reduce: an old way to say `reduction`, which warns.
        ignore_index: a class index that counts for nothing.
        reduction: "mean", "sum" or "none".
        label_smoothing: the fraction of each target that is spread evenly over the classes, in [0, 1].

    Returns:
        A tensor without dimensions; (N, ...) with "none".

    Raises:
        IndexError: a class that does not exist.
        ValueError: another number of samples.
        RuntimeError: `label_smoothing` is out of range.

    Example:
        >>> F.cross_entropy(gradlib.zeros(1, 2), gradlib.tensor([0]))
        tensor(0.6931)
    """
    if label_smoothing.__class__ is not float:
        label_smoothing = python_number(label_smoothing)
    number = reduction_number(reduction, size_average, reduce)
    if target._array.shape == input._array.shape and target._array.dtype.kind in "fV":
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _against_probabilities(input, target, weight, number, label_smoothing)
    _check_classes(input, target, weight, "cross_entropy")
    if not label_smoothing:
        return cross_entropy_op.call(input, target, weight, number, ignore_index)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    return _smoothed(input, target, weight, number, ignore_index, label_smoothing)


def _smoothed(input, target, weight, reduction, ignore_index, label_smoothing):
    dim = 0 if input.dim() == 1 else 1
    classes = input.shape[dim]
    scores = log_softmax_op.call(input, dim)
    picked = nll_loss_op.call(scores, target, weight, reduction, ignore_index)
    if weight is not None:
        column = (-1,) + (1,) * (input.dim() - dim - 1)
        smooth = -(scores * weight.reshape(column)).sum(dim)
    else:
        smooth = -scores.sum(dim)
    kept = target != ignore_index
    smooth = smooth.masked_fill(~kept, 0)  # also where it is infinite, or the mean is over nothing
    if reduction == SUM:
        smooth = smooth.sum()
    elif reduction == MEAN:
        if weight is None:
            smooth = smooth.sum() / kept.sum()
        else:
            total = (weight[target.masked_fill(~kept, 0)] * kept.to(weight.dtype)).sum()
            smooth = smooth.sum() / total
    return picked * (1 - label_smoothing) + smooth * (label_smoothing / classes)


def _against_probabilities(input, target, weight, reduction, label_smoothing):
    dim = 0 if input.dim() == 1 else 1
    classes = input.shape[dim]
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if label_smoothing and classes:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    losses = log_softmax_op.call(input, dim) * target
    if weight is not None:
        losses = losses * weight.reshape((-1,) + (1,) * (input.dim() - dim - 1))
    if reduction == NONE:
        return -losses.sum(dim)
    if reduction == SUM:
        return -losses.sum()
    rows = input.numel() // classes if classes else 0
    return -losses.sum() / rows if rows else -losses.sum() * math.nan
