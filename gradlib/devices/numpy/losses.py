"""Losses of large tensors whose elements' losses nobody wants: they are summed while they are in the cache."""

from __future__ import annotations

from typing import Any

from ...operators.kinds import F4, F8
from ...operators.nn.loss_base import NONE, sum_or_mean
from . import forward
from .blocks import PIECE
from .sums import squared_distance


def _serves(x: Any, y: Any) -> bool:
    """Whether two arrays are large, of one dtype and shape, and without gaps."""
    d = x.dtype
    large = x.size > PIECE and (d is F4 or d is F8) and y.dtype is d and y.shape == x.shape
    return large and x.flags.c_contiguous and y.flags.c_contiguous


@forward("mse_loss_op")
def mse_loss(xp: Any, self: Any, target: Any, *, reduction: int):
    if reduction == NONE or not _serves(self, target):
        return NotImplemented
    total = squared_distance(self.reshape(-1), target.reshape(-1))
    return sum_or_mean(total, self.size, reduction)
