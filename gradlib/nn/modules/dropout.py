"""Dropout."""

from __future__ import annotations

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    """The settings that all dropouts share."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p); identity in eval.

    Source: G. Hinton et al., Improving neural networks by preventing co-adaptation of feature
    detectors, arXiv:1207.0580.

    Example:
        >>> nn.Dropout(0.2).eval()(gradlib.ones(2)).tolist()
        [1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of [N, C, L] or [C, L] with probability p."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, L] or [C, L] -> the same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of [N, C, H, W] with probability p.

    Source: J. Tompson et al., Efficient object localization using convolutional networks,
    CVPR 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, H, W] or [N, C, L] -> the same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of [N, C, D, H, W] or [C, D, H, W] with probability p."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, D, H, W] or [C, D, H, W] -> the same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for nets with SELU.

    Source: G. Klambauer et al., Self-normalizing neural networks, NIPS 2017.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)
