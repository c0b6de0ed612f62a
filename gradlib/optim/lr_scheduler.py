"""Learning rate schedules."""

from __future__ import annotations

from gradlib.optim._lr_base import EPOCH_DEPRECATION_WARNING, LRScheduler
from gradlib.optim._lr_combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from gradlib.optim._lr_cyclic import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from gradlib.optim._lr_simple import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _LRScheduler(LRScheduler):
    """The name that LRScheduler had in older versions."""
