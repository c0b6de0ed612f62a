"""PyTorch's switches for libraries: ``backends.cuda.matmul.allow_tf32``, ``backends.cudnn.benchmark``..."""

from __future__ import annotations

import importlib
from typing import Any

from . import _switches

globals().update(_switches.register(__name__))  # cudnn, mkldnn, mps, ...


def __getattr__(name: str) -> Any:
    if name == "cuda":
        return importlib.import_module(f"{__name__}.cuda")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
