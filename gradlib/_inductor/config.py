"""Settings of PyTorch's compiler that programs read and set; they change nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from .._dynamo._settings import patch_for

allow_buffer_reuse = True
benchmark_kernel = False
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = coordinate_descent_tuning = False
cpp_wrapper = False
debug = False
emulate_precision_casts = False
epilogue_fusion = True
fallback_random = False
force_disable_caches = False
force_fuse_int_mm_with_mul = False
force_same_precision = False
freezing = False
fx_graph_cache = True
layout_optimization = False
max_autotune = max_autotune_gemm = max_autotune_pointwise = False
reorder_for_compute_comm_overlap = False
shape_padding = True
use_mixed_mm = True

cpp = SimpleNamespace(enable_kernel_profile=False, simdlen=None, threads=-1)
triton = SimpleNamespace(
    cudagraph_skip_dynamic_graphs=False,
    cudagraph_support_input_mutation=True,
    cudagraph_trees=True,
    cudagraphs=False,
    unique_kernel_names=True,
)

patch = patch_for(sys.modules[__name__])
