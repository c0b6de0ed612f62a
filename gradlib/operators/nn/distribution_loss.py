"""Losses of predicted distributions: Kullback-Leibler divergence, likelihoods of Poisson and normal ones."""

from __future__ import annotations

import math
import warnings

from ...op.expose import function
from ...op.vmap import all_entries
from ...tape import modes
from ...tape.tensor import Tensor
from .loss_base import NONE, SUM, number_of, reduced, reduction_number


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence: ``y * (log(y) - x)``.

    Args:
        input: log probabilities.
        target: probabilities, or with `log_target` their logarithms; the shapes broadcast.
        size_average, reduce: an old way to say `reduction`, which warns.
        reduction: "mean" (over all elements, with a warning), "batchmean" (over dimension 0), "sum" or "none".
        log_target: what `target` is.

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.kl_div(gradlib.tensor([0.0]), gradlib.tensor([1.0]), reduction="sum")
        tensor(0.)
    """
    if reduction == "batchmean" and size_average is None and reduce is None:
        total = _kl(input, target, SUM, log_target)
        return total / input.size()[0] if input.dim() else total
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    return _kl(input, target, reduction_number(reduction, size_average, reduce), log_target)


def _kl(input, target, number, log_target):
    if not (input.is_floating_point() and target.is_floating_point()):
        kind = "Complex" if input.is_complex() or target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    losses = (
        target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    )
    return reduced(losses, number)


@function("kl_div")
def _kl_div_public(input, target, reduction=NONE, log_target=False):
    """target * (log(target) - input) of each element, for log probabilities `input`; not reduced unless asked for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of `nn.functional.kl_div`.
    """
    return _kl(input, target, number_of("kl_div", reduction, 3), log_target)


def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean",
):  # fmt: skip
    """Negative log likelihood of counts under Poisson distributions.

    Args:
        input: the logarithms of the rates, or without `log_input` the rates.
        target: counts that broadcast with it.
        log_input: what `input` is.
        full: whether Stirling's approximation of ``log(target!)`` is added for targets above 1.
        size_average, reduce: an old way to say `reduction`, which warns.
        eps: added to rates before the logarithm.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        RuntimeError: the shapes do not broadcast.
        ValueError: another `reduction`.

    Example:
        >>> F.poisson_nll_loss(gradlib.zeros(2), gradlib.tensor([1.0, 2.0]))
        tensor(1.)
    """
    number = reduction_number(reduction, size_average, reduce)
    return _poisson_nll(input, target, log_input, full, eps, number)


@function("poisson_nll_loss")
def _poisson_nll_public(input, target, log_input, full, eps, reduction):
    """exp(input) - target * input, or input - target * log(input + eps) without `log_input`; not reduced unless asked
    for.

    reduction: 0 (none), 1 (mean) or 2 (sum). Shapes, errors and formula are those of `nn.functional.poisson_nll_loss`.
    """
    number = number_of("poisson_nll_loss", reduction, 6)
    return _poisson_nll(input, target, log_input, full, eps, number)


def _poisson_nll(input, target, log_input, full, eps, number):
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, number)


def _one_for_all(shape, other) -> bool:
    """Whether `other` is `shape` with a single dimension of length one instead."""
    if len(shape) != len(other):
        return False
    unequal = [b for a, b in zip(shape, other, strict=True) if a != b]
    return unequal == [1]


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log likelihood of `target` under normal distributions: ``(log(var) + (input - target)**2 / var) / 2``.

    Args:
        input: the means.
        target: a tensor that broadcasts with it.
        var: the variances: a number, of the shape of `input`, or with the last length 1 or left out; those below
            `eps` count as `eps`.
        full: whether ``log(2 * pi) / 2`` is added.
        eps: the least variance.
        reduction: "mean", "sum" or "none".

    Returns:
        A tensor without dimensions; of the shape that both broadcast to with "none".

    Raises:
        ValueError: `var` has another shape or a negative element.

    Example:
        >>> F.gaussian_nll_loss(gradlib.zeros(2), gradlib.ones(2), gradlib.ones(2))
        tensor(0.5000)
    """
    number = reduction_number(reduction)
    if not isinstance(var, Tensor):
        var = input.new_full(input.shape, float(var))
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not _one_for_all(input.shape, var.shape):
            raise ValueError("var is of incorrect size")
    if (all_entries(var) < 0).any():
        raise ValueError("var has negative entry/entries")

    safe = var.clone()
    with modes.Flag(modes.NO_GRAD, True):
        safe.clamp_(min=eps)
    losses = 0.5 * (safe.log() + (input - target) ** 2 / safe)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, number)
