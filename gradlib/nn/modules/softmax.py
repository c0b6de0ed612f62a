"""Softmax and its relatives as modules."""

from __future__ import annotations

from ...tape.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongDim(Module):
    """A softmax along one dimension."""

    _shown = "dim={0.dim}"

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class Softmin(_AlongDim):
    """exp(-x) / sum of exp(-x) along `dim`: `Softmax` of -x.

    Args:
        dim: what sums to 1; None is deprecated: it warns, and guesses 0 or 1.

    Shape:
        [...] -> the same.

    Raises:
        IndexError: the input has no such dimension.

    Example:
        >>> nn.Softmin(dim=0)(gradlib.tensor([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softmin(input, self.dim)


class Softmax(_AlongDim):
    """exp(x) / sum of exp(x) along `dim`, without overflow.

    Args:
        dim: what sums to 1; None is deprecated: it warns, and guesses 0 or 1.

    Shape:
        [...] -> the same.

    Raises:
        IndexError: the input has no such dimension.

    Example:
        >>> nn.Softmax(dim=0)(gradlib.zeros(2)).tolist()
        [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels at each pixel.

    Shape:
        [N, C, H, W] or [C, H, W] -> the same.

    Raises:
        ValueError: the input has neither 3 nor 4 dimensions.

    Example:
        >>> nn.Softmax2d()(gradlib.zeros(2, 1, 1)).flatten().tolist()
        [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, H, W] or [C, H, W] -> the same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class LogSoftmax(_AlongDim):
    """log of `Softmax`: x - log(sum of exp(x) along `dim`), without overflow.

    Args:
        dim: what is summed over; None is deprecated: it warns, and guesses 0 or 1.

    Shape:
        [...] -> the same.

    Raises:
        IndexError: the input has no such dimension.

    Example:
        >>> [round(v, 4) for v in nn.LogSoftmax(dim=0)(gradlib.zeros(2)).tolist()]
        [-0.6931, -0.6931]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.log_softmax(input, self.dim)
