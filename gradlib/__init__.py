"""gradlib (temporary assembly while modules arrive)."""

import importlib as _importlib
import math as _math
import numpy as _np

_np.seterr(all="ignore")
from . import ops
from .ops import cast, compare, create, elementwise
from .core.device import device
from .core.dtypes import *
from .core.dtypes import promote as promote_types
from .core.tensor import Size, Tensor
from .core.modes import is_grad_enabled

for _m in (
    "ops.random",
    "core.generator",
    "core.printing",
    "cuda",
    "random",
    "autograd",
    "linalg",
    "special",
    "nn",
    "optim",
    "utils",
    "serialization",
    "testing",
):
    try:
        _importlib.import_module("gradlib." + _m)
    except ImportError as _e:
        import os as _os

        if _os.environ.get("GRADLIB_DEBUG_IMPORT"):
            print("import of", _m, "failed:", _e)
try:
    from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
    from .autograd.grad_mode import (
        enable_grad,
        inference_mode,
        is_inference_mode_enabled,
        no_grad,
        set_grad_enabled,
    )
except ImportError:
    pass
try:
    from .core.generator import Generator, default_generator
    from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
    from .core.printing import set_printoptions
    from .serialization import load, save
except ImportError:
    pass
from .ops.expose import PUBLIC as _PUBLIC

globals().update(_PUBLIC)
from .core.dtypes import ALIASES as _ALIASES, bool_ as bool

globals().update(_ALIASES)
e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None
strided, contiguous_format, preserve_format, channels_last = (
    "torch.strided",
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
)
__version__ = "0.1.0"
