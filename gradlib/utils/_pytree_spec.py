"""The structure of a nested value: `TreeSpec` of `utils._pytree`."""

from __future__ import annotations

import warnings
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ._pytree_nodes import STANDARD_DICT_TYPES, SUPPORTED_NODES, _get_node_type


class TreeSpec:
    """The structure of a nested value: ``TreeSpec(list, None, [*, *])``; ``*`` stands for a leaf."""

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in children_specs)
        leaves = sum(c.num_leaves for c in children_specs)
        self.num_leaves = 1 if type is None else leaves

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
        if self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES:
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
        keys = self._context[1] if self.type is defaultdict else self._context
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
        entries = [c._build(leaves) for c in self._children]
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


PyTreeSpec = TreeSpec
_LEAF = LeafSpec()


def _checked(spec: Any) -> TreeSpec:
    if not isinstance(spec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(spec)}."
        )
    return spec


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of what has these structures."""
    children = list(iterable)
    if not all(isinstance(c, TreeSpec) for c in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The structure of a dict of what has these structures."""
    specs = dict(mapping, **kwargs)
    if not all(isinstance(c, TreeSpec) for c in specs.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {specs}.")
    return TreeSpec(dict, list(specs), list(specs.values()))
