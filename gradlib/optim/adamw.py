"""AdamW under the module name that PyTorch gives it."""

from __future__ import annotations

from .adam import AdamW

__all__ = ["AdamW"]
