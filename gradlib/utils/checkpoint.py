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
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..autograd import backward
from ..autograd.function import Function
from ..autograd.grad_mode import enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..op.vmap import is_logical
from ..tape.modes import FORWARD_AD, Flag, shared, state
from ..tape.saved import modified
from ..tape.tensor import Tensor
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

REENTRANT_GRAD = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
    ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
    "the `inputs` argument."
)
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
    """The second run of a checkpointed function did not save what the first one did."""


class _StopRecomputation(Exception):
    """All that was saved is there again."""


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside the block (around forward), whether the second run stops as soon as the last saved tensor is there."""
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside the block, whether errors list all saved tensors of both runs; None leaves it to `debug`."""
    global _debug
    previous, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = previous


class GraphExecGroup:
    """Backward passes in the block run each checkpointed part at most once, however many passes there are.

    The passes must not go through the same nodes.
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
    """Contexts for the two runs that do nothing."""
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

    Args:
        use_reentrant: the variant; False is recommended. Left out, True with a warning.
        preserve_rng_state: (keyword, True) give the second run the random state of the first.
        context_fn: gives two context managers, for the first and for the second run (not reentrant only).
        determinism_check: "default" compares shapes, dtypes and devices of both runs; "none" does not.
        debug: errors list the ops of both runs with their lines, and what was saved.
        early_stop: stop the second run when the last saved tensor is there.

    Raises CheckpointError in backward if the second run saves something else than the first.
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

    functions: an nn.Sequential, or the functions (or modules) to run one after the other.
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
            anchor = Tensor._make(np.empty(0, np.float32), True)  # of no vmap
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
            holder.version = holder.value._version
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
    if value is not None and value._version != holder.version:
        raise modified(None, "tensor of a checkpointed part", value, holder.version)
    return value


# -- with reentrance -------------------------------------------------------------------------------------------------


def detach_variable(inputs: tuple) -> tuple:
    """The tensors of a tuple detached, with their requires_grad flags; anything else as it is."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(
        a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if none of the tensors requires grad."""
    if not any(a.requires_grad for a in inputs if isinstance(a, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


class CheckpointFunction(Function):
    """A part of the program as one Function whose backward runs the part again."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        """Run the part without recording; `preserve_rng_state`: random numbers are the same when it runs again."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = Surroundings(preserve_rng_state, args)
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        """Run the part again, recorded, and go backward through it."""
        task = state.current_task
        if task is not None and task.wanted:
            raise RuntimeError(REENTRANT_GRAD)
        inputs = list(ctx.others)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with ctx.surroundings.again(), enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (o, g)
            for o, g in zip(outputs, grads, strict=True)
            if isinstance(o, Tensor) and o.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in detached)
