"""Saved tensors: what a node keeps for its formulas, checked against the version counter whenever it is read.

A node has two slots for each saved argument: `s_<name>` and `v_<name>`. The version says what the slot holds:
a number >= 0: the Tensor itself (identity is promised) at that version; DIRECT: a Python value; PACKED: the result of
a pack hook; FREED: nothing any more. A saved output is kept as raw array, version and Storage (`k_<name>`), because
keeping the Tensor would make a cycle.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from . import errors, handed, source, views
from .lazy import raw_values
from .modes import NO_GRAD, SAVED_HOOKS, set_bits, shared, state
from .node import edge
from .storage import share, version_of
from .valueless import Valueless

DIRECT, PACKED, FREED = -1, -2, -3
RELEASED = object()  # in the slot of a hidden value whose graph was freed


def freed(node) -> None:
    """Raise the error for a graph that was run and freed."""
    raise RuntimeError(errors.second_backward(node))


def modified(node, name: str, value, expected: int, storage=None, nr: int = 0) -> RuntimeError:
    """A saved tensor was changed in place after it was saved."""

    if storage is not None:
        tensor = value if hasattr(value, "_array") else handed.Tensor._make(value)
        made_by, version = node, storage.version
    else:
        tensor, version = value, version_of(value)
        made_by, nr = edge(value) if not value.is_leaf else (None, 0)
        storage = share(value)
    origin = ""
    if made_by is not None:
        origin = f", which is output {max(nr - 1, 0)} of {errors.maker(made_by)},"
    text = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{errors.type_and_size(tensor)}{origin} is at version {version}; expected version {expected} instead."
    )
    by = "" if node is None else f" by {node.name()} at {source.describe(node.site)}"
    lines = [f"  saved as '{name}'{by}"]
    if storage.changed is not None:
        site, by = storage.changed
        lines.append(f"  changed by {by} at {source.describe(site)}")
    hint = "Hint: use an out-of-place operation at the second line, or save a copy with .clone() at the first."
    return RuntimeError(f"{text} {hint}\n" + "\n".join(lines))


class Outside:
    """Inside vmap: the history of what holds the values of all entries of a saved tensor, without the values."""

    __slots__ = ("batched", "fn", "leaf", "nr", "outside")

    def __init__(self, array):
        physical, self.batched = array.physical, array.batched
        self.leaf = physical if physical._rg and physical.is_leaf else None
        self.fn, self.nr = edge(physical) if self.leaf is None else (None, 0)
        self.outside = Outside.of(physical)

    @classmethod
    def of(cls, tensor) -> Outside | None:
        return cls(tensor._array) if shared.batches and hasattr(tensor._array, "level") else None

    def give_history(self, array):
        """`array`, an entry that an unpack hook returned, on the values of all entries with their history."""
        if not hasattr(array, "level") or array.batched != self.batched:
            raise RuntimeError(errors.UNPACKED_OUTSIDE)
        values = array.physical
        inner = values._array if self.outside is None else self.outside.give_history(values._array)
        physical = handed.Tensor._make(inner)
        physical._ver = values._ver if type(values._ver) is not int else share(values)
        physical._rg = self.fn is not None or self.leaf is not None
        physical._fn, physical._nr = self.fn, self.nr
        if self.leaf is not None:
            physical._accumulator_of(self.leaf)
        return array.on(physical)


class Packed:
    """A saved tensor under saved-tensor hooks: what the pack hook returned and how to get the tensor back."""

    __slots__ = (
        "fn",
        "is_leaf_original",
        "nr",
        "obj",
        "outside",
        "part",
        "requires_grad",
        "tangent",
        "unpack",
    )

    def __init__(self, tensor, pair: tuple, fn, nr):

        pack, self.unpack = pair
        self.fn, self.nr = fn, nr
        self.requires_grad, self.outside = tensor._rg, Outside.of(tensor)
        self.tangent = self.part = None
        if state.dual_level >= 0 and fn is not SELF:  # that of an own output is not known yet
            tangent = handed.tangent_of(tensor)
            self.tangent = None if tangent is None else (tangent, state.dual_serial)
        self.is_leaf_original = tensor if tensor._rg and fn is None else None
        given = tensor
        if self.is_leaf_original is None:
            given = handed.Tensor._alias(tensor)
            if fn is not None and fn is not SELF:  # an own output with its node would make a cycle
                given._rg, given._fn, given._nr = self.requires_grad, fn, nr
        before, hooks, bits = version_of(given), state.saved_hooks, state.bits
        state.saved_hooks = ()  # hooks are not called for what a hook saves
        set_bits(bits | NO_GRAD)
        try:
            self.obj = pack(given)
        finally:
            state.saved_hooks = hooks
            set_bits(bits)
        if version_of(given) != before:
            raise RuntimeError(errors.PACK_MODIFIES)

    def tensor(self, node):

        out = self.unpack(self.obj)
        if not isinstance(out, handed.Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(out).__name__}"
            )
        fn = node if self.fn is SELF else self.fn
        array = raw_values(out)
        if self.outside is not None:
            array = self.outside.give_history(array)
        alias = handed.Tensor._make(array)
        if self.tangent is not None:
            alias._tangent, alias._tangent_level = self.tangent
        elif self.fn is SELF:
            restore_tangent(node, self.nr, alias)
        alias._ver = out._ver if type(out._ver) is not int else share(out)
        alias._rg, alias._fn, alias._nr = self.requires_grad, fn, self.nr
        if self.is_leaf_original is not None:
            alias._accumulator_of(self.is_leaf_original)
        elif self.part is not None:
            self.part.give_history(alias)
        return alias


SELF = object()  # stands for the node that saves its own output


def hooks_for_saving() -> Any:
    """The innermost pair of saved-tensor hooks, or None."""
    if not state.bits & SAVED_HOOKS or not state.saved_hooks:
        return None
    return state.saved_hooks[-1]


def save_input(node, name: str, value) -> None:
    """Keep an argument of the forward op: a Tensor, a number or None."""
    if value is None or not hasattr(value, "_array"):
        setattr(node, "s_" + name, value)
        setattr(node, "v_" + name, DIRECT)
        return
    version = version_of(value, saving=True)
    pair = hooks_for_saving()
    if pair is not None:
        fn, nr = edge(value) if value._rg and not value.is_leaf else (None, 0)
        setattr(node, "s_" + name, Packed(value, pair, fn, nr))
        setattr(node, "v_" + name, PACKED)
    else:
        setattr(node, "s_" + name, value)
        setattr(node, "v_" + name, version)


def save_result(node, name: str, out, nr: int = 0) -> None:
    """Keep an output of the forward op without keeping its Tensor."""
    pair = hooks_for_saving()
    storage = share(out)
    setattr(node, "k_" + name, (storage, nr) if nr else storage)
    if pair is not None:
        setattr(node, "s_" + name, Packed(out, pair, SELF, nr))
        setattr(node, "v_" + name, PACKED)
    else:
        array = out._array
        if shared.subclasses is not None and shared.subclasses.among((out,)):
            array = shared.subclasses.copy_object(out)  # without history, so that there is no cycle
        elif shared.lazy:
            array = raw_values(out)
        setattr(node, "s_" + name, array)
        setattr(node, "v_" + name, storage.version)


class Part:
    """Where a saved output that was written through a view has its history: in the base, which `whole` made."""

    __slots__ = ("dtype", "nr", "shape", "steps", "whole")

    def __init__(self, whole, view):
        base = view.base._array
        self.nr = 0  # which output of `whole` the base is
        self.whole, self.shape, self.dtype = weakref.ref(whole), base.shape, base.dtype
        self.steps = view.replay

    def give_history(self, out) -> None:
        """The steps to the view are recorded on a stand-in of the base: only shapes matter."""

        whole = self.whole()
        if whole is None:  # the graph beyond the view is gone
            return
        kind = out._array.__class__  # inside vmap, shapes are all that counts, too
        base = handed.Tensor._make(
            (np.empty if isinstance(out._array, Valueless) else kind)(self.shape, self.dtype)
        )
        base._rg, base._fn, base._nr = True, whole, self.nr
        part = views.replay(base, self.steps)
        out._rg = True
        out._fn, out._nr = part.grad_fn, 0 if part._view is None else part._view.nr


def save_part(node, name: str, whole, tensor) -> None:
    """The output of `node` saved as `name` was written through the view `tensor`, which made `whole` of its base."""
    part = Part(whole, tensor._view)
    setattr(node, "k_" + name, (share(tensor), part))
    if getattr(node, "v_" + name) == PACKED:
        getattr(node, "s_" + name).part = part


def pack_arrays(node) -> None:
    """Hand what `node` keeps as raw arrays (hidden values, indices) to the saved-tensor hooks."""
    pair = hooks_for_saving()
    if pair is None:
        return
    for slot in (
        *("h_" + n for n in node.op.saved_hidden),
        *("a_" + n for n in node.op.saved_arrays),
    ):
        value = _slot(node, slot)  # inside vmap there are no hidden values
        if value is not None:
            setattr(node, slot, _pack_array(value, pair))
    node.make_extra()  # so that the engine takes the general way, which unpacks


def _pack_array(value, pair: tuple):

    if type(value) is tuple:
        return tuple(_pack_array(v, pair) for v in value)
    if not hasattr(value, "strides") or not value.ndim:
        return value
    return Packed(handed.Tensor._make(value), pair, None, 0)


def unpack_array(node, slot: str):
    """The raw array (or tuple of them) in a slot `h_<name>` or `a_<name>`."""
    value = getattr(type(node), slot).__get__(node)
    if value is RELEASED:
        freed(node)
    if type(value) is tuple:
        return tuple(v.tensor(node)._array if type(v) is Packed else v for v in value)
    return value.tensor(node)._array if type(value) is Packed else value


def unpack(node, name: str) -> Any:
    """The saved argument as raw array (or number): the slow path of generated code."""
    value = unpack_tensor(node, name)
    return getattr(value, "_array", value)


def unpack_tensor(node, name: str) -> Any:
    """The saved argument or output as Tensor (or number, or None), after the version check."""

    # In this order: another thread may free the graph in between, and its `release` marks the version first.
    value, version = getattr(node, "s_" + name), getattr(node, "v_" + name)
    if version == DIRECT:
        if isinstance(value, np.generic) or not hasattr(value, "strides"):
            return value  # NumPy's numbers have strides too, but no place in a device's memory
        return handed.Tensor._make(
            value.copy()
        )  # a number that took part as an array; others share it
    if version == FREED:
        freed(node)
    if version == PACKED:
        return value.tensor(node)
    kept = _slot(node, "k_" + name)
    if kept is None:
        if version_of(value) != version:
            raise modified(node, name, value, version)
        return value
    storage, nr = kept if type(kept) is tuple else (kept, 0)
    if storage.version != version:
        raise modified(node, name, value, version, storage, 0 if isinstance(nr, Part) else nr)
    if hasattr(value, "_array"):
        out = shared.subclasses.copy_object(value)
    else:
        out = handed.Tensor._make(value)
    out._ver = storage
    if isinstance(nr, Part):
        nr.give_history(out)
        return restore_tangent(node, 0, out)
    out._rg, out._fn, out._nr = True, node, nr
    return restore_tangent(node, nr, out)


def keep_tangent(node, nr: int, tangent) -> None:
    """Remember the tangent of output `nr` that its own node saved; it is known only after saving."""
    extra = node.make_extra()
    if extra.tangents is None:
        extra.tangents = {}
    extra.tangents[nr] = tangent, state.dual_serial
    if state.dual_keepers is not None:
        state.dual_keepers.append(weakref.ref(node))


def restore_tangent(node, nr: int, out):
    """Give a saved output of `node` the tangent that it has in forward mode."""
    if node is not None and node.extra is not None and node.extra.tangents is not None:
        out._tangent, out._tangent_level = node.extra.tangents.get(nr, (None, -1))
    return out


def _slot(node, slot: str):
    try:
        return getattr(type(node), slot).__get__(node)
    except AttributeError:
        return None


# -- the attributes _saved_<name> and _raw_saved_<name> ----------------------------------------------------------


HOOKS_AFTER_FREE = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of "
    "the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
    "you need to backward through the graph a second time or if you need to access saved variables "
    "after calling backward."
)
HOOKS_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair "
    "of hooks is allowed at a time."
)
HOOKS_ON_NONE = "Calling register_hooks on a saved tensor with value None is forbidden"


class SavedTensor:
    """One saved tensor of a node: ``grad_fn._raw_saved_self``; its hooks can be set one by one.

    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> y = x.exp()
        >>> y.grad_fn._raw_saved_result.register_hooks(lambda t: t.tolist(), gradlib.tensor)
        >>> y.sum().backward()
    """

    __slots__ = ("_name", "_node")

    def __init__(self, node, name: str):
        self._node, self._name = node, name

    def register_hooks(self, pack_hook, unpack_hook) -> None:
        """Call `pack_hook` with the saved tensor now, and `unpack_hook` with its result at each access.

        Raises RuntimeError when the graph was freed or hooks are set already.
        """
        node, name = self._node, self._name
        version = getattr(node, "v_" + name)
        if version == FREED:
            raise RuntimeError(HOOKS_AFTER_FREE)
        if version == PACKED:
            raise RuntimeError(HOOKS_TWICE)
        value = unpack_tensor(node, name)
        if value is None or not hasattr(value, "_array"):
            raise RuntimeError(HOOKS_ON_NONE)
        kept = _slot(node, "k_" + name)
        if kept is not None:
            packed = Packed(value, (pack_hook, unpack_hook), SELF, value._nr)
        else:
            fn, nr = edge(value) if not value.is_leaf else (None, 0)
            packed = Packed(value, (pack_hook, unpack_hook), fn, nr)
        setattr(node, "s_" + name, packed)
        setattr(node, "v_" + name, PACKED)


def attribute_names(node) -> list[str]:
    names = []
    for slot in saved_names(node):
        names += ["_saved_" + slot, "_raw_saved_" + slot]
    names += ["_saved_" + a for a in (node.op.saved_attrs if node.op else ())]
    return names


def saved_names(node) -> list[str]:
    """Names of the tensors that nodes of this kind may save."""
    slots = [s for cls in type(node).__mro__ for s in vars(cls).get("__slots__", ())]
    return [s[2:] for s in slots if s.startswith("s_")]


def node_attribute(node, name: str):
    """`_saved_x`, `_raw_saved_x` of a node; AttributeError for anything else."""
    if name.startswith("_saved_"):
        key = name[7:]
        if key in saved_names(node):
            value = unpack_tensor(node, key)
            value = getattr(value, "_stands_for", value)
            if value is not None and not hasattr(value, "_array") and not node.op.plain_scalar(key):
                value = handed.scalar_tensor_like(value)
            return value
        slot = _slot(node, "a_" + key)
        if slot is not None:
            return slot
        if node.op is not None and key in node.op.saved_attrs:
            return None
    elif name.startswith("_raw_saved_") and name[11:] in saved_names(node):
        return SavedTensor(node, name[11:])
    raise AttributeError(f"'{type(node).__name__}' object has no attribute '{name}'")


handed.over(attribute_names, node_attribute)
