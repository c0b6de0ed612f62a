"""Reading and writing at flat places: take, put."""

from __future__ import annotations

import math

import numpy as np

from ...op.declare import declare
from ...op.expose import function, method, refuse_overlap, write_same
from ...op.writing import InPlace, on_copy
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor
from ..kinds import same_dtype
from .index_dim import ints
from .scatter import outside_either_way, refuse_outside


def _positive(index, n: int):
    return index + n * (index < 0)


def _take_backward(xp, grad, index, *, shape):
    return xp.sum_at(shape, _positive(index, math.prod(shape)), grad)


take_op = declare(
    "take", lambda xp, self, index: self.reshape(-1).take(index), promote="free", jvp="linear", complex=True,
    self=lambda F, g, index, self_shape: F.take_backward(g, index, self_shape),
    samples=lambda t: [(t(3, 4), ints(2, 5, 2, -1)), (t(), ints(0)), (t(2, 3), ints())],
)  # fmt: skip
declare(
    "take_backward", _take_backward, promote="free", jvp="linear", complex=True, node="PutBackward0",
    grad=lambda F, g, index: F.take(g, index),
    samples=lambda t: [(t(4), ints(2, 5, 2, -1), (3, 4))],
)  # fmt: skip


def _put_into(xp, self, index, source, *, accumulate):
    spots, values = _positive(index.reshape(-1), self.size), source.reshape(-1)
    flat = xp.ascontiguousarray(self).reshape(-1)
    if accumulate:
        xp.add_flat(flat, spots, values)
    else:
        flat[spots] = values
    if not self.flags.c_contiguous:
        self[...] = flat.reshape(self.shape)


put_op = declare(
    "put", on_copy(_put_into), promote="free", jvp="linear", complex=True, sharing="apart",
    self=lambda F, g, index, accumulate: g if accumulate else F.put(g, index, F.new_zeros(g, index.shape), False),
    source=lambda F, g, index, source_shape: F.reshape(F.take(g, index), source_shape),
    samples=lambda t: [(t(3, 4), ints(2, 5, -1), t(3), False), (t(3, 4), ints(2, 2), t(2), True),
        (t(), ints(0), t(1), False)],
)  # fmt: skip
_put_in = InPlace(put_op, _put_into)


def _check_flat(name: str, x: Tensor, index: Tensor) -> None:
    array, n = raw_values(index), x._array.size
    if array.dtype != np.int64:
        raise RuntimeError(
            f"{name}(): Expected a long tensor for index, but got {index.dtype.scalar_type}"
        )
    if array.size and not n:
        raise IndexError(
            f"{name}(): tried to {'take from' if name == 'take' else 'put elements into'} an empty tensor"
        )
    text = "out of range: tried to access index {index} on a tensor of {n} elements."
    refuse_outside(outside_either_way, array, n, None, IndexError, text)


@function("take", method=True)
def take(input, index, *, out=None):
    """The elements at the positions `index` of the flat input, in the shape of `index`.

    Raises IndexError: a position is out of range. RuntimeError: `index` is not int64.

    Example:
        >>> gradlib.take(gradlib.tensor([[1, 2], [3, 4]]), gradlib.tensor([0, 3]))
        tensor([1, 4])
    """
    _check_flat("take", input, index)
    refuse_overlap(out, input, index)
    return write_same(
        out,
        take_op.call(input, index),
        "take(): self and out expected to have the same dtype, but got self.dtype = {Want} and out.dtype = {Got}",
    )


def _put_plan(x: Tensor, index: Tensor, source: Tensor, accumulate) -> tuple:
    _check_flat("put_", x, index)
    if index._array.size != source._array.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._array.size}, index.numel() = {index._array.size}"
        )
    text = "self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}"
    same_dtype(x, source, f"put_(): {text}")
    return (index, source), (bool(accumulate),)


@function("put", method=True)
def put(input, index, source, accumulate=False):
    """A copy of `input` with `source` written at the positions `index` of the flat tensor.

    Args:
        index: an int64 tensor of any shape; negative positions count from the end.
        source: a tensor of the dtype of `input` with as many elements as `index`.
        accumulate: add instead; then repeated positions all count.

    Returns:
        A tensor like `input`; gradients flow to `input` and `source`.

    Raises:
        IndexError: a position is out of range; another number of elements.
        RuntimeError: another dtype.

    Example:
        >>> gradlib.put(gradlib.zeros(2, 2), gradlib.tensor([0, 3]), gradlib.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
    """
    others, attrs = _put_plan(input, index, source, accumulate)
    return put_op.call(input, *others, *attrs)


@method("put_")
def put_(self, index, source, accumulate=False):
    """In-place version of ``put``."""
    return _put_in(self, *_put_plan(self, index, source, accumulate))
