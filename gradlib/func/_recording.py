"""One run of a function whose derivative is asked for: what it is given, and what its caller gets."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..autograd import differentiate
from ..op import vmap
from ..op.tangents import own_tangent, share_tangent, tangent_of
from ..operators.create.filled import zeros_like
from ..operators.shape.reshape import alias_op as alias
from ..tape import modes, views
from ..tape.modes import FORWARD_AD, INFERENCE, NO_GRAD, shared, state
from ..tape.node import AccumulateGrad, edge, next_seq
from ..tape.pytree import tree_map
from ..tape.storage import Storage
from ..tape.tensor import Tensor

UNRECORDED = NO_GRAD | INFERENCE  # modes around a transform, which has a graph of its own


class Writes:
    """What a function that is differentiated writes to, with the history that it had before.

    A tensor from outside keeps the values that are written, but its history is no part of the private graph.
    """

    def __init__(self, around: Writes | None, forward: bool):
        self.around, self.forward, self.start = around, forward, next_seq()
        self.dual_serial = state.dual_serial  # of the tangents that come from outside
        self.before: dict[int, tuple] = {}  # id -> the tensor, and its state
        self.unseen: set[int] = set()  # of those that were written to under no_grad only

    def note(self, tensor: Tensor) -> None:
        """Called before `tensor` gets the history of a write."""
        if self.around is not None:
            self.around.note(tensor)
        kept = state.keeps_recording
        unseen = kept is not None and bool(kept.flag)
        for one in (tensor, tensor._view.base) if tensor._view is not None else (tensor,):
            if self.has(one):
                if not unseen:
                    self.unseen.discard(id(one))
            else:
                if unseen:
                    self.unseen.add(id(one))
                view, counter = one._view, one._ver
                made = None if view is None else (view.fn, view.nr, view.version)
                others = counter.views if isinstance(counter, Storage) and view is None else None
                had = one._rg, one._inherits, one._fn, one._nr
                self.before[id(one)] = weakref.ref(one), had, made, list(others or ())

    def has(self, tensor: Tensor) -> bool:
        known = self.before.get(id(tensor))
        return known is not None and known[0]() is tensor

    def undo(self, keeps: Callable[[Tensor, bool], bool]) -> None:
        """Give the tensors from outside the history that they had; not those that `keeps` (whether it had any)."""
        for ref, (rg, inherits, fn, nr), made, others in self.before.values():
            tensor = ref()
            last = fn if made is None or fn is not None else made[0]
            private = last is not None and last.seq >= self.start
            if tensor is None or private:
                continue
            if id(tensor) not in self.unseen and keeps(tensor, rg):
                continue
            tensor._rg, tensor._fn, tensor._nr = rg, fn, nr
            if tensor._inherits != inherits:
                tensor._inherits = inherits
            if made is not None:
                tensor._view.fn, tensor._view.nr, tensor._view.version = made
            for view in [found() for found in others if not rg]:
                if view is not None:
                    view._rg = view._inherits = False
                    tensor._ver.add_view(view)


class Constants:
    """What is recorded under no_grad while a jvp inside a jvp runs, which needs it, for transforms inside of that.

    To those it is constant: `within` tells the nodes that were made in such places since a given one.
    """

    def __init__(self) -> None:
        self.flag = 0  # NO_GRAD, as the function sees it
        self.open: list[float] = []  # the last of the spans, if that is set
        self.reverse = 0  # how many transforms in reverse mode run inside of the jvp
        self.spans: list[
            list[float]
        ] = []  # the numbers of the first node and of the one after the last

    def switch(self, no_grad: int) -> int:
        before, self.flag = self.flag, no_grad
        if no_grad and not before:
            self.open = [next_seq(), math.inf]
            self.spans.append(self.open)
        elif before and not no_grad:
            self.open[1] = next_seq()
        return before

    def within(self, start: int) -> Callable[[int], bool] | None:
        spans = [span for span in self.spans if span[0] > start]
        return (lambda seq: any([a < seq < b for a, b in spans])) if spans else None


@contextmanager
def barring(barred: Callable[[int], bool] | None) -> Iterator[None]:
    """Gradients that are asked for do not come through nodes that are `barred`."""
    before, state.barred = state.barred, barred
    try:
        yield
    finally:
        state.barred = before


class Recording:
    """One run of a function whose derivative is asked for, or asked for later (vjp).

    As a context manager it is there while the function runs, and until its results are released. `forward`: of a jvp.
    """

    def __init__(self, forward: bool = False) -> None:
        self.forward = forward
        self.outer_grad = modes.is_grad_enabled()
        self.leaves: list[Tensor] = []
        self.given: list[Tensor] = []  # what the leaves are aliases of
        # whether that requires grad outside, and did before the function ran
        self.outer: list[bool] = []
        self.connected = False  # whether results depend on something outside that requires grad
        self.barred: Callable[[int], bool] | None = None  # nodes by number that are constants

    def __enter__(self) -> Recording:
        self.writes = state.writes = Writes(state.writes, self.forward)
        self.constants = kept = state.keeps_recording
        if kept is not None:  # it records, also where no_grad surrounds it
            self.place = kept.flag, kept.open
            kept.flag = 0
            kept.reverse += not self.forward
        return self

    def __exit__(self, *exc: Any) -> None:
        state.writes = self.writes.around
        self.writes.undo(self._keeps)
        if self.constants is not None:
            self.constants.switch(0)
            self.constants.reverse -= not self.forward
            self.constants.flag, self.constants.open = self.place

    def _keeps(self, tensor: Tensor, had: bool) -> bool:
        """Whether what is written to `tensor` from outside is recorded outside, too."""
        return self.outer_grad and (had or self._reaches_outside(tensor))

    def held(self, outputs: list) -> list:
        """`outputs`, to differentiate later: those that were written to with the history that they have now."""
        found = []
        for out in outputs:
            view = out._view
            written = self.writes.has(out) or (view is not None and self.writes.has(view.base))
            if written and out._rg:
                fn, nr = edge(out)
                out = _with_tangent(Tensor._make(out._array), out)
                out._rg, out._fn, out._nr = True, fn, nr
            found.append(out)
        return found

    def watch(self, value: Any) -> Any:
        """`value` with each tensor in it replaced by an alias to differentiate with respect to."""
        return tree_map(self.watch_one, value)

    def watch_one(self, tensor: Any) -> Tensor:
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}")
        if vmap.active() is not None and not (vmap.is_logical(tensor) and tensor._rg):
            leaf = _with_tangent(vmap.lift(tensor), tensor).requires_grad_()
            if state.bits & FORWARD_AD and vmap.is_logical(tensor):
                share_tangent(leaf, tensor)
        elif tensor._rg and self.outer_grad:
            self.connected = True
            leaf = alias.call(tensor)
            leaf._view.made_in = views.ARGUMENT
        else:
            leaf = _apart(tensor).requires_grad_()
            if state.bits & FORWARD_AD and leaf._ver is tensor._ver:
                share_tangent(leaf, tensor)
        self.note(leaf, tensor)
        return leaf

    def note(self, leaf: Tensor, tensor: Tensor) -> None:
        """`leaf` is an alias of `tensor`, which the caller gave."""
        self.leaves.append(leaf)
        self.given.append(tensor)
        self.outer.append(tensor._rg and self.outer_grad)

    def connect(self, outputs: list) -> None:
        """Find out whether `outputs` depend on leaves other than the private ones."""
        if self.constants is not None:
            self.barred = self.constants.within(self.writes.start)
        if self.outer_grad and not self.connected:
            own = {edge(leaf)[0] for leaf in self.leaves}
            reaches = _reaches_others(outputs, own, self.writes.start)
            self.connected = reaches or vmap.connected(outputs)

    def release(self, value: Any) -> Any:
        """`value` as the caller gets it: outside the private graph, unless it depends on something outside."""
        return tree_map(self._release_one, value)

    def _release_one(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(value)}")
        if not value._rg or self._without_history(value):
            return value
        for leaf, tensor in zip(self.leaves, self.given, strict=True):
            # The caller's own tensor, or a view of it: a write to it is one to what was given.
            if value is leaf:
                return tensor
            steps = _steps_from(leaf, value)
            if steps:
                with modes.Flag(NO_GRAD, not self.outer_grad):
                    return views.replay(tensor, steps)
        if self.connected and self._reaches_outside(value):
            return value
        out = _apart(value)
        if state.bits & FORWARD_AD and (tangent := tangent_of(out)) is not None:
            own_tangent(out, vmap.apart(tangent))  # its graph is that of this run, too
        return out

    def _reaches_outside(self, value: Tensor) -> bool:
        """Whether `value` depends on something other than the aliases of what requires no grad."""
        leaves = zip(self.leaves, self.outer, strict=True)
        own = {edge(leaf)[0] for leaf, outer in leaves if not outer}
        reaches = _reaches_others([value], own, self.writes.start)
        return reaches or vmap.connected([value])

    def _without_history(self, value: Tensor) -> bool:
        """Whether `value` requires grad only as a view of something outside that was made without recording."""
        view = value._view
        if view is None or value.grad_fn is not None:
            return False
        return not any(value is leaf or view.base is leaf for leaf in self.leaves)

    @contextmanager
    def pulling(self) -> Iterator[None]:
        """A backward pass of this one: hooks of others are not called, see `tape.hooks`."""
        before, state.pulling = state.pulling, self.writes
        try:
            yield
        finally:
            state.pulling = before

    def pull(self, outputs: list, seeds: list, retain: bool, create: bool) -> list:
        """The gradients with respect to the private aliases; zeros where there is no dependence."""
        pairs = [
            (o, s)
            for o, s in zip(outputs, seeds, strict=True)
            if o._rg and not self._without_history(o)
        ]
        wanted = [leaf for leaf in self.leaves if leaf._rg]  # not those that were detached
        if not pairs or not wanted:
            return [zeros_like(leaf) for leaf in self.leaves]
        outs, given = zip(*pairs, strict=True)
        with barring(self.barred), self.pulling():
            gradients = iter(
                differentiate.grad(outs, wanted, given, retain, create, allow_unused=True)
            )
        found = [next(gradients) if leaf._rg else None for leaf in self.leaves]
        found = [
            zeros_like(leaf) if g is None else g for leaf, g in zip(self.leaves, found, strict=True)
        ]
        if create:  # those that depend on nothing outside end here
            found = [g if not g._rg or self._reaches_outside(g) else _apart(g) for g in found]
        return found


def _apart(tensor: Tensor) -> Tensor:
    """The tensor outside any graph, with its tangent; an ordinary one also of a tensor of inference mode."""
    if not (tensor.is_inference() or shared.batches):
        return _with_tangent(Tensor._alias(tensor), tensor)
    out = Tensor._make(tensor._array) if tensor.is_inference() else vmap.apart(tensor)
    out._detached = None  # nothing that the program did
    return _with_tangent(out, tensor)


def _with_tangent(out: Tensor, source: Tensor) -> Tensor:
    """`out` with the tangent of `source`."""
    if state.bits & FORWARD_AD:
        tangent = tangent_of(source)
        if tangent is not None:
            own_tangent(out, tangent)
    return out


def _steps_from(leaf: Tensor, value: Tensor) -> tuple:
    """The view ops that lead from `leaf` to `value`; none if it is no view of it, or not to be written to."""
    steps, view, start = [], value._view, leaf._view
    if view is None or (view.made_in != views.DEFAULT and start is None):
        return ()
    while view is not None and view is not start:
        steps.append((view.op, view.attrs))
        if start is None and view.parent is None and view.base is not leaf:
            return ()
        view = view.parent
    return tuple(reversed(steps)) if view is start else ()


def _reaches_others(outputs: list, own: set, start: float) -> bool:
    """Whether the graph of one of `outputs` leads to a leaf, or a node from before `start`, that is none of `own`.

    That need not lead to a leaf: a transform around this one may differentiate with respect to what it made.
    """
    stack = [edge(o)[0] for o in outputs if isinstance(o, Tensor) and o._rg]
    seen = set(own)
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, AccumulateGrad) or node.seq < start:
            return True
        seen.add(node)
        stack += node.targets()
    return False
