"""Stochastic gradient descent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradlib
from gradlib.optim._checks import check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer
from gradlib.tape.tensor import Tensor

__all__ = ["SGD"]


class SGD(ElementwiseOptimizer):
    """p <- p - lr * d, with d the gradient, or a momentum buffer b of it.

    b <- momentum * b + (1 - dampening) * g (b <- g at first); d = b, or g + momentum * b with
    Nesterov momentum. Weight decay adds weight_decay * p to g.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        momentum: share of the old buffer.
        dampening: share of the gradient that is left out of the buffer.
        weight_decay: coefficient of the L2 penalty.
        nesterov: look ahead along the buffer.
        maximize: follow the gradient upwards.
        foreach: accepted; small tensors are always updated together.
        differentiable: record the step, so that gradients flow through it.
        fused: accepted.

    Raises:
        ValueError: a setting outside of its range, or Nesterov momentum without momentum.

    Source: I. Sutskever et al., On the importance of initialization and momentum in deep
    learning, ICML 2013.

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.SGD([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.8
    """

    fused_rule = "sgd"
    foreach_records = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr, foreach=False)
        check_nonnegative("momentum", momentum)
        check_nonnegative("weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_flags(foreach, fused, differentiable)

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The momentum buffer, if there is momentum."""
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """None."""
        return {}

    def initial(self, name: str, p: Tensor, group: dict[str, Any]) -> Tensor:
        """The buffer before the first step, such that that step makes it the gradient."""
        if group["dampening"] == 0:
            return gradlib.zeros_like(p)
        g = p.grad
        assert g is not None
        g = -g if group["maximize"] else g
        if group["weight_decay"] != 0:
            g = g + p * group["weight_decay"]
        return (g * (group["dampening"] / group["momentum"])).detach()

    def advance(
        self, group: dict[str, Any], scalars: dict[str, Any]
    ) -> tuple[dict[str, float], SimpleNamespace]:
        """Constants of the step."""
        return {}, SimpleNamespace(
            lr=float(group["lr"]),
            momentum=float(group["momentum"]),
            kept=1.0 - float(group["dampening"]),
            nesterov=group["nesterov"],
        )

    @staticmethod
    def update(xp: Any, h: Any, p: Any, g: Any, slots: list[Any], out: Any, tmp: Any) -> None:
        """See the class."""
        if not slots:
            xp.multiply(g, h.lr, out)
            return
        buf = slots[0]
        xp.multiply(buf, h.momentum, buf)
        if h.kept == 1.0:
            xp.add(buf, g, buf)
        else:
            xp.multiply(g, h.kept, out)
            xp.add(buf, out, buf)
        if h.nesterov:
            xp.multiply(buf, h.momentum, out)
            xp.add(out, g, out)
            xp.multiply(out, h.lr, out)
        else:
            xp.multiply(buf, h.lr, out)

    def formula(
        self, group: dict[str, Any], p: Tensor, g: Tensor, s: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See the class."""
        if group["momentum"] == 0:
            return p - g * group["lr"], {}
        buf = s["momentum_buffer"] * group["momentum"] + g * (1 - group["dampening"])
        d = g + buf * group["momentum"] if group["nesterov"] else buf
        return p - d * group["lr"], {"momentum_buffer": buf}
