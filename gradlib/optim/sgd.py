"""Stochastic gradient descent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradlib.core.tensor import Tensor
from gradlib.optim._checks import check_flags, check_lr, check_nonnegative
from gradlib.optim._elementwise import ElementwiseOptimizer

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

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """A new buffer is marked: its first value is the gradient itself."""
        if group["momentum"] != 0 and self.state[p].get("momentum_buffer") is None:
            state = super().init_state(p, group)
            state["momentum_buffer"]._fresh = True
            return state
        return super().init_state(p, group) if group["momentum"] != 0 else {}

