"""The older names of mixed precision on the CPU; ``gradlib.amp`` has the others."""

from __future__ import annotations

import warnings
from typing import Any

from .. import amp
from .._refused import refuse
from ..tape.dtypes import bfloat16

__all__ = ["GradScaler", "autocast"]
__getattr__ = refuse(__name__)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """``gradlib.autocast("cpu", ...)`` under its old name: it warns (FutureWarning).

    Args:
        enabled: whether it is on.
        dtype: bfloat16 or float16.
        cache_enabled: as in ``gradlib.autocast``.
    """

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True):
        _deprecated("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``gradlib.amp.GradScaler("cpu", ...)`` under its old name: it warns (FutureWarning).

    The other arguments are the same.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ):
        _deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
