"""make_graphed_callables: modules and functions whose forward and backward are each one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import autograd
from ..devices.cuda.library import synchronize
from ..nn import Module
from ..operators.create.filled import ones_like
from ..tape import pytree
from ..tape.tensor import Tensor
from ._graph import CUDAGraph, capture_stream, graph, graph_pool_handle
from .streams import current_stream, stream

__all__ = ["make_graphed_callables"]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Versions of modules or functions that launch graphs; they take part in autograd as before.

    callables: one, or a tuple in the order in which they will run; modules without hooks, whose buffers do not require
    grad. sample_args: a tuple of tensors for each; arguments later must have the same shapes, dtypes, and
    `requires_grad`. num_warmup_iters: runs before the capture. allow_unused_input: accept inputs that no output
    depends on. pool: see ``CUDAGraph.capture_begin``.

    A module is changed in place: its forward launches the graph while ``training`` is what it was at the capture.
    Results lie in memory that the next call overwrites.
    """
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    if len(functions) != len(samples):
        raise ValueError(
            f"make_graphed_callables() needs one tuple of sample arguments for each callable, got {len(samples)} for "
            f"{len(functions)}"
        )
    parts = [_Part(f, tuple(s), allow_unused_input) for f, s in zip(functions, samples)]
    synchronize()
    side = capture_stream()
    side.wait_stream(current_stream())
    with stream(side):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.warm_up()
    current_stream().wait_stream(side)
    pool = graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool)
    made = tuple(part.result() for part in parts)
    return made if several else made[0]


class _Part:
    """One callable on its way to becoming two graphs."""

    def __init__(self, function: Callable, sample: tuple, allow_unused: bool):
        self.function, self.allow_unused = function, allow_unused
        self.sample, self.spec = pytree.flatten(sample)
        for arg in self.sample:
            if not isinstance(arg, Tensor):
                raise TypeError(
                    "In the beta API, sample_args for each callable must contain only Tensors. Other types are not "
                    f"allowed, but got {type(arg).__name__}."
                )
        self.module = function if isinstance(function, Module) else None
        self.parameters = () if self.module is None else tuple(self.module.parameters())
        if self.module is not None:
            self._check_module(self.module)
        self.inputs = (*self.sample, *self.parameters)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        self.forward = self.module.forward if self.module is not None else function

    @staticmethod
    def _check_module(module: Any) -> None:
        if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
            raise RuntimeError(
                "Modules must not have hooks registered at the time they are passed. However, registering hooks on "
                "modules after passing them through make_graphed_callables is allowed."
            )
        if any(b.requires_grad for b in module.buffers()):
            raise RuntimeError(
                "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only parameters may be "
                "trainable. All buffers must have ``requires_grad=False``."
            )

    def run(self) -> tuple[list[Tensor], Any]:
        outputs = self.forward(*pytree.unflatten(list(self.sample), self.spec))
        return pytree.flatten(outputs)

    def gradients(self, outputs: list, grads: list) -> tuple:
        """Of the outputs that require grad, for the inputs that do."""
        wanted = [i for i in self.inputs if i.requires_grad]
        roots = [(o, g) for o, g in zip(outputs, grads, strict=True) if o.requires_grad]
        if not wanted or not roots:
            return ()
        return autograd.grad(
            [o for o, _ in roots], wanted, [g for _, g in roots], allow_unused=self.allow_unused
        )

    def warm_up(self) -> None:
        outputs, _ = self.run()
        self.gradients(outputs, _ones(outputs))

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward_graph, pool=pool):
            self.outputs, self.out_spec = self.run()

    def capture_backward(self, pool: Any) -> None:
        self.grad_outputs = _ones(self.outputs)
        found: tuple = ()
        if any(g is not None for g in self.grad_outputs):
            with graph(self.backward_graph, pool=pool):
                found = self.gradients(self.outputs, self.grad_outputs)
        left = iter(found)
        self.grad_inputs = tuple(next(left, None) if i.requires_grad else None for i in self.inputs)

    def result(self) -> Any:
        apply = _function(self)

        def graphed(*args: Any) -> Any:
            given, _ = pytree.flatten(args)
            self._check(given)
            outputs = apply(*given, *self.parameters)
            return pytree.unflatten(list(outputs), self.out_spec)

        if self.module is None:
            return graphed
        module, plain, training = self.module, self.forward, self.module.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            if module.training == training and not kwargs:
                return graphed(*args)
            return plain(*args, **kwargs)

        module.forward = forward
        return module

    def _check(self, given: list) -> None:
        if len(given) != len(self.sample):
            raise TypeError(
                f"a graphed callable was captured with {len(self.sample)} tensors, but got {len(given)}"
            )
        for i, (new, static) in enumerate(zip(given, self.sample, strict=True)):
            if (
                not isinstance(new, Tensor)
                or new.shape != static.shape
                or new.dtype != static.dtype
            ):
                raise RuntimeError(
                    f"a graphed callable was captured with argument {i} of shape {list(static.shape)} and dtype "
                    f"{static.dtype}, but got {_describe(new)}; call make_graphed_callables for those, too"
                )


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"shape {list(value.shape)} and dtype {value.dtype}"
    return type(value).__name__


def _ones(outputs: list) -> list:
    return [ones_like(o) if o.requires_grad else None for o in outputs]


def _function(part: _Part) -> Callable:
    """The autograd Function that launches both graphs."""

    class Graphed(autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> tuple:
            for new, static in zip(inputs, part.sample):
                if new.data_ptr() != static.data_ptr():
                    static.detach().copy_(new)
            part.forward_graph.replay()
            outputs = tuple(o.detach() for o in part.outputs)
            ctx.mark_non_differentiable(
                *[d for d, o in zip(outputs, part.outputs, strict=True) if not o.requires_grad]
            )
            return outputs

        @staticmethod
        @autograd.function.once_differentiable
        def backward(ctx: Any, *grads: Tensor | None) -> tuple:
            for new, static in zip(grads, part.grad_outputs, strict=True):
                if static is not None and new is not None and new.data_ptr() != static.data_ptr():
                    static.copy_(new)
            part.backward_graph.replay()
            return tuple(g if g is None else g.detach() for g in part.grad_inputs)

    return Graphed.apply
