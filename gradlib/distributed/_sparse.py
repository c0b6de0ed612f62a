"""Sums of sparse COO tensors over the processes of a group: each gives places and values, of which all make the sum."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape.arrays import kernels_of
from ..tape.dtypes import HALVES
from ..tape.sparse import COO, INT64, Pattern, Sparse, is_sparse
from ..tape.storage import bump
from ..tape.tensor import Tensor
from ._reduce_op import PremulSum, ReduceOp
from ._work import Work

__all__ = ["all_reduce", "summed"]

NOTHING, DENSE = -1, -2  # in the place of a number of values


def all_reduce(tensor: Tensor, op: ReduceOp | PremulSum, pg: Any, async_op: bool) -> Work | None:
    """`collectives.all_reduce` of a sparse tensor, which is done when this returns.

    Raises:
        ValueError: `op` does not add.
        NotImplementedError: the tensor has a compressed layout.
    """
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(
            f"all_reduce of sparse tensors adds them, with ReduceOp.SUM or AVG, but got {op}: use .to_dense()"
        )
    if tensor.layout is not COO:
        raise NotImplementedError(
            f"all_reduce takes sparse tensors of layout {COO}, not {tensor.layout}: use .to_sparse() or .to_dense()"
        )
    total = summed(tensor, tensor, "all_reduce", pg)
    assert total is not None
    with no_grad():
        tensor._array.assign((total / pg.size() if op is ReduceOp.AVG else total)._array)
    bump(tensor)
    if not async_op:
        return None
    work = Work([tensor])
    work.finish()
    return work


def summed(tensor: Tensor | None, like: Tensor, name: str, pg: Any) -> Tensor | None:
    """The sum of the sparse tensors of all processes, coalesced; None if none has one.

    All have the same bits: the tensors are added one after the other, in the order of ranks, values of half types in
    float32.

    Args:
        tensor: of this process; None counts as zero.
        like: a tensor, sparse or not, of the same shape, dtype and device.
        name: of what is added, for errors.
        pg: the ProcessGroup.

    Raises:
        RuntimeError: a process has a dense tensor, or another number of sparse dimensions; raised on all.
    """
    with no_grad():
        own, count = None, NOTHING
        if tensor is not None:
            own = tensor.coalesce()._array if tensor.layout is COO else None
            count = DENSE if own is None else own.pattern.count
        sparse_dim = 0 if own is None else own.pattern.sparse_dim
        facts = [tuple(row) for row in _gathered(ops.tensor([count, sparse_dim]), pg).tolist()]
        if all(n == NOTHING for n, _ in facts):
            return None
        kinds = {dims for n, dims in facts if n >= 0}
        if len(kinds) != 1 or any(n == DENSE for n, _ in facts):
            have = "; ".join(f"rank {r}: {_told(*fact)}" for r, fact in enumerate(facts))
            raise RuntimeError(
                f"{name}: all processes must have sparse COO tensors with as many sparse dimensions, but got {have}. "
                "Use dense ones everywhere: sparse=False for an embedding."
            )
        (dims,), most = kinds, max(n for n, _ in facts)
        tail = tuple(like.shape[dims:])
        xp = kernels_of(like._array.values if is_sparse(like) else like._array)
        places = xp.zeros((most, dims), INT64)
        values = xp.zeros((most, *tail), like.dtype.np)
        if own is not None:
            places[:count] = own.pattern.indices.T
            values[:count] = own.values
        all_places = _gathered(Tensor._make(places), pg)._array
        all_values = _gathered(Tensor._make(values), pg)._array
        total, shape = None, tuple(like.shape)
        for r, (n, _) in enumerate(facts):
            if n < 0:
                continue
            pattern = Pattern(COO, shape, xp.ascontiguousarray(all_places[r, :n].T), True)
            part = Tensor._make(Sparse(pattern, all_values[r, :n].copy()))
            part = part.float() if like._array.dtype in HALVES else part
            total = part if total is None else total + part
        assert total is not None
        return total.to(like.dtype)


def _told(count: int, sparse_dim: int) -> str:
    if count == NOTHING:
        return "none"
    return "a dense one" if count == DENSE else f"{sparse_dim} sparse dimensions"


def _gathered(tensor: Tensor, pg: Any) -> Tensor:
    """The tensors of all processes, of one size, stacked."""
    parts = [ops.zeros_like(tensor) for _ in range(pg.size())]
    pg._all_gather([parts], [tensor], False)
    return ops.stack(parts)
