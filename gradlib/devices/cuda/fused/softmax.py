"""softmax and log_softmax along any dimension (`kernels/softmax.cu`)."""

from __future__ import annotations

from itertools import product
from typing import Any

from ..kernels import FLOATS, dense, family, lines_launch, pack_size
from . import forward

FLAGS = (False, True)
# A thread for each of fewer lines than FEW of LONG elements or more would take longer than the formula.
LONG, FEW = 1024, 4096
MODULE = family(
    "softmax", softmax=product(FLOATS, FLAGS, FLAGS), softmax_grad=product(FLOATS, FLAGS, FLAGS)
)


def _launch(xp: Any, kernel: str, log: bool, arrays: tuple, dim: int) -> Any:
    """Run a kernel on arrays of one shape; it writes a new array of that shape."""
    first = arrays[0]
    if first.dtype not in FLOATS or any(a.dtype != first.dtype for a in arrays):
        return NotImplemented
    if not first.size:
        return xp.empty(first.shape, first.dtype)
    grid, block, sizes = lines_launch(first.shape or (1,), dim, pack_size(first.dtype))
    outer, n, inner = sizes
    if inner > 1 and n >= LONG and outer * inner < FEW:
        return NotImplemented
    out = xp.empty(first.shape, first.dtype)
    given = (*[dense(xp, a) for a in arrays], out, *sizes)
    MODULE.launch(xp, (kernel, first.dtype, log, inner > 1), grid, block, *given)
    return out


@forward("softmax")
def softmax(xp, self, *, dim):
    return _launch(xp, "softmax", False, (self,), dim)


@forward("log_softmax")
def log_softmax(xp, self, *, dim):
    return _launch(xp, "softmax", True, (self,), dim)


@forward("softmax_grad")
def softmax_grad(xp, grad, output, *, dim):
    return _launch(xp, "softmax_grad", False, (grad, output), dim)


@forward("log_softmax_grad")
def log_softmax_grad(xp, grad, output, *, dim):
    return _launch(xp, "softmax_grad", True, (grad, output), dim)
