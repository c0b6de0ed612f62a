"""Names that programs import from PyTorch's elastic.multiprocessing."""

from __future__ import annotations

from ...._refused import refuse
from .api import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    SignalException,
    Std,
    to_map,
)
from .errors import ProcessFailure

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "ProcessFailure",
    "SignalException",
    "Std",
    "to_map",
]

__getattr__ = refuse(__name__, whole=True)
