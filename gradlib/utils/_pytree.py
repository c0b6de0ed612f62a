"""Nested containers of values, taken apart, mapped and put together again: PyTorch's `torch.utils._pytree`.

Containers are tuples, lists, dicts, OrderedDicts, defaultdicts, deques, named tuples and what is registered; all else,
None too, is a leaf. What is a container says `tape/pytree_nodes.py`; gradlib itself uses `tape/pytree.py`, which this
stands on.
"""

from __future__ import annotations

import json
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..tape.pytree import flatten
from ._pytree_nodes import BUILTIN_TYPES as BUILTIN_TYPES
from ._pytree_nodes import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from ._pytree_nodes import (
    SUPPORTED_NODES,
    Context,
    DumpableContext,
    FlattenFn,
    FromDumpableContextFn,
    KeyPath,
    PyTree,
    ToDumpableContextFn,
    UnflattenFn,
    _get_node_type,
    is_namedtuple,
    is_namedtuple_class,
    is_namedtuple_instance,
    is_structseq,
    is_structseq_class,
    is_structseq_instance,
    register_pytree_node,
)
from ._pytree_nodes import SUPPORTED_SERIALIZED_TYPES as SUPPORTED_SERIALIZED_TYPES
from ._pytree_nodes import ConstantNode as ConstantNode
from ._pytree_nodes import GetAttrKey as GetAttrKey
from ._pytree_nodes import KeyEntry as KeyEntry
from ._pytree_nodes import MappingKey as MappingKey
from ._pytree_nodes import NodeDef as NodeDef
from ._pytree_nodes import SequenceKey as SequenceKey
from ._pytree_nodes import _defaultdict_flatten as _defaultdict_flatten
from ._pytree_nodes import _defaultdict_flatten_with_keys as _defaultdict_flatten_with_keys
from ._pytree_nodes import _defaultdict_unflatten as _defaultdict_unflatten
from ._pytree_nodes import _deque_flatten as _deque_flatten
from ._pytree_nodes import _deque_flatten_with_keys as _deque_flatten_with_keys
from ._pytree_nodes import _deque_unflatten as _deque_unflatten
from ._pytree_nodes import _deregister_pytree_node as _deregister_pytree_node
from ._pytree_nodes import _dict_flatten as _dict_flatten
from ._pytree_nodes import _dict_flatten_with_keys as _dict_flatten_with_keys
from ._pytree_nodes import _dict_unflatten as _dict_unflatten
from ._pytree_nodes import _list_flatten as _list_flatten
from ._pytree_nodes import _list_flatten_with_keys as _list_flatten_with_keys
from ._pytree_nodes import _list_unflatten as _list_unflatten
from ._pytree_nodes import _namedtuple_flatten as _namedtuple_flatten
from ._pytree_nodes import _namedtuple_flatten_with_keys as _namedtuple_flatten_with_keys
from ._pytree_nodes import _namedtuple_unflatten as _namedtuple_unflatten
from ._pytree_nodes import _ordereddict_flatten as _ordereddict_flatten
from ._pytree_nodes import _ordereddict_flatten_with_keys as _ordereddict_flatten_with_keys
from ._pytree_nodes import _ordereddict_unflatten as _ordereddict_unflatten
from ._pytree_nodes import _private_register_pytree_node as _private_register_pytree_node
from ._pytree_nodes import _register_pytree_node as _register_pytree_node
from ._pytree_nodes import _tuple_flatten as _tuple_flatten
from ._pytree_nodes import _tuple_flatten_with_keys as _tuple_flatten_with_keys
from ._pytree_nodes import _tuple_unflatten as _tuple_unflatten
from ._pytree_nodes import is_constant_class as is_constant_class
from ._pytree_nodes import register_constant as register_constant
from ._pytree_nodes import register_dataclass as register_dataclass
from ._pytree_spec import _LEAF, LeafSpec, PyTreeSpec, TreeSpec, _checked
from ._pytree_spec import treespec_dict as treespec_dict
from ._pytree_spec import treespec_leaf as treespec_leaf
from ._pytree_spec import treespec_tuple as treespec_tuple
from ._pytree_text import PROTOCOL, from_schema, to_schema
from ._pytree_text import _register_namedtuple as _register_namedtuple

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "LeafSpec",
    "PyTree",
    "PyTreeSpec",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is no container, or `is_leaf` says that it is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf, _is_namedtuple_instance = tree_is_leaf, is_namedtuple_instance


