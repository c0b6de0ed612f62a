"""Gloo: collectives on CPU arrays with nothing installed, by sockets and shared memory."""

from __future__ import annotations

from .engine import Gloo

__all__ = ["ENGINE"]

ENGINE = Gloo
