"""Settings of PyTorch's compiler that programs read and set; they change nothing."""

from __future__ import annotations

import sys

from ._settings import patch_for

allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
capture_dynamic_output_shape_ops = capture_scalar_outputs = False
compiled_autograd = False
dynamic_shapes = True
error_on_recompile = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
specialize_float = specialize_int = False
suppress_errors = False
verbose = False

patch = patch_for(sys.modules[__name__])
