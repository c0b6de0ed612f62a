"""Schedules with a closed form."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ._lr_base import LRScheduler, _LambdaBase
from .optimizer import Optimizer


class LambdaLR(_LambdaBase):
    """lr = initial lr * lr_lambda(epoch).

    Args:
        optimizer: whose learning rates are set.
        lr_lambda: one function, or one per group.
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        ValueError: another number of functions than groups.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch))
        >>> lrs = []
        >>> for epoch in range(3):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.5, 0.3333]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_LambdaBase):
    """lr = last lr * lr_lambda(epoch).

    Args:
        optimizer: whose learning rates are set.
        lr_lambda: one function, or one per group.
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        TypeError: it cannot be called.
        ValueError: another number of functions than groups.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.MultiplicativeLR(opt, lambda epoch: 0.5)
        >>> lrs = []
        >>> for epoch in range(3):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        for fn in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(fn):
                raise TypeError(f"lr_lambda should be a function, but got {type(fn).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self._current())]


class StepLR(LRScheduler):
    """lr = initial lr * gamma ** (epoch // step_size): multiplied by gamma every `step_size` epochs.

    Args:
        optimizer: whose learning rates are set.
        step_size: epochs between changes.
        gamma: the factor.
        last_epoch: epoch to resume after; -1 starts anew.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.StepLR(opt, step_size=2)
        >>> lrs = []
        >>> for epoch in range(5):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 1.0, 0.1, 0.1, 0.01]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr = initial lr * gamma ** (milestones passed): multiplied by gamma at every milestone.

    Args:
        optimizer: whose learning rates are set.
        milestones: epochs, increasing.
        gamma: the factor.
        last_epoch: epoch to resume after; -1 starts anew.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.MultiStepLR(opt, [1, 3])
        >>> lrs = []
        >>> for epoch in range(5):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.1, 0.1, 0.01, 0.01]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        times = self.milestones.get(self.last_epoch, 0)
        if times == 0:
            return self._current()
        return [lr * self.gamma**times for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """lr = initial lr * factor for the first `total_iters` epochs, then the initial lr.

    Args:
        optimizer: whose learning rates are set.
        factor: between 0 and 1.
        total_iters: epochs.
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        ValueError: `factor` is outside of [0, 1].

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.ConstantLR(opt, factor=0.5, total_iters=2)
        >>> lrs = []
        >>> for epoch in range(4):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [lr * (1.0 / self.factor) for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [lr * factor for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """lr = initial lr * (start_factor + (end_factor - start_factor) * min(epoch / total_iters, 1)).

    Args:
        optimizer: whose learning rates are set.
        start_factor: above 0, at most 1.
        end_factor: between 0 and 1.
        total_iters: epochs.
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        ValueError: a factor is out of range.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.LinearLR(opt, start_factor=0.5, total_iters=2)
        >>> lrs = []
        >>> for epoch in range(4):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._current()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        span = self.end_factor - self.start_factor
        start = self.total_iters * self.start_factor
        factor = 1.0 + span / (start + (self.last_epoch - 1) * span)
        return [lr * factor for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        span = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * (self.start_factor + span * done) for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """lr = initial lr * gamma ** epoch.

    Args:
        optimizer: whose learning rates are set.
        gamma: the factor.
        last_epoch: epoch to resume after; -1 starts anew.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
        >>> lrs = []
        >>> for epoch in range(3):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr = initial lr * (1 - epoch / total_iters) ** power, and 0 after that.

    Args:
        optimizer: whose learning rates are set.
        total_iters: epochs.
        power: of the polynomial.
        last_epoch: epoch to resume after; -1 starts anew.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.PolynomialLR(opt, total_iters=4, power=2.0)
        >>> lrs = []
        >>> for epoch in range(6):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        now = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        factor = (now / before) ** self.power
        return [lr * factor for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """lr = eta_min + (initial lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2.

    Half a cosine from the initial lr to eta_min in T_max epochs; after that it rises again.

    Args:
        optimizer: whose learning rates are set.
        T_max: epochs of half a period.
        eta_min: smallest learning rate.
        last_epoch: epoch to resume after; -1 starts anew.

    Source: I. Loshchilov, F. Hutter, SGDR, ICLR 2017 (without restarts).

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=4)
        >>> lrs = []
        >>> for epoch in range(5):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.8536, 0.5, 0.1464, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        epoch, low = self.last_epoch, self.eta_min
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - low) * rise for base, lr in zip(self.base_lrs, self._current())]
        now = 1 + math.cos(math.pi * epoch / self.T_max)
        before = 1 + math.cos(math.pi * (epoch - 1) / self.T_max)
        return [now / before * (lr - low) + low for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * share for lr in self.base_lrs]
