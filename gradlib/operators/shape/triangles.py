"""Triangles of matrices, and copies from and to diagonals: tril, triu, diag, diag_embed, diagflat."""

from __future__ import annotations

from ...op.declare import declare
from ...op.expose import function, inplace_method, write_same
from ..shape.slicing import two_dims
from .reshape import reshape_to
from .slicing import diagonal_op


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
