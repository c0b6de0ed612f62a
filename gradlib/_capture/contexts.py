"""The ctx of a custom Function in the graph of a replayed step: made again from what the replay saved."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..autograd._function_call import OWN, OwnOutput
from ..tape.saved import DIRECT, PACKED
from ..tape.storage import Storage, version_of
from ..tape.tensor import Tensor
from .state import CONSTANTS, Opaque, State, instructions, same

_OWN = {"_node", "_saved", "_versions", "to_save", "saved_for_forward", "non_differentiable"}
new = object.__new__


class Unwritable(Exception):
    """A node whose gradient cannot be written down; the text says why."""


class Context(NamedTuple):
    """How a node of a custom Function and its ctx are made again.

    kind: the class of the ctx. slots: of the node. attributes: the names and parts of what the ctx holds. saved: for
    each saved tensor a part, or ("own", where its array is in what a replay saves, number of its owner or -1, output)
    for an output of the Function.

    A part is ("value", it), ("tensor", number of the saved tensor), ("tuple", parts) or ("slice", its three parts).
    """

    kind: type
    slots: tuple
    attributes: tuple
    saved: tuple

    def same(self, other: Context) -> bool:
        """Whether another recording of the step gave the same."""
        return self.kind is other.kind and _alike(self[1:], other[1:])


def describe(node: Any, tensor: Any, own: Any) -> Context:
    """What a node and its ctx hold.

    Args:
        tensor: ``tensor(t)`` -> the number of a saved tensor. own: ``own(output)`` -> (where its array is, owner).

    Raises:
        Unwritable: it cannot be made again.
    """
    ctx, name = node.ctx, node.name()
    if ctx.dirty_tensors:
        raise Unwritable(f"{name} writes to its arguments")

    def part(value: Any) -> tuple:
        if isinstance(value, Tensor):
            return "tensor", tensor(value)
        if value.__class__ is tuple:
            return "tuple", tuple([part(v) for v in value])
        if value.__class__ is slice:
            return "slice", tuple([part(v) for v in _bounds(value)])
        if not isinstance(value, CONSTANTS):
            raise Unwritable(f"{name} keeps a {type(value).__name__}, which is not made again")
        return "value", value

    if ctx._saved is None:
        raise Unwritable("backward was called already")
    kept = []
    for value, version in zip(ctx._saved, ctx._versions, strict=True):
        if version == PACKED:
            raise Unwritable(f"{name} has packed values")
        if version == OWN:
            changed = value.storage.version != value.version
            kept.append(("own", *own(value), value.nr))
        else:
            changed = version != DIRECT and version_of(value) != version
            kept.append(part(value))
        if changed:
            raise Unwritable(f"what {name} saved was changed")
    attributes = [(k, part(v)) for k, v in vars(ctx).items() if k not in _OWN]
    slots = [(slot, getattr(node, slot)) for slot in ("_first", "n_out")]
    slots += [(slot, tuple(getattr(node, slot))) for slot in ("_inputs", "_outputs")]
    return Context(type(ctx), tuple(slots), tuple(attributes), tuple(kept))


def code_of(function: Any) -> tuple:
    """What runs when a custom Function goes backward."""
    return function.backward, function.vjp


def check_code(node: Any) -> None:
    """Unwritable where the next pass through a node could find another ctx, or there is more than the ctx."""
    function, name = node._forward_cls, node.name()
    try:
        reached = State(*code_of(function))
    except Opaque as exc:
        raise Unwritable(f"{name}: {exc}") from None
    if reached.tensors:
        raise Unwritable(f"{name} reaches tensors by itself")
    for code in reached.codes.values():
        stores = [i for i in instructions(code) if i.opname in ("STORE_ATTR", "DELETE_ATTR")]
        if stores or not _STORES.isdisjoint(code.co_names):
            raise Unwritable(f"{name} may change its ctx in backward")


_STORES = frozenset(("setattr", "delattr", "vars", "__dict__", "__setattr__", "__delattr__"))


def tensors_of(node: Any) -> Iterator[Any]:
    """The tensors that the ctx of a node holds."""
    todo = [*(node.ctx._saved or ()), *[v for k, v in vars(node.ctx).items() if k not in _OWN]]
    while todo:
        value = todo.pop()
        if isinstance(value, Tensor):
            yield value
        elif value.__class__ in (tuple, slice):
            todo += value if value.__class__ is tuple else _bounds(value)


def fill(
    node: Any, how: Context, values: tuple, tensors: list, storages: list, versions: list
) -> None:
    """Give a node its ctx; see `Graph.again`."""

    def made(part: tuple) -> Any:
        kind, value = part
        if kind == "tensor":
            return tensors[value][0]
        if kind == "value":
            return value
        parts = [made(v) for v in value]
        return tuple(parts) if kind == "tuple" else slice(*parts)

    node.ctx = ctx = new(how.kind)
    for slot, value in how.slots:
        setattr(node, slot, value)
    kept, of = [], []
    for part in how.saved:
        if part[0] == "own":
            output: Any = new(OwnOfWhole)
            _, at, owner, output.nr = part
            output.array, output.whole = values[at], None
            output.storage = Storage() if owner < 0 else storages[owner]
            output.version = 0 if owner < 0 else versions[owner]
            kept.append(output)
            of.append(OWN)
        else:
            kept.append(made(part))
            of.append(tensors[part[1]][1] if part[0] == "tensor" else DIRECT)
    found = {name: made(part) for name, part in how.attributes}
    vars(ctx).update(found, _saved=tuple(kept), _versions=tuple(of), _node=weakref.ref(node))


class OwnOfWhole(OwnOutput):
    """A saved output that is one of a whole graph: all its gradients are added up where that begins.

    whole: a weak reference to the node that stands for the graph, and which of its outputs it is; or None.
    """

    __slots__ = ("whole",)
    whole: Any

    def tensor(self, node: Any, i: int) -> Tensor:
        """It as backward reads it, with its history."""
        out = super().tensor(node, i)
        if self.whole is not None and (whole := self.whole[0]()) is not None:
            out._rg, out._fn, out._nr = True, whole, self.whole[1]
        return out


def hang(node: Any, nr: int, whole: Any, number: int) -> None:
    """Let saved outputs `nr` of a node have their history in `whole`."""
    for value, version in zip(node.ctx._saved, node.ctx._versions, strict=True):
        if version == OWN and value.nr == nr:
            value.whole = weakref.ref(whole), number


def _bounds(part: slice) -> tuple:
    return part.start, part.stop, part.step


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return same(a, b)
