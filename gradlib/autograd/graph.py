"""The graph itself: nodes, edges, and hooks on what is saved in it and on what flows through it."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..op.vmap import is_logical
from ..operators.create.filled import ones_like
from ..tape.device import copied
from ..tape.hooks import RemovableHandle
from ..tape.lazy import raw_values
from ..tape.memory import address_of_memory
from ..tape.modes import OBSERVE, SAVED_HOOKS, set_flag, state
from ..tape.node import Node, edge
from ..tape.storage import bump, share, version_of
from ..tape.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class _Edge(NamedTuple):
    node: Node
    output_nr: int
    ownership_token: Node | None = None


class GradientEdge(_Edge):
    """Where in the graph a gradient is computed: an output of a node. ``grad`` and ``backward`` take it as input.

    Unlike the tensor, it keeps no value in memory.

    Attributes:
        node: the Node.
        output_nr: which of its outputs, counted from 0.

    Example:
        >>> w = gradlib.ones(2, requires_grad=True)
        >>> h = w * 2
        >>> edge = gradlib.autograd.graph.get_gradient_edge(h)
        >>> gradlib.autograd.grad(h.sum(), edge)
        (tensor([1., 1.]),)
    """

    one: Tensor | None = None  # of a real scalar: the gradient that stands for none


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge at which the gradient of `tensor` is computed; for a leaf, its AccumulateGrad node.

    Raises:
        RuntimeError: `tensor` does not require grad.

    Example:
        >>> loss = gradlib.ones(2, requires_grad=True).sum()
        >>> gradlib.autograd.graph.get_gradient_edge(loss).node.name()
        'SumBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node, nr = edge(tensor)
    assert node is not None
    found = GradientEdge(node, max(nr - 1, 0))
    if tensor._array.size == 1 and not tensor.is_complex():
        found.one = ones_like(tensor)
    return found


def increment_version(tensor) -> None:
    """Count an in-place change of a tensor, as if an op had made it; for writes that autograd cannot see.

    Backward then refuses to use what was saved of it before.

    Args:
        tensor: a Tensor, or an iterable of them.

    Raises:
        RuntimeError: something else is given.

    Example:
        >>> x = gradlib.ones(2)
        >>> gradlib.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    if isinstance(tensor, Tensor):
        tensor = (tensor,)
    elif not hasattr(tensor, "__iter__"):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for t in tensor:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                "increment_version expects each element of the iterable to be a tensor"
            )
        bump(t)


# -- hooks on saved tensors ------------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """A pair of hooks for whatever is saved for backward inside the block; the innermost pair counts.

    Args:
        pack_hook: gets each tensor as it is saved; what it returns is kept in its place.
        unpack_hook: gets that back whenever the tensor is needed, and returns a tensor of the same content.

    Raises:
        TypeError: at the entry, if one of them cannot be called.
        RuntimeError: at the entry, inside `disable_saved_tensors_hooks`.

    Example:
        >>> with gradlib.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), gradlib.from_numpy):
        ...     y = x.detach().requires_grad_() ** 2
        >>> y.sum().backward()
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if not (callable(self.pack_hook) and callable(self.unpack_hook)):
            raise TypeError("saved_tensors_hooks: pack_hook and unpack_hook must be callable")
        if state.hooks_disabled is not None:
            raise RuntimeError(state.hooks_disabled)
        state.saved_hooks = (*state.saved_hooks, (self.pack_hook, self.unpack_hook))
        set_flag(SAVED_HOOKS, True)

    def __exit__(self, *args: object) -> None:
        state.saved_hooks = state.saved_hooks[:-1]
        set_flag(SAVED_HOOKS, bool(state.saved_hooks))


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved for backward in host memory, and bring it back when it is needed.

    Tensors on the CPU are kept as they are, without a copy.

    Args:
        pin_memory: copy to pinned memory on a stream beside the computation, and in backward fetch what is needed next
            while it computes (`autograd/_offload.py`).
        device_type: "cuda"; accepted for compatibility.

    Example:
        >>> with gradlib.autograd.graph.save_on_cpu(pin_memory=True):
        ...     loss = model(x).sum()
        >>> loss.backward()
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        offload: Any = None

        def pack(tensor: Tensor):
            nonlocal offload
            if not (pin_memory and tensor.is_cuda):
                return tensor.device, tensor.cpu()
            if offload is None:
                from ._offload import Offload

                offload = Offload()
            return offload.pack(tensor)

        def unpack(packed):
            if pin_memory and packed[0].type == "cuda":
                return offload.unpack(packed)
            return packed[1].to(packed[0])

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside the block, entering :class:`saved_tensors_hooks` raises RuntimeError(error_message).

    So does this itself when hooks are in force already.

    Args:
        error_message: what the error says.

    Example:
        >>> graph = gradlib.autograd.graph
        >>> with graph.disable_saved_tensors_hooks("not here"):
        ...     try:
        ...         with graph.save_on_cpu():
        ...             pass
        ...     except RuntimeError as error:
        ...         print(error)
        not here
    """
    if state.saved_hooks:
        raise RuntimeError(error_message)
    previous, state.hooks_disabled = state.hooks_disabled, error_message
    try:
        yield
    finally:
        state.hooks_disabled = previous


# -- hooks on several gradients --------------------------------------------------------------------------------------


class _MultiHandle(RemovableHandle):
    """The handles of the tensor hooks that make one multi-grad hook."""

    def __init__(self, handles: tuple[RemovableHandle, ...]):
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, state):
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: str = "all",
) -> RemovableHandle:
    """Call `fn` when gradients of `tensors` have been computed; it must not change them.

    Args:
        tensors: leaves or results that require grad.
        fn: with mode "all" gets the list of gradients, when the last of those that this backward computes is
            there (None for the others); with "any" the first gradient, once for each backward.
        mode: "all", or "any", which leaves out tensors that require no grad.

    Returns:
        A handle with ``remove()``.

    Raises:
        ValueError: another mode.
        AssertionError: with "all", if a tensor does not require grad.

    Example:
        >>> a, b = gradlib.ones(2, requires_grad=True), gradlib.ones(2, requires_grad=True)
        >>> handle = gradlib.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(len(grads)))
        >>> (a * b).sum().backward()
        2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        tensors = [t for t in tensors if t.requires_grad]
    elif not all([t.requires_grad for t in tensors]):
        raise AssertionError("Expected gradient function to be set")
    hook = _gather(tuple(tensors), fn) if mode == "all" else _first(fn)
    return _MultiHandle(tuple(t.register_hook(hook(i)) for i, t in enumerate(tensors)))


