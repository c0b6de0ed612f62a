"""The older names of mixed precision on CUDA; ``gradlib.amp`` has the others."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from .. import amp
from .._refused import refuse
from ..tape.dtypes import float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__getattr__ = refuse(__name__)


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """``gradlib.autocast("cuda", ...)`` under its old name: it warns (FutureWarning).

    Args:
        enabled: whether it is on.
        dtype: float16 or bfloat16; float16 if None.
        cache_enabled: as in ``gradlib.autocast``.
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True):

        _deprecated("autocast")
        super().__init__("cuda", dtype or float16, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``gradlib.amp.GradScaler("cuda", ...)`` under its old name: it warns (FutureWarning).

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
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


@functools.wraps(amp.custom_fwd)
def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    _deprecated("custom_fwd")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


@functools.wraps(amp.custom_bwd)
def custom_bwd(bwd: Any = None) -> Any:
    _deprecated("custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")
