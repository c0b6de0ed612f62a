"""cross_entropy and nll_loss with class numbers (`kernels/cross_entropy.cu`)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from ..kernels import F4, FLOATS, HALVES, SINGLES, dense, family, lines_launch
from . import forward, reduce, vjp

NONE, MEAN, SUM = range(3)
FLAGS = (False, True)
ONE_BLOCK, ENOUGH_BLOCKS, LEAST = 1 << 14, 512, 1024  # lines; blocks; lines of a block
I4, I8 = np.dtype(np.int32), np.dtype(np.int64)
INDICES = (I4, I8)
MODULE = family(
    "cross_entropy",
    cross_entropy=product(FLOATS, INDICES, FLAGS),
    nll=product(FLOATS, INDICES),
    loss_parts=product(SINGLES),
    loss_total=product(FLOATS),
    weight_total=product(SINGLES, INDICES),
    class_grad=product(FLOATS, INDICES, FLAGS, FLAGS),
)


def _parts(lines: int) -> int:
    """How many blocks add up what there is for each line: one until that takes longer than a second launch."""
    return 1 if lines <= ONE_BLOCK else min(ENOUGH_BLOCKS, -(-lines // LEAST))


class _Problem:
    """Scores [outer, classes, inner], their targets, and how to launch a kernel over them."""

    def __init__(self, xp: Any, shape: tuple, dtype: Any, target: Any, weight: Any):
        self.xp, self.dtype = xp, dtype
        self.wide = F4 if dtype in HALVES else dtype
        self.grid, self.block, self.sizes = lines_launch(shape, 0 if len(shape) == 1 else 1)
        self.lines = int(self.sizes[0] * self.sizes[2])
        self.columns = int(self.sizes[2]) > 1
        self.target = dense(xp, target)
        self.weight = None if weight is None else dense(xp, weight.astype(self.wide, copy=False))

    def per_line(self) -> Any:
        return self.xp.empty(self.lines, self.wide)

    def reduced(self, losses: Any, weights: Any, reduction: int, shape: tuple) -> Any:
        """Losses of lines as `reduction` asks for, in the dtype of the scores."""
        if reduction == NONE:
            return losses.astype(self.dtype, copy=False).reshape(shape)
        lines, parts = self.lines, _parts(self.lines)
        if parts > 1:
            sums = [self.xp.empty(parts, self.wide) for _ in range(2)]
            given = (losses, weights, *sums, np.int64(lines))
            MODULE.launch(self.xp, ("loss_parts", self.wide), parts, 256, *given)
            (losses, weights), lines = sums, parts
        out = self.xp.empty((), self.dtype)
        given = (losses, weights, out, np.int64(lines), np.int32(reduction))
        MODULE.launch(self.xp, ("loss_total", self.dtype), 1, 1024, *given)
        return out

    def total(self, reduction: int, ignore_index: int) -> Any:
        """The sum of the weights, if the mean needs it."""
        if reduction != MEAN:
            return None
        parts = _parts(self.lines)
        out = self.xp.empty(parts, self.wide)
        given = (self.target, self.weight, out, np.int64(ignore_index))
        given += (np.int64(self.lines), self.sizes[1])
        kernel = ("weight_total", self.wide, self.target.dtype)
        MODULE.launch(self.xp, kernel, parts, 1024 if parts == 1 else 256, *given)
        return out if parts == 1 else reduce.sum_all(self.xp, out)

    def gradient(
        self, g: Any, x: Any, top: Any, logs: Any, shape: tuple, reduction: int, ignored: int
    ) -> Any:
        """The gradient of cross entropy; with x None that of nll."""
        out = self.xp.empty(shape, self.dtype)
        total = self.total(reduction, ignored)
        given = (dense(self.xp, g), x, self.target, self.weight, top, logs, total, out)
        given += (np.int32(reduction), np.int64(ignored), *self.sizes)
        kernel = ("class_grad", self.dtype, self.target.dtype, x is not None, self.columns)
        MODULE.launch(self.xp, kernel, self.grid, self.block, *given)
        return out


def _fit(shape: tuple, dtype: Any, target: Any) -> bool:
    return dtype in FLOATS and target.dtype in INDICES and 0 not in shape


@forward("cross_entropy_op")
def cross_entropy(xp, self, target, weight=None, *, reduction, ignore_index):
    if not _fit(self.shape, self.dtype, target):
        return NotImplemented
    p = _Problem(xp, self.shape, self.dtype, target, weight)
    losses, weights, top, logs = (p.per_line() for _ in range(4))
    given = (dense(xp, self), p.target, p.weight, losses, weights, top, logs)
    kernel = ("cross_entropy", self.dtype, target.dtype, p.columns)
    MODULE.launch(xp, kernel, p.grid, p.block, *given, np.int64(ignore_index), *p.sizes)
    return p.reduced(losses, weights, reduction, target.shape), top, logs


@vjp("cross_entropy_op")
def cross_entropy_vjp(F, g, self, target, weight, result1, result2, reduction, ignore_index):
    if not _fit(self.shape, self.dtype, target) or g.dtype != self.dtype:
        return NotImplemented
    p = _Problem(F.backend, self.shape, self.dtype, target, weight)
    x = dense(F.backend, self)
    grad = p.gradient(g, x, result1, result2, self.shape, reduction, ignore_index)
    return grad, None, None


@forward("nll_loss_op")
def nll_loss(xp, self, target, weight=None, *, reduction, ignore_index):
    if not _fit(self.shape, self.dtype, target):
        return NotImplemented
    p = _Problem(xp, self.shape, self.dtype, target, weight)
    losses, weights = p.per_line(), p.per_line()
    given = (dense(xp, self), p.target, p.weight, losses, weights, np.int64(ignore_index), *p.sizes)
    MODULE.launch(xp, ("nll", self.dtype, target.dtype), -(-p.lines // 256), 256, *given)
    return p.reduced(losses, weights, reduction, target.shape)


@forward("nll_loss_grad")
def nll_loss_grad(xp, grad, target, weight=None, *, shape, reduction, ignore_index):
    if not _fit(shape, grad.dtype, target):
        return NotImplemented
    p = _Problem(xp, shape, grad.dtype, target, weight)
    return p.gradient(grad, None, None, None, tuple(shape), reduction, ignore_index)
