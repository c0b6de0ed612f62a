"""Adagrad."""

from __future__ import annotations

from typing import Any

from .._refused import refuse
from ..operators import public as ops
from ..tape.tensor import Tensor
from ._checks import check_lr, check_nonnegative, chosen
from ._elementwise import ElementwiseOptimizer
from ._rows import Rows

__all__ = ["Adagrad"]
__getattr__ = refuse(__name__)


class Adagrad(ElementwiseOptimizer):
    """p <- p - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum of g**2) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or groups.
        lr: learning rate.
        lr_decay: see above.
        weight_decay: coefficient of the L2 penalty.
        initial_accumulator_value: where the sum starts.
        eps: added to the denominator.
        foreach: accepted.
        maximize: follow the gradient upwards.
        differentiable: record the step.
        fused: accepted.

    Raises:
        ValueError: a setting outside of its range.

    Source: J. Duchi et al., Adaptive subgradient methods, JMLR 12 (2011).

    Example:
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = gradlib.optim.Adagrad([w], lr=0.1)
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> round(w.item(), 4)
        0.9
    """

    state_names = ("sum",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_nonnegative(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=eps,
        )
        names = (
            "lr lr_decay eps weight_decay initial_accumulator_value foreach "
            "maximize differentiable fused"
        )
        super().__init__(params, chosen(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                self.init_state(p, group)

    def initial(self, name: str, p: Tensor, group: dict[str, Any]) -> Tensor:
        """Filled with initial_accumulator_value; both parts of a complex number."""
        value = group["initial_accumulator_value"]
        return ops.full_like(p, complex(value, value) if p.is_complex() else value).detach()

    def share_memory(self) -> None:
        """Accepted for compatibility; state is not moved to shared memory."""

    @staticmethod
    def constants(o: dict[str, Any], counters: dict[str, Any]) -> dict[str, Any]:
        """The learning rate of this step."""
        return {"lr": o["lr"] / (1 + (counters["step"] - 1) * o["lr_decay"]), "eps": o["eps"]}

    @staticmethod
    def rule(F: Any, h: Any, p: Any, g: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """See the class."""
        total = s["sum"] + g * g
        return g / (F.sqrt(total) + h.eps) * h.lr, {"sum": total}

    def sparse_update(self, group: dict[str, Any], p: Tensor, grad: Tensor) -> None:
        """The step of the rows that a sparse gradient has; the sum of the others stays."""
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state = self.init_state(p, group)
        state["step"] += 1
        rate = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        rows = Rows(p, grad)
        total = rows.of(state["sum"])
        total += rows.values * rows.values
        rows.write(state["sum"], total)
        rows.step(rate * rows.values / (rows.xp.sqrt(total) + group["eps"]))
