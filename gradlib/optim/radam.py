"""RAdam."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ._checks import check_betas, check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer
from ._rules import choose
from .adam import averages

__all__ = ["RAdam"]
__getattr__ = refuse(__name__)


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

    state_names = ("exp_avg", "exp_avg_sq")

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
        check_nonnegative(epsilon=eps)
        check_betas(betas)
        check_nonnegative(weight_decay=weight_decay)
        names = (
            "lr betas eps weight_decay maximize foreach "
            "capturable decoupled_weight_decay differentiable"
        )
        super().__init__(params, chosen(locals(), names))

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """Whether the step is adaptive is decided where the counter is."""
        beta1, beta2 = o["betas"]
        step = counters["step"]
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * step * (beta2**step) / (1 - beta2**step)
        adaptive = rho > 5.0
        # where the root is not used it must exist all the same
        limit, rho = choose(adaptive, limit, 6.0), choose(adaptive, rho, 6.0)
        rectified = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        size = o["lr"] / (1 - beta1**step)
        size = size * choose(adaptive, (rectified * (1 - beta2**step)) ** 0.5, 1.0)
        return {"beta1": beta1, "beta2": beta2, "eps": o["eps"], "size": size, "adaptive": adaptive}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        new = averages(h, g, s)
        m, v = new["exp_avg"], new["exp_avg_sq"]
        return F.where(h.adaptive, m / (F.sqrt(v) + h.eps), m) * h.size, new
