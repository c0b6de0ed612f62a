"""Dropout."""

from __future__ import annotations

from ...tape.tensor import Tensor
from .. import functional as F
from .module import Module

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

    _shown = "p={0.p}, inplace={0.inplace}"

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace


class Dropout(_DropoutNd):
    """Zeroes each element with probability p and divides the rest by 1 - p; nothing in evaluation mode.

    Args:
        p: the probability, 0 to 1.
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Raises:
        ValueError: `p` is outside of [0, 1].

    Source: G. Hinton et al., Improving neural networks by preventing co-adaptation of feature
    detectors, arXiv:1207.0580 (2012).

    Example:
        >>> sorted(set(nn.Dropout(0.5)(gradlib.ones(1000)).tolist()))
        [0.0, 2.0]
        >>> nn.Dropout(0.5).eval()(gradlib.ones(2)).tolist()
        [1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """`Dropout` of whole channels of signals: a channel is zeroed, or divided by 1 - p, as a whole.

    Args:
        p: the probability, 0 to 1.
        inplace: overwrite the input and return it.

    Shape:
        [N, C, L] or [C, L] -> the same.

    Raises:
        ValueError: `p` is outside of [0, 1].
        RuntimeError: the input has neither 2 nor 3 dimensions.

    Example:
        >>> out = nn.Dropout1d()(gradlib.ones(8, 4, 3))
        >>> bool((out == out[..., :1]).all())
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, L] or [C, L] -> the same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """`Dropout` of whole channels of images: a channel is zeroed, or divided by 1 - p, as a whole.

    Neighbouring pixels are alike, so that dropping single ones would take away little.

    Args:
        p: the probability, 0 to 1.
        inplace: overwrite the input and return it.

    Shape:
        [N, C, H, W] -> the same. [C, H, W] is read as [N, C, L]; other numbers of dimensions warn.

    Raises:
        ValueError: `p` is outside of [0, 1].

    Source: J. Tompson et al., Efficient object localization using convolutional networks,
    CVPR 2015.

    Example:
        >>> out = nn.Dropout2d()(gradlib.ones(8, 4, 2, 2))
        >>> bool((out == out[..., :1, :1]).all())
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, H, W] or [N, C, L] -> the same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """`Dropout` of whole channels of volumes: a channel is zeroed, or divided by 1 - p, as a whole.

    Args:
        p: the probability, 0 to 1.
        inplace: overwrite the input and return it.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same.

    Raises:
        ValueError: `p` is outside of [0, 1].

    Example:
        >>> nn.Dropout3d(1.0)(gradlib.ones(1, 2, 1, 1, 1)).flatten().tolist()
        [0.0, 0.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, D, H, W] or [C, D, H, W] -> the same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout for nets with `SELU`: keeps mean 0 and variance 1.

    A dropped element becomes -1.7581, what SELU tends to on the left; then everything is scaled
    and moved so that mean and variance are as before. Nothing happens in evaluation mode.

    Args:
        p: the probability, 0 to 1.
        inplace: accepted; the result is always a new tensor.

    Shape:
        [...] -> the same.

    Raises:
        ValueError: `p` is outside of [0, 1].

    Source: G. Klambauer et al., Self-normalizing neural networks, NIPS 2017.

    Example:
        >>> len(set(nn.AlphaDropout(0.5)(gradlib.zeros(1000)).tolist()))
        2
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

    Args:
        p: the probability, 0 to 1.
        inplace: accepted; the result is always a new tensor.

    Shape:
        [N, C, *L] -> the same.

    Raises:
        ValueError: `p` is outside of [0, 1].

    Example:
        >>> out = nn.FeatureAlphaDropout()(gradlib.zeros(8, 4, 3))
        >>> bool((out == out[..., :1]).all())
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> the same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)
