"""Adadelta."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradlib.optim._checks import check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["Adadelta"]


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
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_nonnegative("weight_decay", weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The two averages."""
        return ("square_avg", "acc_delta")

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step."""
        rho = float(group["rho"])
        return {"step": float(scalars["step"]) + 1}, SimpleNamespace(
            lr=float(group["lr"]), rho=rho, fresh=1 - rho, eps=float(group["eps"])
        )

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        squares, deltas = slots
        xp.multiply(g, g, out)
        xp.multiply(out, h.fresh, out)
        xp.multiply(squares, h.rho, squares)
        xp.add(squares, out, squares)
        xp.add(squares, h.eps, tmp)
        xp.sqrt(tmp, tmp)
        xp.add(deltas, h.eps, out)
        xp.sqrt(out, out)
        xp.divide(out, tmp, out)
        xp.multiply(out, g, out)
        xp.multiply(out, out, tmp)
        xp.multiply(tmp, h.fresh, tmp)
        xp.multiply(deltas, h.rho, deltas)
        xp.add(deltas, tmp, deltas)
        xp.multiply(out, h.lr, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        rho, eps = group["rho"], group["eps"]
        squares = s["square_avg"] * rho + g * g * (1 - rho)
        delta = (s["acc_delta"] + eps).sqrt() / (squares + eps).sqrt() * g
        deltas = s["acc_delta"] * rho + delta * delta * (1 - rho)
        state = {"step": s["step"] + 1, "square_avg": squares, "acc_delta": deltas}
        return p - delta * group["lr"], state
