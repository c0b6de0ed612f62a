"""Activation checkpointing: keep the inputs of a part of the program, and compute the rest again in backward.

Two variants. Without reentrance (recommended) the part is recorded as usual, but in place of each saved tensor a
holder is kept; the first time a backward asks for one, the part runs again and fills the holders of all. It nests,
works with ``autograd.grad``, keyword arguments and partial graphs, and stops the second run as soon as the last
tensor is there. The reentrant variant hides the part in one custom Function, whose backward runs it again, recorded,
and calls backward on that.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks
from ..op.vmap import is_logical
from ..tape.modes import FORWARD_AD, Flag, made_of_numbers, shared, state
from ..tape.saved import modified
from ..tape.storage import version_of
from ..tape.tensor import Tensor
from ._reentrant import CheckpointFunction, check_backward_validity, detach_variable
from ._selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from ._surroundings import DefaultDeviceType, Surroundings, get_device_states, set_device_states
from ._watching import Logging

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

EXPLICIT = (
    "torch.utils.checkpoint{}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
    "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True."
)
COUNT = (
    "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
    "Number of tensors saved during forward: {}\nNumber of tensors saved during recomputation: {}.\n"
)
MORE = (
    "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward "
    "pass.\n"
)
OTHER = (
    "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
    "forward pass.\n{}.\n"
)
LOGS = (
    " An error happened while unpacking tensors; dumping logs of latest computation\nbecause you passed `debug=True` "
    "to `torch.utils.checkpoint.checkpoint()`.\n\nOps of the original forward:\n\n{}\n\nOps of the recomputation:\n\n"
    "{}\n\n{}"
)
HINT = (
    "The function must do the same in both runs: look for anything that depends on state outside (counters, caches, "
    "random numbers that are not those of gradlib, values changed in place)."
)

_early_stop: bool | None = None
_debug: bool | None = None


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not save what the first one did; a RuntimeError.

    The message says what differs: the number of tensors, or shapes, dtypes and devices.

    Example:
        >>> sizes = iter([2, 3])
        >>> part = lambda x: (x[: next(sizes)] ** 2).sum()
        >>> y = checkpoint(part, gradlib.ones(4, requires_grad=True), use_reentrant=False)
        >>> try:
        ...     y.backward()
        ... except CheckpointError as error:
        ...     print(str(error).split(".")[2].strip())
        checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass
    """


class _StopRecomputation(Exception):
    """All that was saved is there again."""


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside the block (around forward), whether the second run stops as soon as the last saved tensor is there.

    Args:
        enable: False runs the function to its end; it goes before `early_stop` of `checkpoint`.

    Example:
        >>> with set_checkpoint_early_stop(False):
        ...     y = checkpoint(gradlib.exp, gradlib.ones(2, requires_grad=True), use_reentrant=False)
        >>> y.sum().backward()
    """
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside the block, whether errors list all saved tensors of both runs.

    Args:
        enabled: goes before `debug` of `checkpoint`; None leaves it to that.

    Example:
        >>> with set_checkpoint_debug_enabled(True):
        ...     y = checkpoint(gradlib.exp, gradlib.ones(2, requires_grad=True), use_reentrant=False)
        >>> y.sum().backward()
    """
    global _debug
    previous, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = previous