def _gather(tensors: tuple, fn: Callable) -> Callable:
    # Weak references: the hooks live in the nodes and leaves that these lead to.
    sources = [_source(t) for t in tensors]
    passes: Any = weakref.WeakKeyDictionary()  # backward pass -> [gradients, how many are missing]
    lock = threading.Lock()

    def will_come(task, source) -> bool:
        node = source()
        return node is not None and task.will_run(node)

    def make(i: int):
        def gather(grad: Tensor) -> None:
            task = state.current_task
            with lock:
                entry: Any = passes.get(task)
                if entry is None:
                    entry = passes[task] = (
                        [None] * len(sources),
                        [sum(will_come(task, s) for s in sources)],
                    )
                grads, missing = entry
                grads[i] = grad
                missing[0] -= 1
            if missing[0] == 0:
                del passes[task]
                fn(grads)

        return gather

    return make


def _source(tensor: Tensor) -> Callable[[], Node | None]:
    """A function that gives the node where the gradient of `tensor` is computed, and keeps nothing alive."""
    if not tensor.is_leaf:
        return weakref.ref(edge(tensor)[0])
    leaf = weakref.ref(tensor)

    def accumulator():
        tensor = leaf()
        return (
            tensor._accumulator()
            if tensor is not None and tensor._accumulator is not None
            else None
        )

    return accumulator


def _first(fn: Callable) -> Callable:
    seen: Any = [lambda: None]  # weak reference to the backward pass that `fn` was last called in
    lock = threading.Lock()

    def make(i: int):
        def first(grad: Tensor) -> None:
            task = state.current_task
            with lock:
                if seen[0]() is task:
                    return
                seen[0] = weakref.ref(task)
            fn(grad)

        return first

    return make


# -- mutation of saved tensors ---------------------------------------------------------------------------------------


class _Saved:
    """A tensor saved inside allow_mutation_on_saved_tensors, or its old value if it was changed since."""

    __slots__ = ("__weakref__", "context", "tensor", "version")

    def __init__(self, context, tensor: Tensor):
        self.context, self.tensor, self.version = weakref.ref(context), tensor, version_of(tensor)


def _memory(tensor: Tensor) -> int:
    return address_of_memory(tensor._array)


class _AllowMutationOnSavedContext:
    """What is saved inside the block, by memory, and which of it was cloned because it was about to change.

    By memory, not by version counter: a write through ``.data`` counts as well.
    """

    def __init__(self) -> None:
        self.saved: dict[int, Any] = {}  # address of the memory -> weak set of _Saved
        self.cloned: Any = weakref.WeakSet()
        self.active = True

    def clear(self) -> None:
        self.saved.clear()
        self.cloned.clear()

    def pack(self, tensor: Tensor) -> _Saved:
        kept = _Saved(self, tensor)
        share(tensor)  # so that writes through other tensors count
        self.saved.setdefault(_memory(tensor), weakref.WeakSet()).add(kept)
        return kept

    @staticmethod
    def unpack(kept: _Saved) -> Tensor:
        context = kept.context()
        assert context is not None and context.active, (
            "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
            "in which the graph was originally recorded."
        )
        tensor = kept.tensor
        if version_of(tensor) != kept.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation that "
                "allow_mutation_on_saved_tensors could not see"
            )
        return tensor

    def before_write(self, tensor: Tensor) -> None:
        """Clone what is saved of the memory that is about to be written."""
        for kept in list(self.saved.pop(_memory(tensor), ())):
            if version_of(kept.tensor) == kept.version:
                if is_logical(kept.tensor):
                    kept.tensor = kept.tensor.detach().clone()
                else:
                    kept.tensor = Tensor._make(copied(raw_values(kept.tensor)))
                kept.version = 0
                self.cloned.add(kept)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether to warn where a leaf accumulates on another stream than its gradient came on.

    Here a leaf accumulates on the stream of the gradient that arrives, so there is never anything to warn about.
    """
    state.warn_on_stream_mismatch = bool(enabled)


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Inside the block, saved tensors may be changed in place: they are cloned first, and backward uses the old values.

    Forward and backward must lie in the same block, which does not nest.

    Raises:
        RuntimeError: inside of another such block.
        AssertionError: in a backward outside of the block.

    Example:
        >>> with gradlib.autograd.graph.allow_mutation_on_saved_tensors():
        ...     a = gradlib.ones(2, requires_grad=True)
        ...     b = a.clone()
        ...     out = (b**2).sum()
        ...     _ = b.sin_()
        ...     gradlib.autograd.grad(out, a)
        (tensor([2., 2.]),)
    """
    if state.saved_observer is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context.pack, context.unpack):
        state.saved_observer = context
        had = set_flag(OBSERVE, True)
        try:
            yield context
        finally:
            context.active = False
            context.clear()
            state.saved_observer = None
            set_flag(OBSERVE, had)
