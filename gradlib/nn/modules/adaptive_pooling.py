"""Pooling to a given size of the output."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
]


class _AdaptivePoolNd(Module):
    """Pooling whose windows are chosen so that the output has a given size."""

    _function: str
    _shown = "output_size={0.output_size}"

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        """input: [N, C, *L] or [C, *L] -> [N, C, *output_size] or [C, *output_size]."""
        return getattr(F, self._function)(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptivePoolNd):
    """Average pooling of a signal to a given length, whatever its own.

    Element i of the result is the mean over floor(i L / n) to ceil((i + 1) L / n), n the output size.

    Args:
        output_size: the length of the result.

    Shape:
        [N, C, L] or [C, L] -> [N, C, output_size] or [C, output_size].

    Example:
        >>> nn.AdaptiveAvgPool1d(2)(gradlib.tensor([[1.0, 3.0, 5.0, 7.0]])).tolist()
        [[2.0, 6.0]]
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptivePoolNd):
    """Average pooling of an image to a given size; windows as in `AdaptiveAvgPool1d`.

    Args:
        output_size: one number, or (height, width); None keeps a dimension.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, C, *output_size] or [C, *output_size].

    Example:
        >>> tuple(nn.AdaptiveAvgPool2d((5, None))(gradlib.randn(1, 64, 8, 9)).shape)
        (1, 64, 5, 9)
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptivePoolNd):
    """Average pooling of a volume to a given size; windows as in `AdaptiveAvgPool1d`.

    Args:
        output_size: one number, or (depth, height, width); None keeps a dimension.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> [N, C, *output_size] or [C, *output_size].

    Example:
        >>> tuple(nn.AdaptiveAvgPool3d((5, None, 2))(gradlib.randn(1, 64, 8, 9, 10)).shape)
        (1, 64, 5, 9, 2)
    """

    _function = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    """Adaptive max pooling, with indices when they are asked for."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """input: [N, C, *L] or [C, *L] -> [N, C, *output_size] or [C, *output_size]."""
        return getattr(F, self._function)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of a signal to a given length; windows as in `AdaptiveAvgPool1d`.

    Args:
        output_size: the length of the result.
        return_indices: also return where the largest elements are, int64.

    Shape:
        [N, C, L] or [C, L] -> [N, C, output_size] or [C, output_size].

    Example:
        >>> nn.AdaptiveMaxPool1d(2)(gradlib.tensor([[1.0, 3.0, 5.0, 7.0]])).tolist()
        [[3.0, 7.0]]
    """

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of an image to a given size; windows as in `AdaptiveAvgPool1d`.

    Args:
        output_size: one number, or (height, width); None keeps a dimension.
        return_indices: also return where the largest elements are, as positions in H * W.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, C, *output_size] or [C, *output_size].

    Example:
        >>> tuple(nn.AdaptiveMaxPool2d((2, None))(gradlib.randn(1, 64, 8, 9)).shape)
        (1, 64, 2, 9)
    """

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of a volume to a given size; windows as in `AdaptiveAvgPool1d`.

    Args:
        output_size: one number, or (depth, height, width); None keeps a dimension.
        return_indices: also return where the largest elements are, as positions in D * H * W.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> [N, C, *output_size] or [C, *output_size].

    Example:
        >>> tuple(nn.AdaptiveMaxPool3d((2, None, 3))(gradlib.randn(1, 64, 8, 9, 10)).shape)
        (1, 64, 2, 9, 3)
    """

    _function = "adaptive_max_pool3d"
