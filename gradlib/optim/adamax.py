"""Adamax."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradlib
from gradlib.optim._checks import check_betas, check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["Adamax"]


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
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_nonnegative("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """m and u."""
        return ("exp_avg", "exp_inf")

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step."""
        step = float(scalars["step"]) + 1
        beta1, beta2 = (float(b) for b in group["betas"])
        return {"step": step}, SimpleNamespace(
            fresh=1 - beta1,
            beta2=beta2,
            eps=float(group["eps"]),
            size=float(group["lr"]) / (1 - beta1**step),
        )

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        m, u = slots
        xp.subtract(g, m, out)
        xp.multiply(out, h.fresh, out)
        xp.add(m, out, m)
        xp.absolute(g, out)
        xp.add(out, h.eps, out)
        xp.multiply(u, h.beta2, u)
        xp.maximum(u, out, out=u)
        xp.divide(m, u, out)
        xp.multiply(out, h.size, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        beta1, beta2 = group["betas"]
        step = s["step"] + 1
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - beta1)
        u = gradlib.maximum(s["exp_inf"] * beta2, g.abs() + group["eps"])
        new = p - m / u * (group["lr"] / (1 - beta1**step))
        return new, {"step": step, "exp_avg": m, "exp_inf": u}
