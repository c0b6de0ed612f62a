"""gradlib: PyTorch's autograd system on NumPy (CPU) and CuPy (CUDA).

``import gradlib as torch`` runs PyTorch code: the same names, semantics and error texts. Tensors, operations and
autograd are imported at once; ``nn``, ``optim`` and the other subpackages on first use.
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
import warnings as _warnings
from typing import TYPE_CHECKING, Any

import numpy as _np

# Infinities and nan follow PyTorch's rules silently; NumPy's warnings would be noise in every log(0).
_np.seterr(all="ignore")
_warnings.filterwarnings(
    "ignore", category=RuntimeWarning, module="gradlib"
)  # seterr is for this thread alone

from . import autograd, ops
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .core.device import device
from .core.dtypes import (
    ALIASES as _ALIASES,
)
from .core.dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.dtypes import can_cast as can_cast
from .core.dtypes import promote as promote_types
from .core.generator import Generator, default_generator
from .core.modes import is_grad_enabled
from .core.printing import printoptions, set_printoptions
from .core.tensor import Size, Tensor
from .ops.expose import PUBLIC as _PUBLIC
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

if TYPE_CHECKING:
    from . import cuda, func, linalg, nn, optim, random, return_types, special, testing, utils

globals().update(_PUBLIC)
globals().update(_ALIASES)  # half, float, double, int, long...
globals()["bool"] = bool_

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None
strided, contiguous_format = "torch.strided", "torch.contiguous_format"
preserve_format, channels_last = "torch.preserve_format", "torch.channels_last"
__version__ = "0.1.0"

_SUBPACKAGES = frozenset(
    "cuda func linalg nn optim random return_types safetensors serialization special testing utils".split()
)
_FROM_SERIALIZATION = frozenset(("load", "save"))


def __getattr__(name: str) -> Any:
    """Import a subpackage when it is first asked for."""
    if name in _SUBPACKAGES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name == "vmap":
        value = globals()[name] = _importlib.import_module(f"{__name__}.func").vmap
        return value
    if name in _FROM_SERIALIZATION:
        from . import serialization

        value = globals()[name] = getattr(serialization, name)
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES, *_FROM_SERIALIZATION, "vmap"})
