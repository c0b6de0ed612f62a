"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ..tape.tensor import Tensor
from ._checks import check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer

__all__ = ["SGD"]
__getattr__ = refuse(__name__)


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

    kernel = "sgd"
    foreach_records = True
    beginning = {"dampening": 0}  # so the buffer, which begins as zeros, becomes the gradient

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
        check_nonnegative(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        names = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
        super().__init__(params, chosen(locals(), names))

    def slots(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The momentum buffer, if there is momentum."""
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def scalars(self, group: dict[str, Any]) -> dict[str, float]:
        """None."""
        return {}

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """Settings alone."""
        h = {name: o[name] for name in ("lr", "momentum", "dampening")}
        return {**h, "nesterov": bool(o["nesterov"]), "dampened": bool(o["dampening"] != 0)}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        if not s:
            return g * h.lr, {}
        buf = s["momentum_buffer"] * h.momentum + (g * (1 - h.dampening) if h.dampened else g)
        d = buf * h.momentum + g if h.nesterov else buf
        return d * h.lr, {"momentum_buffer": buf}

    def sparse_update(self, group: dict[str, Any], p: Tensor, grad: Tensor) -> None:
        """The step along a sparse gradient; its momentum buffer is sparse, too."""
        if group["weight_decay"]:
            raise RuntimeError(
                "weight_decay option is not compatible with sparse gradients: it changes every row"
            )
        momentum = group["momentum"]
        if momentum:
            grad = grad.coalesce()  # so the buffer has each row once, however many steps there are
            buffer = self.state[p].get("momentum_buffer")
            if buffer is None:
                buffer = self.state[p]["momentum_buffer"] = grad.clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        p.add_(grad, alpha=-float(group["lr"]))
