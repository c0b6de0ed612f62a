"""What all losses share: the reduction, and a weight per class."""

from __future__ import annotations

import warnings
from typing import Any

from ...tape.tensor import Tensor
from .module import Module


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
    """A loss with a reduction.

    Args:
        size_average: deprecated, see `reduction`.
        reduce: deprecated, see `reduction`.
        reduction: "none" keeps the losses apart, "mean" averages them, "sum" adds them up.
    """

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
