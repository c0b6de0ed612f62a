"""Variance and standard deviation, alone and together with the mean."""

from __future__ import annotations

import builtins
import math
import warnings

from ...op.declare import declare
from ...op.expose import function, write_out
from ...op.plain_numbers import python_number
from ...tape import dtypes
from ..kinds import narrow
from .sums import count, dims_of, over


def _freedom(n: int, correction):
    """The degrees of freedom, an int where possible: half types stay themselves when divided by it."""
    return n - int(correction) if correction == int(correction) else n - correction


def _squares(xp, self, n, dim, keepdim):
    """(sum of the squares around the mean, mean), the mean with its dimensions kept; in float32 for half types."""
    wide = xp.wide(self)
    mean = xp.add_up(wide, dim, True)
    mean = mean / n if n else mean * math.nan
    d = wide - mean
    return xp.add_up(d.real * d.real + d.imag * d.imag, dim, keepdim), mean


def _moments(squares, xp, self, dim, correction, keepdim):
    """(variance, mean), the mean with its dimensions kept, in the type that `squares`, as `_squares`, gives."""
    n = count(self.shape, dim) if dim else self.size
    total, mean = squares(xp, self, n, dim, keepdim)
    free = n - correction if correction.__class__ is int else _freedom(n, correction)
    free = free if free > 0 else 0
    return total / (free or xp.zeros((), total.dtype)), mean


def _real(array):
    return array.real.dtype if array.dtype.kind == "c" else array.dtype


def moments_by(squares):
    """The forward functions of var, std, var_mean and std_mean; squares: as `_squares`."""

    def var(xp, self, *, dim, correction, keepdim):
        return _moments(squares, xp, self, dim, correction, keepdim)[0].astype(
            _real(self), copy=False
        )

    def std(xp, self, *, dim, correction, keepdim):
        var = _moments(squares, xp, self, dim, correction, keepdim)[0]
        return xp.sqrt(var).astype(_real(self), copy=False)

    def with_mean(root: bool):
        def forward(xp, self, *, dim, correction, keepdim):
            var, mean = _moments(squares, xp, self, dim, correction, keepdim)
            if root:
                var = xp.sqrt(var)
            if not keepdim:
                mean = mean.reshape(var.shape)
            return xp.asarray(var, _real(self)), mean.astype(self.dtype, copy=False)

        return forward

    return var, std, with_mean(False), with_mean(True)


def _var_self(F, g, self, dim, correction, keepdim):
    n = count(self.shape, dim)
    free = _freedom(n, correction)
    if not hasattr(self, "_array") and self.dtype.itemsize == 2:  # rounded once
        g, wide = F.backend.wide(g), F.backend.wide(self)
        return narrow(_var_self(F, g, wide, dim, correction, keepdim), self.dtype)
    scaled = F.keep_dims(g, self.shape, dim, keepdim) * 2
    scaled = scaled / free if free > 0 else scaled * math.inf
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
        share = over(F, gs[1], builtins.max(count(self.shape, dim), 1))
        part = F.spread(share, self.shape, dim, keepdim)
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


_GRADIENTS = (
    ("var", _var_self), ("std", _std_self), ("var_mean", _with_mean_self(False)), ("std_mean", _with_mean_self(True)),
)  # fmt: skip
MOMENTS = var_op, std_op, var_mean_op, std_mean_op = tuple(
    declare(
        name, forward, n_out=1 + name.endswith("mean"), row_major=not name.endswith("mean"), complex=True,
        self=gradient, samples=_moment_samples, batch="same_rank",
    )
    for (name, gradient), forward in zip(_GRADIENTS, moments_by(_squares), strict=True)
)  # fmt: skip


def _moment(op, input, dim, unbiased, keepdim, correction, out, axis=None):
    if input._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = 1 if unbiased else 0
    elif correction is None:
        correction = 1
    else:
        correction = python_number(correction, f"{op.name}(): argument 'correction'")
    dims = dims_of(axis if dim is None else dim, input.ndim)
    n = count(input.shape, dims) if dims else input.numel()
    if n <= correction:
        warnings.warn(
            f"{op.name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
            "(input numel divided by output numel).",
            stacklevel=3,
        )
    result = op.call(input, dims, correction, keepdim)
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
    x, kind = "gradlib.tensor([1.0, 3.0])", op.name[:3]
    value = "2." if kind == "var" else "1.4142"
    shown = f"tensor({value})" if op.n_out == 1 else f"(tensor({value}), tensor(2.))"
    moment.__doc__ = f"""The {text} over dimensions.

Args:
    input: a floating or complex tensor.
    dim: a dimension or a tuple of them, also under the name `axis`; all if None.
    unbiased: False is a `correction` of 0.
    keepdim: whether the dimensions that are gone stay with length one; also under the name `keepdims`.
    correction: the divisor is the number of elements less this; 1 by default.
    out: written to instead of a new tensor.

Returns:
    {"A real tensor" if op.n_out == 1 else "A tuple of tensors"}; nan where the divisor is 0.
    The gradient of the standard deviation of equal values is 0.

Raises:
    RuntimeError: integers, or a dimension that is named twice.
    IndexError: no such dimension.

Example:
    >>> gradlib.{op.name}({x})
    {shown}
"""
    return function(op.name, method=op.n_out == 1)(moment)


var = _publish_moment(var_op, "variance")
std = _publish_moment(std_op, "standard deviation")
var_mean = _publish_moment(var_mean_op, "variance and the mean, as a tuple,")
std_mean = _publish_moment(std_mean_op, "standard deviation and the mean, as a tuple,")
