"""Losses of margins and rankings, in terms of other operations."""

from __future__ import annotations

import numpy as np

from ...op.expose import PUBLIC, function
from ...op.inplace import check_cast
from ...op.vmap import all_entries, each_entry
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.interop import values_of
from ...tape.lazy import raw_values
from ...tape.modes import AUTOCAST, made_of_numbers, state
from ...tape.tensor import Tensor, to_host
from ..elementwise.activation import logsigmoid_op
from ..elementwise.where import where
from ..kinds import named, same_dtype, unsupported
from ..reduce.norm import pairwise_distance
from .loss_base import NONE, number_of, pointwise_loss, reduced, reduction_number, refuse_grad

# -- signs of scores ---------------------------------------------------------------------------------------------------


soft_margin_op = pointwise_loss(
    "soft_margin_loss",
    lambda xp, self, target: xp.logaddexp(self.dtype.type(0), -target * self),
    lambda F, x, y: -y * F.sigmoid(-y * x),
    autocast="float32",
    node="SoftMarginLossBackward0",
    other=lambda F, x, y: -x * F.sigmoid(-y * x),
)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * input))``.

    Args:
        input: a floating tensor.
        target: a tensor that broadcasts with it, of 1 and -1.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> F.soft_margin_loss(gradlib.zeros(2), gradlib.tensor([1.0, -1.0]))
        tensor(0.6931)
    """
    number = reduction_number(reduction, size_average, reduce)
    refuse_grad(target, "soft_margin_loss", "target")
    if input._array.shape != target._array.shape:
        own = input.shape
        input, target = PUBLIC["broadcast_tensors"](input, target)
        if input.shape != own:
            raise RuntimeError(
                f"output with shape {list(own)} doesn't match the broadcast shape {list(input.shape)}"
            )
    check_cast(target.dtype, input.dtype)
    return soft_margin_op.call(input, target.to(input.dtype), number)


# -- pairs and triples -------------------------------------------------------------------------------------------------


def margin_ranking_loss(
    input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, -target * (input1 - input2) + margin)``: which of two inputs should be larger.

    Args:
        input1, input2, target: tensors of as many dimensions whose shapes broadcast; targets 1 and -1.
        margin: by how much.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that all broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> F.margin_ranking_loss(gradlib.tensor([1.0]), gradlib.tensor([3.0]), gradlib.ones(1))
        tensor(2.)
    """
    number = reduction_number(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _margin_ranking_public(input1, input2, target, margin, number)


@function("margin_ranking_loss")
def _margin_ranking_public(input1, input2, target, margin=0.0, reduction=NONE):
    """max(0, -target * (input1 - input2) + margin), not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of
    `nn.functional.margin_ranking_loss`.

    Example:
        >>> gradlib.margin_ranking_loss(gradlib.ones(1), gradlib.zeros(1), -gradlib.ones(1))
        tensor([1.])
    """
    number = number_of("margin_ranking_loss", reduction, 5)
    if margin.__class__ is int:
        margin = float(margin)  # which a loss of whole numbers is promoted by
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), number)


def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """`input` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        input: a floating tensor, of distances.
        target: a tensor that broadcasts with it, of 1 and -1.
        margin: how far apart is far enough.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> F.hinge_embedding_loss(gradlib.tensor([0.5, 0.75]), gradlib.tensor([1.0, -1.0]))
        tensor(0.3750)
    """
    return _hinge_embedding_public(
        input, target, margin, reduction_number(reduction, size_average, reduce)
    )


@function("hinge_embedding_loss")
def _hinge_embedding_public(input, target, margin=1.0, reduction=NONE):
    """x where `target` is 1, max(0, margin - x) where it is -1; not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of
    `nn.functional.hinge_embedding_loss`.
    """

    number = number_of("hinge_embedding_loss", reduction, 4)
    zero = input.new_zeros(())
    far = where(target != 1, (margin - input).clamp_min(0), zero)
    return reduced(far + where(target != -1, input, zero), number)


