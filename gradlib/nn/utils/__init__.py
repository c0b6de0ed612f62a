"""Helpers around modules: gradient clipping, sequences, parametrisations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..._refused import refuse
from . import (
    clip_grad,
    convert_parameters,
    fusion,
    init,
    memory_format,
    parametrizations,
    parametrize,
    prune,
    rnn,
)
from .clip_grad import *
from .convert_parameters import *
from .fusion import *
from .init import *
from .memory_format import *
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

if TYPE_CHECKING:
    from . import stateless

__all__ = [
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "stateless",
    "weight_norm",
]
__all__ += clip_grad.__all__
__all__ += convert_parameters.__all__
__all__ += fusion.__all__
__all__ += init.__all__
__all__ += memory_format.__all__

_absent = refuse(__name__)


def __getattr__(name: str) -> Any:
    """`stateless` is imported when it is first asked for: it brings the function transforms with it."""
    if name == "stateless":
        return importlib.import_module(f"{__name__}.{name}")
    return _absent(name)
