"""What is built on collectives: uneven inputs, communication hooks, averaged models."""

from __future__ import annotations

from ..._refused import refuse
from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
__getattr__ = refuse(__name__)
