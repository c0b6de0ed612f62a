"""When parameters are averaged: every so many steps, after some steps without."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ....tape.source import user_level
from ....tape.tensor import Tensor
from ..._world import the_group
from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """What averages parameters; subclasses say when.

    Args:
        process_group: whose ranks; all if None.

    Attributes:
        step: how often `average_parameters` was called.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = the_group(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Tensor] | Iterable[dict[str, Any]]) -> None:
        """Count a step, and average the parameters if it is time.

        Args:
            params: parameters, or an optimizer's groups.
        """
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages parameters over the ranks every `period` steps, after the first `warmup_steps`.

    Args:
        period: steps from one average to the next. 1 is slower than averaging gradients.
        warmup_steps: steps without averages.
        process_group: whose ranks; all if None.

    Raises:
        ValueError: `warmup_steps` is below 0, or `period` not above it.

    Example::

        averager = PeriodicModelAverager(period=4, warmup_steps=100)
        for step in range(200):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
            averager.average_parameters(model.parameters())
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing "
                "parameters will be no less than the cost of all-reducing gradients by DistributedDataParallel in the "
                "backward pass. Therefore, only DistributedDataParallel should be used for this case.",
                stacklevel=user_level(),
            )
        self.period = period

    def average_parameters(self, params: Iterable[Tensor] | Iterable[dict[str, Any]]) -> None:
        """Count a step, and average the parameters that have a gradient if it is time.

        Args:
            params: parameters, or an optimizer's groups.
        """
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
