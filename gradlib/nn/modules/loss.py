"""Losses for classification and probability models; those of numbers are in `regression_loss`."""

from __future__ import annotations

from typing import Any

from ..._refused import refuse
from ...tape.tensor import Tensor
from .. import functional as F
from . import regression_loss
from ._loss_base import _Loss, _WeightedLoss
from .regression_loss import *  # noqa: F403

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "KLDivLoss",
    "NLLLoss",
    "NLLLoss2d",
    "SoftMarginLoss",
]
__all__ += regression_loss.__all__
__getattr__ = refuse(__name__)


class NLLLoss(_WeightedLoss):
    """-weight[t] * input[t]: the negative log likelihood, given log-probabilities.

    Args:
        weight: Tensor [C], a factor per class; the mean divides by the sum of those used.
        size_average: deprecated, see `reduction`.
        ignore_index: a target that does not count.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input: [N, C, *d] or [C] -> [], or as target without reduction.
        target: int64 or uint8 [N, *d] or [], each in 0 to C - 1.

    Raises:
        IndexError: at the call, if a target is no class.
        ValueError: at the call, if the batches differ in size.
        RuntimeError: at the call, if the targets are of another dtype.

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
    """`NLLLoss`, under the name that it once had for images.

    Example:
        >>> nn.NLLLoss2d()(gradlib.full((1, 2, 1, 1), -1.5), gradlib.zeros(1, 1, 1).long()).item()
        1.5
    """


class KLDivLoss(_Loss):
    """target * (log(target) - input): the Kullback-Leibler divergence; input is a log-probability.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" (over all elements), "sum", or "batchmean": the sum divided by N,
            which is the divergence of a sample.
        log_target: the target is a log-probability, too.

    Shape:
        input, target: [...] -> [], or [...] without reduction.

    Source: S. Kullback, R. Leibler, On information and sufficiency, Ann. Math. Stat. 22 (1951).

    Example:
        >>> p, q = gradlib.tensor([[0.5, 0.5]]), gradlib.tensor([[0.25, 0.75]])
        >>> round(nn.KLDivLoss(reduction="batchmean")(q.log(), p).item(), 4)
        0.1438
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
    """-(t * log(x) + (1 - t) * log(1 - x)): binary cross entropy of probabilities.

    Logarithms are at least -100, so that the loss is finite. `BCEWithLogitsLoss` is more exact.

    Args:
        weight: Tensor broadcastable to the input, a factor per element.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input, target: [...], in [0, 1] -> [], or [...] without reduction.

    Raises:
        RuntimeError: at the call, if an input is outside of [0, 1].
        ValueError: at the call, if the shapes differ.

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

    Shape:
        input, target: [...] -> [], or [...] without reduction.

    Raises:
        ValueError: at the call, if the shapes differ.

    Example:
        >>> loss = nn.BCEWithLogitsLoss()(gradlib.tensor([0.0, 1000.0]), gradlib.tensor([1.0, 1.0]))
        >>> round(loss.item(), 4)
        0.3466
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


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input)), targets 1 or -1.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input, target: [...], broadcast -> [], or [...] without reduction.

    Example:
        >>> round(nn.SoftMarginLoss()(gradlib.zeros(2), gradlib.tensor([1.0, -1.0])).item(), 4)
        0.6931
    """

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
        label_smoothing: this share of every target, 0 to 1, is spread evenly over the classes.

    Shape:
        input: scores [N, C, *d] or [C] -> [], or [N, *d] or [] without reduction.
        target: int64 [N, *d] or [], each in 0 to C - 1; or probabilities in the shape of the input.

    Raises:
        IndexError: at the call, if a target is no class.
        ValueError: at the call, if the batches differ in size.
        RuntimeError: at the call, if label_smoothing is outside of [0, 1].

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

    Shape:
        log_probs: [T, N, C] or [T, C], log-probabilities -> [], or [N] without reduction.
        targets: integers [N, S], or all in a row [sum of lengths]; no blanks.
        input_lengths: how much of T each sample has: [N], or a number for one sample.
        target_lengths: how much of S each sample has: [N], or a number for one sample.

    Raises:
        RuntimeError: at the call, if a length does not fit.

    Source: A. Graves et al., Connectionist temporal classification, ICML 2006.

    Example:
        >>> log_probs = gradlib.zeros(2, 1, 2).log_softmax(-1)  # two steps: "ab", "a-", "-a" mean "a"
        >>> loss = nn.CTCLoss()(log_probs, gradlib.tensor([[1]]), gradlib.tensor([2]), gradlib.tensor([1]))
        >>> round(loss.exp().item(), 4)
        1.3333
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
