"""What ``import gradlib`` gives. Written by ci/stubs.py: do not edit."""

import builtins as _b
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from .tape.device import device as _device
from .tape.dtypes import dtype as _dtype
from .tape.generator import Generator as Generator
from .tape.layout import layout as _layout
from .tape.layout import memory_format as _memory_format
from .tape.sizes import Size as Size
from .tape.tensor import Tensor as Tensor

from .operators.public import *
from . import accelerator as accelerator
from . import amp as amp
from . import autograd as autograd
from . import backends as backends
from . import collect_env as collect_env
from . import compat as compat
from . import compiler as compiler
from . import cpu as cpu
from . import cuda as cuda
from . import devices as devices
from . import distributed as distributed
from . import distributions as distributions
from . import export as export
from . import fft as fft
from . import func as func
from . import futures as futures
from . import fx as fx
from . import hub as hub
from . import jit as jit
from . import library as library
from . import linalg as linalg
from . import mps as mps
from . import mtia as mtia
from . import multiprocessing as multiprocessing
from . import nn as nn
from . import onnx as onnx
from . import op as op
from . import operators as operators
from . import ops as ops
from . import optim as optim
from . import overrides as overrides
from . import profiler as profiler
from . import quasirandom as quasirandom
from . import random as random
from . import return_types as return_types
from . import safetensors as safetensors
from . import serialization as serialization
from . import signal as signal
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import tape as tape
from . import testing as testing
from . import types as types
from . import utils as utils
from . import version as version
from . import xpu as xpu
from .storage import BFloat16Storage as BFloat16Storage
BFloat16Tensor: type[Tensor]
from .storage import BoolStorage as BoolStorage
BoolTensor: type[Tensor]
from .storage import ByteStorage as ByteStorage
ByteTensor: type[Tensor]
from .storage import CharStorage as CharStorage
CharTensor: type[Tensor]
from .storage import ComplexDoubleStorage as ComplexDoubleStorage
from .storage import ComplexFloatStorage as ComplexFloatStorage
from .storage import DoubleStorage as DoubleStorage
DoubleTensor: type[Tensor]
from .storage import FloatStorage as FloatStorage
FloatTensor: type[Tensor]
from .amp.grad_scaler import GradScaler as GradScaler
from .storage import HalfStorage as HalfStorage
HalfTensor: type[Tensor]
from .storage import IntStorage as IntStorage
IntTensor: type[Tensor]
from .storage import LongStorage as LongStorage
LongTensor: type[Tensor]
from .devices.cuda.allocation import OutOfMemoryError as OutOfMemoryError
from .serialization._records import PyTorchFileReader as PyTorchFileReader
from .storage import ShortStorage as ShortStorage
ShortTensor: type[Tensor]
from ._checks import SymBool as SymBool
from ._checks import SymFloat as SymFloat
from ._checks import SymInt as SymInt
from .storage import TypedStorage as TypedStorage
from .tape.untyped import UntypedStorage as UntypedStorage
from .tape.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .compat import as_torch as as_torch
from .amp.autocast_mode import autocast as autocast
from .amp.autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
from .amp.autocast_mode import autocast_increment_nesting as autocast_increment_nesting
bfloat16: _dtype
bits16: _dtype
bits1x8: _dtype
bits2x4: _dtype
bits4x2: _dtype
bits8: _dtype
bool: _dtype
bool_: _dtype
from .tape.dtypes import can_cast as can_cast
from ._capture.steps import capture as capture
cdouble: _dtype
cfloat: _dtype
chalf: _dtype
channels_last: _memory_format
channels_last_3d: _memory_format
from .amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
from .compiler import compile as compile
from ._checks import compiled_with_cxx11_abi as compiled_with_cxx11_abi
complex128: _dtype
complex32: _dtype
complex64: _dtype
from ._composites import cond as cond
contiguous_format: _memory_format
from .tape.generator import default_generator as default_generator
from .tape.device import device as device
double: _dtype
from ._composites import dsmm as dsmm
from .tape.dtypes import dtype as dtype
e: _b.float
from .autograd.grad_mode import enable_grad as enable_grad
from ._capture.steps import explain as explain
from .tape.dtypes import finfo as finfo
float: _dtype
float16: _dtype
float32: _dtype
float4_e2m1fn_x2: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
from .jit._async import fork as fork
from ._composites import frobenius_norm as frobenius_norm
from .amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from .amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .tape.settings import get_default_device as get_default_device
from .tape.dtypes import get_default_dtype as get_default_dtype
from .tape.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from ._checks import get_device_module as get_device_module
from .devices.cuda.precision import get_float32_matmul_precision as get_float32_matmul_precision
from .tape.settings import get_num_interop_threads as get_num_interop_threads
from .tape.settings import get_num_threads as get_num_threads
from .random import get_rng_state as get_rng_state
from ._VF import gru as gru
from ._VF import gru_cell as gru_cell
half: _dtype
from ._composites import hsmm as hsmm
from .tape.dtypes import iinfo as iinfo
inf: _b.float
from .autograd.grad_mode import inference_mode as inference_mode
from .random import initial_seed as initial_seed
int: _dtype
int1: _dtype
int16: _dtype
int2: _dtype
int3: _dtype
int32: _dtype
int4: _dtype
int5: _dtype
int6: _dtype
int64: _dtype
int7: _dtype
int8: _dtype
from .autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from .amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
from .amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from .tape.settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from ._checks import is_distributed as is_distributed
from .tape.modes import is_grad_enabled as is_grad_enabled
from .autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from ._checks import is_vulkan_available as is_vulkan_available
from .tape.settings import is_warn_always_enabled as is_warn_always_enabled
jagged: _layout
from .tape.layout import layout as layout
legacy_contiguous_format: _memory_format
from .serialization._loading import load as load
long: _dtype
from ._VF import lstm as lstm
from ._VF import lstm_cell as lstm_cell
from .random import manual_seed as manual_seed
from .tape.layout import memory_format as memory_format
nan: _b.float
newaxis: None
from .autograd.grad_mode import no_grad as no_grad
from ._composites import norm_except_dim as norm_except_dim
from ._composites import nuclear_norm as nuclear_norm
pi: _b.float
preserve_format: _memory_format
from .tape.printing import printoptions as printoptions
from .tape.dtypes import promote as promote_types
qint32: _dtype
qint8: _dtype
quint2x4: _dtype
quint4x2: _dtype
quint8: _dtype
from ._VF import rnn_relu as rnn_relu
from ._VF import rnn_relu_cell as rnn_relu_cell
from ._VF import rnn_tanh as rnn_tanh
from ._VF import rnn_tanh_cell as rnn_tanh_cell
from ._composites import saddmm as saddmm
from .serialization._saving import save as save
from .random import seed as seed
from ._composites import segment_reduce as segment_reduce
from .autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
from .amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
from .amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from .amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from .amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
from .amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
from .amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from .tape.settings import set_default_device as set_default_device
from .tape.dtypes import set_default_dtype as set_default_dtype
from .tape.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from .devices.cuda.precision import set_float32_matmul_precision as set_float32_matmul_precision
from .tape.settings import set_flush_denormal as set_flush_denormal
from .autograd.grad_mode import set_grad_enabled as set_grad_enabled
from .tape.settings import set_num_interop_threads as set_num_interop_threads
from .tape.settings import set_num_threads as set_num_threads
from .tape.printing import set_printoptions as set_printoptions
from .random import set_rng_state as set_rng_state
from .tape.settings import set_warn_always as set_warn_always
short: _dtype
sparse_bsc: _layout
sparse_bsr: _layout
sparse_coo: _layout
sparse_csc: _layout
sparse_csr: _layout
from ._composites import spmm as spmm
strided: _layout
from ._checks import sym_float as sym_float
from ._checks import sym_int as sym_int
from ._checks import sym_ite as sym_ite
from ._checks import sym_max as sym_max
from ._checks import sym_min as sym_min
from ._checks import sym_not as sym_not
from ._checks import sym_sqrt as sym_sqrt
from ._checks import sym_sum as sym_sum
uint1: _dtype
uint16: _dtype
uint2: _dtype
uint3: _dtype
uint32: _dtype
uint4: _dtype
uint5: _dtype
uint6: _dtype
uint64: _dtype
uint7: _dtype
uint8: _dtype
from .tape.settings import use_deterministic_algorithms as use_deterministic_algorithms
from .func._vmap import vmap as vmap
from .jit._async import wait as wait
from ._composites import while_loop as while_loop
__version__: _b.str

def __getattr__(name: _b.str) -> Any: ...
