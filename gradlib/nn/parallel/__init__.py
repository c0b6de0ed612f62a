"""Running one module on several devices: from one process, or from one for each of them."""

from __future__ import annotations

import importlib
from typing import Any

from ..._refused import refuse
from .data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",  # pyright: ignore[reportUnsupportedDunderAll]
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
_refused = refuse(__name__)


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":  # with it come process groups, which few programs need
        return importlib.import_module(f"{__name__}.distributed").DistributedDataParallel
    return _refused(name)
