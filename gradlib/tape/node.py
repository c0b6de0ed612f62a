"""Node: one recorded op - what it feeds, what it kept, and how its gradients are computed.

Edges point to earlier nodes only, so a graph is freed from its outputs by reference counting alone. An edge is a
node and an output number: 0 for the only output of a node, 1 + position for a node with several outputs.
Every op has a Node subclass of its own, made by `write.py`; this module holds what they share.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from . import handed
from .arrays import backend_for
from .dtypes import HALVES
from .hooks import RemovableHandle, add_hook, owned
from .modes import ANOMALY, DIFFERENTIATED, RAW, shared, state

if TYPE_CHECKING:
    from .tensor import Tensor

_numbers: Any = iter(range(1 << 62))  # unlike itertools.count, it tells how far it is
next_seq = _numbers.__next__
LEAF_SEQ = (1 << 64) - 1  # AccumulateGrad comes first among ready nodes


def peek_seq() -> int:
    """The number that the next node gets (if no other thread makes one first)."""
    return (1 << 62) - _numbers.__length_hint__()


class Extra:
    """What most nodes do not have: hooks, metadata, anomaly tracebacks. Made on first use."""

    __slots__ = (
        "metadata",
        "number",
        "parent",
        "posthooks",
        "prehooks",
        "retained",
        "tangents",
        "tensor_hooks",
        "traceback",
    )

    def __init__(self) -> None:
        self.prehooks: OrderedDict[int, Any] | None = None
        self.posthooks: OrderedDict[int, Any] | None = None
        self.tensor_hooks: dict[int, OrderedDict] = {}
        self.retained: dict[
            int, Any
        ] = {}  # edge number -> weak reference to the tensor that keeps its .grad
        self.tangents: dict | None = None  # forward mode: of saved outputs, with their level
        self.metadata: dict | None = None
        self.number: int | None = None  # what the user set in place of the sequence number
        self.traceback: Any = None  # traceback.StackSummary
        self.parent: Node | None = None


class Node:
    """A vertex of the backward graph: ``tensor.grad_fn``. Made by operations, never by users.

    What the op saved is there under ``_saved_<name>``, as in PyTorch.

    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> node = (x * 3).sum().grad_fn
        >>> node.name(), node.next_functions[0][0].name()
        ('SumBackward0', 'MulBackward0')
    """

    __slots__ = ("__weakref__", "code", "extra", "lasti", "seq", "stream")
    extra: Extra | None  # what few nodes have: hooks, retained gradients, ...
    n_out = 1  # outputs of the forward op
    op: Any = None
    node_name = "Node"
    runs_undefined = False  # whether it runs although no gradient arrived (custom Functions)

    # -- graph ---------------------------------------------------------------------------------------------------

    def edges(self) -> tuple[tuple[Node | None, int], ...]:
        """The node and output number that the gradient of each differentiable argument goes to.

        Output numbers are 0 for the only output of a node, else 1 + position; `next_functions` has those of PyTorch.
        """
        return ()

    def targets(self) -> tuple[Node | None, ...]:
        """The nodes that the gradients go to, None where there is none.

        The nodes of `edges`, without output numbers.
        """
        return tuple(node for node, _ in self.edges())

    def name(self) -> str:
        """The name as PyTorch spells it, for example ``MulBackward0``.

        Example:
            >>> (gradlib.ones(2, requires_grad=True) * 2).grad_fn.name()
            'MulBackward0'
        """
        return self.node_name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that the gradients of this node flow to: ((Node or None, output number), ...).

        Example:
            >>> x = gradlib.ones(2, requires_grad=True)
            >>> [node.name() for node, _ in (x * x).grad_fn.next_functions]
            ['torch::autograd::AccumulateGrad', 'torch::autograd::AccumulateGrad']
        """
        return tuple((node, max(nr - 1, 0)) for node, nr in self.edges())

    @property
    def metadata(self) -> dict:
        """A dict for the user, empty at first; it lives as long as the node.

        Example:
            >>> node = (gradlib.ones(2, requires_grad=True) * 2).grad_fn
            >>> node.metadata["layer"] = "first"
            >>> node.metadata
            {'layer': 'first'}
        """
        extra = self.make_extra()
        if extra.metadata is None:
            extra.metadata = {}
        return extra.metadata

    @property
    def requires_grad(self) -> bool:
        """True: only what leads to a gradient is in a graph.

        Tensors and nodes can be asked alike.
        """
        return True

    @property
    def site(self):
        """Where the user's program made this node: (code object, offset of the instruction), or None if unknown.

        For `source.describe`.
        """
        try:
            return (self.code, self.lasti)
        except AttributeError:
            return None

    def _sequence_nr(self) -> int:
        number = None if self.extra is None else self.extra.number
        return self.seq if number is None else number

    def _set_sequence_nr(self, number: int) -> None:
        """Change what `_sequence_nr` says. Nodes run in the order of their making all the same."""
        self.make_extra().number = number

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    # -- hooks ---------------------------------------------------------------------------------------------------

    def make_extra(self) -> Extra:
        """The record of what hangs on the node (hooks, metadata, ...), made if there is none.

        Most nodes have none.
        """
        if self.extra is None:
            self.extra = Extra()
        return self.extra

    def register_hook(self, fn) -> RemovableHandle:
        """Call `fn` after this node ran; a tuple that it returns replaces the gradients that go on from here.

        Args:
            fn: ``fn(grad_inputs, grad_outputs)``, tuples of Tensors or None: what the node gives, and what it got.

        Returns:
            A handle whose ``remove()`` takes the hook away.

        Example:
            >>> x = gradlib.ones(2, requires_grad=True)
            >>> y = x * 3
            >>> _ = y.grad_fn.register_hook(lambda grads, _: (grads[0] * 10, grads[1]))
            >>> y.sum().backward()
            >>> x.grad.tolist()
            [30.0, 30.0]
        """
        extra = self.make_extra()
        if extra.posthooks is None:
            extra.posthooks = OrderedDict()
        return add_hook(extra.posthooks, self._owned(fn))

    def register_prehook(self, fn) -> RemovableHandle:
        """Call `fn` before this node runs; a tuple that it returns replaces the gradients that arrived.

        Args:
            fn: ``fn(grad_outputs)``, a tuple of Tensors or None.

        Returns:
            A handle whose ``remove()`` takes the hook away.

        Example:
            >>> x = gradlib.ones(2, requires_grad=True)
            >>> y = x * 3
            >>> _ = y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
            >>> y.sum().backward()
            >>> x.grad.tolist()
            [30.0, 30.0]
        """
        extra = self.make_extra()
        if extra.prehooks is None:
            extra.prehooks = OrderedDict()
        return add_hook(extra.prehooks, self._owned(fn))

    _register_hook_dict = register_hook

    def _owned(self, hook: Any) -> Any:
        return hook if state.writes is None else owned(hook, self.seq)

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, g, inbox: dict) -> None:
        """Compute this node's gradients from the raw gradient `g` and deliver them to the inbox of its targets.

        Args:
            g: a raw array; a list of them, or None, for a node with several outputs.
            inbox: what has arrived for each node of this backward.
        """
        deliver_all(inbox, self, self.gradients((g,) if self.n_out == 1 else g, RAW))

    def gradients(self, grads, traced: int) -> tuple:
        """The gradient for each edge, from one gradient (or None) for each output.

        traced: RAW for gradients that are raw arrays; RECORDED or DIFFERENTIATED for Tensors, where formulas run
            through the op namespace. Of the last two only the second one's results are differentiated again.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Forget the saved tensors; a later run raises.

        The engine calls it after the node ran, unless the graph is retained.
        """

    def __call__(self, *grads):
        """Run this node on gradients given as Tensors; gradients as Tensors, one alone not in a tuple."""

        needed, state.needed = state.needed, None
        try:
            out = self.gradients(tuple(grads), DIFFERENTIATED)
        finally:
            state.needed = needed
        return out[0] if len(out) == 1 else out

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"

    def __getattr__(self, name: str):
        return handed.node_attribute(self, name)

    def __dir__(self):
        return [*super().__dir__(), *handed.attribute_names(self)]


