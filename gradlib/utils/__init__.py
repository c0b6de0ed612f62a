"""Tools around training: ``gradlib.utils.data``, ``gradlib.utils.checkpoint`` and others, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = frozenset(
    ("_pytree", "checkpoint", "data", "deterministic", "dlpack", "hooks", "model_zoo")
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
