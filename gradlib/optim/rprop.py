"""Rprop."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ..operators import public as ops
from ..tape.tensor import Tensor
from ._checks import check_lr, chosen
from ._elementwise import ElementwiseOptimizer

__all__ = ["Rprop"]
__getattr__ = refuse(__name__)


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

    state_names = ("prev", "step_size")

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
        names = "lr etas step_sizes foreach maximize differentiable capturable"
        super().__init__(params, chosen(locals(), names))

    def initial(self, name: str, p: Tensor, group: dict[str, Any]) -> Tensor:
        """Zeros, and the learning rate for both parts of a complex number."""
        if name == "prev":
            return ops.zeros_like(p)
        lr = float(group["lr"])
        return ops.full_like(p, complex(lr, lr) if p.is_complex() else lr).detach()

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """Settings alone."""
        (minus, plus), (smallest, largest) = o["etas"], o["step_sizes"]
        return {"minus": minus, "plus": plus, "smallest": smallest, "largest": largest}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        size, product = s["step_size"], g * s["prev"]
        turned = product < 0
        grown = F.where(product > 0, size * h.plus, size)
        size = F.clamp(F.where(turned, size * h.minus, grown), h.smallest, h.largest)
        g = F.where(turned, 0.0, g)
        change = F.where(g > 0, size, F.where(g < 0, -size, 0.0))
        return change, {"prev": g, "step_size": size}
