"""Reversed and shifted copies: flip, roll, rot90."""

from __future__ import annotations

import operator

from ...op.declare import declare
from ...op.expose import function, method
from ...tape.tensor import wrap_dim
from .reshape import dims_once, given, size_of
from .slicing import at


def _flip(xp, self, *, dims):
    back = slice(None, None, -1)
    order = "C" if 0 in self.strides else "K"
    if not dims or not self.ndim:
        return self.copy(order=order)
    turned = self[tuple([back if d in dims else slice(None) for d in range(self.ndim)])]
    return turned.copy(order=order)


def _roll(xp, self, *, shifts, dims):
    if not dims:
        return _roll(xp, self.reshape(-1), shifts=shifts, dims=(0,)).reshape(self.shape)
    out = self
    for shift, dim in zip(shifts, dims):
        n = self.shape[dim] if self.ndim else 0
        cut = n - shift % n if n else 0
        if cut != n:
            out = xp.concatenate((out[at(dim, slice(cut, None))], out[at(dim, slice(0, cut))]), dim)
    return out.copy() if out is self else xp.ascontiguousarray(out)


flip_op = declare(
    "flip", _flip, jvp="linear", complex=True, self=lambda F, g, dims: F.flip(g, dims),
    samples=lambda t: [(t(3, 4), (0, 1)), (t(3, 4), (1,)), (t(), ()), (t(0, 2), (0,))],
    batch="same_rank",
)  # fmt: skip
roll_op = declare(
    "roll", _roll, jvp="linear", complex=True, channels_last="self",
    self=lambda F, g, shifts, dims: F.roll(g, tuple([-s for s in shifts]), dims),
    samples=lambda t: [(t(3, 4), (1,), (0,)), (t(3, 4), (2, -1), (0, 1)), (t(3, 4), (5,), ()), (t(0, 2), (1,), (0,))],
    batch="same_rank",
)  # fmt: skip
rot90_op = declare(
    "rot90", lambda xp, self, *, k, dims: xp.rot90(self, k, dims).copy(order="K"), jvp="linear", complex=True,
    self=lambda F, g, k, dims: F.rot90(g, -k, dims),
    samples=lambda t: [(t(3, 4), 1, (0, 1)), (t(2, 3, 4), 3, (2, 0)), (t(0, 2), 2, (0, 1))],
)  # fmt: skip


@method("flip")
def _flip_method(self, *dims, **kw):
    """A copy with the order of the entries of `dims` reversed.

    Args:
        dims: ints, or a tuple of them, each dimension at most once; none: a plain copy.

    Returns:
        A tensor of the same shape and dtype; never a view.

    Raises:
        IndexError: no such dimension.
        RuntimeError: a dimension is named twice.

    Example:
        >>> gradlib.tensor([[1, 2], [3, 4]]).flip(0, 1)
        tensor([[4, 3],
                [2, 1]])
    """
    dims = size_of(given("flip", "dims", dims, kw))
    return flip_op.call(self, dims_once(dims, self._array.ndim))


@function("flip")
def flip(input, dims):
    """A copy with the order of the entries of `dims` (a tuple) reversed.

    Raises IndexError: no such dimension. RuntimeError: one is named twice.

    Example:
        >>> gradlib.flip(gradlib.tensor([1, 2, 3]), (0,))
        tensor([3, 2, 1])
    """
    if not isinstance(dims, (tuple, list)):
        raise TypeError(
            f"flip(): argument 'dims' (position 2) must be tuple of ints, not {type(dims).__name__}"
        )
    return _flip_method(input, dims)


@function("fliplr", method=True)
def fliplr(input):
    """A copy with the order of the columns reversed: ``flip`` of dimension 1.

    Args:
        input: a tensor of at least two dimensions.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.fliplr(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[2, 1],
                [4, 3]])
    """
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip_op.call(input, (1,))


@function("flipud", method=True)
def flipud(input):
    """A copy with the order of the rows reversed: ``flip`` of dimension 0.

    Args:
        input: a tensor of at least one dimension.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        RuntimeError: no dimension.

    Example:
        >>> gradlib.flipud(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[3, 4],
                [1, 2]])
    """
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip_op.call(input, (0,))


@function("roll", method=True)
def roll(input, shifts, dims=None):
    """A copy with the entries of `dims` moved by `shifts` places, round the end; all as flat without `dims`.

    Raises RuntimeError: not as many `shifts` as `dims`.

    Example:
        >>> gradlib.roll(gradlib.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
    try:
        shifts = (
            tuple([operator.index(s) for s in shifts])
            if isinstance(shifts, (tuple, list))
            else (operator.index(shifts),)
        )
    except TypeError:
        raise TypeError(
            f"roll(): argument 'shifts' (position 2) must be tuple of ints, not {type(shifts).__name__}"
        ) from None
    if not shifts:
        raise RuntimeError("`shifts` required")
    dims = () if dims is None else dims
    dims = (dims,) if not isinstance(dims, (tuple, list)) else tuple(dims)
    if not dims and len(shifts) == 1:
        return roll_op.call(input, shifts, ())
    if len(dims) != len(shifts):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    n = input._array.ndim
    if not n:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return roll_op.call(input, shifts, tuple([wrap_dim(d, n) for d in dims]))


@function("rot90", method=True)
def rot90(input, k=1, dims=(0, 1)):
    """A copy turned by `k` quarters in the plane of `dims`, from the first towards the second.

    Raises RuntimeError: fewer than two dimensions, or `dims` are not two different ones.

    Example:
        >>> gradlib.rot90(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    n = input._array.ndim
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if n < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {n}")
    first, second = wrap_dim(dims[0], n), wrap_dim(dims[1], n)
    if first == second:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return rot90_op.call(input, k % 4, (first, second))
