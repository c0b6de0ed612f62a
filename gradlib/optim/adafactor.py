"""Adafactor: Adam's second moments as products of a row and a column."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from ._checks import check_least, check_one_element, chosen
from ._elementwise import scalar_tensor
from ._plain import PlainOptimizer

__all__ = ["Adafactor"]


class Adafactor(PlainOptimizer):
    """p <- p - alpha * u / max(1, rms(u) / d), with u the gradient over the root of its second moment.

    For a parameter (..., n, m) the second moment is estimated as row (..., n, 1) times column (..., 1, m) over the mean
    of the row, where row and column are running means of the squared gradient along the other dimension; vectors keep
    all of it. The share of the new gradient in step t is t**beta2_decay, and
    alpha = max(eps2, rms(p)) * min(lr, 1 / sqrt(t)).

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: upper limit of the relative step, and the learning rate of the weight decay.
        beta2_decay: exponent, at most 0.
        eps: (eps1, eps2): the lower limits of the estimates (None: the machine epsilon) and of rms(p).
        d: clipping threshold, at least 1.
        weight_decay: coefficient of the decoupled weight decay.
        foreach: accepted.
        maximize: follow the gradient upwards.

    Raises:
        ValueError: a setting outside of its range.

    Source: N. Shazeer, M. Stern, Adafactor: adaptive learning rates with sublinear memory cost, ICML 2018; with eps1
    applied to the estimates instead of the squared gradients.

    Example:
        >>> w = gradlib.ones(2, 3, requires_grad=True)
        >>> opt = gradlib.optim.Adafactor([w])
        >>> w.sum().backward()
        >>> opt.step()
        >>> round(w[0, 0].item(), 4)
        0.99
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        check_least("Learning rate", lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            check_least("epsilon1", eps[0])
        check_least("epsilon2", eps[1])
        check_least("Clipping threshold d", d, 1)
        check_least("weight_decay", weight_decay)
        names = "lr beta2_decay eps d weight_decay foreach maximize"
        super().__init__(params, chosen(locals(), names))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for values in self.state.values():  # the counter was a plain number once
            if "step" in values and not isinstance(values["step"], Tensor):
                values["step"] = scalar_tensor(float(values["step"]))

    def update_param(
        self, group: dict[str, Any], p: Tensor, grad: Tensor, state: dict[str, Any]
    ) -> None:
        """See the class."""
        if not state:
            self._start(grad, state)
        state["step"] += 1
        step, lr = state["step"].item(), float(group["lr"])
        eps1, eps2 = group["eps"]
        eps1 = dtypes.finfo(p.dtype).eps if eps1 is None else eps1
        root = math.sqrt(p.numel())
        alpha = max(eps2, p.norm(2).item() / root) * min(lr, 1 / math.sqrt(step))
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        estimate = self._estimate(grad, state, step ** group["beta2_decay"], eps1)
        update = estimate.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        size = max(1.0, update.norm(2).item() / (root * group["d"]))
        p.add_(update, alpha=-alpha / size)

    @staticmethod
    def _start(grad: Tensor, state: dict[str, Any]) -> None:
        state["step"] = scalar_tensor(0.0)
        if grad.dim() > 1:
            shape = list(grad.shape)
            state["row_var"] = grad.new_zeros([*shape[:-1], 1])
            state["col_var"] = grad.new_zeros([*shape[:-2], 1, shape[-1]])
        else:
            state["variance"] = ops.zeros_like(grad)

    @staticmethod
    def _estimate(grad: Tensor, state: dict[str, Any], share: float, eps1: float) -> Tensor:
        """The second moment of the gradient, in a tensor of its own."""
        square = grad * grad
        if grad.dim() < 2:
            return state["variance"].lerp_(square, share).clone()
        row, column = state["row_var"], state["col_var"]
        row.lerp_(square.mean(-1, keepdim=True), share)
        column.lerp_(square.mean(-2, keepdim=True), share)
        return (row @ column).div_(row.mean(-2, keepdim=True).clamp_(min=eps1))
