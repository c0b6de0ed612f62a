"""From one placement to another, by the least communication: what is local is passed on, the rest is exchanged.

Along one dimension of the mesh it is

    Shard -> Replicate   all-gather            Partial -> Replicate   all-reduce
    Shard -> Shard       all-to-all            Partial -> Shard       reduce-scatter
    Replicate -> Shard   a slice               Replicate -> Partial   rank 0 keeps it, the others have zeros

A tensor dimension that several mesh dimensions cut is put together from the last cut to the first, and cut again in the
order of the mesh. The gradient goes the way back: `Layout.gradient` says where from and where to.
"""

from __future__ import annotations

import math
from typing import Any

from ...autograd.function import Function
from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from ._layout import Layout, Placements, local_shape_and_offset, part, sharding_order
from .placement_types import Partial, Placement, Replicate, Shard, _NormPartial, _StridedShard

_REDUCTIONS = {
    "sum": c10d.ReduceOp.SUM, "avg": c10d.ReduceOp.SUM, "max": c10d.ReduceOp.MAX, "min": c10d.ReduceOp.MIN,
    "product": c10d.ReduceOp.PRODUCT,
}  # fmt: skip


def redistribute(local: Tensor, source: Layout, target: Placements) -> Tensor:
    """The part of this process where the tensor is placed as `target` says.

    Args:
        local: the part where it is placed as `source` says; gradients flow through.
        source: what `local` is a part of.
        target: the placements wanted.

    Returns:
        A tensor; `local` itself if the placements are the same.
    """
    if source.placements == target:
        return local
    if any(isinstance(p, _NormPartial) for p in source.placements) and local.requires_grad:
        raise NotImplementedError(
            "the norm of a sharded DTensor has no gradient: take that of full_tensor(), or write "
            "x.square().sum().sqrt()"
        )
    return Redistribute.apply(local, source, target)


class Redistribute(Function):
    """`redistribute` with its gradient."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, source: Layout, target: Placements) -> Tensor:
        ctx.source, ctx.target = source, target
        return moved(local, source, target)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        source: Layout = ctx.source
        result = source.placed(ctx.target)
        scale = 1.0
        for i in range(source.mesh.ndim):  # of a mean over n ranks each has a share of 1/n
            n = source.mesh.size(i)
            before = source.placements[i].is_partial("avg")
            scale *= n ** (int(ctx.target[i].is_partial("avg")) - int(before))
        grad = grads[0] if scale == 1.0 else grads[0] * scale
        return redistribute(grad, source.placed(result.gradient), source.gradient), None, None


class Used(Function):
    """A replicated tensor enters a computation of which each rank does a part: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, mesh: Any, dims: tuple[int, ...]) -> Tensor:
        ctx.mesh, ctx.dims = mesh, dims
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return Summed.apply(grads[0], ctx.mesh, ctx.dims), None, None


class Summed(Function):
    """The sum over the ranks of some mesh dimensions; the backward of `Used`, and the other way round."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, mesh: Any, dims: tuple[int, ...]) -> Tensor:
        ctx.mesh, ctx.dims = mesh, dims
        total = local.contiguous().clone()
        for i in dims:
            if mesh.size(i) > 1:
                c10d.all_reduce(total, group=mesh.get_group(i))
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return Used.apply(grads[0], ctx.mesh, ctx.dims), None, None


class GradientPlaced(Function):
    """A part whose gradient comes back placed in a way of its own."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, layout: Layout, back: Placements) -> Tensor:
        ctx.layout, ctx.back = layout, back
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        layout: Layout = ctx.layout
        return redistribute(grads[0], layout.placed(ctx.back), layout.gradient), None, None


@no_grad()
def moved(local: Tensor, source: Layout, target: Placements) -> Tensor:
    """`redistribute` of values alone."""
    if source.mesh.get_coordinate() is None:
        return local
    mesh, now = source.mesh, list(source.placements)
    must = _gathered_first(source.placements, target)
    for i in reversed(sharding_order(source.placements)):
        placement = now[i]
        if i in must and isinstance(placement, Shard):
            length = _length(source, now, i)
            local = gather(local, mesh, i, placement.dim, length)
            now[i] = Replicate()
    for i in sharding_order(target):
        if now[i] != target[i]:
            local = _step(local, source, now, i, target[i])
            now[i] = target[i]
    return local


def _gathered_first(source: Placements, target: Placements) -> set[int]:
    """Mesh dimensions whose cut is undone before anything is cut anew.

    Of a tensor dimension that several mesh dimensions cut only the last cut can be undone; what both placements begin
    with stays. One that moves alone from one tensor dimension to another does so at once.
    """
    cuts = {}
    for dim in {p.dim for p in (*source, *target) if isinstance(p, Shard)}:
        old, new = _cutting(source, dim), _cutting(target, dim)
        same = 0
        while (
            same < min(len(old), len(new))
            and source[old[same]] == target[new[same]]
            and (old[same] == new[same])
        ):
            same += 1
        cuts[dim] = old[same:], new[same:]
    gone: set[int] = set()
    for removed, added in cuts.values():
        for i in removed:
            goal = target[i]
            free = isinstance(goal, Shard) and cuts[goal.dim] == ([], [i]) and not added
            if not (free and removed == [i]) or isinstance(source[i], _StridedShard):
                gone.add(i)
    return gone


def _cutting(placements: Placements, dim: int) -> list[int]:
    """The mesh dimensions that cut a dimension of the tensor, in their order."""
    return [i for i in sharding_order(placements) if placements[i].is_shard(dim)]


