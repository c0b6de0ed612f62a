"""NAdam."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradlib.optim._checks import check_betas, check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["NAdam"]


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
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        check_nonnegative("weight_decay", weight_decay)
        check_nonnegative("momentum_decay", momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """m and v."""
        return ("exp_avg", "exp_avg_sq")

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """The step and the product of the mu."""
        return {"step": 0.0, "mu_product": 1.0}

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step; the product is rounded as its state tensor rounds it."""
        step = float(scalars["step"]) + 1
        beta1, beta2 = (float(b) for b in group["betas"])
        lr = float(group["lr"])
        mu, mu_next = _mu(beta1, step, group), _mu(beta1, step + 1, group)
        product = scalars["mu_product"]
        product = float(product * product.dtype.type(mu))
        return {"step": step, "mu_product": product}, SimpleNamespace(
            fresh1=1 - beta1,
            beta2=beta2,
            fresh2=1 - beta2,
            correction=1 - beta2**step,
            eps=float(group["eps"]),
            of_g=lr * (1 - mu) / (1 - product),
            of_m=lr * mu_next / (1 - product * mu_next),
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
        xp.multiply(g, h.of_g, out)
        xp.multiply(m, h.of_m, tmp)
        xp.add(out, tmp, out)
        xp.divide(v, h.correction, tmp)
        xp.sqrt(tmp, tmp)
        xp.add(tmp, h.eps, tmp)
        xp.divide(out, tmp, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        beta1, beta2 = group["betas"]
        step = s["step"] + 1
        mu, mu_next = _mu(beta1, step, group), _mu(beta1, step + 1, group)
        product = s["mu_product"] * mu
        m = s["exp_avg"] + (g - s["exp_avg"]) * (1 - beta1)
        v = s["exp_avg_sq"] * beta2 + g * g * (1 - beta2)
        denominator = (v / (1 - beta2**step)).sqrt() + group["eps"]
        lr = group["lr"]
        direction = g * (lr * (1 - mu) / (1 - product)) + m * (
            lr * mu_next / (1 - product * mu_next)
        )
        state = {"step": step, "mu_product": product, "exp_avg": m, "exp_avg_sq": v}
        return p - direction / denominator, state


def _mu(beta1: Any, step: Any, group: dict[str, Any]) -> Any:
    return beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
