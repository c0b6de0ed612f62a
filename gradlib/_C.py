"""The questions about a running backward pass that PyTorch documents under ``torch._C``.

Example:
    >>> x = gradlib.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: print(gradlib._C._current_graph_task_id() >= 0))
    >>> x.sum().backward()
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .tape import engine
from .tape.modes import state
from .tape.node import AccumulateGrad, Node
from .tape.storage import INFERENCE
from .tape.tensor import Tensor


def _current_graph_task_id() -> int:
    """The number of the backward pass that runs in this thread; -1 if none does."""
    return -1 if state.current_task is None else state.current_task.number


def _current_graph_task_execution_order() -> list[Node]:
    """The nodes of the running pass in the order in which they run; RuntimeError if none does."""
    if state.current_task is None:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    return engine.execution_order(state.current_task)


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the running pass runs `node`; RuntimeError outside of a pass, and for a leaf under autograd.grad."""
    if not isinstance(node, Node):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    task = state.current_task
    if task is None:
        raise RuntimeError(
            "_get_should_execute_nodes should only be called during the backward pass"
        )
    if isinstance(node, AccumulateGrad) and task.wanted and not task.accumulate:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This "
            "is currently not supported."
        )
    return task.will_run(node)


class _autograd:
    """What PyTorch keeps under ``torch._C._autograd``."""

    @staticmethod
    def _unsafe_set_version_counter(tensors: Any, versions: Sequence[int]) -> None:
        """Set the version counters of `tensors`, whatever was changed or saved in between."""
        given = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
        wanted = tuple(versions)
        if len(given) != len(wanted):
            raise RuntimeError(f"tensors_len={len(given)}, versions_len={len(wanted)}")
        for tensor, version in zip(given, wanted, strict=True):
            if tensor._ver is INFERENCE:
                raise RuntimeError(
                    "Tried to call torch.autograd._unsafe_set_version() on a tensor that does not have a version "
                    "counter. Was it created in inference mode?"
                )
            if version < 0:
                raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
            if type(tensor._ver) is int:
                tensor._ver = version
            else:
                tensor._ver.version = version
