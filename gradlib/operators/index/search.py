"""Searching: binary search, membership, and the positions of elements that are not zero."""

from __future__ import annotations

import numpy as np

from ...op.declare import declare
from ...op.expose import function, write_out, write_same
from ...op.interpret import common_dtype
from ...op.plain_numbers import is_number
from ...op.vmap import each_entry
from ...tape import dtypes, errors
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.modes import made_of_numbers, unrecorded
from ...tape.tensor import Tensor
from ..kinds import refuse
from ..reduce.sort import I8
from ..shape.split import unbind

I4 = np.dtype(np.int32)

# -- binary search -----------------------------------------------------------------------------------------------


def _search(xp, rows, values, side: str):
    if rows.ndim == 1:
        return xp.searchsorted(rows, values, side)
    if not values.size:
        return xp.zeros(values.shape, I8)
    flat_rows, flat = rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1])
    found = [xp.searchsorted(r, v, side) for r, v in zip(flat_rows, flat)]
    return xp.stack(found).reshape(values.shape)


def _places(rows, values, side: str, dtype):
    xp = backend_of(rows)
    return xp.call(_found, xp, rows, values, side, dtype)


def _found(xp, rows, values, side: str, dtype):
    return xp.asarray(_search(xp, xp.wide(rows), xp.wide(values), side)).astype(dtype)


def _check_search(rows: Tensor, values: Tensor, scalar: bool, sorter, out, out_int32: bool) -> None:
    if not rows._array.ndim:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    n, have = rows._array.ndim, values._array.shape
    if n > 1 and not have:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({n}) and input value's dim(0) numel(1)"
        )
    if n > 1 and (len(have) != n or have[:-1] != rows._array.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {errors.size(rows.shape)} and "
            f"input value tensor {errors.size(have)}"
        )
    if out is not None and out._array.dtype != (I4 if out_int32 else I8):
        kind = out.dtype.scalar_type
        raise RuntimeError(
            "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending "
            f"on whether out_int32 flag is True, but we got output tensor's dtype {kind} and out_int32 flag is "
            f"{bool(out_int32)}"
        )
    if sorter is None:
        return
    if sorter._array.shape != rows._array.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{errors.size(rows.shape)}and got sorter tensor {errors.size(sorter.shape)}"
        )
    if sorter._array.dtype != I8:
        kind = sorter.dtype.scalar_type
        raise RuntimeError(
            f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {kind}"
        )
    if (
        sorter._array.size
        and not 0 <= int(sorter._array.min()) <= int(sorter._array.max()) < rows._array.shape[-1]
    ):
        raise RuntimeError("torch.searchsorted(): sorter index out of range")


def _values(name: str, input, like: Tensor) -> Tensor:
    """What is searched for, as a tensor."""
    if isinstance(input, Tensor):
        return input
    if not is_number(input):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (Tensor, {type(input).__name__})"
        )
    return made_of_numbers(Tensor._make(backend_of(like._array).asarray(input)))


@function("searchsorted")
@each_entry
def searchsorted(
    sorted_sequence, input, *, out_int32=False, right=False, side=None, out=None, sorter=None
):
    """Where each value would be inserted to keep a sequence sorted.

    Args:
        sorted_sequence: (..., n), sorted along the last dimension; or a vector, for values of any shape.
        input: (..., m), or a number.
        out_int32: whether the result is int32 instead of int64.
        right: whether after equal elements instead of before them; also as ``side="right"``.
        side: "left" or "right".
        sorter: int64, the order that sorts the sequence, if it is not sorted.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape of `input`, of places in [0, n].

    Raises:
        RuntimeError: the other dimensions differ, `side` contradicts `right`, or `sorter` does not fit.

    Example:
        >>> gradlib.searchsorted(gradlib.tensor([1, 3, 5]), gradlib.tensor([3, 4]))
        tensor([1, 2])
    """
    rows = sorted_sequence
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    values = _values("searchsorted", input, rows)
    _check_search(rows, values, not isinstance(input, Tensor), sorter, out, out_int32)
    refuse("searchsorted_out_cpu", rows, "cb")
    if sorter is not None:
        rows = rows.gather(-1, sorter)
    way = "right" if right or side == "right" else "left"
    kind = I4 if out_int32 else I8
    return write_out(out, Tensor._make(unrecorded(_places, rows._array, values._array, way, kind)))


@function("bucketize")
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    """The number of the interval between sorted `boundaries` that each value lies in; see ``searchsorted``.

    Args:
        input: a tensor of any shape, or a number.
        boundaries: a sorted vector.
        out_int32: whether the result is int32 instead of int64.
        right: whether a value that equals a boundary lies above it.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape of `input`: 0 below the first boundary, ``len(boundaries)`` above the last.

    Raises:
        RuntimeError: `boundaries` is no vector.

    Example:
        >>> gradlib.bucketize(gradlib.tensor([0.5, 2.0, 9.0]), gradlib.tensor([1.0, 2.0, 3.0]))
        tensor([0, 1, 3])
    """
    if boundaries._array.ndim != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@function("isin")
