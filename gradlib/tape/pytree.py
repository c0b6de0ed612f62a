"""Nested tuples, lists and dicts of values, taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any


class TreeSpec:
    """The structure of a nested value: the container's type, what it needs beside its entries, and theirs.

    A value that is no container is a leaf: `kind` is None. It prints as ``*``, as in PyTorch.
    """

    __slots__ = ("children", "context", "kind", "num_leaves")

    def __init__(self, kind: type | None, context: Any, children: list[TreeSpec]):
        self.kind, self.context, self.children = kind, context, children
        self.num_leaves = 1 if kind is None else sum(c.num_leaves for c in children)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and (self.kind, self.context) == (other.kind, other.context)
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.num_leaves))

    def __repr__(self) -> str:
        return self._text(0)

    def _text(self, margin: int) -> str:
        if self.kind is None:
            return "*"
        gap = ",\n" + " " * (margin + 2)
        inside = gap.join(c._text(margin + 2) for c in self.children)
        return f"TreeSpec({self.kind.__name__}, {self.context}, [{inside}])"

    def brief(self) -> str:
        """The structure in one line: ``(*, [*])``."""
        if self.kind is None:
            return "*"
        inside = [c.brief() for c in self.children]
        if issubclass(self.kind, dict):
            pairs = (f"{k!r}: {v}" for k, v in zip(_keys(self.context), inside, strict=True))
            return "{" + ", ".join(pairs) + "}"
        if self.kind is list:
            return f"[{', '.join(inside)}]"
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"


LEAF = TreeSpec(None, None, [])


def _keys(context: Any) -> list:
    return context[1] if isinstance(context, tuple) else context


def _open(value: Any) -> tuple[type, Any, list] | None:
    """Type, context and entries of a container; None for a leaf."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind, None, list(value)
    if kind is dict or kind is OrderedDict:
        return kind, list(value), list(value.values())
    if kind is defaultdict:
        return kind, (value.default_factory, list(value)), list(value.values())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind, kind, list(value)
    return None


def flatten(value: Any) -> tuple[list, TreeSpec]:
    """The leaves of a nested value from left to right, and its structure."""
    parts = _open(value)
    if parts is None:
        return [value], LEAF
    kind, context, entries = parts
    leaves: list = []
    children = []
    for entry in entries:
        if not isinstance(entry, (tuple, list, dict)):  # most are leaves
            leaves.append(entry)
            children.append(LEAF)
            continue
        inner, spec = flatten(entry)
        leaves += inner
        children.append(spec)
    return leaves, TreeSpec(kind, context, children)


def unflatten(leaves: list | tuple, spec: TreeSpec) -> Any:
    """The nested value of structure `spec` with these leaves."""
    rest = iter(leaves)
    return _build(rest, spec)


def _build(rest, spec: TreeSpec) -> Any:
    if spec.kind is None:
        return next(rest)
    entries = [next(rest) if c is LEAF else _build(rest, c) for c in spec.children]
    if spec.kind is tuple:
        return tuple(entries)
    if issubclass(spec.kind, dict):
        pairs = zip(_keys(spec.context), entries, strict=True)
        if spec.kind is defaultdict:
            return defaultdict(spec.context[0], pairs)
        return spec.kind(pairs)
    return spec.kind(*entries) if spec.context is not None else spec.kind(entries)


def tree_map(fn: Callable, value: Any) -> Any:
    """`value` with `fn` applied to each leaf."""
    if _open(value) is None:
        return fn(value)
    leaves, spec = flatten(value)
    return unflatten([fn(leaf) for leaf in leaves], spec)


def spread(prefix: Any, spec: TreeSpec) -> list | None:
    """One entry for each leaf of `spec`: a leaf of `prefix` stands for all below it. None if they do not match."""
    parts = _open(prefix)
    if parts is None:
        return [prefix] * spec.num_leaves
    kind, context, entries = parts
    if spec.kind is not kind or len(entries) != len(spec.children):
        return None
    if context is not None and isinstance(prefix, dict):
        if set(_keys(context)) != set(_keys(spec.context)):
            return None
        entries = [prefix[k] for k in _keys(spec.context)]
    found: list = []
    for entry, child in zip(entries, spec.children, strict=True):
        part = spread(entry, child)
        if part is None:
            return None
        found += part
    return found
