"""Optimizers over several ranks."""

from __future__ import annotations

from ..._refused import refuse
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
__getattr__ = refuse(__name__)
