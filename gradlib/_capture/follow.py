"""A run of a step that is only followed: whether it does what the run before it did, of which there is a plan.

That takes a fraction of what it takes to write the step down once more, and tells the same: whether its ops depend on
something that no guard sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..amp._casts import casts
from ..tape import engine, pytree
from ..tape.modes import FORWARD_AD, VMAP, state
from .recorder import Recorder
from .watch import Blind


class Follower(Recorder):
    """Notes what a step does, as a recorder does, and lets it be done as without one."""

    def follow(self, step: Callable, args: tuple, kwargs: dict) -> Any:
        """Run the step; `refused` says why there can be no plan."""
        self.step, self.watch = step, Blind()  # its code was watched
        result = self.run(args, kwargs)
        self.notes.result(*pytree.flatten(result))
        return result

    def execute(self, op: Any, args: tuple, attrs: tuple, compute: Any, given: tuple | None) -> Any:
        """The result of an op."""
        if self.off or self.depth:
            return super().execute(op, args, attrs, compute, given)
        self.notes.note(op, args, attrs)
        result = self._as_always(op, args, attrs, compute, given)
        self.notes.made([t._array for t in ((result,) if op.n_out == 1 else result)])
        return result

    def write(self, op: Any, tensor: Any, args: tuple, attrs: tuple, proceed: Any) -> tuple:
        """``proceed()``, which writes to the memory of the first argument."""
        if self.off or self.depth:
            return proceed()
        self.notes.note("write", op, args, attrs)
        self.depth += 1
        try:
            return proceed()
        finally:
            self.depth -= 1

    def backward(self, roots, grads, keep_graph, create_graph, inputs, accumulate) -> list | None:
        """The gradients at `inputs`; None where the engine computes them by ops."""
        if self.off or self.depth or not self.is_alone():
            self.step_aside()
            return None
        self.notes.backward(roots, grads, keep_graph, create_graph, inputs, accumulate)
        if create_graph or state.bits & (FORWARD_AD | VMAP):
            return None
        with self.quiet():
            return engine.run_backward(roots, grads, keep_graph, create_graph, inputs, accumulate)

    def raw(self, function: Callable, args: tuple) -> Any:
        """``function(*args)``, a function on raw arrays."""
        if self.off or self.depth or not self.is_alone():
            return function(*args)
        result = self._noted("raw", function, args)
        self.notes.made([] if result is None else [result])
        return result

    def whole(self, name: str, function: Callable, args: tuple) -> Any:
        """``function(*args)``, a method of an optimizer."""
        if not (self.off or self.depth) and self.is_alone():
            return self._noted("whole", name, function, args)
        with self.quiet():
            return function(*args)

    def _noted(self, what: str, *values: Any) -> Any:
        self.notes.note(what, *values)
        *_, function, args = values
        with self.quiet():
            return function(*args)

    def set_grad(self, tensor: Any, value: Any) -> None:
        """``tensor.grad = value``."""
        if not (self.off or self.depth):
            self.notes.note("set_grad", tensor, value)

    def read(self, tensor: Any) -> None:
        """A value goes to Python."""
        self.notes.note("item", tensor)

    def cast_once(self, tensor: Any, target: Any) -> Any:
        """A parameter in a half type; a step whose casts outlive it is written down twice."""
        if self.outlives:
            self.notes.plain = False
        known = casts.known(tensor, target)
        return casts.make(tensor, target) if known is None else known
