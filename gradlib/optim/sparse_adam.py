"""Adam for embeddings: rows without a gradient are left alone."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor
from ._checks import check_betas
from ._plain import PlainOptimizer

__all__ = ["SparseAdam"]


class SparseAdam(PlainOptimizer):
    """Adam on the rows (dimension 0) that have a gradient; moments of other rows do not decay.

    Gradients are dense tensors here: a row of zeros is one without a gradient, as those of an embedding that were
    not looked up.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        betas: decay rates of the moments.
        eps: added to the root of the second moment.
        maximize: follow the gradient upwards.

    Raises:
        ValueError: a setting outside of its range, or a complex parameter.

    Example:
        >>> table = gradlib.ones(3, 2, requires_grad=True)
        >>> opt = gradlib.optim.SparseAdam([table], lr=0.1)
        >>> nn.functional.embedding(gradlib.tensor([1]), table).sum().backward()
        >>> opt.step()
        >>> [round(v, 4) for v in table[:, 0].tolist()]
        [1.0, 0.9, 1.0]
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        bad = [
            [i, k]
            for i, group in enumerate(self.param_groups)
            for k, p in enumerate(group["params"])
            if p.is_complex()
        ]
        if bad:
            raise ValueError(
                f"Complex params at indices {bad}: SparseAdam does not support complex parameters"
            )

    def update_param(
        self, group: dict[str, Any], p: Tensor, grad: Tensor, state: dict[str, Any]
    ) -> None:
        """See the class."""
        if not state:
            state["step"] = 0
            state["exp_avg"] = ops.zeros_like(p)
            state["exp_avg_sq"] = ops.zeros_like(p)
        state["step"] += 1
        where: Any = ...
        if grad.dim():
            where = (
                (grad.unsqueeze(1) if grad.dim() == 1 else grad.flatten(1))
                .ne(0)
                .any(1)
                .nonzero()
                .squeeze(1)
            )
            if not where.numel():
                return
        self._update_rows(group, p, grad[where], where, state)

    @staticmethod
    def _update_rows(group, p: Tensor, g: Tensor, where: Any, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        step = state["step"]
        old1, old2 = state["exp_avg"][where], state["exp_avg_sq"][where]
        mean = old1 + (g - old1) * (1 - beta1)
        square = old2 + (g * g - old2) * (1 - beta2)
        state["exp_avg"][where] = mean
        state["exp_avg_sq"][where] = square
        size = float(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        p[where] = p[where] - size * mean / (square.sqrt() + group["eps"])
