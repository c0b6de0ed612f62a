"""Tools around training: ``gradlib.utils.data``, ``gradlib.utils.checkpoint`` and others, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from .._refused import refuse as _refuse

_MODULES = frozenset(
    "_contextlib _foreach_utils _pytree benchmark checkpoint collect_env data deterministic dlpack file_baton "
    "flop_counter hooks model_zoo module_tracker tensorboard weak".split()
)
_absent = _refuse(__name__)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "swap_tensors":
        return importlib.import_module(f"{__name__}._swapping").swap_tensors
    return _absent(name)
