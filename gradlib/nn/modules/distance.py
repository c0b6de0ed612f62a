"""Distances between vectors."""

from __future__ import annotations

from ...tape.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.

    Args:
        p: of the norm; also negative or infinite.
        eps: added to every difference, so that the norm has a gradient at 0.
        keepdim: keep the last dimension, with size 1.

    Shape:
        x1, x2: [N, D] or [D], broadcast -> [N] or [].

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> d = nn.PairwiseDistance()(gradlib.zeros(1, 2), gradlib.tensor([[3.0, 4.0]]))
        >>> [round(v, 4) for v in d.tolist()]
        [5.0]
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
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along `dim`: the cosine of the angle between them.

    Args:
        dim: the dimension of the vectors.
        eps: a vector of smaller norm counts as this long.

    Shape:
        x1, x2: [..., D, ...], broadcast -> the same without dimension `dim`.

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> a, b = gradlib.tensor([[1.0, 0.0]]), gradlib.tensor([[1.0, 1.0]])
        >>> [round(v, 4) for v in nn.CosineSimilarity()(a, b).tolist()]
        [0.7071]
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """x1, x2: [..., D, ...] -> without the dimension `dim`."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