@each_entry
def isin(elements, test_elements, *, assume_unique=False, invert=False, out=None):
    """Whether each element is among `test_elements`.

    Args:
        elements, test_elements: tensors of any shape; one of them may be a number.
        assume_unique: a promise that changes nothing but, elsewhere, the speed.
        invert: whether it is not among them.
        out: written to instead of a new tensor.

    Returns:
        A bool tensor of the shape of `elements`, without gradient.

    Example:
        >>> gradlib.isin(gradlib.tensor([1, 2, 3]), gradlib.tensor([1, 3]))
        tensor([ True, False,  True])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(
            f"isin() received an invalid combination of arguments - got ({type(elements).__name__}, "
            f"{type(test_elements).__name__})"
        )
    common = common_dtype((elements, test_elements))
    for t in (elements, test_elements):
        if isinstance(t, Tensor) and t.dtype.category in (dtypes.COMPLEX, dtypes.BOOL):
            kind = t.dtype.scalar_type
            raise RuntimeError(f"Unsupported input type encountered for isin(): {kind}")
    like = elements if isinstance(elements, Tensor) else test_elements
    xp = backend_of(like._array)
    found = xp.call(_isin, xp, elements, test_elements, common.np, bool(invert))
    return write_same(out, Tensor._make(found))


def _isin(xp, elements, test_elements, common, invert: bool):
    a, b = (
        xp.wide(x._array.astype(common)) if isinstance(x, Tensor) else xp.asarray(x)
        for x in (elements, test_elements)
    )
    return xp.asarray(xp.isin(a, b.reshape(-1), invert=invert))


# -- non-zero elements -------------------------------------------------------------------------------------------

nonzero_op = declare(
    "nonzero", lambda xp, self: _nonzero(xp, self), dynamic=True, nondifferentiable="indices",
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
)  # fmt: skip


def _nonzero(xp, self):
    if not self.ndim:
        return xp.zeros((int(bool(self)), 0), I8)
    return xp.stack(xp.nonzero(self)).astype(I8, copy=False).T  # one vector for each dimension


@function("nonzero", method=True)
def nonzero(input, *, out=None, as_tuple=False):
    """The indices of the elements that are not zero, one row each; as_tuple: one vector for each dimension.

    It has no gradient; int64.

    Example:
        >>> gradlib.nonzero(gradlib.tensor([0, 2, 3]))
        tensor([[1],
                [2]])
    """
    if as_tuple:
        if isinstance(out, Tensor):
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        if out is not None:
            raise TypeError(f"nonzero(): argument 'out' must be Tensor, not {type(out).__name__}")
        if not input._array.ndim:
            return unbind(nonzero_op.call(input.reshape(1)), 1)
        return unbind(nonzero_op.call(input), 1)
    if out is not None and out._array.dtype != I8:
        raise RuntimeError(
            f"nonzero: Expected out tensor to have scalar type Long but got scalar type{out.dtype.scalar_type}"
        )
    return write_out(out, nonzero_op.call(input))


@function("argwhere", method=True)
def argwhere(input):
    """The indices of all elements that are not zero, as rows: ``nonzero`` under NumPy's name.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        An int64 tensor (number of them, dimensions) in row-major order; on a device this waits for the values.

    Example:
        >>> gradlib.argwhere(gradlib.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
    return nonzero_op.call(input)


@function("nonzero_static", method=True)
@each_entry
def nonzero_static(input, *, size, fill_value=-1, out=None):
    """The first `size` rows of ``nonzero``, filled up with `fill_value`: the shape does not depend on the values.

    Args:
        input: a tensor of any shape and dtype.
        size: the number of rows, 0 or more.
        fill_value: what stands in the rows for which there is no element.
        out: written to instead of a new tensor.

    Returns:
        An int64 tensor (size, dimensions).

    Raises:
        RuntimeError: a negative `size`.

    Example:
        >>> gradlib.nonzero_static(gradlib.tensor([0, 1, 2]), size=3)
        tensor([[ 1],
                [ 2],
                [-1]])
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    with beside(input._array):
        rows = _nonzero(backend_of(input._array), input._array)[:size]
        array = backend_of(rows).full((size, rows.shape[1]), fill_value, I8)
        array[: rows.shape[0]] = rows
    return write_out(out, Tensor._make(array))


@function("unravel_index")
def unravel_index(indices, shape):
    """The coordinates of positions in a flat array of `shape`.

    Args:
        indices: an integer tensor of any shape.
        shape: an int or a tuple of ints, 0 or more.

    Returns:
        A tuple with a tensor for each dimension, of the shape of `indices`; positions beyond the end wrap around.

    Raises:
        TypeError: `indices` is no tensor of integers.
        ValueError: a negative length.

    Example:
        >>> gradlib.unravel_index(gradlib.tensor([1, 5]), (2, 3))
        (tensor([0, 1]), tensor([1, 2]))
    """
    if not isinstance(indices, Tensor) or indices._array.dtype.kind not in "iu":
        raise TypeError(
            f"expected 'indices' to be integer dtype, but got {getattr(indices, 'dtype', type(indices))}"
        )
    indices = indices.to(dtypes.int64)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all([isinstance(n, int) for n in shape]):
        wrong = next(n for n in shape if not isinstance(n, int))
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(wrong)}")
    if any([n < 0 for n in shape]):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    rest, out = indices, []
    for n in reversed(shape):
        out.append(rest.remainder(n))
        rest = rest.div(n, rounding_mode="floor")
    return tuple(reversed(out))
