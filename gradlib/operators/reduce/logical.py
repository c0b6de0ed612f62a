"""Logical reductions: all, any, count_nonzero."""

from __future__ import annotations

from ...op.declare import declare
from ...op.expose import function, write_out
from ...tape import dtypes
from ...tape.float8 import values
from .sums import I8, dims_of


def _logical_kernel(method: str):
    def forward(xp, self, *, dim, keepdim):
        if self.dtype.names is not None:
            self = values(self)
        out = getattr(self if self.dtype.kind != "V" else self != 0, method)(
            dim or None, keepdims=keepdim
        )
        return out.astype(self.dtype) if self.dtype == "u1" else out

    return forward


all_op, any_op = (
    declare(
        name,
        _logical_kernel(name),
        row_major=True,
        nondifferentiable="bool",
        batch="same_rank",
        samples=lambda t: [(t(3, 4), (1,), False), (t(2, 3), (), True), (t(0, 3), (0,), False)],
    )
    for name in ("all", "any")
)


def _count_nonzero(xp, self, *, dim):
    return xp.asarray(
        xp.count_nonzero(self != 0 if self.dtype.kind == "V" else self, dim or None), I8
    )


count_nonzero_op = declare(
    "count_nonzero",
    _count_nonzero,
    nondifferentiable="integer",
    samples=lambda t: [(t(3, 4), (1,)), (t(2, 3), ()), (t(0, 3), (0,))],
    batch="same_rank",
)


def _logical(op, input, dim, keepdim: bool, out):
    """all or any; over no dimension at all they are a test of each element."""
    dims = dims_of(dim, input._array.ndim)
    if not dims and dim is not None and input.ndim:
        result = input != 0
        result = result.to(input.dtype) if input.dtype is dtypes.uint8 else result
    else:
        result = op.call(input, dims, keepdim)
    if out is not None and out.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(
            f"{op.name} only supports bool tensor for result, got: {out.dtype.scalar_type}"
        )
    return result if out is None else write_out(out, result)


@function("all", method=True)
def all(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """Whether all elements (along `dim`) are true; bool, uint8 for uint8 tensors.

    Raises IndexError: no such dimension.

    Example:
        >>> gradlib.all(gradlib.tensor([0, 2]))
        tensor(False)
    """
    return _logical(all_op, input, dim if axis is None else axis, keepdim or keepdims, out)


@function("any", method=True)
def any(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """Whether any element (along `dim`) is true; bool, uint8 for uint8 tensors.

    Raises IndexError: no such dimension.

    Example:
        >>> gradlib.any(gradlib.tensor([0, 2]))
        tensor(True)
    """
    return _logical(any_op, input, dim if axis is None else axis, keepdim or keepdims, out)


@function("count_nonzero", method=True)
def count_nonzero(input, dim=None, *, axis=None):
    """The number (int64) of elements that are not zero, over the dimension(s) `dim` (all by default).

    Raises IndexError: no such dimension.

    Example:
        >>> gradlib.count_nonzero(gradlib.tensor([0, 2, 3]))
        tensor(2)
    """
    return count_nonzero_op.call(input, dims_of(dim if axis is None else axis, input._array.ndim))
