"""Base of optimizers whose step is written in tensor operations, one parameter at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import no_grad
from ..tape.sparse import is_sparse
from ..tape.tensor import Tensor
from .optimizer import Optimizer, evaluated


class PlainOptimizer(Optimizer):
    """A step for each parameter that has a gradient, outside of the graph."""

    takes_sparse = False  # whether gradients may be sparse

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: evaluates the model again and returns the loss.

        Returns:
            What the closure returned, or None.
        """
        loss = evaluated(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p._grad is None:
                        continue
                    if p.is_complex():
                        raise RuntimeError(
                            f"{type(self).__name__} does not support complex parameters"
                        )
                    if is_sparse(p._grad) and not self.takes_sparse:
                        raise RuntimeError(
                            f"{type(self).__name__} does not support sparse gradients, please "
                            "consider SparseAdam instead"
                        )
                    up = "maximize" in self.defaults and group["maximize"]
                    grad = -p._grad if up else p._grad
                    self.update_param(group, p, grad, self.state[p])
        return loss

    step.evaluates_first = True  # type: ignore[attr-defined]  # once, before the update

    def update_param(
        self, group: dict[str, Any], p: Tensor, grad: Tensor, state: dict[str, Any]
    ) -> None:
        """Change `p` in place; an empty `state` is the first step."""
        raise NotImplementedError
