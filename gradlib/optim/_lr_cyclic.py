"""Schedules that go up and down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ._lr_base import LRScheduler, check_optimizer, per_group, set_value
from .optimizer import Optimizer


def _check_momentum(optimizer: Optimizer) -> bool:
    """Whether the momentum to cycle is beta1."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], use_beta1: bool, value: Any) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _start_momentum(optimizer: Optimizer, use_beta1: bool, bases: list, tops: list) -> None:
    """Both ends of the cycle into the groups, which begin at the top."""
    for base, top, group in zip(bases, tops, optimizer.param_groups):
        _set_momentum(group, use_beta1, top)
        group["max_momentum"] = top
        group["base_momentum"] = base


class CosineAnnealingWarmRestarts(LRScheduler):
    """lr = eta_min + (initial lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2, starting again after T_i.

    T_cur counts from the last restart; T_i is T_0 at first, then T_mult times the one before.

    Args:
        optimizer: whose learning rates are set.
        T_0: epochs until the first restart.
        T_mult: each period is longer than the one before by this factor.
        eta_min: smallest learning rate.
        last_epoch: epoch to resume after; -1 starts anew.

    Raises:
        ValueError: `T_0` or `T_mult` is no positive integer, `eta_min` no number.

    Source: I. Loshchilov, F. Hutter, SGDR, ICLR 2017.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
        >>> lrs = []
        >>> for epoch in range(5):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (lr - self.eta_min) * share for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Go to the next epoch, or to `epoch`.

        Args:
            epoch: may have a fraction, such as epoch + i / batches; not negative.

        Raises:
            ValueError: it is negative.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._locate(epoch)
        self.last_epoch = math.floor(epoch)
        self._set_lrs(self.get_lr)

    def _locate(self, epoch: float) -> None:
        """The period that holds `epoch`, and the place in it."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


