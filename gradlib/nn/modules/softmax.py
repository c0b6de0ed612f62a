"""Softmax and its relatives as modules."""

from __future__ import annotations

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongDim(Module):
    """A softmax along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The setting."""
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """exp(-x) / sum of exp(-x) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softmin(input, self.dim)


class Softmax(_AlongDim):
    """exp(x) / sum of exp(x) along `dim`.

    Example:
        >>> nn.Softmax(dim=0)(gradlib.zeros(2)).tolist()
        [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, H, W] or [C, H, W] -> the same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class LogSoftmax(_AlongDim):
    """log of `Softmax`, computed without overflow."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.log_softmax(input, self.dim)
