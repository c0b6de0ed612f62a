"""What PyTorch marks its API with: whether a name stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that changes nothing.

    Args:
        is_backward_compatible: accepted.
    """
    return lambda value: value
