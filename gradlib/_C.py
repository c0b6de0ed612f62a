"""The questions about a running backward pass that PyTorch documents under ``torch._C``.

Example:
    >>> x = gradlib.ones(2, requires_grad=True)
    >>> handle = x.register_hook(lambda g: print(gradlib._C._current_graph_task_id() >= 0))
    >>> x.sum().backward()
    True
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from .ops._custom import below_autograd
from .ops._keys import DispatchKey as DispatchKey
from .ops._keys import DispatchKeySet as DispatchKeySet
from .ops._keys import _ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard
from .ops.subclass import _DisableTorchDispatch as _DisableTorchDispatch
from .overrides import (
    DisableTorchFunction as DisableTorchFunction,
)
from .overrides import (
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
)
from .overrides import (
    _disabled_torch_function_impl as _disabled_torch_function_impl,
)
from .tape import dtypes, engine, layout
from .tape.device import device as Device
from .tape.modes import state
from .tape.node import AccumulateGrad, Node
from .tape.storage import INFERENCE
from .tape.tensor import Tensor

_AutoDispatchBelowAutograd = below_autograd
_disabled_torch_dispatch_impl = Tensor.__torch_dispatch__
_tracing = threading.local()


def _get_tracing_state() -> Any:
    """True while `gradlib.jit.trace` runs its example, or what it gave; else None."""
    return getattr(_tracing, "state", None)


def _set_tracing_state(state: Any) -> Any:
    """Set what `_get_tracing_state` gives in this thread; returns what it gave before."""
    before, _tracing.state = _get_tracing_state(), state
    return before


def _log_api_usage_once(event: str) -> None:
    """Nothing: gradlib counts no calls."""


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


class _nn:
    """What PyTorch keeps under ``torch._C._nn``."""

    @staticmethod
    def _parse_to(
        *args: Any, **kwargs: Any
    ) -> tuple[Device | None, dtypes.dtype | None, bool, layout.memory_format | None]:
        """The device, dtype, non_blocking and memory format that the arguments of ``to`` ask for.

        Raises:
            TypeError: an argument that ``to`` does not take.

        Example:
            >>> gradlib._C._nn._parse_to("cpu", gradlib.float64)
            (device(type='cpu'), torch.float64, False, None)
        """
        where, kind, flags, wanted = kwargs.get("device"), kwargs.get("dtype"), [], None
        for a in args:
            if isinstance(a, dtypes.dtype):
                kind = a
            elif isinstance(a, Tensor):
                where, kind = a.device, a.dtype
            elif isinstance(a, bool) and (
                where is not None or kind is not None or a is not args[0]
            ):
                flags.append(a)
            elif isinstance(a, (str, Device, int)) and not isinstance(a, bool):
                where = a
            elif a is not None:
                raise TypeError(
                    f"to() received an invalid combination of arguments - got ({type(a).__name__})"
                )
        wanted = kwargs.get("memory_format")
        blocking = kwargs.get("non_blocking", flags[0] if flags else False)
        return None if where is None else Device(where), kind, bool(blocking), wanted
