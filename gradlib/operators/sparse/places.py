"""Rules of the ops that move values to other places: transposing, selecting, joining. See `rules`."""

from __future__ import annotations

from typing import Any

from ...op import vmap_texts
from ...op.declare import REGISTRY
from ...op.vmap import readable
from ...tape import errors, sparse
from ...tape.arrays import kernels_of
from ...tape.lazy import raw_values
from ...tape.sizes import wrap_dim
from ...tape.sparse import COO, Pattern, is_sparse
from ...tape.tensor import Tensor
from ..index.index_dim import index_select
from ..shape.pad import pad
from . import base
from .base import as_coo, in_layout, layout_of, made, parts, values_of, wrap
from .rules import rule


@rule("transpose")
def _transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    dims = list(range(self.ndim))
    first, second = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    dims[first], dims[second] = second, first
    return permuted(self, dims)


@rule("t")
def _t(self: Tensor) -> Tensor:
    return permuted(self, list(range(self.ndim))[::-1])


@rule("permute")
def _permute(self: Tensor, dims: Any) -> Tensor:
    return permuted(self, [wrap_dim(d, self.ndim) for d in dims])


_TURNED = {
    sparse.CSR: sparse.CSC, sparse.CSC: sparse.CSR, sparse.BSR: sparse.BSC, sparse.BSC: sparse.BSR
}  # fmt: skip


def permuted(self: Tensor, dims: list[int]) -> Tensor:
    """The dimensions in another order; sparse ones stay before dense ones."""
    kind, block = layout_of(self)
    if dims == list(range(self.ndim)):
        return self
    if kind is not COO:
        turned = permuted(as_coo(self), dims)
        return in_layout(*parts(turned), _TURNED[kind], block and block[::-1])
    self = base.coalesced(self)
    pattern, values = self._array.pattern, values_of(self)
    n = pattern.sparse_dim
    if sorted(dims[:n]) != list(range(n)):
        raise RuntimeError(
            f"transpose(): sparse and dense dimensions of a tensor of layout {kind} cannot change places (sparse "
            f"dimensions: {n}): use .to_dense() first"
        )
    shape = tuple([self.shape[d] for d in dims])
    inner = [0, *[d - n + 1 for d in dims[n:]]]
    if inner != list(range(len(inner))):
        values = values.permute(inner)
    same = dims[:n] == list(range(n))
    return made(Pattern(COO, shape, pattern.indices[dims[:n]], same), values)


@rule("index_select")
def _index_select(self: Tensor, index: Tensor, dim: int) -> Tensor:
    return selected(self, dim, index)


