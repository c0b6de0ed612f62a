"""The recorder's part for what hangs on nodes and leaves: it is called with gradients, and its ops are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.function import BackwardCFunction
from ..tape import engine, saved
from ..tape.accumulation import keep_gradient
from ..tape.attributes import raw_attributes
from ..tape.device import copied
from ..tape.modes import RAW
from ..tape.storage import version_of
from ..tape.tensor import Tensor
from .functions import Functions
from .graph import Unwritable
from .memory import made

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of leaves
_Pair = tuple[Any, str]  # a raw gradient and its variable


def listens(node: Any) -> bool:
    """Whether hooks hang on a node, or gradients are retained there."""
    extra = node.extra
    return extra is not None and bool(
        extra.tensor_hooks or extra.prehooks or extra.posthooks or extra.retained
    )


def calls_hooks(node: Any) -> bool:
    """Whether hooks are called although no gradient came to a node."""
    return node.extra is not None and engine.listened(node)


def hooks_on(tensor: Any) -> Any:
    """All that hangs on a tensor, to be compared."""
    own = [[*(raw_attributes(tensor).get(name) or {}).items()] for name in HOOKS]
    extra = None if tensor._fn is None else tensor._fn.extra
    if extra is None:
        return own
    hooks = [*extra.tensor_hooks.values(), extra.prehooks or {}, extra.posthooks or {}]
    return own, [[*h.items()] for h in hooks], [*extra.retained]


class Hooks(Functions):
    """Calls hooks, and unpacks what saved-tensor hooks have packed."""

    def look_at_hooks(self, order: list, leaves: list) -> None:
        """Unwritable for what was there before the step, other than leaves.

        A graph from before may be changed, hooks included, and may lead to leaves that nothing else tells of.
        """
        for node in order:
            if listens(node) or self.is_function(node):
                self.notes.plain = False
            if node.seq < self.first_seq and id(node) not in self.cast_nodes:
                raise Unwritable(f"{node.name()} is of a graph from before the step")
            if listens(node) and any(
                [
                    r() is not None and id(r()) in self.reached.tensors
                    for r in node.extra.retained.values()
                ]
            ):
                raise Unwritable("the gradient of a tensor that outlives the step is retained")
        if any([raw_attributes(leaf.variable).get(name) for leaf in leaves for name in HOOKS]):
            self.notes.plain = False
        if any([leaf.extra is not None for leaf in leaves]):
            raise Unwritable("a node of a parameter has hooks")

    def _pair_of(self, array: Any, by: str) -> _Pair:
        """What code of the program gave as a gradient, or as a saved value."""
        name = None
        if not self.off and isinstance(array, (np.ndarray, np.generic)):
            name = self._name_of_any(array)
        if name is None:  # there will be no plan, but the pass goes on
            self.refuse(f"{by} gives a tensor of unknown origin")
            return array, self._name(array, self.draft.fresh())
        return array, self._alias(name)

    def _called(self, node: Any, given: list, run: Callable[[list], list]) -> list:
        """The pairs that hooks, called by ``run(arrays)``, make of pairs (or None)."""
        arrays = [None if p is None else p[0] for p in given]
        for p in given:
            if p is not None:
                self._name(p[0], self._alias(p[1]))
        found = self.blamed(node, lambda: run(list(arrays)))
        return [
            None if a is None else p if p is not None and a is p[0] else self._pair_of(a, "a hook")
            for a, p in zip(found, given, strict=True)
        ]

    def arrived(self, node: Any, grad: Any) -> Any:
        """The gradients of a node's outputs as hooks of tensors leave them."""
        extra = node.extra
        pairs = [grad] if node.n_out == 1 else list(grad or [None] * node.n_out)
        numbers = [0] if node.n_out == 1 else range(1, node.n_out + 1)
        for position, nr in enumerate(numbers):
            hooks = extra.tensor_hooks.get(nr)
            if hooks:
                pairs[position : position + 1] = self._called(
                    node,
                    [self._for_hooks(pairs[position])],
                    lambda a, hooks=hooks: [engine.run_tensor_hooks(hooks, a[0], RAW)],
                )
        return self._joined(node, pairs)

    @staticmethod
    def _joined(node: Any, pairs: list) -> Any:
        if node.n_out == 1:
            return pairs[0]
        return None if all([p is None for p in pairs]) else pairs

    def begins(self, node: Any, grad: Any) -> Any:
        """The same as hooks of the node leave them; those that are retained are kept."""
        extra = node.extra
        pairs = [grad] if node.n_out == 1 else list(grad or [None] * node.n_out)
        if extra.prehooks:
            pairs = self._called(
                node, pairs, lambda arrays: engine.run_prehooks(extra.prehooks, arrays, RAW)
            )
        for nr, ref in extra.retained.items():
            keeper, pair = ref(), pairs[max(nr - 1, 0)]
            if keeper is not None and pair is not None:
                self._keep(keeper, *pair)
        return self._joined(node, pairs)

    def left(self, node: Any, found: list, grad: Any) -> list:
        """The gradients that go on from a node, ``(position, pair)``, as its hooks leave them."""
        if not node.extra.posthooks:
            return found
        outs: list = [None] * len(node.edges())
        for i, pair in found:
            outs[i] = pair
        grads = [grad] if node.n_out == 1 else list(grad or [None] * node.n_out)
        given = [None if p is None else p[0] for p in grads]
        pairs = self._called(
            node,
            outs,
            lambda arrays: list(
                engine.run_posthooks(node.extra.posthooks, tuple(arrays), given, RAW)
            ),
        )
        return [(i, p) for i, p in enumerate(pairs) if p is not None]

    def _keep(self, tensor: Any, array: Any, name: str) -> None:
        """``retain_grad``: the gradient of a tensor that the step made becomes its ``.grad``."""
        if tensor._grad is not None:
            self._name(array, self._alias(name))
            with self._Loud(self):
                keep_gradient(tensor, Tensor._make(array), False)
            return
        keep_gradient(tensor, Tensor._make(array), False)
        kept: Any = tensor._grad
        new = self.draft.fresh()
        text = f"{new} = {self.draft.constant(copied)}(asarray({name}))"
        self.emit(text, (new,), (name,), "a gradient that is retained")
        self._name(kept._array, new)
        self.kept.append(kept)
        self.seen[id(kept)] = kept, version_of(kept), len(self.writes)

    def at_leaf(self, node: Any, pair: _Pair) -> _Pair:
        """The complete gradient of a leaf, in its dtype, as its hooks leave it."""
        hooks = node.variable._backward_hooks
        if hooks:
            run = lambda arrays: [engine.run_tensor_hooks(hooks, arrays[0], RAW)]
            pair = self._for_hooks(self.cast(node.variable, pair))
            (pair,) = self._called(node, [pair], run)
        return pair

    def _for_hooks(self, pair: _Pair | None) -> Any:
        """A gradient that hooks of tensors may write to."""
        if pair is None or not engine.is_shared(pair[0]):
            return pair
        name, array = self.draft.fresh(), pair[0].copy()
        text = f"{name} = {pair[1]}.copy()"
        self.emit(text, (name,), (pair[1],), "a gradient for hooks", made=made(array))
        return array, self._name(array, name)

    def accumulated(self, node: Any) -> None:
        """The gradient of a leaf was added to its ``.grad``."""
        if node.variable._post_accumulate_grad_hooks:
            self.blamed(node, lambda: engine.run_post_accumulate_hooks(node.variable))

    def cast(self, leaf: Any, pair: _Pair) -> _Pair:
        """A gradient in the dtype of its leaf."""
        array, want = pair[0], leaf._array.dtype
        if array.dtype is want:
            return pair
        name, cast = self.draft.fresh(), array.astype(want)
        text = f"{name} = {pair[1]}.astype({self.draft.constant(want)})"
        self.emit(text, (name,), (pair[1],), "a gradient that is asked for")
        return cast, self._name(cast, name)

    def is_function(self, node: Any) -> bool:
        """Whether a node is that of a custom Function."""
        return isinstance(node, BackwardCFunction)

    # -- saved-tensor hooks ------------------------------------------------------------------------------------------

    def unpacked(self, node: Any, name: str) -> _Pair:
        """The value of a saved tensor that a hook has packed."""
        value = self.blamed(node, lambda: saved.unpack_tensor(node, name))
        known = None if self.off else self.tensor(value)
        if known is None:
            return self._pair_of(value._array, "a saved-tensor hook")
        return value._array, known

    def unpacked_arrays(self, node: Any, slot: str) -> Any:
        """The same of arrays that a node keeps; see `saved.unpack_array`."""
        found = self.blamed(node, lambda: saved.unpack_array(node, slot))
        for array in found if isinstance(found, tuple) else (found,):
            if isinstance(array, np.ndarray) and (self.off or self._name_of_any(array) is None):
                self._pair_of(array, "a saved-tensor hook")
        return found


def packed(value: Any) -> bool:
    """Whether saved-tensor hooks have something in a slot."""
    parts = value if isinstance(value, tuple) else (value,)
    return any([p.__class__ is saved.Packed for p in parts])
