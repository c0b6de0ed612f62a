"""What PyTorch's functions for calls between processes are made with: packages decorate their own with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._refused import refuse

__getattr__ = refuse(__name__, whole=True)


def _require_initialized(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, which raises: it needs what `init_rpc` would start.

    Raises:
        RuntimeError: when it is called, as in PyTorch before `init_rpc`.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "RPC has not been initialized. Call torch.distributed.rpc.init_rpc first."
        )

    return wrapper
