"""Muon: momentum, made orthogonal."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from ._checks import check_least, check_one_element, chosen
from ._plain import PlainOptimizer

__all__ = ["Muon"]

_ADJUSTMENTS = ("original", "match_rms_adamw")


def _orthogonal(update: Tensor, coefficients: tuple, steps: int, eps: float) -> Tensor:
    """`update` (n, m) with its singular values brought near one by a polynomial, in bfloat16.

    Each step is x <- a x + (b s + c s s) x with s = x x^T.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = update.to(dtypes.bfloat16)
    tall = update.shape[0] > update.shape[1]
    if tall:
        x = x.T
    x = (x / x.norm().clamp(min=eps)).float()
    for _ in range(steps):
        s = _rounded(x @ x.T)
        x = _rounded(a * x + _rounded(b * s + c * (s @ s)) @ x)
    return (x.T if tall else x).to(dtypes.bfloat16)


def _rounded(x: Tensor) -> Tensor:
    """float32 numbers that bfloat16 has: sums and products are rounded once, at the end."""
    return x.to(dtypes.bfloat16).float()


class Muon(PlainOptimizer):
    """p <- (1 - lr * weight_decay) * p - lr' * orthogonal(d), for the matrices of hidden layers.

    b <- momentum * b + (1 - momentum) * g; d = b, or (1 - momentum) * g + momentum * b with Nesterov momentum. The
    matrix d (n, m) is replaced by the nearest orthogonal one, found by Newton-Schulz iterations.

    Args:
        params: matrices, (name, matrix) pairs, or groups.
        lr: learning rate.
        weight_decay: coefficient of the decoupled weight decay.
        momentum: share of the old buffer.
        nesterov: look ahead along the buffer.
        ns_coefficients: the polynomial of an iteration.
        eps: lower limit of the norm that d is divided by.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: "original" (or None): lr' = lr * sqrt(max(1, n / m)); "match_rms_adamw":
            lr' = 0.2 * lr * sqrt(max(n, m)).

    There is no `maximize`.

    Raises:
        ValueError: a setting outside of its range, or a parameter that is no matrix.

    Source: K. Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024; J. Liu et al., Muon is
    scalable for LLM training, 2025.

    Example:
        >>> w = gradlib.eye(2, requires_grad=True)
        >>> opt = gradlib.optim.Muon([w], lr=0.1)
        >>> w.sum().backward()
        >>> opt.step()
        >>> w.shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_element(lr)
        check_least("Learning rate", lr)
        check_least("momentum", momentum)
        check_least("weight decay", weight_decay)
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        names = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
        super().__init__(params, chosen(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}"
                    )

    def update_param(
        self, group: dict[str, Any], p: Tensor, grad: Tensor, state: dict[str, Any]
    ) -> None:
        """See the class."""
        if grad.dim() != 2:
            raise ValueError("Param gradient must be a 2D matrix")
        if not state:
            state["momentum_buffer"] = ops.zeros_like(grad)
        buffer, momentum = state["momentum_buffer"], group["momentum"]
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        lr, (n, m) = float(group["lr"]), p.shape
        p.mul_(1 - lr * group["weight_decay"])
        if group["adjust_lr_fn"] == "match_rms_adamw":
            lr *= 0.2 * math.sqrt(max(n, m))
        else:
            lr *= math.sqrt(max(1, n / m))
        p.add_(update, alpha=-lr)
