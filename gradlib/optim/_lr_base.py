"""LRScheduler: what sets the learning rates of an optimizer epoch by epoch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..tape.tensor import Tensor
from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set one setting of a group; a tensor keeps its identity."""
    if isinstance(group[key], Tensor):
        if isinstance(value, Tensor):
            group[key].copy_(value)
        else:
            group[key].fill_(value)
    else:
        group[key] = value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """One setting of every group; tensors are copied."""
    values = [group[key] for group in optimizer.param_groups]
    return [v.clone() if isinstance(v, Tensor) else v for v in values]


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for every group, from one value or a list of them."""
    n = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value.clone() if isinstance(value, Tensor) else value for _ in range(n)]
    if len(value) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {n}."
        )
    return list(value)


def check_optimizer(optimizer: Any) -> None:
    """Schedulers work on optimizers only."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base class of learning rate schedules.

    A subclass gives `get_lr`: the learning rates of epoch `last_epoch`, computed from those of
    the epoch before, so that schedules can be chained. A program calls `step` once an epoch (or a
    batch, where a schedule says so), after the optimizer's.

    Args:
        optimizer: whose learning rates are set.
        last_epoch: epoch to resume after; -1 starts anew and records "initial_lr" in each group.

    Raises:
        TypeError: `optimizer` is none.
        KeyError: resuming, where a group has no "initial_lr".

    Example:
        >>> class Halved(LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = Halved(opt)
        >>> opt.step()
        >>> scheduler.step()
        >>> opt.param_groups[0]["lr"]
        0.5
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        if last_epoch == -1:
            for group in optimizer.param_groups:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                        "scheduler with last_epoch >= 0.\nThis typically happens when:\n1. You're "
                        "trying to resume training from a checkpoint but haven't properly loaded "
                        "the optimizer state\n2. You're using last_epoch >= 0 for a fresh "
                        "training run (not recommended)"
                    )
        optimizer.__dict__.setdefault("_opt_called", False)
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self.optimizer = optimizer
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the learning rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """What is to be saved of the schedule: everything but the optimizer.

        Functions are in it only where they are objects of a class, by their attributes.

        Returns:
            A dict, for `load_state_dict`.
        """
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the optimizer has a state of its own to load.

        Args:
            state_dict: of a schedule made with the same arguments.
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates set last, one per group: numbers, or tensors where the groups have tensors.

        Returns:
            A list.
        """
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates of epoch `last_epoch`, one per group; subclasses give it, `step` calls it.

        A program asks `get_last_lr`; this one warns outside of `step`.

        Raises:
            NotImplementedError: here.
        """
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set the learning rates of the optimizer; after its own step, else it warns.

        Args:
            epoch: deprecated: go to this one, by the closed form where there is one.
        """
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch "
                "skipping the first value of the learning rate schedule. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            self._set_lrs(self.get_lr)
        else:
            self.last_epoch = epoch
            self._set_lrs(getattr(self, "_get_closed_form_lr", self.get_lr))

    def _set_lrs(self, lrs: Callable[[], list[Any]]) -> None:
        self._get_lr_called_within_step = True
        try:
            values = lrs()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values):
            set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _current(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]


class _LambdaBase(LRScheduler):
    """What the two schedules with functions share."""

    lr_lambdas: list[Callable[[int], float]]

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        n = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != n:
                raise ValueError(f"Expected {n} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * n
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of functions, only callable objects keep their state."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            dict(fn.__dict__) if not hasattr(fn, "__code__") else None for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        rest = {k: v for k, v in state_dict.items() if k != "lr_lambdas"}
        super().load_state_dict(rest)
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                fn.__dict__.update(saved)
