"""The declared ops, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .declare import Op

REGISTRY: dict[str, Op] = {}
"""Every declared op, by its name."""
