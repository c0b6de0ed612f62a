"""Losses for regression, classification and probability models."""

from __future__ import annotations

import warnings
from typing import Any

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
]


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that the two deprecated flags mean, or `reduction` without them."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        meant = "none"
    else:
        meant = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.",
        stacklevel=4,
    )
    return meant


class _Loss(Module):
    """A loss with a reduction: "none", "mean" or "sum"."""

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight per class, kept as a buffer."""

    weight: Any

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|input - target|.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Example:
        >>> nn.L1Loss()(gradlib.zeros(2), gradlib.ones(2)).item()
        1.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target) ** 2; arguments as in `L1Loss`.

    Example:
        >>> nn.MSELoss()(gradlib.zeros(2), gradlib.full((2,), 2.0)).item()
        4.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """-weight[t] * input[t]: the negative log likelihood, given log-probabilities.

    Args:
        weight: Tensor [C], a factor per class; the mean divides by the sum of those used.
        size_average: deprecated, see `reduction`.
        ignore_index: a target that does not count.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Example:
        >>> loss = nn.NLLLoss()(gradlib.tensor([[-1.0, -2.0]]), gradlib.tensor([1]))
        >>> loss.item()
        2.0
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input: [N, C, *d] or [C], target: integers [N, *d] or [] -> [], or as target."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`."""


class PoissonNLLLoss(_Loss):
    """exp(input) - target * input, or input - target * log(input + eps).

    Args:
        log_input: input is the logarithm of the rate.
        full: add Stirling's approximation of log(target!).
        size_average: deprecated, see `reduction`.
        eps: keeps the logarithm away from zero.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """log_input, target: [...] -> [], or [...] without reduction."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """(log(var) + (input - target)**2 / var) / 2, var at least eps.

    Args:
        full: add log(2 pi) / 2.
        eps: smallest variance.
        reduction: "none", "mean" or "sum".
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        """input, target: [...], var: [...] or a number -> [], or [...] without reduction."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """target * (log(target) - input): Kullback-Leibler divergence, input a log-probability.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean", "sum", or "batchmean" (sum divided by N).
        log_target: target is a log-probability too.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """-(t * log(x) + (1 - t) * log(1 - x)), logarithms at least -100.

    Example:
        >>> round(nn.BCELoss()(gradlib.tensor([0.5]), gradlib.tensor([1.0])).item(), 4)
        0.6931
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] in [0, 1] -> [], or [...] without reduction."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of sigmoid(input), computed without overflow.

    Args:
        weight: Tensor broadcastable to the input, a factor per element.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".
        pos_weight: Tensor broadcastable to the input, a factor of the positive part.
    """

    weight: Any
    pos_weight: Any

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class SmoothL1Loss(_Loss):
    """e**2 / (2 beta) where |e| < beta, else |e| - beta / 2, with e = input - target.

    Source: R. Girshick, Fast R-CNN, ICCV 2015.
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """e**2 / 2 where |e| < delta, else delta * (|e| - delta / 2), with e = input - target.

    Source: P. J. Huber, Robust estimation of a location parameter, Ann. Math. Stat. 35 (1964).
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (int, float)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)), targets 1 or -1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """-log(softmax(input)[target]); the target is a class or a probability per class.

    Args:
        weight: Tensor [C], a factor per class; the mean divides by the sum of those used.
        size_average: deprecated, see `reduction`.
        ignore_index: a class that does not count.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".
        label_smoothing: this share of every target is spread evenly over the classes.

    Source of label smoothing: C. Szegedy et al., Rethinking the inception architecture for
    computer vision, CVPR 2016.

    Example:
        >>> loss = nn.CrossEntropyLoss()(gradlib.zeros(1, 2), gradlib.tensor([1]))
        >>> round(loss.item(), 4)
        0.6931
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input: [N, C, *d] or [C]; target: integers [N, *d] or [], or as input -> []."""
        return F.cross_entropy(
            input,
            target,
            weight=self._buffers.get("weight"),
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class CTCLoss(_Loss):
    """Minus the log-probability of a target sequence summed over all its alignments.

    Args:
        blank: the class that separates; 0 by default.
        reduction: "none", "mean" (also divides by the target lengths) or "sum".
        zero_infinity: losses and gradients of impossible alignments are zero.

    Source: A. Graves et al., Connectionist temporal classification, ICML 2006.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """log_probs: [T, N, C], targets: [N, S] or [sum of lengths] -> [] or [N]."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
