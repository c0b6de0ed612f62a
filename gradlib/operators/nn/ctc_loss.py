"""The connectionist temporal classification loss."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...op import captures
from ...op.declare import declare
from ...op.expose import PUBLIC, function
from ...op.vmap import each_entry
from ...tape import dtypes, handed
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.interop import values_of
from ...tape.modes import AUTOCAST, state
from ...tape.tensor import Tensor
from ..kinds import floating, raw, unsupported
from .loss_base import MEAN, NONE, SUM, number_of, reduction_number


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
        for n in np.flatnonzero(infinite):  # what lies beyond the end of the input is not read
            counts[: lengths[n], n] = np.nan
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