def _flatten(tree: Any, leaves: list, is_leaf: IsLeaf) -> TreeSpec:
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        leaves.append(tree)
        return _LEAF
    entries, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(entry, leaves, is_leaf) for entry in entries])


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list, TreeSpec]:
    """The leaves of a nested value from left to right, and its structure.

    Args:
        tree: any value.
        is_leaf: what it answers True for is a leaf, container or not.

    Example::

        >>> from gradlib.utils import _pytree
        >>> _pytree.tree_flatten([1, (2, None)])
        ([1, 2, None], TreeSpec(list, None, [*,
          TreeSpec(tuple, None, [*,
            *])]))
    """
    if is_leaf is None:
        return flatten(tree)
    leaves: list = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The nested value of a structure with these leaves.

    Raises:
        TypeError: `treespec` is no structure. ValueError: another number of leaves.
    """
    return _checked(treespec).unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator:
    """The leaves of a nested value, one by one."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for entry in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(entry, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list:
    """The leaves of a nested value."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list:
    """The leaves of a call's arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_iter(tree)]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of a nested value."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """`tree` with `func` applied to each leaf, and to what `rests` have there.

    Raises:
        ValueError: one of `rests` has another structure above a leaf of `tree`.

    Example::

        >>> from gradlib.utils import _pytree
        >>> _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": (2,)}, {"y": (20,), "x": 10})
        {'x': 11, 'y': (22,)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(r) for r in rests)))


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call `func` on each leaf for what it does to it; gives `tree` itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    deque(map(func, leaves, *(spec.flatten_up_to(r) for r in rests)), maxlen=0)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable], Callable]:
    """A decorator: the function applied to what is of a type, or passes a test, and nothing to the rest.

    Raises:
        TypeError: neither a type, nor a tuple of them, nor callable.
    """
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):

        def chosen(x: Any) -> Any:
            return isinstance(x, type_or_types_or_pred)

    elif callable(type_or_types_or_pred):
        chosen = type_or_types_or_pred
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return lambda func: lambda x: func(x) if chosen(x) else x


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` over the leaves of some types, or that pass a test; the others stay."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable, tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map_` over the leaves of some types, or that pass a test."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves pass."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether any leaf passes."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether all leaves of some types pass."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Whether any leaf of some types passes."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list | None:
    """One value for each leaf of a structure; a leaf of `tree` stands for all below it. None: no match."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    entries, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if (kind, context, len(entries)) != (treespec.type, treespec.context, treespec.num_children):
        return None
    found: list = []
    for entry, child in zip(entries, treespec.children(), strict=True):
        below = _broadcast_to_and_flatten(entry, child, is_leaf)
        if below is None:
            return None
        found += below
    return found


# -- paths -----------------------------------------------------------------------------------------------------------


def _with_path(path: tuple, tree: Any, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    keyed = SUPPORTED_NODES[_get_node_type(tree)].flatten_with_keys_fn
    if keyed is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn "
            "argument to register_pytree_node."
        )
    for key, entry in keyed(tree)[0]:
        yield from _with_path((*path, key), entry, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a nested value, each with the keys that lead to it.

    Raises:
        ValueError: a registered container in it has no `flatten_with_keys_fn`.
    """
    return list(_with_path((), tree, is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """`tree_leaves_with_path` and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable, tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """`tree_map` with the path as the first argument of `func`."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [p for p, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *(spec.flatten_up_to(r) for r in rests)))


def keystr(kp: KeyPath) -> str:
    """A path as Python would write it: ``[0]['weight'].data``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a path leads to."""
    for key in kp:
        obj = key.get(obj)
    return obj


# -- text ------------------------------------------------------------------------------------------------------------


def _known(protocol: int) -> None:
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON that PyTorch reads, too.

    Raises:
        NotImplementedError: a type in it has no name in text. ValueError: unknown protocol.
    """
    spec = _checked(treespec)
    _known(PROTOCOL if protocol is None else protocol)
    return json.dumps([PROTOCOL, to_schema(spec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    protocol, schema = json.loads(serialized)
    _known(protocol)
    return from_schema(schema, lambda *parts: _LEAF if parts[0] is None else TreeSpec(*parts))


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """A structure as Python writes its value: ``[*, {'a': *}]``."""
    return repr(_checked(treespec).unflatten([_Asterisk()] * treespec.num_leaves))
