"""A linear layer and cross entropy in one module."""

from __future__ import annotations

import math
from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from .._linear_cross_entropy import LinearCrossEntropyOptions, check_options
from .linear import Linear
from .loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the scores of a linear layer, which is the submodule `linear`.

    Args:
        in_features: size of a sample.
        num_classes: number of classes C.
        out_features: further dimensions of the scores; () for one score per class.
        bias: whether the layer has a bias.
        device, dtype: of the parameters.
        reduction: "none", "mean" or "sum".
        weight: Tensor [C], a factor per class.
        ignore_index: a class that does not count; None is -100.
        label_smoothing: this share of every target is spread evenly over the classes.
        options: pieces of the batch to compute one after the other; None is all at once.

    Example:
        >>> loss = nn.LinearCrossEntropyLoss(3, 4)
        >>> loss(gradlib.zeros(2, 3), gradlib.tensor([0, 1])).shape
        torch.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        check_options(num_classes, weight, label_smoothing)
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options = options
        outputs = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, outputs, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of the scores `linear(input)`.

        Args:
            input: [N, in_features], or [in_features] where out_features is ().
            target: int64 classes [N, *out_features] or []; or probabilities of classes.

        Returns:
            [], or one loss per target with reduction "none".
        """
        layer = self.linear
        shape = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            layer.weight.reshape(*shape, layer.in_features),
            target,
            linear_bias=None if layer.bias is None else layer.bias.reshape(shape),
            weight=self._buffers.get("weight"),
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
