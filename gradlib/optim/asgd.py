"""Averaged stochastic gradient descent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradlib
from gradlib.optim._checks import check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer, round_to_state
from gradlib.tape.tensor import Tensor

__all__ = ["ASGD"]


class ASGD(ElementwiseOptimizer):
    """p <- p * (1 - lambd * eta) - eta * g, and an average ax of p from step t0 on.

    After step t: eta = lr / (1 + lambd * lr * t)**alpha and mu = 1 / max(1, t - t0); ax moves
    towards p by mu.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        lambd: decay.
        alpha: power of eta.
        t0: step from which averages are taken.
        weight_decay: coefficient of the L2 penalty.
        foreach: accepted.
        maximize: follow the gradient upwards.
        differentiable: record the step.
        capturable: keep counters on the device.

    Raises:
        ValueError: a setting outside of its range.

    Source: B. Polyak, A. Juditsky, Acceleration of stochastic approximation by averaging,
    SIAM J. Control Optim. 30 (1992).

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.ASGD([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.8
    """

    needs_param = True

    on_device = "params, mus, etas, and state_steps"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_nonnegative("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The average."""
        return ("ax",)

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """The step, eta and mu."""
        return {"step": 0.0, "eta": float(group["lr"]), "mu": 1.0}

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step; this step uses eta and mu of the step before."""
        step = float(scalars["step"]) + 1
        lr, lambd = float(group["lr"]), float(group["lambd"])
        new = {
            "step": step,
            "eta": round_to_state(lr / (1 + lambd * lr * step) ** group["alpha"]),
            "mu": round_to_state(1 / max(1, step - group["t0"])),
        }
        eta = float(scalars["eta"])
        return new, SimpleNamespace(eta=eta, shrink=lambd * eta, mu=float(scalars["mu"]))

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        (ax,) = slots
        xp.multiply(p, h.shrink, tmp)
        xp.multiply(g, h.eta, out)
        xp.add(out, tmp, out)
        xp.subtract(p, out, tmp)  # the new parameter
        if h.mu == 1.0:
            ax[...] = tmp
        else:
            xp.subtract(tmp, ax, tmp)
            xp.multiply(tmp, h.mu, tmp)
            xp.add(ax, tmp, ax)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        lr, lambd = group["lr"], group["lambd"]
        step = s["step"] + 1
        new = p * (1 - lambd * s["eta"]) - g * s["eta"]
        state = {
            "step": step,
            "eta": lr / (1 + lambd * lr * step) ** group["alpha"],
            "mu": 1 / gradlib.clamp(step - group["t0"], min=1),
            "ax": s["ax"] + (new - s["ax"]) * s["mu"],
        }
        return new, state
