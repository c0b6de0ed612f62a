"""RAdam."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradlib
from gradlib.optim._checks import check_betas, check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["RAdam"]


class RAdam(ElementwiseOptimizer):
    """Adam whose adaptive step is rectified, and left out while its variance is too large.

    rho_inf = 2 / (1 - beta2) - 1 and rho = rho_inf - 2 t beta2**t / (1 - beta2**t). Where
    rho > 5: p <- p - lr * r * m_hat * sqrt(1 - beta2**t) / (sqrt(v) + eps), with r the square
    root of (rho - 4)(rho - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho); else
    p <- p - lr * m_hat.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        betas: (beta1, beta2).
        eps: added to the denominator.
        weight_decay: coefficient of the penalty.
        decoupled_weight_decay: decay p itself, as AdamW does.
        foreach: accepted.
        maximize: follow the gradient upwards.
        capturable: keep the step count on the device.
        differentiable: record the step.

    Raises:
        ValueError: a setting outside of its range.

    Source: L. Liu et al., On the variance of the adaptive learning rate and beyond, ICLR 2020.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.RAdam([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.8
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """m and v."""
        return ("exp_avg", "exp_avg_sq")

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step; decide whether it is adaptive."""
        step = float(scalars["step"]) + 1
        beta1, beta2 = (float(b) for b in group["betas"])
        size = float(group["lr"]) / (1 - beta1**step)
        rho_inf, rho = _rho(beta2, step)
        adaptive = rho > 5.0
        if adaptive:
            size *= (_rectified(rho_inf, rho) * (1 - beta2**step)) ** 0.5
        return {"step": step}, SimpleNamespace(
            fresh1=1 - beta1,
            beta2=beta2,
            fresh2=1 - beta2,
            eps=float(group["eps"]),
            size=size,
            adaptive=adaptive,
        )

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        m, v = slots
        xp.subtract(g, m, out)
        xp.multiply(out, h.fresh1, out)
        xp.add(m, out, m)
        xp.multiply(g, g, out)
        xp.multiply(out, h.fresh2, out)
        xp.multiply(v, h.beta2, v)
        xp.add(v, out, v)
        if h.adaptive:
            xp.sqrt(v, out)
            xp.add(out, h.eps, out)
            xp.divide(m, out, out)
            xp.multiply(out, h.size, out)
        else:
            xp.multiply(m, h.size, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class; both branches are computed and one is chosen on the device."""
        beta1, beta2 = group["betas"]
        step = s["step"] + 1
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - beta1)
        v = s["exp_avg_sq"] * beta2 + g * g * (1 - beta2)
        rho_inf, rho = _rho(beta2, step)
        adaptive = rho > 5.0
        safe = gradlib.where(adaptive, rho, gradlib.full_like(rho, 6.0))
        size = (_rectified(rho_inf, safe) * (1 - beta2**step)).sqrt()
        factor = gradlib.where(adaptive, size / (v.sqrt() + group["eps"]), gradlib.ones_like(v))
        new = p - m * factor * (group["lr"] / (1 - beta1**step))
        return new, {"step": step, "exp_avg": m, "exp_avg_sq": v}


def _rho(beta2: Any, step: Any) -> tuple[Any, Any]:
    rho_inf = 2 / (1 - beta2) - 1
    return rho_inf, rho_inf - 2 * step * (beta2**step) / (1 - beta2**step)


def _rectified(rho_inf: Any, rho: Any) -> Any:
    """The square of r."""
    return (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
