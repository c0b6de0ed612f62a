"""capture: a whole training step as one CUDA graph, in one call."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

from ..devices.cuda.library import is_available
from ..tape import pytree
from ..tape.modes import NO_GRAD, Flag, shared
from ..tape.source import is_library
from ..tape.tensor import Tensor
from ._graph import CUDAGraph, capture_stream, graph, graph_pool_handle
from .inspection import Finding, dry_run, watch
from .streams import Stream, current_stream, stream

__all__ = ["CaptureError", "Captured", "Finding", "capture", "dry_run"]


class CaptureError(RuntimeError):
    """A step cannot be captured; a RuntimeError.

    Attributes:
        findings: what is in the way, as far as it is known: a list of `Finding`.
    """

    def __init__(self, text: str, findings: list[Finding] | None = None):
        super().__init__(text)
        self.findings = findings or []


def capture(
    step: Callable | None = None, *, warmup: int = 3, pool: Any = None, clone_outputs: bool = True
) -> Any:
    """`step` as a CUDA graph: forward, backward and the optimizer's step are launched at once.

    The first `warmup` calls for each combination of shapes run as usual, on a side stream; the first of them is
    watched for what cannot be captured (CaptureError with the lines). The next call captures and launches, later ones
    only copy their arguments in and launch. So every call is exactly one step. Without a CUDA device, or when all
    tensors given are on the CPU, `step` is simply called.

    Tensor arguments are copied; all other arguments, numbers such as a learning rate, and everything else that Python
    does in `step`, are frozen: another value among the arguments is another graph. Optimizers need ``capturable=True``.
    Random numbers are new in every launch. Works as a decorator, too.

    Args:
        step: a function of tensors (also in lists, tuples, dicts) and hashable values that returns the same.
        warmup: at least 1.
        pool: a memory pool that all graphs share, from ``graph_pool_handle()``; by default each has its own.
        clone_outputs: return copies of the results; otherwise the next call overwrites them.

    Example:
        >>> device = "cuda" if gradlib.cuda.is_available() else "cpu"
        >>> model = gradlib.nn.Linear(3, 2).to(device)
        >>> x, y = gradlib.ones(4, 3, device=device), gradlib.zeros(4, 2, device=device)
        >>> optimizer = gradlib.optim.Adam(model.parameters(), capturable=device == "cuda")
        >>> @gradlib.cuda.capture
        ... def step(x, y):
        ...     optimizer.zero_grad()
        ...     loss = loss_fn(model(x), y)
        ...     loss.backward()
        ...     optimizer.step()
        ...     return loss
        >>> for _ in range(5):
        ...     loss = step(x, y)
    """
    if step is None:
        return functools.partial(capture, warmup=warmup, pool=pool, clone_outputs=clone_outputs)
    if warmup < 1:
        raise ValueError(f"capture(): warmup must be at least 1, got {warmup}")
    return Captured(step, warmup, pool, clone_outputs)


class _Entry:
    """What is known for one combination of shapes and values."""

    def __init__(self) -> None:
        self.warm = 0
        self.graph: Any = None
        self.inputs: list[Tensor] = []
        self.outputs: list[Any] = []
        self.spec: Any = None
        self.grads: list[
            tuple[Tensor, Tensor | None]
        ] = []  # leaves, and what .grad was after the capture


class Captured:
    """What :func:`capture` returns: call it like the step.

    It has the step's name and docstring.
    """

    def __init__(self, step: Callable, warmup: int, pool: Any, clone_outputs: bool):
        self.step, self.warmup, self.pool, self.clone_outputs = step, warmup, pool, clone_outputs
        self.entries: dict[tuple, _Entry] = {}
        self.side: Stream | None = None
        self.lane: Any = None  # where a graph was launched last
        functools.update_wrapper(self, step, updated=())

    def reset(self) -> None:
        """Forget all graphs, and the warm-up: the next calls run as usual again.

        Needed after a change of what is frozen: layers, hyperparameters, the optimizer.
        """
        for entry in self.entries.values():
            if entry.graph is not None:
                entry.graph.reset()
        self.entries.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values, spec = pytree.flatten((args, kwargs))
        tensors = [v for v in values if isinstance(v, Tensor)]
        if not is_available() or (tensors and not any(t.is_cuda for t in tensors)):
            return self.step(*args, **kwargs)
        self._check(tensors)
        entry = self.entries.setdefault(self._key(values, spec), _Entry())
        if entry.graph is None and entry.warm < self.warmup:
            return self._warm_up(entry, tensors, args, kwargs)
        if entry.graph is None:
            self._capture(entry, values, spec)
        return self._launch(entry, tensors)

    def _check(self, tensors: list[Tensor]) -> None:
        for i, t in enumerate(tensors):
            if not t.is_cuda:
                raise CaptureError(
                    f"capture(): tensor argument {i} is on {t.device}, others on CUDA; move it there first"
                )
            if t.requires_grad:
                raise CaptureError(
                    f"capture(): tensor argument {i} requires grad, but arguments are copied; call backward inside "
                    "the step, or use make_graphed_callables"
                )

    def _key(self, values: list, spec: Any) -> tuple:
        parts = [
            ("tensor", tuple(v.shape), v.stride(), v.dtype, v.device)
            if isinstance(v, Tensor)
            else v
            for v in values
        ]
        try:
            hash(tuple(parts))
        except TypeError as exc:
            raise CaptureError(
                f"capture(): arguments that are no tensors must be hashable: {exc}"
            ) from None
        return spec, *parts

    def _warm_up(self, entry: _Entry, tensors: list, args: tuple, kwargs: dict) -> Any:
        """One step as usual, on the stream that will be captured."""

        self.side = capture_stream()
        here = current_stream()
        self.side.wait_stream(here)
        for t in tensors:
            t.record_stream(self.side)
        with stream(self.side):
            if entry.warm == 0:
                with watch() as inspector:
                    result = self.step(*args, **kwargs)
                self._refuse(list(inspector.found.values()))
            else:
                result = self.step(*args, **kwargs)
        here.wait_stream(self.side)
        for value in pytree.flatten(result)[0]:
            if isinstance(value, Tensor) and value.is_cuda:
                value.record_stream(here)
        entry.warm += 1
        return result

    def _refuse(self, findings: list[Finding]) -> None:
        if not findings:
            return
        name = getattr(self.step, "__name__", "step")
        text = "\n".join(f"- {f}" for f in findings)
        raise CaptureError(f"{name} cannot be captured as a CUDA graph:\n{text}", findings)

    def _capture(self, entry: _Entry, values: list, spec: Any) -> None:

        pool = graph_pool_handle() if self.pool is None else self.pool
        with Flag(NO_GRAD, True):
            static = [v.clone() if isinstance(v, Tensor) else v for v in values]
        entry.inputs = [v for v in static if isinstance(v, Tensor)]
        made = CUDAGraph()
        args, kwargs = pytree.unflatten(static, spec)
        try:
            with graph(made, pool=pool, stream=self.side):
                result = self.step(*args, **kwargs)
                entry.outputs, entry.spec = pytree.flatten(result)
        except (RuntimeError, NotImplementedError, TypeError) as exc:
            name = getattr(self.step, "__name__", "step")
            raise CaptureError(
                f"{name} could not be captured as a CUDA graph: {exc}\n  at {_line_of(exc)}"
            ) from exc
        entry.graph = made
        entry.grads = [(leaf, leaf._grad) for leaf in made._leaves.values()]

    def _launch(self, entry: _Entry, tensors: list[Tensor]) -> Any:
        here = shared.cuda.current(entry.inputs[0].get_device() if entry.inputs else None)
        if self.lane is not None and self.lane is not here:
            here.wait(self.lane.record())
        self.lane = here
        with Flag(NO_GRAD, True):
            for static, new in zip(entry.inputs, tensors, strict=True):
                static.copy_(new)
            entry.graph.replay()
            for leaf, grad in entry.grads:  # graphs for other shapes have gradients of their own
                leaf._grad = grad
            results = [self._result(o) for o in entry.outputs]
        return pytree.unflatten(results, entry.spec)

    def _result(self, output: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        return output.detach().clone() if self.clone_outputs else output.detach()


def _line_of(exc: BaseException) -> str:
    """The user's line in which an exception arose."""
    frames = traceback.extract_tb(exc.__traceback__)
    ours = [is_library(f.filename) for f in frames]
    calls = [f for f, mine, inner in zip(frames, ours, [*ours[1:], False]) if inner and not mine]
    calls = calls or [f for f, mine in zip(frames, ours) if not mine]
    if not calls:
        return "an unknown place"
    last = calls[-1]
    return f"{last.filename}:{last.lineno}, in {last.name}\n      {last.line}"
