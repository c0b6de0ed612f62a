"""Adam for embeddings: rows without a gradient are left alone."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..tape.device import beside
from ..tape.sparse import is_sparse
from ..tape.tensor import Tensor
from ._checks import check_betas, check_one_element, chosen
from ._plain import PlainOptimizer
from ._rows import Rows

__all__ = ["SparseAdam"]


class SparseAdam(PlainOptimizer):
    """Adam on the rows that a sparse gradient has; moments of other rows do not decay.

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        betas: decay rates of the moments.
        eps: added to the root of the second moment.
        maximize: follow the gradient upwards.

    Raises:
        ValueError: a setting outside of its range, or a complex or sparse parameter.
        RuntimeError: a gradient is dense.

    Example:
        >>> table = gradlib.ones(3, 2, requires_grad=True)
        >>> opt = gradlib.optim.SparseAdam([table], lr=0.1)
        >>> nn.functional.embedding(gradlib.tensor([1]), table, sparse=True).sum().backward()
        >>> opt.step()
        >>> [round(v, 4) for v in table[:, 0].tolist()]
        [1.0, 0.9, 1.0]
    """

    takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_one_element(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, chosen(locals(), "lr betas eps maximize"))
        thin = [
            [i, k]
            for i, group in enumerate(self.param_groups)
            for k, p in enumerate(group["params"])
            if is_sparse(p)
        ]
        if thin:
            raise ValueError(
                f"Sparse params at indices {thin}: SparseAdam requires dense parameter tensors"
            )
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
        if not is_sparse(grad):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        if not p.is_floating_point():
            raise RuntimeError(
                f"SparseAdam needs parameters of a floating point dtype, but got {p.dtype}: convert them first"
            )
        if not state:
            state["step"] = 0
            state["exp_avg"] = ops.zeros_like(p)
            state["exp_avg_sq"] = ops.zeros_like(p)
        state["step"] += 1
        with beside(p._array):
            self._update_rows(group, Rows(p, grad), state)

    @staticmethod
    def _update_rows(group: dict[str, Any], rows: Rows, state: dict[str, Any]) -> None:
        if not rows.values.shape[0]:
            return
        g, xp, step = rows.values, rows.xp, state["step"]
        beta1, beta2 = map(float, group["betas"])
        mean, square = rows.of(state["exp_avg"]), rows.of(state["exp_avg_sq"])
        mean += (g - mean) * (1 - beta1)
        square += (g * g - square) * (1 - beta2)
        rows.write(state["exp_avg"], mean)
        rows.write(state["exp_avg_sq"], square)
        size = float(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        xp.sqrt(square, out=square)
        square += group["eps"]
        mean *= size
        mean /= square
        rows.step(mean)
