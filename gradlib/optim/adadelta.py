"""Adadelta."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ._checks import check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer

__all__ = ["Adadelta"]
__getattr__ = refuse(__name__)


class Adadelta(ElementwiseOptimizer):
    """p <- p - lr * d, d = g * sqrt(mean of d**2 + eps) / sqrt(mean of g**2 + eps).

    The means are moving averages with rate rho.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: factor of d.
        rho: rate of the averages.
        eps: see above.
        weight_decay: coefficient of the L2 penalty.
        foreach: accepted.
        capturable: keep the step count on the device.
        maximize: follow the gradient upwards.
        differentiable: record the step.

    Raises:
        ValueError: a setting outside of its range.

    Source: M. Zeiler, ADADELTA, arXiv:1212.5701.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.Adadelta([w], lr=1.0)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.9968
    """

    state_names = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_nonnegative(epsilon=eps, weight_decay=weight_decay)
        names = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, chosen(locals(), names))

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """Settings alone."""
        return {name: o[name] for name in ("lr", "rho", "eps")}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        squares = g * g * (1 - h.rho) + s["square_avg"] * h.rho
        d = F.sqrt(s["acc_delta"] + h.eps) / F.sqrt(squares + h.eps) * g
        deltas = d * d * (1 - h.rho) + s["acc_delta"] * h.rho
        return d * h.lr, {"square_avg": squares, "acc_delta": deltas}
