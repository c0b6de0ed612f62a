"""softmax and log_softmax along any dimension (`kernels/softmax.cu`)."""

from __future__ import annotations

from typing import Any

from ..kernels import FLOATS, dense, family, instance, instances, launcher_of, lines_launch
from . import forward, vjp

FLAGS = (False, True)
# A thread for each of fewer lines than FEW of LONG elements or more would take longer than the formula.
LONG, FEW = 1024, 4096
MODULE = family(
    "softmax", instances("softmax", FLOATS, FLAGS, FLAGS), instances("softmax_grad", FLOATS, FLAGS, FLAGS)
)  # fmt: skip


def _launch(xp: Any, kernel: str, log: bool, arrays: tuple, dim: int) -> Any:
    """Run a kernel on arrays of one shape; it writes a new array of that shape."""
    first = arrays[0]
    if first.dtype not in FLOATS or any(a.dtype != first.dtype for a in arrays):
        return NotImplemented
    if not first.size:
        return xp.empty(first.shape, first.dtype)
    grid, block, sizes = lines_launch(first.shape or (1,), dim)
    outer, n, inner = sizes
    if inner > 1 and n >= LONG and outer * inner < FEW:
        return NotImplemented
    out = xp.empty(first.shape, first.dtype)
    name = instance(kernel, first.dtype, log, inner > 1)
    given = (*(dense(xp, a) for a in arrays), out, *sizes)
    launcher_of(xp).launch(MODULE, name, grid, block, given)
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


@vjp("softmax")
def softmax_vjp(F, g, result, dim):
    return _one(softmax_grad(F.backend, g, result, dim=dim))


@vjp("log_softmax")
def log_softmax_vjp(F, g, result, dim):
    return _one(log_softmax_grad(F.backend, g, result, dim=dim))


def _one(gradient: Any) -> Any:
    return gradient if gradient is NotImplemented else (gradient,)
