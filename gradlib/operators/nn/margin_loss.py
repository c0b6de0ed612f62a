"""Losses of margins and rankings, in terms of other operations; the connectionist temporal classification loss."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...op import captures
from ...op.declare import declare
from ...op.expose import PUBLIC, function
from ...op.vmap import all_entries, each_entry
from ...tape import dtypes, handed
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.interop import values_of
from ...tape.lazy import raw_values
from ...tape.modes import AUTOCAST, state
from ...tape.tensor import Tensor
from ..elementwise.activation import logsigmoid_op
from ..elementwise.compare import where
from ..kinds import floating, named, raw, same_dtype, unsupported
from ..reduce.norm import pairwise_distance
from .loss import MEAN, NONE, SUM, number_of, reduced, reduction_number

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
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near, far = (
        pairwise_distance(anchor, positive, p, eps),
        pairwise_distance(anchor, negative, p, eps),
    )
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
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
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), number)


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
    own = Tensor._make(backend_of(x._array).arange(classes)) == column
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
    labels = raw_values(y)
    classes = labels.shape[1]
    if labels.size and not -1 <= labels.min() <= labels.max() < classes:
        raise RuntimeError("argument #2 'target' is out of range")
    live = np.cumprod(np.asarray(labels.tolist()).reshape(labels.shape) >= 0, axis=1).astype(bool)
    safe = np.where(live, np.asarray(labels.tolist()).reshape(labels.shape), 0)
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


# -- connectionist temporal classification -----------------------------------------------------------------------------


def _ctc_labels(target, blank: int):
    """A target with blanks around its labels, and where a step may skip the blank in between."""
    labels = np.full(2 * len(target) + 1, blank)
    labels[1::2] = target
    skip = np.zeros(len(labels), bool)
    skip[3::2] = labels[3::2] != labels[1:-2:2]
    return labels, skip


def _shifted(row, by: int):
    out = np.full_like(row, -np.inf)
    if by < len(row):
        out[by:] = row[: len(row) - by] if by else row
    return out


def _ctc_forward(log_probs, labels, skip):
    """Logarithms of the forward variables (T, S)."""
    alpha = np.full((len(log_probs), len(labels)), -np.inf)
    alpha[0, :2] = log_probs[0, labels[:2]]
    for t in range(1, len(log_probs)):
        previous = alpha[t - 1]
        total = np.logaddexp(previous, _shifted(previous, 1))
        total = np.where(skip, np.logaddexp(total, _shifted(previous, 2)), total)
        alpha[t] = total + log_probs[t, labels]
    return alpha


def _ctc_one(log_probs, target, blank: int):
    """Negative log likelihood of one sequence, and the posterior counts of each class at each time (T, C)."""
    labels, skip = _ctc_labels(target, blank)
    counts = np.zeros(log_probs.shape)
    if not len(log_probs):
        return (0.0 if not len(target) else np.inf), counts
    alpha = _ctc_forward(log_probs, labels, skip)
    back_labels, back_skip = labels[::-1], np.zeros_like(skip)
    back_skip[2:] = skip[::-1][:-2] if len(skip) > 2 else back_skip[2:]
    beta = _ctc_forward(log_probs[::-1], back_labels, back_skip)[::-1, ::-1]
    ends = alpha[-1, -2:] if len(labels) > 1 else alpha[-1, -1:]
    total = np.logaddexp.reduce(ends)
    if not np.isneginf(total):
        paths = np.exp(alpha + beta - log_probs[:, labels] - total)
        np.add.at(counts, (slice(None), labels), paths)  # pyright: ignore[reportArgumentType]
    return -total, counts


@partial(floating, refused="ctc_loss_cpu")
def _ctc(xp, log_probs, *, targets, lengths, blank, zero_infinity):
    """log_probs (T, N, C) to (N,) losses; the posterior counts (T, N, C) are the hidden value."""
    host = xp.to_host(log_probs)
    losses, counts = np.zeros(host.shape[1]), np.zeros(host.shape)
    for n, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        losses[n], counts[:length, n] = _ctc_one(
            host[:length, n].astype(np.float64), np.asarray(target, int), blank
        )
    infinite = np.isinf(losses)
    if zero_infinity:
        losses[infinite] = 0
    elif infinite.any():
        counts[:, infinite] = np.nan
    return xp.asarray(losses.astype(host.dtype)), xp.asarray(counts.astype(host.dtype))


NEVER = -1e30  # a log probability of 0 that differences of do not make nan


def _shifted_tensor(row: Tensor, by: int):
    head = row.new_full((by,), NEVER)
    return PUBLIC["cat"]([head, row[: row.shape[0] - by]]) if by < row.shape[0] else row * 0 + NEVER


def _ctc_recorded(log_probs: Tensor, target, blank: int):
    """The log likelihood of one sequence in recorded operations; log_probs (T, C)."""
    labels, skip = _ctc_labels(np.asarray(target, int), blank)
    scores = log_probs[:, Tensor._make(labels).to(log_probs.device)]
    start = Tensor._make(np.arange(len(labels)) >= 2).to(log_probs.device)
    blocked = Tensor._make(~skip).to(log_probs.device)
    alpha = scores[0].masked_fill(start, NEVER)
    for t in range(1, log_probs.shape[0]):
        total = alpha.logaddexp(_shifted_tensor(alpha, 1))
        total = total.logaddexp(_shifted_tensor(alpha, 2).masked_fill(blocked, NEVER))
        alpha = total + scores[t]
    return alpha[-2:].logsumexp(0)


def _ctc_counts(log_probs: Tensor, targets, lengths, blank) -> Tensor:
    """The posterior counts as a function of the log probabilities: the gradient of the likelihoods."""

    def likelihoods(log_probs: Tensor) -> Tensor:
        total = log_probs.sum() * 0
        for n, (target, length) in enumerate(zip(targets, lengths, strict=True)):
            if length:
                likelihood = _ctc_recorded(log_probs[:length, n], target, blank)
                if values_of(likelihood.detach()) > 0.5 * NEVER:
                    total = total + likelihood
        return total

    # whatever mode the gradient is computed in, and with tangents
    return handed.gradient_function(likelihoods)(log_probs)


ctc_op = declare(
    "ctc_loss_op",
    _ctc,
    captures=captures.HOST,
    autocast="float32",
    public="ctc_loss",
    node="CtcLossBackward0",
    each_entry=True,
    hidden={"counts": _ctc_counts},
    log_probs=lambda F, g, counts: -F.reshape(g, (1, -1, 1)) * counts,
    samples=lambda t: [
        (t(4, 2, 3), ((1, 2), (1,)), (4, 3), 0, False),
        (t(5, 1, 3), ((2, 2),), (5,), 0, True),
    ],
)


@each_entry
def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False,
):  # fmt: skip
    """The negative log probability of label sequences, summed over all alignments with blanks.

    Args:
        log_probs: log probabilities (T, N, C), or (T, C).
        targets: labels (N, S), or all sequences in a row.
        input_lengths, target_lengths: one number for each sequence.
        blank: the class that stands for no label.
        reduction: "mean" (each loss divided by the length of its target first), "sum" or "none".
        zero_infinity: whether targets that are too long for their input count 0 instead of inf.

    Returns:
        A tensor without dimensions; (N,) with "none".

    Raises:
        RuntimeError: lengths that do not fit.

    Example:
        >>> log_probs = gradlib.zeros(2, 1, 2).log_softmax(2)
        >>> F.ctc_loss(log_probs, gradlib.tensor([[1]]), gradlib.tensor([2]), gradlib.tensor([1]))
        tensor(0.2877)
    """
    number = reduction_number(reduction)
    alone = log_probs.dim() == 2
    x = log_probs.unsqueeze(1) if alone else log_probs
    if not x.numel():
        raise RuntimeError("log_probs tensor must not be empty")
    if x.dtype not in (dtypes.float32, dtypes.float64) and not state.bits & AUTOCAST:
        raise unsupported("ctc_loss_cpu", x)
    lengths = _whole(input_lengths, "input_lengths")
    sizes = _whole(target_lengths, "target_lengths")
    labels = np.asarray(values_of(targets), int)
    if not 0 <= blank < x.shape[2]:
        raise RuntimeError("blank must be in label range")
    if len(lengths) != x.shape[1] or len(sizes) != x.shape[1]:
        raise RuntimeError("input_lengths must be of size batch_size")
    for length in lengths:
        if not 0 <= length <= x.shape[0]:
            raise RuntimeError(
                f"Expected input_lengths to have value at most {x.shape[0]}, but got value {length}"
            )
    _check_label_sizes(labels.shape if targets.dim() else (1,), sizes)
    if labels.ndim == 1 and not (alone and targets.dim() == 1):
        starts = np.cumsum([0, *sizes])
        rows = [labels[a : a + n] for a, n in zip(starts, sizes, strict=False)]
    else:
        rows = [row[:n] for row, n in zip(np.atleast_2d(labels), sizes, strict=True)]
    wrong = [v for row in rows for v in row if not 0 <= v < x.shape[2]]
    if wrong:
        raise IndexError(f"Target {wrong[0]} is out of bounds.")
    losses = ctc_op.call(
        x, tuple(tuple(map(int, r)) for r in rows), tuple(lengths), blank, zero_infinity
    )
    if x.requires_grad:
        losses = losses + _normalisation(x, lengths, raw(losses) if zero_infinity else None)
    if number == MEAN:
        by = np.maximum(sizes, 1).astype(losses._array.dtype)
        return (losses / Tensor._make(backend_of(losses._array).asarray(by))).mean()
    return losses.sum() if number == SUM else losses[0] if alone else losses


def _check_label_sizes(shape: tuple[int, ...], sizes: list[int]) -> None:
    """RuntimeError where `target_lengths` does not fit the targets: a row each, or all in one."""
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"Expected target_lengths to have value at least 0, but got value {min(sizes)}"
        )
    if len(shape) == 1:
        places = ("", sum(sizes), 0)
    elif shape[0] != len(sizes):
        places = ("", len(sizes), 0)
    else:
        places = ("at least ", max(sizes, default=0), 1)
    least, wanted, dim = places
    if shape[dim] < wanted if least else shape[dim] != wanted:
        raise RuntimeError(
            f"Expected tensor to have size {least}{wanted} at dimension {dim}, but got size {shape[dim]} for argument "
            "#2 'targets'"
        )


def _normalisation(log_probs: Tensor, lengths: list[int], losses) -> Tensor:
    """Zeros (N,) whose gradient is ``exp(log_probs)`` within the lengths: what the softmax before the loss would add.

    The gradient of the loss alone is not orthogonal to the constraint that probabilities sum to one; with this term it
    is, so that it is the same with respect to log probabilities and to the scores that they were made of. `losses`:
    those that are 0 because they were impossible get no gradient.
    """
    xp = backend_of(log_probs._array)
    with beside(log_probs._array):
        within = xp.arange(log_probs.shape[0])[:, None] < xp.asarray(lengths)
        if losses is not None:
            within = within & (losses != 0)
    total = (log_probs.exp().sum(2) * Tensor._make(within)).sum(0)
    return total - total.detach()


def _whole(lengths, name: str) -> list[int]:
    if isinstance(lengths, Tensor) and lengths.dtype.category != dtypes.INTEGER:
        raise RuntimeError(f"{name} must be integral")
    values = values_of(lengths) if isinstance(lengths, Tensor) else lengths
    return [int(v) for v in values] if isinstance(values, (list, tuple)) else [int(values)]


@function("ctc_loss")
def _ctc_public(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction=NONE, zero_infinity=False
):
    """The connectionist temporal classification loss, not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of `nn.functional.ctc_loss`.
    """
    name = ("none", "mean", "sum")[number_of("ctc_loss", reduction, 6)]
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, name, zero_infinity)
