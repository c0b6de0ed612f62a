"""The autograd profiler under PyTorch's names: ``gradlib.autograd.profiler.profile``; see `gradlib.profiler`."""

from __future__ import annotations

from typing import Any

from ..profiler import _autograd
from ..profiler._autograd import *  # noqa: F403

__all__ = _autograd.__all__  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    return getattr(_autograd, name)
