"""`TreeSpec` of `utils._pytree`, which is that of `tape.pytree`, and functions that make one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..tape.pytree import LEAF as _LEAF
from ..tape.pytree import LeafSpec as LeafSpec
from ..tape.pytree import TreeSpec as TreeSpec

PyTreeSpec = TreeSpec


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
