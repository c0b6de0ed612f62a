"""Losses that keep a margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from ._loss_base import _Loss, _WeightedLoss
from .distance import PairwiseDistance

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class HingeEmbeddingLoss(_Loss):
    """input where target is 1, max(0, margin - input) where it is -1; the input is a distance.

    Args:
        margin: from which distance on what is unlike costs nothing.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input, target: [...], broadcast -> [], or [...] without reduction.

    Example:
        >>> nn.HingeEmbeddingLoss()(gradlib.tensor([0.5, 0.25]), gradlib.tensor([1, -1])).item()
        0.625
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [...] -> [], or [...] without reduction."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Sum over targets j and other classes i of max(0, 1 - (x[j] - x[i])) / C.

    The targets of a sample are class indices; the first -1 ends the list.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input: [N, C] or [C] -> [], or [N] without reduction.
        target: int64 of the same shape.

    Example:
        >>> x, target = gradlib.tensor([0.1, 0.2, 0.4, 0.8]), gradlib.tensor([3, 0, -1, 1])
        >>> round(nn.MultiLabelMarginLoss()(x, target).item(), 4)
        0.85
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input: [N, C] or [C], target: integers of that shape -> [], or [N]."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """-mean over classes of t * log(sigmoid(x)) + (1 - t) * log(sigmoid(-x)).

    Args:
        weight: Tensor [C], a factor per class.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input, target: [N, C] or [C] -> [], or [N] without reduction.

    Example:
        >>> loss = nn.MultiLabelSoftMarginLoss()(gradlib.zeros(1, 2), gradlib.tensor([[1.0, 0.0]]))
        >>> round(loss.item(), 4)
        0.6931
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input, target: [N, C] -> [], or [N] without reduction."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class _OfPairs(_Loss):
    """A loss of two inputs and the sign of a target, with a margin of 0 unless it is said."""

    _function: str

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """input1, input2: what is compared; target: 1 or -1 for each pair -> [], or one of each without reduction."""
        function = getattr(F, self._function)
        return function(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_OfPairs):
    """1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1.

    Args:
        margin: up to which cosine what is unlike costs nothing; -1 to 1.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input1, input2: [N, D] or [D] -> [], or [N] without reduction.
        target: [N] or [].

    Raises:
        RuntimeError: at the call, if the numbers of dimensions do not fit.

    Example:
        >>> x, target = gradlib.ones(2, 3), gradlib.tensor([1, -1])
        >>> round(nn.CosineEmbeddingLoss()(x, x, target).item(), 4)
        0.5
    """

    _function = "cosine_embedding_loss"


class MarginRankingLoss(_OfPairs):
    """max(0, -target * (input1 - input2) + margin): target 1 wants input1 larger, -1 input2.

    Args:
        margin: how much larger.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input1, input2, target: [N] or [] -> [], or [N] without reduction.

    Raises:
        RuntimeError: at the call, if the numbers of dimensions differ.

    Example:
        >>> a, b = gradlib.tensor([1.0, 3.0]), gradlib.tensor([2.0, 1.0])
        >>> nn.MarginRankingLoss(reduction="none")(a, b, gradlib.tensor([1.0, 1.0])).tolist()
        [1.0, 0.0]
    """

    _function = "margin_ranking_loss"


class MultiMarginLoss(_WeightedLoss):
    """Sum over classes i other than t of max(0, weight[t] * (margin - x[t] + x[i]))**p / C.

    Args:
        p: 1 or 2.
        margin: how far ahead the target has to be.
        weight: Tensor [C], a factor per target class.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        input: [N, C] or [C] -> [], or [N] without reduction.
        target: int64 [N] or [].

    Raises:
        ValueError: `p` is neither 1 nor 2, or `weight` has not one dimension.
        RuntimeError: at the call, if a target is no class.

    Example:
        >>> x = gradlib.tensor([[0.1, 0.2, 0.4, 0.8]])
        >>> round(nn.MultiMarginLoss()(x, gradlib.tensor([3])).item(), 4)
        0.325
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """input: [N, C] or [C], target: integers [N] or [] -> [], or [N]."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm distance.

    Args:
        margin: how much farther the negative has to be.
        p: of the norm.
        eps: added to the differences.
        swap: use d(positive, negative) when it is the smaller one.
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none", "mean" or "sum".

    Shape:
        anchor, positive, negative: [N, D] or [D] -> [], or [N] without reduction.

    Raises:
        ValueError: `margin` is not positive.

    Source: V. Balntas et al., Learning local feature descriptors with triplets and shallow
    convolutional neural networks, BMVC 2016.

    Example:
        >>> here, there = gradlib.zeros(1, 2), gradlib.tensor([[0.0, 0.5]])
        >>> round(nn.TripletMarginLoss()(here, here, there).item(), 4)
        0.5
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """anchor, positive, negative: [N, D] or [D] -> [], or [N] without reduction."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance.

    Args:
        distance_function: takes two tensors; the Euclidean `PairwiseDistance` by default.
        margin: how much farther the negative has to be.
        swap: use the distance of positive and negative when it is the smaller one.
        reduction: "none", "mean" or "sum".

    Shape:
        anchor, positive, negative: [N, *] -> [], or what the distance returns without reduction.

    Raises:
        ValueError: `margin` is not positive.

    Example:
        >>> def l1(a, b):
        ...     return (a - b).abs().sum(-1)
        >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=l1, margin=2.0)
        >>> loss(gradlib.zeros(1, 2), gradlib.ones(1, 2), gradlib.ones(1, 2) * 3).item()
        0.0
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )

        self.distance_function: Any = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """anchor, positive, negative: [N, *] -> [], or what the distance returns."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
