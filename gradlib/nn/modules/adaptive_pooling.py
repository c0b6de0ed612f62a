"""Pooling to a given size of the output."""

from __future__ import annotations

from typing import Any

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

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

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        """input: [N, C, *L] or [C, *L] -> [N, C, *output_size] or [C, *output_size]."""
        return getattr(F, self._function)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePoolNd):
    """Average pooling of [N, C, L] to a given length.

    Example:
        >>> tuple(nn.AdaptiveAvgPool1d(5)(gradlib.randn(1, 64, 8)).shape)
        (1, 64, 5)
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptivePoolNd):
    """Average pooling of [N, C, H, W] to a given size; None keeps a dimension.

    Example:
        >>> tuple(nn.AdaptiveAvgPool2d((5, None))(gradlib.randn(1, 64, 8, 9)).shape)
        (1, 64, 5, 9)
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptivePoolNd):
    """Average pooling of [N, C, D, H, W] to a given size; None keeps a dimension."""

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
    """Max pooling of [N, C, L] to a given length."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of [N, C, H, W] to a given size; None keeps a dimension."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of [N, C, D, H, W] to a given size; None keeps a dimension."""

    _function = "adaptive_max_pool3d"
