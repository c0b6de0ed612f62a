"""Batching rules, by name: what an op on one entry is for a whole batch."""

from collections.abc import Callable

from . import layers, rules


def batching_rule(name: str) -> Callable:
    """The rule that a declaration names in `batch` or `apart`."""
    return getattr(rules, name, None) or getattr(layers, name)
