"""gather and take_along_dim: reading along one dimension at places given by an index tensor."""

from __future__ import annotations

import numpy as np

from ...op.declare import declare
from ...op.expose import function, refuse_overlap, resize_out, write_same
from ...tape import errors
from ...tape.tensor import Tensor, wrap_dim
from ..shape.expand import expand_to
from .scatter import check_index, nowhere, places, sample_index


def gathered(xp, self, index, *, dim):
    """The elements of `self` at the places along `dim` that `index` names."""
    return self.reshape(-1).take(places(xp, index, self.shape, dim))


def _gather_backward(xp, grad, index, *, shape, dim):
    return xp.sum_at(shape, places(xp, index, shape, dim), grad)


gather_op = declare(
    "gather", gathered, promote="free", jvp="linear", complex=True,
    self=lambda F, g, index, self_shape, dim: F.gather_backward(g, index, self_shape, dim),
    samples=lambda t: [
        (t(3, 4), sample_index(2, 3), 0), (t(3, 4), sample_index(3, 2), 1), (t(), sample_index(n=1), 0),
        (t(2, 3), sample_index(0, 3), 0),
    ],
    batch="same_rank",
    aten="(self, dim, index)",
)  # fmt: skip
gather_backward_op = declare(
    "gather_backward", _gather_backward, promote="free", jvp="linear", complex=True, node="ScatterAddBackward0",
    grad=lambda F, g, index, dim: F.gather(g, index, dim),
    samples=lambda t: [(t(2, 3), sample_index(2, 3), (3, 4), 0), (t(), sample_index(n=1), (), 0)],
    batch="same_rank",
)  # fmt: skip


def _check_gather(x: Tensor, dim: int, index: Tensor) -> int:
    shape, have = x._array.shape, index._array.shape
    dim = wrap_dim(dim, len(shape))
    if not index._array.size:
        return dim
    if max(len(shape), 1) != max(len(have), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for d, (n, m) in enumerate(zip(have, shape)):
        if d != dim and n > m:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {errors.size(have)} to be no larger than "
                f"self {errors.size(shape)} apart from dimension {dim}"
            )
    check_index("gather", index, shape[dim] if shape else 1, dim)
    return dim


@function("gather", method=True)
def gather(input, dim, index, *, sparse_grad=False, out=None):
    """The entries of one dimension that `index` names: ``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on.

    Args:
        input: a tensor of any dtype.
        dim: the dimension.
        index: int32 or int64, as many dimensions as `input`, and no larger than it except in `dim`; each in [0,
            length).
        sparse_grad: without effect: the gradient is dense.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape of `index` and the dtype of `input`; elements taken twice get the sum of the gradients.

    Raises:
        RuntimeError: an index is out of range, or shapes or the dtype of `index` do not fit.
        IndexError: no such dimension.

    Example:
        >>> gradlib.gather(gradlib.tensor([[1, 2], [3, 4]]), 1, gradlib.tensor([[1], [0]]))
        tensor([[2],
                [3]])
    """
    dim = _check_gather(input, dim, index)
    if not index._array.size:
        index = nowhere(input, index._array.shape)
    result = gather_op.call(input, index, dim)
    if out is None:
        return result
    if out.shape != result.shape:
        resize_out(out, result.shape)
    refuse_overlap(out, input, index)
    return write_same(out, result)


@function("take_along_dim", method=True)
def take_along_dim(input, indices, dim=None, *, axis=None, out=None):
    """``gather`` with `input` and `indices` broadcast against each other in all dimensions but `dim`.

    Args:
        input: a tensor of any dtype.
        indices: int64, as what ``argsort`` and ``argmax`` with keepdim return; they count modulo the length.
        dim: the dimension, also under the name `axis`; without it both are taken as flat.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`.

    Raises:
        RuntimeError: other dtypes of `indices`, or other numbers of dimensions.

    Example:
        >>> gradlib.take_along_dim(gradlib.tensor([[3, 1], [2, 4]]), gradlib.tensor([[1], [0]]), 1)
        tensor([[1],
                [2]])
    """
    if indices._array.dtype != np.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.scalar_type}"
        )
    dim = dim if axis is None else axis
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1), out=out)
    n = input._array.ndim
    if n != indices._array.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{n} dimensions for input, and {indices._array.ndim} dimensions for indices"
        )
    if not n:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, n)
    a, b = list(input._array.shape), list(indices._array.shape)
    size = a[dim]
    a[dim] = b[dim] = 1
    errors.check_broadcast(tuple(a), tuple(b))
    wide = list(np.broadcast_shapes(tuple(a), tuple(b)))
    for one, x in ((input, "input"), (indices, "indices")):
        wide[dim] = one._array.shape[dim]
        if one._array.shape != tuple(wide):
            if x == "input":
                input = expand_to(one, tuple(wide))
            else:
                indices = expand_to(one, tuple(wide))
    return gather(input, dim, indices.remainder(size) if size else indices, out=out)
