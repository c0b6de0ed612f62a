"""Variance and standard deviation, alone and together with the mean."""

from __future__ import annotations

import builtins
import math

from ..core import dtypes
from ..core.op import declare
from ..core.tensor import Tensor
from .expose import function, need_tensor, write_out
from .reduce import F4, F8, count, dims_of, sum_floats


def _freedom(n: int, correction):
    """The degrees of freedom, an int where possible: half types stay themselves when divided by it."""
    return n - int(correction) if correction == int(correction) else n - correction


def _moments(xp, self, dim, correction, keepdim):
    """(variance, mean), the mean with its dimensions kept; in the wide type."""
    real = self.dtype is F4 or self.dtype is F8
    wide = self if real else xp.wide(self)
    n, axis = count(self.shape, dim), dim or None
    mean = sum_floats(xp, self, dim, True) if real else xp.add.reduce(wide, axis, None, None, True)
    mean = mean / n if n else mean * math.nan
    d = wide - mean
    if real and d.ndim:
        d = xp.multiply(d, d, out=d)
        total = sum_floats(xp, d, dim, keepdim)
    else:
        d = d.real * d.real + d.imag * d.imag
        total = xp.add.reduce(d, axis, None, None, keepdim)
    free = n - correction if correction.__class__ is int else _freedom(n, correction)
    free = free if free > 0 else 0
    return total / (free or xp.zeros((), total.dtype)), mean


def _var(xp, self, *, dim, correction, keepdim):
    var = _moments(xp, self, dim, correction, keepdim)[0]
    return var.astype(self.dtype) if var.dtype.itemsize > self.dtype.itemsize else var


def _std(xp, self, *, dim, correction, keepdim):
    std = xp.sqrt(_moments(xp, self, dim, correction, keepdim)[0])
    return std.astype(self.dtype) if std.dtype.itemsize > self.dtype.itemsize else std


def _with_mean(root: bool):
    def forward(xp, self, *, dim, correction, keepdim):
        var, mean = _moments(xp, self, dim, correction, keepdim)
        if root:
            var = xp.sqrt(var)
        if not keepdim:
            mean = mean.reshape(var.shape)
        half = self.dtype.itemsize == 2
        return (
            (var.astype(self.dtype), mean.astype(self.dtype)) if half else (xp.asarray(var), mean)
        )

    return forward


def _var_self(F, g, self, dim, correction, keepdim):
    n = count(self.shape, dim)
    free = _freedom(n, correction)
    scaled = F.keep_dims(g, self.shape, dim, keepdim) * 2
    scaled = scaled / free if free else scaled * math.inf
    return scaled * (self - F.mean(self, dim, True))


def _std_self(F, g, result, self, dim, correction, keepdim):
    zero = result == 0
    half = F.where(zero, 0, g / (2 * F.where(zero, 1, result)))
    return _var_self(F, half, self, dim, correction, keepdim)


def _with_mean_self(root: bool):
    def both(F, gs, self, result0, dim, correction, keepdim):
        total = None
        if gs[0] is not None:
            total = (
                _std_self(F, gs[0], result0, self, dim, correction, keepdim)
                if root
                else _var_self(F, gs[0], self, dim, correction, keepdim)
            )
        if gs[1] is None:
            return total
        part = F.spread(gs[1] / builtins.max(count(self.shape, dim), 1), self.shape, dim, keepdim)
        return part if total is None else total + part

    if root:
        return both
    return lambda F, gs, self, dim, correction, keepdim: both(
        F, gs, self, None, dim, correction, keepdim
    )


def _moment_samples(t):
    return [
        (t(3, 4), (1,), 1, False), (t(2, 3, 4), (0, 2), 0, True), (t(5), (), 1, False), (t(2, 3, 2), (), 2, True),
        (t(0, 3), (1,), 1, False),
    ]  # fmt: skip


var_op = declare("var", _var, row_major=True, self=_var_self, complex=True, samples=_moment_samples)
std_op = declare("std", _std, row_major=True, self=_std_self, complex=True, samples=_moment_samples)
var_mean_op = declare(
    "var_mean",
    _with_mean(False),
    n_out=2,
    self=_with_mean_self(False),
    complex=True,
    samples=_moment_samples,
)
std_mean_op = declare(
    "std_mean",
    _with_mean(True),
    n_out=2,
    self=_with_mean_self(True),
    complex=True,
    samples=_moment_samples,
)


def _moment(op, input, dim, unbiased, keepdim, correction, out, axis=None):
    if not isinstance(input, Tensor):
        raise need_tensor(op.name, input)
    if input._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = 1 if unbiased else 0
    elif correction is None:
        correction = 1
    result = op.call(input, dims_of(axis if dim is None else dim, input.ndim), correction, keepdim)
    return write_out(out, result) if out is not None else result


def _publish_moment(op, text: str):
    def moment(
        input,
        dim=None,
        unbiased=None,
        keepdim=False,
        *,
        correction=None,
        out=None,
        axis=None,
        keepdims=False,
    ):
        return _moment(op, input, dim, unbiased, keepdim or keepdims, correction, out, axis)

    moment.__name__ = moment.__qualname__ = op.name
    moment.__doc__ = (
        f"The {text} over the dimension(s) `dim` (all by default).\n\n"
        "    correction: the divisor is the number of elements minus this (default 1); ``unbiased=False`` means 0.\n"
        "    The gradient of the standard deviation of equal values is 0."
    )
    return function(op.name, method=not op.name.endswith("_mean"))(moment)


var = _publish_moment(var_op, "variance")
std = _publish_moment(std_op, "standard deviation")
var_mean = _publish_moment(var_mean_op, "variance and the mean, as a tuple,")
std_mean = _publish_moment(std_mean_op, "standard deviation and the mean, as a tuple,")