def cosine_embedding_loss(
    input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction="mean"
):
    """``1 - cos`` of pairs with target 1, ``max(0, cos - margin)`` of those with target -1.

    Args:
        input1, input2: (N, d), or (d,).
        target: (N,), or without dimensions.
        margin: the cosine that is small enough, in [-1, 1].
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (N,) with "none".

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> F.cosine_embedding_loss(gradlib.tensor([[1.0, 0.0]]), gradlib.tensor([[0.0, 1.0]]), gradlib.ones(1))
        tensor(1.)
    """
    number = reduction_number(reduction, size_average, reduce)
    return _cosine_embedding_public(input1, input2, target, margin, number)


@function("cosine_embedding_loss")
def _cosine_embedding_public(input1, input2, target, margin=0.0, reduction=NONE):
    """1 - cos(x1, x2) where `target` is 1, max(0, cos(x1, x2) - margin) where it is -1; not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of
    `nn.functional.cosine_embedding_loss`.
    """

    number = number_of("cosine_embedding_loss", reduction, 5)
    if (target.dim() == 0 and input1.dim() != 1) or (target.dim() == 1 and input1.dim() != 2):
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    tiny, dim = 1e-12, target.dim()
    product = (input1 * input2).sum(dim)
    cosine = (
        product / ((input1.square().sum(dim) + tiny) * (input2.square().sum(dim) + tiny)).sqrt()
    )
    zero = cosine.new_zeros(())
    losses = where(target == 1, 1 - cosine, zero) + where(
        target == -1, (cosine - margin).clamp_min(0), zero
    )
    return reduced(losses, number)


