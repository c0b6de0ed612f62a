"""Rearranged copies: flip, roll, rot90, repeat, tile, triangles, diagonals, and atleast_nd."""

from __future__ import annotations

import operator

from ...op.declare import declare
from ...op.expose import function, inplace_method, method, write_same
from ...op.vmap import each_entry
from ...tape.arrays import backend_of
from ...tape.device import beside_first
from ...tape.lazy import raw_values
from ...tape.tensor import Tensor, wrap_dim
from ..elementwise.cast import clone_op
from ..kinds import refuse
from ..shape.slicing import two_dims
from .dims import unsqueeze_op
from .expand import expand_op
from .reshape import dims_once, given, reshape_to, size_of, view_op
from .slicing import at, diagonal_op

# -- reversed and shifted ----------------------------------------------------------------------------------------


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


# -- repeated ----------------------------------------------------------------------------------------------------


def _repeat(xp, self, *, repeats):
    shape = (1,) * (len(repeats) - self.ndim) + self.shape
    if 0 in repeats:
        return xp.zeros([n * r for n, r in zip(shape, repeats)], self.dtype)
    return xp.tile(self, repeats) if repeats else self.copy()


def _repeat_backward(F, g, self_shape, repeats):
    if 0 in repeats:
        return F.new_zeros(g, self_shape)
    full = (1,) * (len(repeats) - len(self_shape)) + self_shape
    parts = [m for pair in zip(repeats, full) for m in pair]
    summed = (
        F.sum(F.reshape(g, tuple(parts)), tuple(range(0, len(parts), 2)), False) if parts else g
    )
    return F.reshape(summed, self_shape)


repeat_op = declare(
    "repeat", _repeat, jvp="linear", complex=True, self=_repeat_backward,
    samples=lambda t: [(t(2, 3), (2, 1, 3)), (t(), (2,)), (t(), ()), (t(2), (0,)), (t(0, 2), (1, 2))],
    batch="repeat",
)  # fmt: skip


