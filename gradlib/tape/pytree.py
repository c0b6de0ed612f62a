"""Nested tuples, lists and dicts of values, taken apart and put together again: what ``utils._pytree`` stands on.

What is a container says `pytree_nodes`: also what programs register there.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .pytree_nodes import SUPPORTED_NODES, _get_node_type

DICTS: frozenset[type] = frozenset((dict, OrderedDict, defaultdict))


class TreeSpec:
    """The structure of a nested value: ``TreeSpec(list, None, [*, *])``; ``*`` stands for a leaf."""

    __slots__ = ("_children", "_context", "num_leaves", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, children_specs
        leaves = 1 if type is None else 0
        for child in children_specs:
            leaves += child.num_leaves
        self.num_leaves = leaves

    @property
    def num_children(self) -> int:
        """How many entries the container has."""
        return len(self._children)

    @property
    def num_nodes(self) -> int:
        """How many containers and leaves there are."""
        return 1 + sum([c.num_nodes for c in self._children])

    @property
    def context(self) -> Any:
        """What the container needs beside its entries: a dict's keys, a named tuple's class."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """Deprecated, as in PyTorch: `children` and `child` say the same."""
        warnings.warn(
            "`treespec.children_specs` is deprecated. Use `treespec.child(index)` to access a single child, or "
            "`treespec.children()` to get all children.",
            FutureWarning,
            stacklevel=2,
        )
        return self._children

    def is_leaf(self) -> bool:
        """Whether this is the structure of a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the entries."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of one entry."""
        return self._children[index]

    def flatten_up_to(self, tree: Any) -> list:
        """What `tree` has where this structure has its leaves.

        Raises:
            ValueError: the tree differs above a leaf: another type, number of entries, keys, or context.
        """
        found: list = []
        self._collect(tree, found)
        return found

    def _collect(self, tree: Any, found: list) -> None:
        if self.type is None:
            found.append(tree)
            return
        for child, entry in zip(self._children, self._entries(tree), strict=True):
            child._collect(entry, found)

    def _entries(self, tree: Any) -> list:
        """The entries of a container of this structure, in its order."""
        kind = _get_node_type(tree)
        if self.type in DICTS and kind in DICTS:
            return self._entries_of_dict(tree)
        if kind != self.type:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        entries, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(entries) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(entries)}."
            )
        if (
            kind is not deque and context != self._context
        ):  # two deques may have other lengths at most
            raise ValueError(
                f"Node context mismatch for node type {self.type!r}; expected {self._context!r}, but got {context!r}."
            )
        return list(entries)

    def _entries_of_dict(self, tree: Mapping) -> list:
        keys = self._keys()
        if len(tree) != len(keys):
            raise ValueError(f"Node arity mismatch; expected {len(keys)}, but got {len(tree)}.")
        missing, extra = set(keys) - set(tree), set(tree) - set(keys)
        if missing or extra:
            parts = [f"missing key(s): {missing}"] if missing else []
            parts += [f"extra key(s): {extra}"] if extra else []
            raise ValueError(f"Node keys mismatch; {'; '.join(parts)}.")
        return [tree[key] for key in keys]

    def unflatten(self, leaves: Iterable) -> Any:
        """The nested value of this structure with these leaves.

        Raises:
            ValueError: too many, or too few.
        """
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree "
                f"that holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator) -> Any:
        if self.type is None:
            return next(leaves)
        entries = [next(leaves) if c is LEAF else c._build(leaves) for c in self._children]
        if self.type is tuple:
            return tuple(entries)
        return SUPPORTED_NODES[self.type].unflatten_fn(entries, self._context)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type == other.type
            and self.num_children == other.num_children
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        # contexts may be lists, so the keys of dicts do not count
        return hash((self.type, self.num_leaves, self.num_nodes, *self._children))

    def brief(self) -> str:
        """The structure in one line: ``(*, [*])``."""
        if self.type is None:
            return "*"
        inside = [c.brief() for c in self._children]
        if self.type in DICTS:
            pairs = (f"{k!r}: {v}" for k, v in zip(self._keys(), inside, strict=True))
            return "{" + ", ".join(pairs) + "}"
        if self.type is list:
            return f"[{', '.join(inside)}]"
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"

    def _keys(self) -> list:
        """The keys of a dict."""
        return self._context[1] if self.type is defaultdict else self._context

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        inside = (",\n" + " " * (indent + 2)).join(c.__repr__(indent + 2) for c in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{inside}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __reduce__(self) -> Any:
        return LeafSpec, ()


LEAF = LeafSpec()


def flatten(value: Any) -> tuple[list, TreeSpec]:
    """The leaves of a nested value from left to right, and its structure."""
    if type(value) not in SUPPORTED_NODES and not isinstance(value, tuple):
        return [value], LEAF
    leaves: list = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list) -> TreeSpec:
    kind: Any = type(value)
    if kind is tuple or kind is list:
        entries, context = value, None
    else:
        node = SUPPORTED_NODES.get(kind)
        if node is None:
            kind = _get_node_type(value) if isinstance(value, tuple) else None
            node = SUPPORTED_NODES.get(kind)
            if node is None:
                leaves.append(value)
                return LEAF
        entries, context = node.flatten_fn(value)
    children: list[TreeSpec] = []
    for entry in entries:
        if type(entry) in SUPPORTED_NODES or isinstance(entry, tuple):
            children.append(_flatten(entry, leaves))
        else:  # most are leaves
            leaves.append(entry)
            children.append(LEAF)
    return TreeSpec(kind, context, children)


def unflatten(leaves: list | tuple, spec: TreeSpec) -> Any:
    """The nested value of structure `spec` with these leaves."""
    return spec._build(iter(leaves))


def tree_map(fn: Callable, value: Any) -> Any:
    """`value` with `fn` applied to each leaf."""
    leaves, spec = flatten(value)
    if spec is LEAF:
        return fn(value)
    return unflatten([fn(leaf) for leaf in leaves], spec)


def spread(prefix: Any, spec: TreeSpec) -> list | None:
    """One entry for each leaf of `spec`: a leaf of `prefix` stands for all below it. None if they do not match."""
    kind = _get_node_type(prefix)
    if kind not in SUPPORTED_NODES:
        return [prefix] * spec.num_leaves
    entries = SUPPORTED_NODES[kind].flatten_fn(prefix)[0]
    if spec.type != kind or len(entries) != len(spec._children):
        return None
    if kind in DICTS:
        keys = spec._keys()
        if set(prefix) != set(keys):
            return None
        entries = [prefix[k] for k in keys]
    found: list = []
    for entry, child in zip(entries, spec._children, strict=True):
        part = spread(entry, child)
        if part is None:
            return None
        found += part
    return found