def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p: float = 2, eps=1e-6, swap=False, size_average=None, reduce=None,
    reduction="mean",
):  # fmt: skip
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` for p-norm distances of the last dimension.

    Args:
        anchor, positive, negative: tensors (N, d), or (d,).
        margin: by how much the negative is to be farther away, positive.
        p: the order of the norm.
        eps: keeps the gradient finite where both are equal.
        swap: whether the distance of positive and negative counts where it is smaller than that of anchor and
            negative.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (N,) with "none".

    Raises:
        ValueError: `margin` is not positive.

    Example:
        >>> x = gradlib.zeros(1, 2)
        >>> F.triplet_margin_loss(x, x, gradlib.tensor([[3.0, 4.0]]), margin=7.0).round(decimals=3)
        tensor(2.)
    """
    number = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet_public(anchor, positive, negative, margin, p, eps, swap, number)


@function("triplet_margin_loss")
def _triplet_public(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=NONE
):
    """max(0, |anchor - positive|_p - |anchor - negative|_p + margin), not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of
    `nn.functional.triplet_margin_loss`.
    """
    number = number_of("triplet_margin_loss", reduction, 8)

    def distance(x1, x2):
        return pairwise_distance(x1, x2, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, number)


def _triplet(anchor, positive, negative, distance, margin, swap, number):
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), number)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with a distance function of one's own.

    Args:
        anchor, positive, negative: tensors of one shape (N, d) or (d,).
        distance_function: takes two of them; ``pairwise_distance`` if None.
        margin: by how much the negative is to be farther away, positive.
        swap: whether the distance of positive and negative counts where it is smaller than that of anchor and
            negative.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (N,) with "none".

    Raises:
        ValueError: `margin` is not positive.

    Example:
        >>> x = gradlib.zeros(1, 2)
        >>> F.triplet_margin_with_distance_loss(x, x, gradlib.ones(1, 2), margin=2.0)
        tensor(0.5858)
    """
    number = reduction_number(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function or pairwise_distance
    return _triplet(anchor, positive, negative, distance, margin, swap, number)


def _check_class_loss(kernel: str, x: Tensor, y: Tensor) -> None:
    """NotImplementedError for scores that are neither float32 nor float64, RuntimeError for targets not int64."""
    if x.dtype not in (dtypes.float32, dtypes.float64) and not state.bits & AUTOCAST:
        raise unsupported(kernel, x)
    if y.dtype is not dtypes.int64:
        raise RuntimeError(f"expected scalar type Long but found {named(y)}")


def _above_zero(x: Tensor) -> Tensor:
    """`x` where it is positive, else 0 (also for nan), without gradient there."""
    return x.masked_fill(~(x > 0), 0)


# -- several classes ---------------------------------------------------------------------------------------------------


def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean",
):  # fmt: skip
    """For each row the sum over wrong classes of ``max(0, margin - x[y] + x[i]) ** p``, over the number of classes.

    Args:
        input: scores (N, C), or (C,).
        target: classes (N,) of int64.
        p: 1 or 2.
        margin: how much higher the score of the class is to be.
        weight: (C,), for each class of a target, or None.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (N,) with "none".

    Raises:
        ValueError: another p.
        RuntimeError: the shapes do not fit, or a class is out of range.

    Example:
        >>> F.multi_margin_loss(gradlib.tensor([[0.5, 0.25]]), gradlib.tensor([0]))
        tensor(0.3750)
    """
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    alone = input.dim() <= 1
    x, y = (input.reshape(1, -1), target.reshape(1)) if alone else (input, target)
    if x.dim() != 2 or y.dim() != 1 or y.shape[0] != x.shape[0]:
        raise RuntimeError(
            f"inconsistent target size, expected {x.shape[0]} but got {list(target.shape)}"
        )
    classes = x.shape[1]
    _check_class_loss("multi_margin_loss_cpu_kernel", x, y)
    if weight is not None and not state.bits & AUTOCAST:
        same_dtype(x, weight)
    if y.numel() and not values_of(all_entries((y >= 0) & (y < classes)).all()):
        raise RuntimeError("target out of range")
    column = y.unsqueeze(1)
    losses = _above_zero(margin - x.gather(1, column) + x)
    if p == 2:
        losses = losses * losses
    if weight is not None:
        losses = losses * weight[y].unsqueeze(1)
    own = made_of_numbers(Tensor._make(backend_of(x._array).arange(classes))) == column
    losses = losses.masked_fill(own, 0).sum(1) / classes
    return losses[0] if alone and number == NONE else reduced(losses, number)


@each_entry
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The sum of ``max(0, 1 - (x[target] - x[other]))`` over pairs of a target class and another class, over C.

    Args:
        input: scores (N, C), or (C,).
        target: (N, C), or (C,), int64: the classes of a row, ended by the first -1.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (N,) with "none".

    Raises:
        RuntimeError: the shapes do not fit, or a class is out of range.

    Example:
        >>> F.multilabel_margin_loss(gradlib.tensor([0.5, 0.25]), gradlib.tensor([0, -1]))
        tensor(0.3750)
    """
    number = reduction_number(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    if input.dim() > 2 or 0 in input.shape[-1:]:
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    alone = input.dim() <= 1
    x, y = (input.reshape(1, -1), target.reshape(1, -1)) if alone else (input, target)
    _check_class_loss("multilabel_margin_loss_forward_out_frame", x, y)
    labels = to_host(raw_values(y))
    classes = labels.shape[1]
    if labels.size and not -1 <= labels.min() <= labels.max() < classes:
        raise RuntimeError("argument #2 'target' is out of range")
    live = np.cumprod(labels >= 0, axis=1).astype(bool)
    safe = np.where(live, labels, 0)
    is_target = np.zeros(labels.shape, bool)
    for row in range(len(is_target)):
        is_target[row, safe[row][live[row]]] = True
    safe = Tensor._make(safe).to(x.device)
    scores = x.gather(1, safe)  # of each target, in order
    pairs = _above_zero(1 - (scores.unsqueeze(2) - x.unsqueeze(1)))
    off = Tensor._make(~(live[:, :, None] & ~is_target[:, None, :])).to(x.device)
    losses = pairs.masked_fill(off, 0).sum((1, 2)) / classes
    return losses[0] if alone and number == NONE else reduced(losses, number)


def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Binary cross entropy of scores, averaged over the classes.

    Args:
        input: scores (..., C).
        target: of the same shape, 1 or 0.
        weight: (C,), for each class, or None.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; (...) with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> F.multilabel_soft_margin_loss(gradlib.zeros(1, 2), gradlib.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """
    number = reduction_number(reduction, size_average, reduce)
    losses = -(target * logsigmoid_op.call(input) + (1 - target) * logsigmoid_op.call(-input))
    if weight is not None:
        losses = losses * weight
    dim = input.dim() - 1
    return reduced(losses.sum(dim) / input.size(dim), number)
