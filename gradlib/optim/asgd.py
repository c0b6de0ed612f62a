"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ..tape.tensor import Tensor
from ._checks import check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer, number, round_to_state
from ._rules import choose

__all__ = ["ASGD"]
__getattr__ = refuse(__name__)


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

    on_device = "params, mus, etas, and state_steps"
    state_names = ("ax",)

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
        check_nonnegative(weight_decay=weight_decay)
        names = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, chosen(locals(), names))

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """The step, eta and mu."""
        return {"step": 0.0, "eta": float(group["lr"]), "mu": 1.0}

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """This step uses eta and mu of the step before."""
        eta, mu = number(counters["eta"]), number(counters["mu"])
        lr, lambd, step = o["lr"], o["lambd"], counters["step"]
        late = step - o["t0"]
        counters["eta"] = round_to_state(lr / (1 + lambd * lr * step) ** o["alpha"])
        counters["mu"] = round_to_state(1 / choose(late > 1, late, 1.0))
        first = not isinstance(mu, Tensor) and mu == 1.0
        return {"eta": eta, "shrink": lambd * eta, "mu": mu, "first": first}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        change = g * h.eta + p * h.shrink
        new, ax = p - change, s["ax"]
        return change, {"ax": new if h.first else ax + (new - ax) * h.mu}
