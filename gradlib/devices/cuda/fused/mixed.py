"""Elementwise ops of float32 and a half type in one kernel: the half type is widened as it is read.

Otherwise its copy in float32 is a kernel, and memory, of its own: what a residual connection under autocast would do
in each layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels import F4, HALVES, instance, launcher_of
from .generate import DENSE, ONE, STRIDED, Generated, trace
from .pointwise import MAX_DIMS, byte_strides, collapse
from .trace import Ops, Untraceable, run_forward, traceable


def overlay(op: Any) -> Callable | None:
    """``f(xp, arrays)``: the result of `op` in float32, or NotImplemented; None for an op that has no such kernel."""
    if op.attrs or not traceable(op) or op.integer_results:
        return None
    traced = trace(F4, op.tensors, lambda F, symbols: [_run(F, op, symbols)])
    if traced is None or list(traced.inputs) != list(op.tensors):
        return None
    modules: dict[tuple, Generated] = {}

    def mixed(xp: Any, arrays: Sequence[Any]) -> Any:
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        found = _places(arrays, shape)
        narrow = tuple([k for k, a in zip(op.tensors, arrays) if a.dtype in HALVES])
        kinds = {a.dtype for a in arrays}
        if found is None or len(kinds) != 2 or F4 not in kinds or not narrow:
            return NotImplemented
        ways, sizes, strides = found
        out, size = xp.empty(shape, F4), math.prod(shape)
        if not size:
            return out
        key = narrow, *ways, len(sizes)
        module = modules.get(key)
        if module is None:
            places = dict(zip(op.tensors, ways))
            module = modules[key] = Generated(
                f"{op.name}_mixed", traced, places, len(sizes), narrow
            )
        half = next(a.dtype for a in arrays if a.dtype in HALVES)
        numbers = [np.int64(n) for n in (size, *sizes, *strides)]
        name, blocks = instance(module.name, F4, half), module.blocks(size, F4)
        launcher_of(xp).launch(module, name, blocks, 256, (*arrays, out, *numbers))
        return out

    return mixed


def _run(F: Ops, op: Any, symbols: dict[str, Any]) -> Any:
    result = run_forward(F, op, tuple([symbols[t] for t in op.tensors]))
    if result.dtype != F4:
        raise Untraceable("a result that is not a number")
    return result


def _places(arrays: Sequence[Any], shape: tuple) -> tuple | None:
    """(where the elements of each array are, sizes, strides in elements of those that are strided).

    None where the result would not be row-major, or there are too many dimensions.
    """
    if not all([a.flags.c_contiguous for a in arrays]):
        return None
    ways = [ONE if a.size == 1 else DENSE if a.shape == shape else STRIDED for a in arrays]
    strided = [a for a, way in zip(arrays, ways) if way == STRIDED]
    if not strided:
        return ways, (), ()
    sizes, rows = collapse(shape, [byte_strides(a, shape) for a in strided])
    if len(sizes) > MAX_DIMS:
        return None
    return ways, sizes, [s // a.itemsize for a, row in zip(strided, rows) for s in row]
