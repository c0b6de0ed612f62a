"""Rprop."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradlib
from gradlib.optim._checks import check_flags, check_lr
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["Rprop"]


class Rprop(ElementwiseOptimizer):
    """p <- p - sign(g) * step size, each element with a step size of its own.

    It grows by etaplus where the gradient keeps its sign; where the sign changes it shrinks by
    etaminus and the element rests for one step.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: first step size.
        etas: (etaminus, etaplus).
        step_sizes: smallest and largest step size.
        capturable: keep the step count on the device.
        foreach: accepted.
        maximize: follow the gradient upwards.
        differentiable: record the step.

    Raises:
        ValueError: a setting outside of its range.

    Source: M. Riedmiller, H. Braun, A direct adaptive method for faster backpropagation
    learning, ICNN 1993.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.Rprop([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.9
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)
        check_flags(foreach, None, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The last gradient and the step sizes."""
        return ("prev", "step_size")

    def initial(self, name: str, p: Tensor, group: dict[str, Any]) -> Tensor:
        """Zeros, and the learning rate for both parts of a complex number."""
        if name == "prev":
            return gradlib.zeros_like(p)
        lr = float(group["lr"])
        return gradlib.full_like(p, complex(lr, lr) if p.is_complex() else lr).detach()

    def decay(self, group: dict[str, Any]) -> tuple[float, float]:
        """None."""
        return 0.0, 0.0

    def tensor_decay(self, group: dict[str, Any]) -> tuple[Any, Any]:
        """None."""
        return 0.0, 0.0

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Count the step."""
        minus, plus = (float(e) for e in group["etas"])
        smallest, largest = (float(s) for s in group["step_sizes"])
        return {"step": float(scalars["step"]) + 1}, SimpleNamespace(
            minus=minus, plus=plus, smallest=smallest, largest=largest
        )

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        prev, size = slots
        xp.multiply(g, prev, out)
        turned = out < 0
        xp.multiply(size, xp.where(turned, h.minus, xp.where(out > 0, h.plus, 1.0)), size)
        xp.clip(size, h.smallest, h.largest, size)
        prev[...] = g
        prev[turned] = 0
        xp.sign(prev, out)
        xp.multiply(out, size, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        minus, plus = group["etas"]
        smallest, largest = group["step_sizes"]
        product = g * s["prev"]
        turned, kept = (product < 0).to(g.dtype), (product > 0).to(g.dtype)
        factor = 1.0 + turned * (minus - 1.0) + kept * (plus - 1.0)
        size = (s["step_size"] * factor).clamp(smallest, largest)
        g = gradlib.where(product < 0, gradlib.zeros_like(g), g)
        new = {"step": s["step"] + 1, "prev": g, "step_size": size}
        return p - g.sign() * size, new
