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

from . import autograd
from . import devices as _devices  # each enters its array functions and kernels
from . import operators as _operators  # declares all ops
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from .autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .op.expose import PUBLIC as _PUBLIC
from .random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .tape.device import device
from .tape.dtypes import ALIASES as _ALIASES
from .tape.dtypes import (
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
from .tape.dtypes import can_cast as can_cast
from .tape.dtypes import promote as promote_types
from .tape.generator import Generator, default_generator
from .tape.handed import later as _later
from .tape.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .tape.modes import is_grad_enabled
from .tape.printing import printoptions, set_printoptions
from .tape.settings import (
    are_deterministic_algorithms_enabled,
    get_default_device,
    get_deterministic_debug_mode,
    get_num_interop_threads,
    get_num_threads,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_default_device,
    set_deterministic_debug_mode,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
    set_warn_always,
    use_deterministic_algorithms,
)
from .tape.tensor import Size, Tensor
from .version import __version__

if TYPE_CHECKING:
    from . import (
        _C,
        accelerator,
        amp,
        backends,
        compat,
        compiler,
        cuda,
        distributed,
        fft,
        func,
        futures,
        hub,
        linalg,
        mps,
        mtia,
        nn,
        ops,
        optim,
        profiler,
        quasirandom,
        random,
        return_types,
        signal,
        special,
        storage,
        testing,
        types,
        utils,
        version,
        xpu,
    )
    from .compat import as_torch
    from .compiler import compile
    from .devices.cuda.allocation import OutOfMemoryError
    from .storage import (
        BFloat16Storage,
        BoolStorage,
        ByteStorage,
        CharStorage,
        ComplexDoubleStorage,
        ComplexFloatStorage,
        DoubleStorage,
        FloatStorage,
        HalfStorage,
        IntStorage,
        LongStorage,
        ShortStorage,
        TypedStorage,
        UntypedStorage,
    )

globals().update(_PUBLIC)
globals().update(_ALIASES)  # half, float, double, int, long...
globals()["bool"] = bool_

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

_SUBPACKAGES = frozenset(
    (
        "_C accelerator amp backends compat compiler cuda distributed fft func futures hub linalg mps mtia nn "
        "ops optim profiler quasirandom random return_types safetensors serialization signal special storage "
        "testing types utils version xpu"
    ).split()
)
_AUTOCAST = (
    "autocast autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype "
    "get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled "
    "set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype "
    "set_autocast_enabled set_autocast_gpu_dtype"
)
_STORAGES = (
    "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage "
    "FloatStorage HalfStorage IntStorage LongStorage ShortStorage TypedStorage UntypedStorage"
)
# what lower floors use of modules that are imported on first use
_later("gradlib.serialization", "copy_memory", "deepcopy_tensor", "reduce_tensor")
_later("gradlib.storage", "_warn_typed_storage_removal", *_STORAGES.split())
_later("gradlib.cuda.streams", "record_stream")
_later("gradlib.cuda.random", device_generator="default_generator")
_later("gradlib.func", gradient_function="grad")
_later("gradlib.utils.dlpack", "DLDeviceType")
_LAZY = {  # names that are imported when they are first asked for: name -> module
    "OutOfMemoryError": "devices.cuda.allocation",
    "as_torch": "compat",
    "compile": "compiler",
    "load": "serialization",
    "save": "serialization",
    "vmap": "func",
    **dict.fromkeys(_STORAGES.split(), "storage"),
    "get_float32_matmul_precision": "devices.cuda.precision",
    "set_float32_matmul_precision": "devices.cuda.precision",
    **dict.fromkeys(_AUTOCAST.split(), "amp.autocast_mode"),
}


def __getattr__(name: str) -> Any:
    """Import a subpackage when it is first asked for."""
    if name in _SUBPACKAGES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _LAZY:
        module = _importlib.import_module(f"{__name__}.{_LAZY[name]}")
        value = globals()[name] = getattr(module, name)
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES, *_LAZY} - {"Any", "TYPE_CHECKING", "annotations"})
