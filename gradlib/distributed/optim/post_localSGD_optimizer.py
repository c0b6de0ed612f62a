"""An optimizer whose parameters are averaged over the ranks after its steps."""

from __future__ import annotations

import warnings
from typing import Any

from ...optim import Optimizer
from ...tape.source import user_level
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Runs an optimizer on each rank, and averages the parameters when an averager says so.

    Args:
        optim: the optimizer of this rank.
        averager: such as a ``PeriodicModelAverager``.

    Example::

        optimizer = PostLocalSGDOptimizer(
            optim=torch.optim.SGD(model.parameters(), lr=0.01),
            averager=PeriodicModelAverager(period=4, warmup_steps=100),
        )
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim = optim
        self.param_groups = optim.param_groups
        self.defaults = optim.defaults
        self.averager = averager
        self._prepare()

    @property
    def state(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the optimizer within.

        Returns:
            Parameter -> dict of what the optimizer keeps for it.
        """
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer within, and the steps of the averager as "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a `state_dict`.

        Args:
            state_dict: what this class's `state_dict` gave. Without a "step" the averager begins anew.
        """
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
            return
        warnings.warn(
            "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
            stacklevel=user_level(),
        )
        self.averager.step = 0

    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A step of the optimizer within, and the average if it is time."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients.

        Args:
            set_to_none: set them to None; else to 0, in place.
        """
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Args:
            param_group: "params" and options.
        """
        self.optim.add_param_group(param_group)
