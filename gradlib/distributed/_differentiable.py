"""Collectives with gradients: what a collective sends forward, its gradient sends back the other way.

All ranks call backward as they called forward. The gradients are these collectives again, so that they can be
differentiated, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.function import Function
from ..operators import public as ops
from ..tape.tensor import Tensor
from ._process_group import ProcessGroup, counts_of
from ._reduce_op import ReduceOp

__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAllSingle",
    "Broadcast",
    "Gather",
    "Reduce",
    "ReduceScatter",
    "Scatter",
]


def _linear(op: ReduceOp, name: str) -> None:
    """NotImplementedError unless the gradient of a reduction is that of a sum."""
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(
            f"the gradient of {name} with ReduceOp.{op.op.name} is not there: SUM and AVG have one. Use detach() if "
            "none is needed."
        )


class _Collective(Function):
    """Of collectives: the group is `ctx.group`."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError("collectives have no forward-mode derivative")


class AllReduce(_Collective):
    """Put the tensors of all ranks together."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, op: ReduceOp, tensor: Tensor) -> Tensor:
        ctx.group, ctx.op = group, op
        out = tensor.contiguous().clone()
        group._all_reduce((out,), op, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _linear(ctx.op, "all_reduce")
        return None, None, AllReduce.apply(ctx.group, ctx.op, grad)


class Broadcast(_Collective):
    """The tensor of rank `root` of the group."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = tensor.contiguous().clone()
        group._broadcast((out,), root, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = Reduce.apply(ctx.group, ctx.root, ReduceOp.SUM, grad)
        return None, None, total if ctx.group.rank() == ctx.root else ops.zeros_like(grad)


class Reduce(_Collective):
    """The tensors of all ranks put together on rank `root`; others get a copy of what they gave."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, op: ReduceOp, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root, ctx.op = group, root, op
        out = tensor.contiguous().clone()
        group._reduce(out, root, op, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _linear(ctx.op, "reduce")
        back = Broadcast.apply(ctx.group, ctx.root, grad)
        return None, None, None, back / ctx.group.size() if ctx.op is ReduceOp.AVG else back


class AllGather(_Collective):
    """The tensors of all ranks, stacked."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, tensor: Tensor) -> Tensor:
        ctx.group = group
        out = ops.empty((group.size(), *tensor.shape), dtype=tensor.dtype, device=tensor.device)
        group._all_gather_into([out], [tensor], False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, ReduceScatter.apply(ctx.group, ReduceOp.SUM, grad)


class ReduceScatter(_Collective):
    """Row number r of the stacked tensors of all ranks, put together, for rank r."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, op: ReduceOp, tensor: Tensor) -> Tensor:
        ctx.group, ctx.op = group, op
        out = ops.empty(tuple(tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
        group._reduce_scatter([out], [[tensor]], op, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _linear(ctx.op, "reduce_scatter")
        back = AllGather.apply(ctx.group, grad)
        return None, None, back / ctx.group.size() if ctx.op is ReduceOp.AVG else back


class Gather(_Collective):
    """The tensors of all ranks, stacked, on rank `root`; zeros on others."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = ops.zeros((group.size(), *tensor.shape), dtype=tensor.dtype, device=tensor.device)
        group._gather(list(out.unbind(0)) if group.rank() == root else None, tensor, root, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, Scatter.apply(ctx.group, ctx.root, grad)


class Scatter(_Collective):
    """Row number r of the tensor of rank `root`, for rank r."""

    @staticmethod
    def forward(ctx: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        out = ops.empty_like(tensor[0])
        rows = list(tensor.unbind(0)) if group.rank() == root else None
        group._scatter(out, rows, root, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, Gather.apply(ctx.group, ctx.root, grad)


class AllToAllSingle(_Collective):
    """Parts of a tensor, along its first dimension, from each rank to each rank."""

    @staticmethod
    def forward(
        ctx: Any,
        group: ProcessGroup,
        out_splits: Sequence[int] | None,
        splits: Sequence[int] | None,
        tensor: Tensor,
    ) -> Tensor:
        ctx.group, ctx.out_splits, ctx.splits = group, out_splits, splits
        first = sum(out_splits) if out_splits else tensor.shape[0]
        out = ops.empty((first, *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
        n = group.size()
        group._all_to_all_single(
            out, tensor, counts_of(out, out_splits, n), counts_of(tensor, splits, n), False
        )
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = AllToAllSingle.apply(ctx.group, ctx.splits, ctx.out_splits, grad)
        return None, None, None, back
