"""Packages that are not among gradlib's dependencies."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from typing import Any


def find(name: str) -> Any:
    """The package, imported now if need be; None if it is not installed."""
    if name in sys.modules:
        return sys.modules[name]
    return importlib.import_module(name) if _installed(name) else None


@functools.cache
def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None
