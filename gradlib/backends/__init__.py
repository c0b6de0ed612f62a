"""PyTorch's switches for libraries: ``backends.cuda.matmul.allow_tf32``, ``backends.cudnn.benchmark``..."""

from __future__ import annotations

import importlib
from typing import Any

from .._refused import refuse
from . import _switches

globals().update(_switches.register(__name__))  # cudnn, mkldnn, mps, ...
_absent = refuse(__name__)


def __getattr__(name: str) -> Any:
    if name == "cuda":
        return importlib.import_module(f"{__name__}.cuda")
    return _absent(name)