def _length(source: Layout, now: list[Placement], i: int) -> int:
    """The length of the dimension that mesh dimension `i` cuts, before it does."""
    placement = now[i]
    assert isinstance(placement, Shard)
    without = tuple([Replicate() if j == i else p for j, p in enumerate(now)])
    return local_shape_and_offset(source.shape, source.mesh, without)[0][placement.dim]


def _step(local: Tensor, source: Layout, now: list[Placement], i: int, new: Placement) -> Tensor:
    """Change what the ranks along one mesh dimension hold; nothing is cut inside of it."""
    mesh, old = source.mesh, now[i]
    if isinstance(old, Partial):
        if isinstance(new, Shard) and old.reduce_op in ("sum", "avg"):
            return _reduced_part(local, mesh, i, old, new.dim)
        whole = reduced(local, mesh, i, old)
        return _from_whole(whole, mesh, i, new)
    if isinstance(old, Shard):
        length = _length(source, now, i)
        if isinstance(new, Shard):
            return _exchanged(local, mesh, i, old.dim, new.dim, length)
        return _from_whole(gather(local, mesh, i, old.dim, length), mesh, i, new)
    return _from_whole(local, mesh, i, new)


def _from_whole(whole: Tensor, mesh: Any, i: int, new: Placement) -> Tensor:
    if isinstance(new, Shard):
        begin, end = part(whole.shape[new.dim], mesh.size(i), mesh.get_local_rank(i))
        return whole.narrow(new.dim, begin, end - begin).contiguous().clone()
    if isinstance(new, Partial) and new.reduce_op in ("sum", "norm") and mesh.get_local_rank(i):
        return ops.zeros_like(whole)
    if isinstance(new, Partial) and new.reduce_op == "product" and mesh.get_local_rank(i):
        return ops.ones_like(whole)
    return whole.clone()


def gather(local: Tensor, mesh: Any, i: int, dim: int, length: int) -> Tensor:
    """The whole of a dimension of the given length, of which each rank along mesh dimension `i` has a part."""
    n = mesh.size(i)
    if n == 1:
        return local
    step = -(-length // n)
    mine = padded(local, dim, step).movedim(dim, 0).contiguous()
    out = ops.empty((n * step, *mine.shape[1:]), dtype=local.dtype, device=local.device)
    c10d.all_gather_into_tensor(out, mine, group=mesh.get_group(i))
    return out.narrow(0, 0, length).movedim(0, dim).contiguous()


def padded(local: Tensor, dim: int, length: int) -> Tensor:
    """The tensor with zeros behind it along a dimension, up to this length."""
    missing = length - local.shape[dim]
    if not missing:
        return local
    shape = [*local.shape]
    shape[dim] = missing
    return ops.cat([local, ops.zeros(shape, dtype=local.dtype, device=local.device)], dim)


def reduced(local: Tensor, mesh: Any, i: int, placement: Partial) -> Tensor:
    """The reduction of the terms that the ranks along mesh dimension `i` hold."""
    n = mesh.size(i)
    if n == 1:
        return local
    total = local.contiguous().clone()
    group = mesh.get_group(i)
    if isinstance(placement, _NormPartial):
        return _norm_of_norms(total, placement.norm_type, group)
    c10d.all_reduce(total, _REDUCTIONS[placement.reduce_op], group=group)
    return total / n if placement.reduce_op == "avg" else total


def _norm_of_norms(norms: Tensor, p: float, group: Any) -> Tensor:
    if p in (float("inf"), float("-inf")):
        largest = c10d.ReduceOp.MAX if p > 0 else c10d.ReduceOp.MIN
        c10d.all_reduce(norms, largest, group=group)
        return norms
    powers = norms if p in (0, 1) else norms**p
    c10d.all_reduce(powers, group=group)
    return powers if p in (0, 1) else powers ** (1 / p)


def _reduced_part(local: Tensor, mesh: Any, i: int, placement: Partial, dim: int) -> Tensor:
    n = mesh.size(i)
    if n == 1:
        return local.clone()
    length = local.shape[dim]
    step = -(-length // n)
    whole = padded(local, dim, n * step).movedim(dim, 0).contiguous()
    out = ops.empty((step, *whole.shape[1:]), dtype=local.dtype, device=local.device)
    c10d.reduce_scatter_tensor(out, whole, group=mesh.get_group(i))
    begin, end = part(length, n, mesh.get_local_rank(i))
    mine = out.narrow(0, 0, end - begin).movedim(0, dim).contiguous()
    return mine / n if placement.reduce_op == "avg" else mine


def _exchanged(local: Tensor, mesh: Any, i: int, old: int, new: int, length: int) -> Tensor:
    """From parts of dimension `old`, which is `length` long, to parts of dimension `new`."""
    n, here = mesh.size(i), mesh.get_local_rank(i)
    if n == 1 or old == new:
        return local
    width = local.shape[new]
    pieces = [local.narrow(new, b, e - b) for b, e in (part(width, n, k) for k in range(n))]
    begin, end = part(width, n, here)
    shapes = []
    for k in range(n):
        shape = [*local.shape]
        b, e = part(length, n, k)
        shape[old], shape[new] = e - b, end - begin
        shapes.append(shape)
    counts = [math.prod(shape) for shape in shapes]
    sent = ops.cat([p.reshape(-1) for p in pieces])
    out = ops.empty(sum(counts), dtype=local.dtype, device=local.device)
    c10d.all_to_all_single(out, sent, counts, [p.numel() for p in pieces], group=mesh.get_group(i))
    parts = [p.reshape(shape) for p, shape in zip(out.split(counts), shapes)]
    return ops.cat(parts, old)