@method("repeat")
def repeat(self, *repeats, **kw):
    """A copy with all entries repeated so many times along each dimension.

    Args:
        repeats: ints, or a tuple of them, 0 or more: one for each dimension, with further ones in front for new
            dimensions.

    Returns:
        A tensor of shape ``(repeats[0] * n0, ...)``; the gradient is summed over the repetitions.

    Raises:
        RuntimeError: fewer numbers than dimensions; a negative number.

    Example:
        >>> gradlib.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    repeats = size_of(given("repeat", "repeats", repeats, kw))
    if len(repeats) < self._array.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(r < 0 for r in repeats):
        have = (1,) * (len(repeats) - self._array.ndim) + self._array.shape
        size = [n * r for n, r in zip(have, repeats)]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {size}")
    return repeat_op.call(self, repeats)


@function("tile", method=True)
def tile(input, *dims, **kw):
    """``repeat``; missing leading counts are ones.

    Raises RuntimeError: a negative count.

    Example:
        >>> gradlib.tile(gradlib.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
    dims = size_of(given("tile", "dims", dims, kw))
    return repeat(input, (1,) * (input._array.ndim - len(dims)) + dims)


@function("repeat_interleave")
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each entry of a dimension repeated in place.

    Args:
        input: a tensor; or alone, as `repeats`: then the result holds indices, each i repeated repeats[i] times.
        repeats: an int, or an integer tensor with one number for each entry.
        dim: the dimension; without it the tensor is taken as flat.
        output_size: the sum of `repeats`, if it is known.

    Returns:
        A tensor whose `dim` has the sum of `repeats` entries.

    Raises:
        RuntimeError: a negative number, or as many numbers as there are no entries.

    Example:
        >>> gradlib.repeat_interleave(gradlib.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
    """
    if repeats is None:
        return _repeated_indices(input)
    if dim is None:
        input, dim = reshape_to(input, (input._array.size,)), 0
    shape = input._array.shape
    if not shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, len(shape))
    if isinstance(repeats, Tensor) and repeats._array.size == 1:
        repeats = int(raw_values(repeats).reshape(()))
    if isinstance(repeats, Tensor):
        if repeats._array.ndim > 1:
            raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
        if repeats._array.size != shape[dim]:
            raise RuntimeError(
                f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats._array.size} "
                f"and input.size({dim}) = {shape[dim]}"
            )
        index = _repeated_indices(repeats)
        if output_size is not None and index._array.size != output_size:
            raise RuntimeError("allocated size does not match required size")
        return input.index_select(dim, index)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    wide = (*shape[: dim + 1], repeats, *shape[dim + 1 :])
    copy = clone_op.call(expand_op.call(unsqueeze_op.call(input, dim + 1), wide), "C")
    return view_op.call(copy, (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))


@method("repeat_interleave")
def _repeat_interleave(self, repeats, dim=None, *, output_size=None):
    """Each entry of `dim` repeated: ``gradlib.repeat_interleave`` of this tensor, with its arguments and errors.

    Args:
        repeats: an int, or an integer tensor with one number for each entry.
        dim: the dimension; without it the tensor is taken as flat.
        output_size: the sum of `repeats`, if it is known.

    Returns:
        A tensor whose `dim` has the sum of `repeats` entries.

    Raises:
        RuntimeError: a negative number, or as many numbers as there are no entries.

    Example:
        >>> gradlib.tensor([1, 2]).repeat_interleave(gradlib.tensor([2, 1]))
        tensor([1, 1, 2])
    """
    return repeat_interleave(self, repeats, dim, output_size=output_size)


@each_entry
@beside_first
def _repeated_indices(repeats: Tensor) -> Tensor:

    counts = repeats._array
    refuse("repeat_interleave_cpu", repeats, "bfcV")
    if counts.size and int(counts.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    xp = backend_of(counts)
    return Tensor._make(xp.repeat(xp.arange(counts.size), counts).astype("i8"))


# -- triangles and diagonals -------------------------------------------------------------------------------------


def _matrices(name: str, array):
    """`array` itself; RuntimeError unless it holds matrices."""
    if array.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    return array


def _triangle(name: str):
    def samples(t):
        return [(t(3, 4), 0), (t(2, 4, 3), 1), (t(3, 3), -1), (t(0, 3), 0)]

    if name == "tril":
        op = declare(
            name, lambda xp, self, *, diagonal: xp.tril(_matrices("tril", self), diagonal), row_major=True,
            jvp="linear", complex=True, batch="leading",
            self=lambda F, g, diagonal: F.tril(g, diagonal), samples=samples,
        )  # fmt: skip
    else:
        op = declare(
            name, lambda xp, self, *, diagonal: xp.triu(_matrices("triu", self), diagonal), row_major=True,
            jvp="linear", complex=True, batch="leading",
            self=lambda F, g, diagonal: F.triu(g, diagonal), samples=samples,
        )  # fmt: skip

    def triangle(input, diagonal=0, *, out=None):
        return write_same(out, op.call(input, diagonal))

    triangle.__name__ = triangle.__qualname__ = name
    side = "below" if name == "tril" else "above"
    rows = "[1, 0],\n            [3, 4]" if name == "tril" else "[1, 2],\n            [0, 4]"
    triangle.__doc__ = f"""A copy of matrices with zeros everywhere but on and {side} a diagonal.

Args:
    input: matrices (..., n, m).
    diagonal: which one: 0 the main one, above it positive, below it negative.
    out: written to instead of a new tensor.

Returns:
    A tensor of the same shape and dtype.

Raises:
    RuntimeError: fewer than two dimensions.

Example:
    >>> gradlib.{name}(gradlib.tensor([[1, 2], [3, 4]]))
    tensor([{rows}])
"""
    function(name, method=True)(triangle)
    inplace_method(op, name + "_", convert=lambda diagonal=0: (diagonal,))


_triangle("tril")
_triangle("triu")


def _diag_embed(xp, self, *, offset, dim1, dim2):
    n = self.shape[-1] + abs(offset)
    shape = list(self.shape[:-1])
    for d in sorted((dim1, dim2)):
        shape.insert(d, n)
    out = xp.zeros(tuple(shape), self.dtype)
    diagonal_op.forward(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = self
    return out


diag_embed_op = declare(
    "diag_embed", _diag_embed, jvp="linear", complex=True,
    self=lambda F, g, offset, dim1, dim2: F.diagonal(g, offset, dim1, dim2),
    samples=lambda t: [(t(3), 0, 0, 1), (t(2, 3), 1, 0, 2), (t(2, 3), -1, 2, 1), (t(0), 0, 0, 1)],
)  # fmt: skip


diagonal_copy_op = declare(
    "diagonal_copy", lambda xp, self, *, offset, dim1, dim2: xp.diagonal(self, offset, dim1, dim2).copy(),
    jvp="linear", complex=True, node="DiagonalBackward0_copy",
    self=lambda F, g, self_shape, offset, dim1, dim2: F.diagonal_backward(g, self_shape, offset, dim1, dim2),
    samples=lambda t: [(t(3, 4), 0, 0, 1), (t(2, 3, 4), 1, 2, 0), (t(3, 3), 5, 0, 1)],
    batch="same_rank",
)  # fmt: skip


@function("diag_embed", method=True)
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices, or tensors of more dimensions, with the last dimension of `input` on a diagonal and zeros elsewhere.

    Args:
        input: a tensor (..., n).
        offset: which diagonal: 0 the main one, above it positive, below it negative.
        dim1, dim2: the two new dimensions of the result that the diagonal lies in, each of length ``n +
            abs(offset)``.

    Returns:
        A tensor with one dimension more.

    Raises:
        IndexError: no such dimension.
        RuntimeError: twice the same dimension.

    Example:
        >>> gradlib.diag_embed(gradlib.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    n = input._array.ndim + 1
    if n == 1:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    return diag_embed_op.call(input, offset, *two_dims(dim1, dim2, n))


@function("diag", method=True)
def diag(input, diagonal=0, *, out=None):
    """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal.

    Raises RuntimeError: more than two dimensions.

    Example:
        >>> gradlib.diag(gradlib.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    n = input._array.ndim
    if n == 1:
        return write_same(out, diag_embed_op.call(input, diagonal, 0, 1))
    if n != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {n}D")
    return write_same(out, diagonal_copy_op.call(input, diagonal, 0, 1))


@function("diagflat", method=True)
def diagflat(input, offset=0):
    """A square matrix with all elements of `input`, in their order, on a diagonal, and zeros elsewhere.

    Args:
        input: a tensor of any shape.
        offset: which diagonal: 0 the main one, above it positive, below it negative.

    Returns:
        A matrix with ``n + abs(offset)`` rows for n elements.

    Example:
        >>> gradlib.diagflat(gradlib.tensor([[1], [2]]), 1)
        tensor([[0, 1, 0],
                [0, 0, 2],
                [0, 0, 0]])
    """
    return diag_embed_op.call(reshape_to(input, (input._array.size,)), offset, 0, 1)


# -- at least n dimensions ---------------------------------------------------------------------------------------


def _at_least(name: str, grow):
    def at_least(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return grow(tensors[0])
        if len(tensors) == 1:
            tensors = tuple(tensors[0])
        return tuple([grow(x) for x in tensors])

    at_least.__name__ = at_least.__qualname__ = name
    ones = ", ".join("1" * int(name[8]))
    at_least.__doc__ = f"""Views with at least {name[8]} dimension{"s" if name[8] > "1" else ""}.

Where dimensions are missing, some of length one are put in.

Args:
    tensors: one tensor, several, or one sequence of them.

Returns:
    A view of the tensor (itself if it has the dimensions), or a tuple of them.

Example:
    >>> gradlib.{name}(gradlib.tensor(5.0)).shape
    torch.Size([{ones}])
"""
    return function(name)(at_least)


def _one(x: Tensor) -> Tensor:
    return x if x._array.ndim else reshape_to(x, (1,))


def _two(x: Tensor) -> Tensor:
    n = x._array.ndim
    return x if n > 1 else unsqueeze_op.call(x, 0) if n else reshape_to(x, (1, 1))


def _three(x: Tensor) -> Tensor:
    n = x._array.ndim
    if n > 2:
        return x
    if n == 0:
        return reshape_to(x, (1, 1, 1))
    return unsqueeze_op.call(x if n == 2 else unsqueeze_op.call(x, 0), 2)


atleast_1d = _at_least("atleast_1d", _one)
atleast_2d = _at_least("atleast_2d", _two)
atleast_3d = _at_least("atleast_3d", _three)
