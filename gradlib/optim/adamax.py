"""Adamax."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ._checks import check_betas, check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer

__all__ = ["Adamax"]
__getattr__ = refuse(__name__)


class Adamax(ElementwiseOptimizer):
    """p <- p - lr / (1 - beta1**step) * m / u, with u <- max(beta2 * u, |g| + eps).

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        betas: (beta1, beta2).
        eps: added to |g|.
        weight_decay: coefficient of the L2 penalty.
        foreach: accepted.
        maximize: follow the gradient upwards.
        differentiable: record the step.
        capturable: keep the step count on the device.

    Raises:
        ValueError: a setting outside of its range.

    Source: D. Kingma, J. Ba, Adam, ICLR 2015, section 7.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.Adamax([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.9
    """

    state_names = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay)
        names = "lr betas eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, chosen(locals(), names))

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """The bias correction is part of the step size."""
        beta1, beta2 = o["betas"]
        size = o["lr"] / (1 - beta1 ** counters["step"])
        return {"beta1": beta1, "beta2": beta2, "eps": o["eps"], "size": size}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - h.beta1)
        u = F.maximum(s["exp_inf"] * h.beta2, F.abs(g) + h.eps)
        return m / u * h.size, {"exp_avg": m, "exp_inf": u}
