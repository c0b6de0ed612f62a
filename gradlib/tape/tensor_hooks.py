"""Hooks of tensors, and backward() as a method."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from . import handed
from .hooks import RemovableHandle, add_hook, owned
from .modes import state
from .node import edge


class Hooks:
    """The part of Tensor that starts backward and listens to it."""

    __slots__ = ()
    _backward_hooks: OrderedDict | None = (
        None  # of a leaf; those of other tensors live in their node
    )
    _post_accumulate_grad_hooks: OrderedDict | None = None
    _retain: Any = None

    if TYPE_CHECKING:
        _rg: bool
        is_leaf: bool

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
        """Add the gradient of this tensor with respect to the graph's leaves into their ``.grad``.

        gradient: Tensor of this tensor's shape; may be left out for a tensor with one element.
        inputs: accumulate only into these tensors.
        """

        handed.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook) -> RemovableHandle:
        """Call ``hook(grad)`` whenever a gradient of this tensor is computed; a returned tensor replaces it."""
        if not self._rg:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.is_leaf:
            if self._backward_hooks is None:
                self._backward_hooks = OrderedDict()
            hooks = self._backward_hooks
        else:
            node, nr = edge(self)  # type: ignore[arg-type]
            assert node is not None
            hooks = node.make_extra().tensor_hooks.setdefault(nr, OrderedDict())
            if state.writes is not None:
                hook = owned(hook, node.seq)
        return add_hook(hooks, hook)

    def register_post_accumulate_grad_hook(self, hook) -> RemovableHandle:
        """Call ``hook(tensor)`` after a gradient was accumulated into ``tensor.grad``; leaves only."""
        if not self._rg:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        if self._post_accumulate_grad_hooks is None:
            self._post_accumulate_grad_hooks = OrderedDict()
        return add_hook(self._post_accumulate_grad_hooks, hook)

    def retain_grad(self) -> None:
        """Let backward() fill ``.grad`` of this non-leaf; no effect on a leaf."""
        if not self._rg:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf or self._retain is not None:
            return
        node, nr = edge(self)  # type: ignore[arg-type]
        assert node is not None
        node.make_extra().retained[nr] = weakref.ref(self)
        self._retain = True

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad()`` was called: ``.grad`` is filled although the tensor is no leaf."""
        return self._retain is not None and not self.is_leaf