class CyclicLR(LRScheduler):
    """lr goes up and down between base_lr and max_lr; one step per batch.

    With c = floor(1 + step / n), n the steps of a cycle, lr = base_lr + (max_lr - base_lr) * h * scale:
    h rises from 0 to 1 in `step_size_up` steps and falls back in `step_size_down`, and scale is 1
    ("triangular"), 1 / 2**(c - 1) ("triangular2") or gamma**step ("exp_range").

    Args:
        optimizer: whose learning rates are set.
        base_lr: lower bound, one value or one per group.
        max_lr: upper bound, one value or one per group.
        step_size_up: steps from the lower to the upper bound.
        step_size_down: steps back; step_size_up by default.
        mode: "triangular", "triangular2" (halved every cycle) or "exp_range" (gamma**step).
        gamma: of "exp_range".
        scale_fn: scales the amplitude instead of `mode`.
        scale_mode: "cycle" or "iterations": what scale_fn is given.
        cycle_momentum: momentum, or beta1, goes the other way.
        base_momentum: lower bound of the momentum.
        max_momentum: upper bound of the momentum.
        last_epoch: step to resume after; -1 starts anew.

    Raises:
        ValueError: another mode, or `cycle_momentum` where the optimizer has none.

    Source: L. Smith, Cyclical learning rates for training neural networks, WACV 2017.

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.CyclicLR(opt, 0.1, 0.5, step_size_up=2)
        >>> lrs = []
        >>> for epoch in range(6):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [0.1, 0.3, 0.5, 0.3, 0.1, 0.3]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                _start_momentum(optimizer, self.use_beta1, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The scale of the amplitude in a cycle, or at a step.

        Args:
            x: the number of the cycle, from 1, or of the step, as `scale_mode` says.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x

    def get_lr(self) -> list[Any]:
        """The learning rates of this step; also sets the momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        lrs = [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)
        ]
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups
            ):
                _set_momentum(group, self.use_beta1, high - (high - low) * height * scale)
        return lrs

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of scale_fn, only a callable object keeps its state."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")
        keep = fn is not None and not hasattr(fn, "__code__")
        state["_scale_fn_custom"] = dict(fn.__dict__) if keep else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        rest = dict(state_dict)
        saved = rest.pop("_scale_fn_custom", None)
        super().load_state_dict(rest)
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """lr rises from max_lr / div_factor to max_lr, then falls far below; one step per batch.

    It rises during the first `pct_start` of the steps and then falls to max_lr / div_factor /
    final_div_factor, each along half a cosine or a line.

    Args:
        optimizer: whose learning rates are set.
        max_lr: upper bound, one value or one per group.
        total_steps: steps of the cycle; or epochs * steps_per_epoch.
        epochs: see total_steps.
        steps_per_epoch: see total_steps.
        pct_start: share of the steps that rise.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: momentum, or beta1, goes the other way.
        base_momentum: lower bound of the momentum.
        max_momentum: upper bound of the momentum.
        div_factor: max_lr over the first learning rate.
        final_div_factor: first over the last learning rate.
        three_phase: fall back to the first learning rate, then to the last one.
        last_epoch: step to resume after; -1 starts anew.

    Raises:
        ValueError: the number of steps is missing or not positive, `pct_start` is outside of [0, 1],
            another strategy, `cycle_momentum` where the optimizer has none; in `step`, beyond the end.

    Source: L. Smith, N. Topin, Super-convergence, arXiv:1708.07120 (2017).

    Example:
        >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = gradlib.optim.lr_scheduler.OneCycleLR(
        ...     opt, 1.0, total_steps=5, pct_start=0.6, anneal_strategy="linear")
        >>> lrs = []
        >>> for epoch in range(5):
        ...     lrs.append(round(scheduler.get_last_lr()[0], 4))
        ...     opt.step()
        ...     scheduler.step()
        >>> lrs
        [0.04, 0.52, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = self._phases(pct_start, three_phase)
        if last_epoch == -1:
            highs = per_group("max_lr", optimizer, max_lr)
            for group, high in zip(optimizer.param_groups, highs):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            tops = per_group("max_momentum", optimizer, max_momentum)
            bases = per_group("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                _start_momentum(optimizer, self.use_beta1, bases, tops)
        super().__init__(optimizer, last_epoch)

    def _phases(self, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
        """Where each phase ends, and between which settings it goes."""

        def phase(end: float, lrs: tuple[str, str], momenta: tuple[str, str]) -> dict[str, Any]:
            return {
                "end_step": end,
                "start_lr": lrs[0],
                "end_lr": lrs[1],
                "start_momentum": momenta[0],
                "end_momentum": momenta[1],
            }

        n = self.total_steps
        down, up = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
        flat = ("max_momentum", "max_momentum")
        first = phase(float(pct_start * n) - 1, ("initial_lr", "max_lr"), down)
        if three_phase:
            middle = float(2 * pct_start * n) - 2
            return [
                first,
                phase(middle, ("max_lr", "initial_lr"), up),
                phase(n - 1, ("initial_lr", "min_lr"), flat),
            ]
        return [first, phase(n - 1, ("max_lr", "min_lr"), up)]

    def _anneal(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        """The learning rates of this step; also sets the momentum."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        phase = self._schedule_phases[-1]
        for i, phase in enumerate(self._schedule_phases):
            if step <= phase["end_step"] or i == len(self._schedule_phases) - 1:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momenta = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self.use_beta1, self._anneal(*momenta, share))
        return lrs


def _total_steps(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is not None:
        if total <= 0 or not isinstance(total, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total}")
        return total
    if epochs is None or per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if not isinstance(epochs, int) or epochs <= 0:
        raise ValueError(f"Expected positive integer epochs, but got {epochs}")
    if not isinstance(per_epoch, int) or per_epoch <= 0:
        raise ValueError(f"Expected positive integer steps_per_epoch, but got {per_epoch}")
    return epochs * per_epoch
