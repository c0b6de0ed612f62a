"""AdamW under the module name that PyTorch gives it."""

from __future__ import annotations

from .._refused import refuse
from .adam import AdamW

__all__ = ["AdamW"]
__getattr__ = refuse(__name__)
