"""One run of a function whose derivative is asked for: what it is given, and what its caller gets."""

from __future__ import annotations

from typing import Any

from ..autograd import differentiate
from ..core import batched, modes, views
from ..core.modes import FORWARD_AD, INFERENCE, NO_GRAD, shared, state
from ..core.node import AccumulateGrad, edge
from ..core.pytree import tree_map
from ..core.tangents import own_tangent, tangent_of
from ..core.tensor import Tensor
from ..ops.create import zeros_like
from ..ops.shape import alias_op as alias

UNRECORDED = NO_GRAD | INFERENCE  # modes around a transform, which has a graph of its own


class Recording:
    """One run of a function whose derivative is asked for, or asked for later (vjp)."""

    def __init__(self) -> None:
        self.outer_grad = modes.is_grad_enabled()
        self.leaves: list[Tensor] = []
        self.given: list[Tensor] = []  # what the leaves are aliases of
        self.connected = False  # whether results depend on something outside that requires grad

    def watch(self, value: Any) -> Any:
        """`value` with each tensor in it replaced by an alias to differentiate with respect to."""
        return tree_map(self.watch_one, value)

    def watch_one(self, tensor: Any) -> Tensor:
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}")
        if batched.active() is not None and not (batched.is_logical(tensor) and tensor._rg):
            leaf = _with_tangent(batched.lift(tensor), tensor).requires_grad_()
        elif tensor._rg and self.outer_grad:
            self.connected = True
            leaf = alias.call(tensor)
            leaf._view.made_in = views.ARGUMENT
        else:
            leaf = _apart(tensor).requires_grad_()
        self.leaves.append(leaf)
        self.given.append(tensor)
        return leaf

    def connect(self, outputs: list) -> None:
        """Find out whether `outputs` depend on leaves other than the private ones."""
        if self.outer_grad and not self.connected:
            own = {edge(leaf)[0] for leaf in self.leaves}
            self.connected = _reaches_others(outputs, own) or batched.connected(outputs)

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
            own_tangent(out, batched.apart(tangent))  # its graph is that of this run, too
        return out

    def _reaches_outside(self, value: Tensor) -> bool:
        """Whether `value` depends on something other than the aliases of what requires no grad."""
        own = {
            edge(leaf)[0]
            for leaf, tensor in zip(self.leaves, self.given, strict=True)
            if not (tensor._rg and self.outer_grad)
        }
        return _reaches_others([value], own) or batched.connected([value])

    def _without_history(self, value: Tensor) -> bool:
        """Whether `value` requires grad only as a view of something outside that was made without recording."""
        view = value._view
        if view is None or value.grad_fn is not None:
            return False
        return not any(value is leaf or view.base is leaf for leaf in self.leaves)

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
        gradients = iter(differentiate.grad(outs, wanted, given, retain, create, allow_unused=True))
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
    out = Tensor._make(tensor._array) if tensor.is_inference() else batched.apart(tensor)
    out.__dict__.pop("_detached", None)  # nothing that the program did
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


def _reaches_others(outputs: list, own: set) -> bool:
    stack = [edge(o)[0] for o in outputs if isinstance(o, Tensor) and o._rg]
    seen = set(own)
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, AccumulateGrad):
            return True
        seen.add(node)
        stack += node.targets()
    return False