def selected(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """``index_select``: what stands at each of some indices of a dimension."""
    kind, block = layout_of(self)
    pattern, values = parts(self)
    dim = wrap_dim(dim, self.ndim)
    n, length = pattern.sparse_dim, self.shape[dim]
    wanted = readable(index, vmap_texts.NO_BATCHES.format("index_select", "the dense tensor"))
    wanted = raw_values(wanted).reshape(-1)
    shape = tuple([wanted.shape[0] if d == dim else m for d, m in enumerate(self.shape)])
    if dim >= n:
        places = Pattern(COO, shape, pattern.indices, True)
        return made(places, index_select(values, dim - n + 1, index))
    xp = kernels_of(pattern.indices)
    if wanted.shape[0] and bool(((wanted < 0) | (wanted >= length)).any()):
        raise IndexError(
            f"index_select(): index out of range for dimension {dim} of length {length}"
        )
    own = pattern.indices[dim]
    order = xp.argsort(own, kind="stable")
    ranked = own[order]
    starts = xp.searchsorted(ranked, wanted)
    lengths = xp.searchsorted(ranked, wanted, side="right") - starts
    total = int(lengths.sum())
    which = sparse.repeated(xp, lengths, total)
    before = xp.cumsum(lengths) - lengths
    source = order[xp.arange(total) - before[which] + starts[which]]
    indices = pattern.indices[:, source]
    indices[dim] = which
    out = made(Pattern(COO, shape, indices), index_select(values, 0, wrap(source)))
    return in_layout(*parts(out), kind, block) if kind is not COO else base.coalesced(out)


@rule("select")
def _select(self: Tensor, dim: int, index: int) -> Tensor:
    dim = wrap_dim(dim, self.ndim)
    pattern, values = parts(self)
    n = pattern.sparse_dim
    shape = tuple([m for d, m in enumerate(self.shape) if d != dim])
    if dim >= n:
        return made(
            Pattern(COO, shape, pattern.indices, True),
            REGISTRY["select"].call(values, dim - n + 1, index),
        )
    index = index % self.shape[dim]
    xp = kernels_of(pattern.indices)
    here = xp.nonzero(pattern.indices[dim] == index)[0]
    values = index_select(values, 0, wrap(here))
    others = [d for d in range(n) if d != dim]
    if not others:
        return values.sum(0)
    return made(Pattern(COO, shape, pattern.indices[others][:, here], True), values)


@rule("slice")
def _slice(self: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    length = self.shape[wrap_dim(dim, self.ndim)]
    wanted = range(length)[slice(start, end, step)]
    xp = kernels_of(self._array.values)
    return selected(self, dim, wrap(xp.asarray(list(wanted), dtype=sparse.INT64)))


@rule("narrow_copy")
def _narrow_copy(self: Tensor, dim: int, start: int, end: int) -> Tensor:
    return _slice(self, dim, start, end, 1)


@rule("unsqueeze")
def _unsqueeze(self: Tensor, dim: int) -> Tensor:
    pattern, values = parts(self)
    n = pattern.sparse_dim
    dim = dim + self.ndim + 1 if dim < 0 else dim
    shape = (*self.shape[:dim], 1, *self.shape[dim:])
    if dim > n:
        return made(Pattern(COO, shape, pattern.indices, True), values.unsqueeze(dim - n + 1))
    xp = kernels_of(pattern.indices)
    zero = xp.zeros((1, pattern.count), sparse.INT64)
    indices = xp.concatenate([pattern.indices[:dim], zero, pattern.indices[dim:]])
    return made(Pattern(COO, shape, indices, True), values)


def _without(self: Tensor, dims: list[int]) -> Tensor:
    """Without some dimensions of length 1."""
    pattern, values = parts(self)
    n = pattern.sparse_dim
    shape = tuple([m for d, m in enumerate(self.shape) if d not in dims])
    inner = [d - n + 1 for d in dims if d >= n]
    if inner:
        values = values.squeeze(inner)
    kept = [d for d in range(n) if d not in dims]
    return (
        made(Pattern(COO, shape, pattern.indices[kept], True), values)
        if kept
        else values.squeeze(0)
    )


@rule("squeeze", "squeeze_all", "squeeze_dim")
def _squeeze(self: Tensor, dims: Any) -> Tensor:
    dims = (dims,) if isinstance(dims, int) else range(self.ndim) if dims is None else dims
    return _without(self, [d for d in (wrap_dim(d, self.ndim) for d in dims) if self.shape[d] == 1])


@rule("unbind")
def _unbind(self: Tensor, dim: int) -> tuple[Tensor, ...]:
    return tuple([_select(self, dim, i) for i in range(self.shape[dim])])


@rule("cat")
def _cat(tensors: Any, dim: int) -> Tensor:
    dense = [i for i, t in enumerate(tensors) if not is_sparse(t)]
    if dense:
        raise RuntimeError(
            f"Concatenating sparse tensors, but a dense tensor was found at position {dense[0]}. Use .to_dense() or "
            ".to_sparse()"
        )
    first = tensors[0]
    dim = wrap_dim(dim, first.ndim)
    given = [parts(t) for t in tensors]
    n = given[0][0].sparse_dim
    for t, (places, _) in zip(tensors, given, strict=True):
        if places.sparse_dim != n or any(
            [a != b for d, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if d != dim]
        ):
            raise RuntimeError(
                f"cat: sizes {errors.size(first.shape)} and {errors.size(t.shape)} (sparse dimensions {n} and "
                f"{places.sparse_dim}) differ in another dimension than {dim}"
            )
    xp = kernels_of(given[0][0].indices)
    total, indices, parts_of = 0, [], []
    length = sum([t.shape[dim] for t in tensors])
    for t, (places, values) in zip(tensors, given, strict=True):
        shifted = places.indices.copy()
        if dim < n:
            shifted[dim] += total
        else:  # beside it, the values of the others are 0 at these places
            after = (0, 0) * (first.ndim - 1 - dim)
            values = pad(values, (*after, total, length - total - t.shape[dim]))
        total += t.shape[dim]
        indices.append(shifted)
        parts_of.append(values)
    shape = tuple([length if d == dim else m for d, m in enumerate(first.shape)])
    values = REGISTRY["cat"].call(parts_of, 0)
    return base.coalesced(made(Pattern(COO, shape, xp.concatenate(indices, axis=1)), values))


@rule("stack")
def _stack(tensors: Any, dim: int) -> Any:
    if not all([is_sparse(t) for t in tensors]):
        return NotImplemented
    return _cat([t.unsqueeze(dim) for t in tensors], dim)
