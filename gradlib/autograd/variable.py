"""Variable: the old name of Tensor."""

from __future__ import annotations

import warnings
from typing import Any

from ..operators.create.filled import empty
from ..tape import engine
from ..tape.tensor import Tensor

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """The old name of Tensor: ``Variable(tensor)`` gives a Tensor on the same memory, and every tensor is a Variable.

    Args:
        data: Tensor; None is an empty one.
        requires_grad: of the result.
        volatile: without effect since PyTorch 0.4, and warned of.

    Raises:
        TypeError: `data` is no tensor.

    Example:
        >>> x = gradlib.autograd.Variable(gradlib.ones(2), requires_grad=True)
        >>> isinstance(x, gradlib.autograd.Variable), x.requires_grad
        (True, True)
    """

    class _execution_engine:
        """What PyTorch calls the engine."""

        queue_callback = staticmethod(engine.queue_callback)

    def __new__(
        cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool = False
    ):
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        tensor = empty(0) if data is None else data
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return tensor.detach().requires_grad_(requires_grad)