class VariadicNode(Node):
    """A node of an op that takes a list of tensors (cat, stack, einsum...): its edges are a tuple."""

    __slots__ = ("edge_list",)

    def edges(self):
        return self.edge_list

    def targets(self):
        return tuple(edge[0] for edge in self.edge_list)


def join(kind: type[VariadicNode], edges: Iterable[tuple[Node | None, int]]) -> Any:
    """A new node of `kind`, the newest of the graph, with these edges."""
    node = kind()
    node.seq, node.extra, node.edge_list = next_seq(), None, tuple(edges)
    return node


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what arrives into ``leaf.grad``.

    It holds the leaf; the leaf refers to it weakly, so a leaf alone keeps no graph alive.
    """

    __slots__ = ("variable",)
    node_name = "torch::autograd::AccumulateGrad"

    def __init__(self, variable: Tensor):
        self.variable = variable
        self.seq, self.extra = LEAF_SEQ, None

    def gradients(self, grads, traced):
        handed.accumulate_leaf(self, grads[0], traced)
        return ()


def _references() -> int:
    """How many references to a gradient `deliver` counts when nobody but the inbox holds it (it varies with Python)."""
    inbox = {0: np.empty(0)}
    have = inbox.get(0)
    return getrefcount(have)


OURS_ALONE = _references()
LARGE = 4096  # elements of a sum that is worth to be made in place


def deliver(inbox: Any, node: Node, nr: int, grad) -> None:
    """Add a gradient to what has arrived for output `nr` of `node`."""
    if inbox.__class__ is not dict:
        inbox.deliver(node, nr, grad)  # between CUDA streams
    elif nr:
        slots: Any = inbox.get(node)
        if slots is None:
            slots = inbox[node] = [None] * node.n_out
        have = slots[nr - 1]
        if have is None:
            slots[nr - 1] = grad
        elif have.__class__ is ndarray and have.size > LARGE:
            slots[nr - 1] = added(getrefcount(have) <= OURS_ALONE, have, grad)
        else:
            slots[nr - 1] = have + grad if shared.sparse is None else total(have, grad)
    else:
        have = inbox.get(node)
        if have is None:
            inbox[node] = grad
        elif have.__class__ is ndarray and have.size > LARGE:
            inbox[node] = added(getrefcount(have) <= OURS_ALONE, have, grad)
        else:
            inbox[node] = have + grad if shared.sparse is None else total(have, grad)


def total(have: Any, grad: Any) -> Any:
    """The sum of two gradients; a sparse Tensor is added to a dense one, never the other way round."""
    array = getattr(have, "_array", None)
    if array.__class__ is shared.sparse and grad._array.__class__ is not shared.sparse:
        return grad + have
    return have + grad


def deliver_all(inbox: Any, node: Node, gradients, needed: Any = None) -> None:
    """Add the gradients of the arguments of `node` to what has arrived where they come from.

    needed: the nodes to deliver to, if not all.
    """
    for (target, nr), grad in zip(node.edges(), gradients, strict=False):
        if target is not None and grad is not None and (needed is None or target in needed):
            deliver(inbox, target, nr, grad)


def added(alone: bool, have: ndarray, grad: Any) -> Any:
    """``have + grad``, in the memory of `have` where that is ours alone and has room for it."""
    if grad.__class__ is ndarray and grad.dtype is have.dtype and grad.shape == have.shape:
        out = have if alone and have.base is None else None
        if have.dtype in HALVES:
            return backend_for("cpu").through_float32(np.add, have, grad, out=out)
        return np.add(have, grad, out=out)
    return have + grad if shared.sparse is None else total(have, grad)


def leaf_edge(leaf: Tensor) -> tuple[Node, int]:
    """The AccumulateGrad of a leaf, made when no graph holds one."""
    ref = leaf._accumulator
    if ref is not None:
        node = ref()
        if node is not None:
            return node, 0
    node = AccumulateGrad(leaf)
    leaf._accumulator = weakref.ref(node)
    if shared.active and state.bits & ANOMALY:
        handed.stamp(node)
    return node, 0


def unrecorded_edge(tensor: Tensor) -> tuple[Node | None, int]:
    """The edge of a tensor that requires grad but has no `_fn` of its own: a view's, or that of a leaf."""
    view = tensor._view
    if view is not None:
        node = view.current_fn(tensor)
        if node is not None:
            return node, view.nr
        if tensor._inherits:
            return None, 0
    ref = tensor._accumulator  # as in `leaf_edge`: a parameter comes here at each use
    if ref is not None and (node := ref()) is not None:
        return node, 0
    return leaf_edge(tensor)


def edge(tensor: Tensor) -> tuple[Node | None, int]:
    """The (node, output number) at which the gradient of `tensor` is computed; (None, 0) if it needs none."""
    if not tensor._rg:
        return None, 0
    if tensor._fn is not None:
        return tensor._fn, tensor._nr
    return unrecorded_edge(tensor)
