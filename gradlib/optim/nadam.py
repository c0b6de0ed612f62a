"""NAdam."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ._checks import check_betas, check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer, times
from .adam import averages

__all__ = ["NAdam"]
__getattr__ = refuse(__name__)


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum.

    mu_t = beta1 * (1 - 0.96**(t * momentum_decay) / 2) and p <- p - lr * (mu_(t+1) * m /
    (1 - product of mu up to t + 1) + (1 - mu_t) * g / (1 - product of mu up to t)) /
    (sqrt(v / (1 - beta2**t)) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        betas: (beta1, beta2).
        eps: added to the denominator.
        weight_decay: coefficient of the penalty.
        momentum_decay: see above.
        decoupled_weight_decay: decay p itself, as AdamW does.
        foreach: accepted.
        maximize: follow the gradient upwards.
        capturable: keep counters on the device.
        differentiable: record the step.

    Raises:
        ValueError: a setting outside of its range.

    Source: T. Dozat, Incorporating Nesterov momentum into Adam, ICLR workshop 2016.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.NAdam([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.8944
    """

    on_device = "params, mu_products and state_steps"
    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check_nonnegative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        names = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize "
            "foreach capturable differentiable"
        )
        super().__init__(params, chosen(locals(), names))

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """The step and the product of the mu."""
        return {"step": 0.0, "mu_product": 1.0}

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """The product of the mu is rounded as its state tensor rounds it."""
        beta1, beta2 = o["betas"]
        step, lr = counters["step"], o["lr"]
        mu, mu_next = (
            beta1 * (1.0 - 0.5 * 0.96 ** (t * o["momentum_decay"])) for t in (step, step + 1)
        )
        product = counters["mu_product"] = times(counters["mu_product"], mu)
        return {
            "beta1": beta1,
            "beta2": beta2,
            "correction": 1 - beta2**step,
            "eps": o["eps"],
            "of_g": lr * (1 - mu) / (1 - product),
            "of_m": lr * mu_next / (1 - product * mu_next),
        }

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        new = averages(h, g, s)
        direction = g * h.of_g + new["exp_avg"] * h.of_m
        return direction / (F.sqrt(new["exp_avg_sq"] / h.correction) + h.eps), new
