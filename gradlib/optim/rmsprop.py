"""RMSprop."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ._checks import check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer

__all__ = ["RMSprop"]
__getattr__ = refuse(__name__)


class RMSprop(ElementwiseOptimizer):
    """p <- p - lr * g / (sqrt(v) + eps), v a moving average of g**2 with rate alpha.

    With momentum a buffer b <- momentum * b + g / (sqrt(v) + eps) takes the place of the
    fraction; centered, v is reduced by the square of the average of g.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        alpha: rate of the averages.
        eps: added to the denominator.
        weight_decay: coefficient of the L2 penalty.
        momentum: see above.
        centered: see above.
        capturable: keep the step count on the device.
        foreach: accepted.
        maximize: follow the gradient upwards.
        differentiable: record the step.

    Raises:
        ValueError: a setting outside of its range.

    Source: G. Hinton, lecture 6e of Neural networks for machine learning (2012); centered:
    A. Graves, arXiv:1308.0850.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.RMSprop([w], lr=0.01)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.9
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check_nonnegative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        names = (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        )
        super().__init__(params, chosen(locals(), names))

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """v, the momentum buffer if there is momentum, the average of g if centered."""
        names = ("square_avg",)
        if group["momentum"] > 0:
            names += ("momentum_buffer",)
        return names + ("grad_avg",) if group["centered"] else names

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """Settings alone."""
        return {name: o[name] for name in ("lr", "alpha", "eps", "momentum")}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        v = g * g * (1 - h.alpha) + s["square_avg"] * h.alpha
        new = {"square_avg": v}
        if "grad_avg" in s:
            mean = new["grad_avg"] = s["grad_avg"] + (g - s["grad_avg"]) * (1 - h.alpha)
            v = v - mean * mean
        d = g / (F.sqrt(v) + h.eps)
        if "momentum_buffer" in s:
            d = new["momentum_buffer"] = s["momentum_buffer"] * h.momentum + d
        return d * h.lr, new