class GraphExecGroup:
    """Backward passes in the block run each checkpointed part at most once, however many passes there are.

    The passes must not go through the same nodes.

    Raises:
        RuntimeError: at the entry, inside of another such block.

    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> a, b = checkpoint(lambda x: (x.exp(), x.sin()), x, use_reentrant=False)
        >>> with GraphExecGroup():
        ...     a.sum().backward()
        ...     b.sum().backward()
    """

    _current: GraphExecGroup | None = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup._current is not None:
            raise RuntimeError("GraphExecGroup contexts cannot be nested")
        GraphExecGroup._current = self
        return self

    def __exit__(self, *exc) -> None:
        GraphExecGroup._current = None


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts for the two runs that do nothing: the default of `context_fn`.

    Returns:
        Two context managers.

    Example:
        >>> first, second = noop_context_fn()
        >>> with first:
        ...     print("as ever")
        as ever
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- public functions ------------------------------------------------------------------------------------------------


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)`` that keeps no activations: backward runs it again.

    Memory for time: of the part only the inputs are kept, and it is computed twice.

    Args:
        function: returns Tensors, in any nesting; does the same in both runs.
        args: its arguments.
        use_reentrant: the variant; False is recommended. Left out, True with a warning.
        preserve_rng_state: (keyword, True) give the second run the random state of the first.
        context_fn: gives two context managers, for the first and for the second run (not reentrant only).
        determinism_check: "default" compares shapes, dtypes and devices of both runs; "none" does not.
        debug: errors list the ops of both runs with their lines, and what was saved.
        early_stop: stop the second run when the last saved tensor is there.
        kwargs: its keyword arguments (not reentrant only).

    Raises:
        CheckpointError: in backward, if the second run saves something else than the first.
        ValueError: options that do not go together.

    Source: T. Chen et al., Training deep nets with sublinear memory cost, arXiv:1604.06174 (2016).

    Example:
        >>> x = gradlib.ones(4, 3, requires_grad=True)
        >>> y = checkpoint(lambda x: (x.exp() * 2).tanh(), x, use_reentrant=False)
        >>> gradlib.equal(gradlib.autograd.grad(y.sum(), x)[0],
        ...               gradlib.autograd.grad((x.exp() * 2).tanh().sum(), x)[0])
        True
    """
    if use_reentrant is None:
        warnings.warn(EXPLICIT.format(""), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    if shared.batches and any(map(is_logical, (*args, *kwargs.values()))):
        return function(*args, **kwargs)  # the batch will be gone when the part should run again
    stop = early_stop if _early_stop is None else _early_stop
    debug = debug if _debug is None else _debug
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    first, second = (Logging(), Logging()) if debug else context_fn()
    frame = _Frame(function, args, kwargs, Surroundings(preserve, args), second, stop)
    frame.check, frame.logs = determinism_check == "default", (first, second) if debug else None
    if frame.inputs is None:  # nothing is recorded here
        return function(*args, **kwargs)
    with saved_tensors_hooks(frame.pack, _unpack), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions, segments: int, input, use_reentrant: bool | None = None, **kwargs
):
    """A sequential model in `segments` parts, all of them but the last checkpointed.

    Args:
        functions: an nn.Sequential, or the functions (or modules) to run one after the other.
        segments: the number of parts.
        input: of the first.
        use_reentrant: as in `checkpoint`.
        preserve_rng_state: (keyword) as in `checkpoint`.

    Returns:
        What the last function returns.

    Raises:
        ValueError: more segments than functions, or other keywords.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2), nn.ReLU())
        >>> y = checkpoint_sequential(net, 2, gradlib.ones(4, 3, requires_grad=True), use_reentrant=False)
        >>> tuple(y.shape)
        (4, 2)
    """
    if use_reentrant is None:
        warnings.warn(EXPLICIT.format(".checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if hasattr(functions, "children"):
        functions = functions.children()
    functions = list(functions)

    def part(some):
        def run(value):
            for function in some:
                value = function(value)
            return value

        return run

    size = len(functions) // segments
    if not size:
        raise ValueError("range() arg 3 must not be zero")  # more segments than functions
    for k in range(segments - 1):
        some = functions[k * size : (k + 1) * size]
        input = checkpoint(
            part(some), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return part(functions[size * (segments - 1) :])(input)


# -- without reentrance ----------------------------------------------------------------------------------------------


class _KeepInputs(Function):
    """Holds the inputs of a checkpointed part as saved tensors: a checkpoint around it recomputes them too."""

    @staticmethod
    def forward(ctx, anchor, *tensors):
        ctx.save_for_backward(*tensors)
        return anchor.clone()


class _Holder:
    """Stands for one saved tensor; has its value once the part was run again."""

    __slots__ = ("__weakref__", "frame", "value", "version")

    def __init__(self, frame: _Frame):
        self.frame = frame
        self.value: Any = None


class _Frame:
    """One call of :func:`checkpoint`. Its holders keep it alive; it knows them only weakly."""

    logs: tuple[Logging, Logging] | None = None
    check = True

    def __init__(self, function, args, kwargs, surroundings, context, early_stop: bool):
        self.function, self.surroundings, self.context = function, surroundings, context
        self.early_stop = early_stop
        self.holders: list[weakref.ref] = []
        self.facts: list[tuple] = []  # shape, dtype and device of what they stand for
        self.count = 0  # tensors saved by the second run
        self.different: dict[
            int, tuple
        ] = {}  # position -> the facts of the second run, where they are others
        # weak reference to the backward pass that the holders' values belong to
        self.filled_in: Callable[[], Any] = lambda: None
        flat = [*args, *kwargs.values()]
        self.names = list(kwargs)
        self.others = [None if isinstance(a, Tensor) else a for a in flat]
        self.places = [i for i, a in enumerate(flat) if isinstance(a, Tensor)]
        with Flag(FORWARD_AD, False):  # the tensors have their tangents with them
            anchor = made_of_numbers(Tensor._make(np.empty(0, np.float32), True))  # of no vmap
            kept = _KeepInputs.apply(anchor, *(flat[i] for i in self.places))
        self.inputs = kept.grad_fn

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(self)
        self.holders.append(weakref.ref(holder))
        self.facts.append(_facts(tensor))
        return holder

    def run_again(self) -> None:
        flat = list(self.others)
        for i, tensor in zip(self.places, self.inputs.saved_tensors, strict=True):
            flat[i] = tensor
        n = len(flat) - len(self.names)
        kwargs = dict(zip(self.names, flat[n:], strict=True))
        self.count, self.different = 0, {}
        hooks = saved_tensors_hooks(self.refill, _identity)
        try:
            with self.surroundings.again(), self.context, hooks, enable_grad():
                self.function(*flat[:n], **kwargs)
        except _StopRecomputation:
            pass
        if self.count != len(self.holders):
            raise CheckpointError(COUNT.format(len(self.holders), self.count) + HINT)
        if self.different and self.check:
            raise CheckpointError(OTHER.format(self.differences()) + HINT)

    def refill(self, tensor: Tensor) -> Tensor:
        """The pack hook of the second run."""
        i = self.count
        self.count += 1
        if i >= len(self.holders):
            if not self.early_stop:
                raise CheckpointError(MORE + HINT)
            return tensor  # the function caught what was to stop it
        holder = self.holders[i]()
        if holder is not None:
            holder.value = tensor.detach()
            holder.version = version_of(holder.value)
            if _facts(tensor) != self.facts[i]:
                self.different[i] = _facts(tensor)
        if self.early_stop and self.count == len(self.holders):
            raise _StopRecomputation
        return tensor.detach()

    def differences(self) -> str:
        text = "".join(
            f"tensor at position {i}:\nsaved metadata: {_described(self.facts[i])}\n"
            f"recomputed metadata: {_described(facts)}\n"
            for i, facts in self.different.items()
        )
        if self.logs is not None:
            saved = "\n".join(str(_described(facts)) for facts in self.facts)
            text += f"all tensors saved in forward:\n{saved}\n"
        return text

    def forget(self) -> None:
        for ref in self.holders:
            holder = ref()
            if holder is not None:
                holder.value = None


def _facts(tensor: Tensor) -> tuple:
    return tensor.shape, tensor.dtype, tensor.device


def _described(facts: tuple) -> dict:
    return dict(zip(("shape", "dtype", "device"), facts, strict=True))


def _identity(value):
    return value


def _unpack(holder: _Holder) -> Any:
    """The unpack hook: run the part again, once for each backward pass."""
    frame, task = holder.frame, GraphExecGroup._current or state.current_task
    if task is None or frame.filled_in() is not task or holder.value is None:
        try:
            frame.run_again()
        except CheckpointError as exc:
            if frame.logs is None:
                raise
            first, second = (log.text() for log in frame.logs)
            raise CheckpointError(LOGS.format(first, second, exc)) from exc
        if task is None:  # asked for outside of backward: nothing tells how long to keep it
            value = _unchanged(holder)
            frame.forget()
            return value
        weak = weakref.ref(frame)
        frame.filled_in = weakref.ref(task, lambda _: (f := weak()) is not None and f.forget())
    return _unchanged(holder)


def _unchanged(holder: _Holder) -> Any:
    """The value, if the part did not write to it after it was saved."""
    value = holder.value
    if value is not None and version_of(value) != holder.version:
        raise modified(None, "tensor of a checkpointed part", value, holder.version)
    return value
