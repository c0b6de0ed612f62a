"""Which implementation of attention may be used, under PyTorch's names.

There is one implementation for each device; what is chosen is remembered for programs that ask, and has no effect.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..._refused import refuse
from ...backends import cuda
from ...backends.cuda import SDPBackend

__all__ = ["SDPBackend", "sdpa_kernel"]
__getattr__ = refuse(__name__)

_FLAGS = {
    SDPBackend.MATH: "enable_math",
    SDPBackend.FLASH_ATTENTION: "enable_flash",
    SDPBackend.EFFICIENT_ATTENTION: "enable_mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "enable_cudnn",
}


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Accepted: `backends` is one `SDPBackend` or several.

    Raises:
        TypeError: something else is given.

    Example:
        >>> with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        ...     gradlib.backends.cuda.cudnn_sdp_enabled()
        False
    """
    chosen = backends if isinstance(backends, Sequence) else [backends]
    unknown = [b for b in chosen if b not in _FLAGS]
    if unknown:
        raise TypeError(f"sdpa_kernel() takes SDPBackend values, but got {unknown}")
    with cuda.sdp_kernel(**{flag: kind in chosen for kind, flag in _FLAGS.items()}):
        yield
