"""AdamW under the module name that PyTorch gives it."""

from __future__ import annotations

from gradlib.optim.adam import AdamW

__all__ = ["AdamW"]
