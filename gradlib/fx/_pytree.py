"""What the code of a graph with nested arguments calls to take them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..utils._pytree import SUPPORTED_NODES, TreeSpec


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of `pytree`, whose structure must be `spec`; a list may stand for the outermost tuple.

    Example:
        >>> from gradlib.utils._pytree import tree_structure
        >>> tree_flatten_spec([1, {"a": 2}], tree_structure((0, {"a": 0})))
        [1, 2]
    """
    return spec.flatten_up_to(tuple(pytree) if isinstance(pytree, list) else pytree)


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: Callable[..., Any],
    flatten_fn_exact_match_spec: Callable[..., bool] | None = None,
) -> None:
    """Check that `cls` is registered with `gradlib.utils._pytree`: its structure is read from there.

    Raises:
        ValueError: it is not.
    """
    if cls not in SUPPORTED_NODES:
        raise ValueError(f"register {cls} with torch.utils._pytree.register_pytree_node first")
