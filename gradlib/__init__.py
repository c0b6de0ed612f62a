"""gradlib: PyTorch's autograd system on NumPy (CPU) and CuPy (CUDA).

``import gradlib as torch`` runs PyTorch code: the same names, semantics and error texts. Tensors, operations and
autograd are imported at once; ``nn``, ``optim`` and the other subpackages on first use.
"""

from __future__ import annotations

import gc as _gc
import importlib as _importlib
import math as _math
import sys as _sys
import warnings as _warnings
import weakref as _weakref
from typing import Any

import numpy as _np

# While this lives, Python's cyclic collector rests: it would look again and again at what is imported, all of which
# stays. An import that fails drops it, too.
_importing: set = set()
if _gc.isenabled():
    _gc.disable()
    _weakref.finalize(_importing, _gc.enable)

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
from .devices.numpy import heap as _heap
from .op.expose import PUBLIC as _PUBLIC
from .op.expose import overridable as _overridable
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
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
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
from .tape.layout import UNSTORED as _UNSTORED
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

_heap.keep_freed_memory()

globals().update(_PUBLIC)
globals().update(_ALIASES)  # half, float, double, int, long...
globals()["bool"] = bool_
globals().update(_UNSTORED)  # layouts: sparse_coo...
legacy_contiguous_format = contiguous_format
_overridable(globals())

e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

_SUBPACKAGES = frozenset(
    (
        "_C _VF __config__ _dynamo _inductor _jit_internal _library _utils accelerator amp backends compat compiler "
        "cpu cuda distributed distributions export fft func futures fx hub jit library linalg mps mtia multiprocessing "
        "nn onnx ops optim overrides profiler quasirandom random return_types safetensors serialization signal sparse "
        "special storage testing types utils version xpu"
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
_CHECKS = (
    "SymBool SymFloat SymInt _assert _assert_async _check _check_index _check_is_size _check_not_implemented "
    "_check_tensor_all _check_tensor_all_with _check_type _check_value _check_with _shape_as_tensor "
    "compiled_with_cxx11_abi get_device_module is_distributed is_vulkan_available sym_float "
    "sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum"
)
_COMPOSITES = (
    "_aminmax _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _dim_arange "
    "_euclidean_dist _has_compatible_shallow_copy_type _int_mm _is_all_true _is_any_true _log_softmax _softmax _stack "
    "_unique _unique2 _weight_norm cond dsmm frobenius_norm hsmm hspmm norm_except_dim nuclear_norm saddmm "
    "segment_reduce smm spmm sspaddmm while_loop"
)
_DTYPES = (
    "bits16 bits1x8 bits2x4 bits4x2 bits8 chalf complex32 float4_e2m1fn_x2 int1 int2 int3 int4 int5 int6 int7 qint32 "
    "qint8 quint2x4 quint4x2 quint8 uint1 uint2 uint3 uint4 uint5 uint6 uint7"
)
_RECURRENT = "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell"
# what lower floors use of modules that are imported on first use
_later("gradlib.serialization", "copy_memory", "deepcopy_tensor", "reduce_tensor")
_later("gradlib.storage", "_warn_typed_storage_removal", *_STORAGES.split())
_later("gradlib.cuda.streams", "record_stream")
_later("gradlib.cuda.random", device_generator="default_generator")
_later("gradlib.func", gradient_function="grad")
_LAZY = {  # names that are imported when they are first asked for: name -> module
    "OutOfMemoryError": "devices.cuda.allocation",
    "as_torch": "compat",
    "capture": "_capture",
    "compile": "compiler",
    "explain": "_capture",
    "PyTorchFileReader": "serialization._records",
    "load": "serialization",
    "save": "serialization",
    "vmap": "func",
    **dict.fromkeys(_CHECKS.split(), "_checks"),
    **dict.fromkeys(_COMPOSITES.split(), "_composites"),
    **dict.fromkeys(_DTYPES.split(), "_dtypes"),
    **dict.fromkeys(_STORAGES.split(), "storage"),
    "get_float32_matmul_precision": "devices.cuda.precision",
    "set_float32_matmul_precision": "devices.cuda.precision",
    **dict.fromkeys(_AUTOCAST.split(), "amp.autocast_mode"),
    **dict.fromkeys(_RECURRENT.split(), "_VF"),
    "GradScaler": "amp.grad_scaler",
    "fork": "jit",
    "set_anomaly_enabled": "autograd.anomaly_mode",
    "wait": "jit",
}


def __getattr__(name: str) -> Any:
    """Import a subpackage when it is first asked for."""
    if name in _SUBPACKAGES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _LAZY:
        module = _importlib.import_module(f"{__name__}.{_LAZY[name]}")
        value = globals()[name] = getattr(module, name)
        return value
    if name == "torch":  # as in PyTorch
        return _importlib.import_module(__name__)
    if name.startswith(("_foreach_", "_amp_")):  # many names, which few programs use
        return getattr(_importlib.import_module(f"{__name__}._foreach"), name)
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return _importlib.import_module(f"{__name__}._refused").find("", name)


class _Absent:
    """The last finder that the import system asks: for PyTorch's modules that gradlib has not."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
        if not fullname.startswith(f"{__name__}."):
            return None
        return _importlib.import_module(f"{__name__}._refused").spec(fullname)


_sys.meta_path.append(_Absent)  # pyright: ignore[reportArgumentType]


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBPACKAGES, *_LAZY} - {"Any", "annotations"})


del _importing
