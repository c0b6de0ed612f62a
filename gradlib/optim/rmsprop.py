"""RMSprop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradlib.optim._checks import check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["RMSprop"]


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
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_nonnegative("momentum", momentum)
        check_nonnegative("weight_decay", weight_decay)
        check_nonnegative("alpha", alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """v, the momentum buffer if there is momentum, the average of g if centered."""
        names = ("square_avg",)
        if group["momentum"] > 0:
            names += ("momentum_buffer",)
        return names + ("grad_avg",) if group["centered"] else names

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step."""
        alpha = float(group["alpha"])
        return {"step": float(scalars["step"]) + 1}, SimpleNamespace(
            lr=float(group["lr"]),
            alpha=alpha,
            fresh=1 - alpha,
            eps=float(group["eps"]),
            momentum=float(group["momentum"]),
            centered=group["centered"],
        )

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        v = slots[0]
        xp.multiply(g, g, out)
        xp.multiply(out, h.fresh, out)
        xp.multiply(v, h.alpha, v)
        xp.add(v, out, v)
        if h.centered:
            mean = slots[-1]
            xp.subtract(g, mean, out)
            xp.multiply(out, h.fresh, out)
            xp.add(mean, out, mean)
            xp.multiply(mean, mean, out)
            xp.subtract(v, out, out)
            xp.sqrt(out, out)
        else:
            xp.sqrt(v, out)
        xp.add(out, h.eps, out)
        xp.divide(g, out, out)
        if h.momentum > 0:
            buf = slots[1]
            xp.multiply(buf, h.momentum, buf)
            xp.add(buf, out, buf)
            xp.multiply(buf, h.lr, out)
        else:
            xp.multiply(out, h.lr, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        alpha = group["alpha"]
        v = s["square_avg"] * alpha + g * g * (1 - alpha)
        new = {"step": s["step"] + 1, "square_avg": v}
        if group["centered"]:
            mean = new["grad_avg"] = s["grad_avg"] + (g - s["grad_avg"]) * (1 - alpha)
            v = v - mean * mean
        d = g / (v.sqrt() + group["eps"])
        if group["momentum"] > 0:
            d = new["momentum_buffer"] = s["momentum_buffer"] * group["momentum"] + d
        return p - d * group["lr"], new
