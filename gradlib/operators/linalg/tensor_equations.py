"""Tensors as linear maps: inverses and solutions."""

from __future__ import annotations

import math

from ...op.expose import write_out
from .base import linalg
from .solve import inv, solve


@linalg("tensorinv")
def tensorinv(A, ind=2, *, out=None):
    """The inverse of A as a linear map from its last dimensions to its first `ind`.

    Args:
        A: a tensor whose first `ind` lengths have the same product as the others.
        ind: a positive int.
        out: written to instead of a new tensor.

    Returns:
        A tensor whose shape is ``A.shape[ind:] + A.shape[:ind]``.

    Raises:
        RuntimeError: `ind` is not positive, or the products differ.
        LinAlgError: the map is singular.

    Example:
        >>> gradlib.linalg.tensorinv(gradlib.tensor([[2.0, 0.0], [0.0, 4.0]]), 1)
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(last)} != {math.prod(first)}"
        )
    return write_out(
        out, inv(A.reshape((math.prod(first), math.prod(last)))).reshape((*last, *first))
    )


@linalg("tensorsolve")
def tensorsolve(A, B, dims=None, *, out=None):
    """X with ``tensordot(A, X, X.ndim) = B``.

    Args:
        A: a tensor of shape ``B.shape + X.shape``, where both parts have as many elements.
        B: the right hand side.
        dims: dimensions of A that are moved to its end first.
        out: written to instead of a new tensor.

    Returns:
        A tensor X.

    Raises:
        RuntimeError: the shapes do not fit.
        LinAlgError: A is singular as a map.

    Example:
        >>> gradlib.linalg.tensorsolve(gradlib.tensor([[2.0, 0.0], [0.0, 4.0]]), gradlib.tensor([2.0, 2.0]))
        tensor([1.0000, 0.5000])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != math.prod(A.shape[: B.ndim]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {math.prod(shape)} != {math.prod(A.shape[: B.ndim])}"
        )
    return write_out(out, solve(A.reshape((-1, math.prod(shape))), B.reshape((-1,))).reshape(shape))
