"""Distances between vectors."""

from __future__ import annotations

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.

    Example:
        >>> tuple(nn.PairwiseDistance()(gradlib.randn(5, 8), gradlib.randn(5, 8)).shape)
        (5,)
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """x1, x2: [N, D] or [D] -> [N] or [], or with the last dimension 1 if keepdim."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """x1 . x2 / max(|x1| |x2|, eps) along `dim`.

    Example:
        >>> round(nn.CosineSimilarity(0)(gradlib.ones(2), gradlib.ones(2)).item(), 4)
        1.0
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """x1, x2: [..., D, ...] -> without the dimension `dim`."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
