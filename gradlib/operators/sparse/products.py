"""Products of batches and of rows that are reduced in other ways; numbers that are rounded. See `rules`."""

from __future__ import annotations

from typing import Any

from ...op.declare import REGISTRY
from ...tape.arrays import kernels_of
from ...tape.device import beside_first
from ...tape.sparse import COO, Pattern, is_sparse
from ...tape.tensor import Tensor
from ..create.filled import zeros
from ..index.index_dim import index_select
from . import base
from .base import parts, wrap
from .rules import _check_product, _matrix, mm, rule, with_values


@rule("bmm")
def _bmm(self: Tensor, mat2: Tensor) -> Any:
    """One matrix at a time is one matrix of them all, along the diagonal."""
    if not is_sparse(self):
        if self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
            return NotImplemented  # its own check says what does not fit
        return _bmm(mat2.transpose(1, 2), self.transpose(1, 2)).transpose(1, 2)
    if is_sparse(mat2):
        return NotImplemented
    pattern, values = parts(self)
    if pattern.sparse_dim != 3:
        raise RuntimeError(
            f"bmm: expected matrices with three sparse dimensions, but got {pattern.sparse_dim}: use .to_dense()"
        )
    count, height, width = self.shape
    if mat2.shape[:2] != (count, width):
        raise RuntimeError(
            f"bmm: Expected size for first two dimensions of batch2 tensor to be: [{count}, {width}] but got: "
            f"[{mat2.shape[0]}, {mat2.shape[1]}]."
        )

    def along_the_diagonal() -> Pattern:
        which, row, col = pattern.indices
        indices = kernels_of(row).stack([which * height + row, which * width + col])
        return Pattern(COO, (count * height, count * width), indices, True)

    whole = pattern.kept("diagonal", along_the_diagonal)
    out = base.mm_op.call(values, mat2.reshape(count * width, -1), whole)
    return out.reshape(count, height, mat2.shape[2])


REDUCTIONS = ("sum", "mean", "amax", "amin")


@beside_first
def reduced_mm(self: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    """The product of a sparse matrix and a dense one, where the terms of a row are not added but reduced.

    Raises:
        RuntimeError: no such reduction, or `mat2` is sparse.
    """
    if reduce not in REDUCTIONS:
        raise RuntimeError(
            f"sparse.mm: reduce must be one of {', '.join(REDUCTIONS)}, but got {reduce!r}"
        )
    if not is_sparse(self) or is_sparse(mat2):
        raise RuntimeError(
            "sparse.mm with reduce is of a sparse matrix and a dense one, in this order: use .to_dense() on the second"
        )
    if reduce == "sum":
        return mm(self, mat2)
    _check_product("mm", self, mat2)
    pattern, values = _matrix("mm", self)
    rows, cols = pattern.indices
    if reduce == "mean":
        many = kernels_of(rows).bincount(rows, minlength=self.shape[0])
        terms = wrap(many).clamp(min=1).to(values.dtype)
        return base.mm_op.call(values, mat2, pattern) / terms.unsqueeze(1)
    terms = values.unsqueeze(1) * index_select(mat2, 0, wrap(cols))
    nothing = zeros((self.shape[0], mat2.shape[1]), dtype=terms.dtype, device=terms.device)
    to = wrap(rows).unsqueeze(1).expand(terms.shape)
    return nothing.scatter_reduce(0, to, terms, reduce, include_self=False)


@rule("einsum")
def _einsum(self: Tensor, other: Tensor, a: tuple, b: tuple, out: tuple) -> Any:
    """A product element by element, summed over what `out` leaves out; sums of products of rows are for ``@``."""
    if not is_sparse(self) or (is_sparse(other) and len(b) > len(a)):
        self, other, a, b = other, self, b, a
    if not set(b) <= set(a) or (is_sparse(other) and len(b) < len(a)):
        return NotImplemented
    order = sorted(range(len(b)), key=lambda d: a.index(b[d]))
    if order != list(range(len(b))):
        other = other.permute(order)
    for d, label in enumerate(a):
        if label not in b:
            other = other.unsqueeze(d)
    product = self * other
    dropped = [d for d, label in enumerate(a) if label not in out]
    if dropped:
        product = product.sum(dropped)
    left = [label for label in a if label in out]
    return product if tuple(left) == out else product.permute([left.index(x) for x in out])


@rule("view_as_real")
def _view_as_real(self: Tensor) -> Any:
    """A copy with a dense dimension of real and imaginary parts, of which ``real`` and ``imag`` take one."""
    if self.layout is not COO:
        return NotImplemented
    pattern, values = parts(self)
    places = Pattern(COO, (*pattern.shape, 2), pattern.indices, True)
    return base.made(places, REGISTRY["view_as_real"].call(values).clone())


@rule("fill")
def _fill(self: Tensor, value: Any) -> Any:
    """The values that a compressed matrix has; nobody says which places a COO tensor should have."""
    if self.layout is COO or isinstance(value, Tensor):
        return NotImplemented
    return with_values(self, lambda values: REGISTRY["fill"].call(values, value))


@rule("round")
def _round(self: Tensor, decimals: int) -> Tensor:
    return with_values(self, lambda values: REGISTRY["round"].call(values, decimals))
