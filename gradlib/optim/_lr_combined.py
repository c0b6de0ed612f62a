"""Schedules made of schedules, and the one that watches a metric."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ._lr_base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    check_optimizer,
    set_value,
    values_of,
)
from .optimizer import Optimizer


class _Combined(LRScheduler):
    """Checks and state of schedules made of schedules."""

    _schedulers: list[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Any, purpose: str) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(
                f"{name} expects at least one scheduler{purpose}, but got no scheduler."
            )
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the states of the schedulers."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(saved)


class SequentialLR(_Combined):
    """One schedule after another, each from its own epoch 0.

    Args:
        optimizer: whose learning rates are set.
        schedulers: in order, all of this optimizer.
        milestones: epochs at which the next one takes over; one fewer than schedulers.
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        ValueError: no scheduler, another number of milestones, one of another optimizer, or a
            `ReduceLROnPlateau`, which needs a metric.
        TypeError: one that has no optimizer.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> warmup = gradlib.optim.lr_scheduler.LinearLR(opt, 0.5, total_iters=2)
        >>> decay = gradlib.optim.lr_scheduler.ExponentialLR(opt, 0.1)
        >>> scheduler = gradlib.optim.lr_scheduler.SequentialLR(opt, [warmup, decay], milestones=[2])
        >>> lrs = []
        >>> for epoch in range(4):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [0.5, 0.75, 1.0, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        self._check(schedulers, optimizer, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                "the number of milestone points, but got number of schedulers "
                f"{len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step that the schedulers made when they were constructed.

        Args:
            sched: a schedule, whose schedulers are gone through as well; this one by default.
        """
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedules, all applied every epoch: their factors are multiplied.

    Args:
        schedulers: applied in order.
        optimizer: whose learning rates are set; that of the schedulers by default.

    Raises:
        ValueError: no scheduler, one of another optimizer, or a `ReduceLROnPlateau`.
        TypeError: one that has no optimizer.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> warmup = gradlib.optim.lr_scheduler.ConstantLR(opt, 0.1, total_iters=2)
        >>> decay = gradlib.optim.lr_scheduler.ExponentialLR(opt, 0.5)
        >>> scheduler = gradlib.optim.lr_scheduler.ChainedScheduler([warmup, decay])
        >>> lrs = []
        >>> for epoch in range(4):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [0.1, 0.05, 0.25, 0.125]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._check(schedulers, optimizer, " to be chained")
        self._schedulers = list(schedulers)
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        self._last_lr = values_of(self._schedulers[-1].optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self._schedulers[-1].optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """lr is multiplied by `factor` when a metric has not improved for more than `patience` epochs.

    Args:
        optimizer: whose learning rates are set.
        mode: "min" or "max": which way the metric improves.
        factor: below 1.
        patience: epochs without improvement that are allowed.
        threshold: how much counts as an improvement.
        threshold_mode: "rel" (of the best value) or "abs".
        cooldown: epochs after a change during which none is counted.
        min_lr: smallest learning rate, one value or one per group.
        eps: smallest change of a learning rate.

    Raises:
        ValueError: `factor` is 1 or more, another mode, another number of `min_lr` than groups.
        TypeError: `optimizer` is none.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0)
        >>> scheduler.step(1.0), scheduler.step(2.0)
        (None, None)
        >>> scheduler.get_last_lr()
        [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        n = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != n:
                raise ValueError(f"expected {n} min_lrs, got {len(min_lr)}")
            self.default_min_lr: Any = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * n
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        """Forget the best value and the counts."""
        self.best = float("inf") if self.mode == "min" else float("-inf")
        self.mode_worse = self.best
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Count one epoch with this value of the metric."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually "
                    "due to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, smallest in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, smallest)
            if old - new > self.eps:
                set_value(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether a change was made a short time ago."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            limit = best * (1.0 - sign * self.threshold)
        else:
            limit = best - sign * self.threshold
        return a < limit if self.mode == "min" else a > limit
