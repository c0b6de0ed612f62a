"""Collectives as functions: they give new tensors, and gradients flow through them.

A group is a process group, its name, a list of global ranks, a DeviceMesh of one dimension, or a pair of a mesh and the
dimension. Nothing is left to wait for: `wait_tensor` is there for the sake of programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor
from ._differentiable import AllGather, AllReduce, AllToAllSingle, Broadcast, ReduceScatter
from ._process_group import ProcessGroup
from ._reduce_op import ReduceOp
from ._world import get_group_rank, new_group, the_group, world

__all__ = [
    "all_gather_into_tensor_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

AsyncCollectiveTensor = Tensor  # what PyTorch gives is waited for when it is used; here it is there
_by_ranks: dict[tuple[ProcessGroup, tuple[int, ...]], Any] = {}


def resolve_group(group: Any) -> ProcessGroup:
    """The process group that is meant.

    Raises:
        ValueError: there is no group of that name.
        TypeError: it is nothing that stands for a group.
    """
    if group is None or isinstance(group, ProcessGroup):
        return the_group(group)
    if isinstance(group, str):
        if group not in world.groups:
            raise ValueError(
                f"Could not resolve the process group registered under the name {group}"
            )
        return world.groups[group]
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    if not isinstance(group, list | tuple) and hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, list) and all(isinstance(rank, int) for rank in group):
        default = the_group(None)
        if group == default.ranks:
            return default
        key = (default, tuple(group))
        if key not in _by_ranks:
            _by_ranks[key] = new_group(group, use_local_synchronization=True)
        return the_group(_by_ranks[key])
    raise TypeError(f"Invalid type for group: {type(group).__name__}")


def _op(name: str) -> ReduceOp:
    try:
        return ReduceOp[name.upper()]
    except KeyError:
        raise ValueError(
            f"Invalid reduce operation {name!r}: expected one of {', '.join(op.name.lower() for op in ReduceOp)}"
        ) from None


def wait_tensor(tensor: Tensor) -> Tensor:
    """`tensor`: it is there."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The tensors of all ranks put together.

    Args:
        self: any shape, the same on all ranks.
        reduceOp: "sum", "avg", "product", "min", "max", "band", "bor" or "bxor"; the first two have a gradient.
        group: see the module's text.
        tag: ignored.

    Returns:
        A new tensor of the same shape.
    """
    return AllReduce.apply(resolve_group(group), _op(reduceOp), self)


def all_reduce_coalesced(
    self: Sequence[Tensor],
    reduceOp: str,
    group: Any,
    tag: str = "",
) -> list[Tensor]:
    """`all_reduce` of each tensor of a list."""
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of the global rank `src`, as a new one on all ranks."""
    pg = resolve_group(group)
    return Broadcast.apply(pg, get_group_rank(pg, src), self)


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all ranks, concatenated along a dimension.

    Args:
        self: any shape with a dimension, the same on all ranks.
        gather_dim: the dimension.
        group: see the module's text.
        tag: ignored.

    Returns:
        A new tensor, as many times longer in that dimension as there are ranks.
    """
    rows = AllGather.apply(resolve_group(group), self)
    return ops.cat(list(rows.unbind(0)), gather_dim)


def reduce_scatter_tensor(
    self: Tensor,
    reduceOp: str,
    scatter_dim: int,
    group: Any,
    tag: str = "",
) -> Tensor:
    """The tensors of all ranks put together, and cut along a dimension: a part for each rank.

    Args:
        self: the same shape on all ranks.
        reduceOp: as for `all_reduce`.
        scatter_dim: the dimension; its length must be a multiple of the number of ranks.
        group: see the module's text.
        tag: ignored.

    Returns:
        The part of this rank.

    Raises:
        ValueError: the dimension cannot be cut so.
    """
    pg = resolve_group(group)
    length = self.shape[scatter_dim]
    if length % pg.size():
        raise ValueError(
            f"input dimension {scatter_dim} ({length} must be a multiple of group_size {pg.size()})"
        )
    rows = ops.stack(list(self.chunk(pg.size(), scatter_dim)))
    return ReduceScatter.apply(pg, _op(reduceOp), rows)


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` along the first dimension, of each tensor of a list."""
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor],
    reduceOp: str,
    scatter_dim: Sequence[int],
    group: Any,
    tag: str = "",
) -> list[Tensor]:
    """`reduce_scatter_tensor` of each tensor of a list, along a dimension each."""
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_tensor(tensor, reduceOp, dim, group) for tensor, dim in pairs]


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Parts of a tensor, along its first dimension, from each rank to each rank.

    Args:
        self: part r is for rank r.
        output_split_sizes: lengths of the parts of the result; equal by default.
        input_split_sizes: the same for `self`.
        group: see the module's text.
        tag: ignored.

    Returns:
        What the ranks had for this one, as a new tensor.
    """
    return AllToAllSingle.apply(resolve_group(group), output_split_sizes, input_split_sizes, self)


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of another rank: rank r's goes to rank ``src_dst[r]``.

    Args:
        self: any shape, the same on all ranks.
        src_dst: a permutation of the group's ranks.
        group: see the module's text.
        tag: ignored.

    Returns:
        A new tensor.
    """
    pg = resolve_group(group)
    if sorted(src_dst) != list(range(pg.size())):
        raise ValueError(f"permute_tensor: {src_dst} is no permutation of the {pg.size()} ranks")
    first = self.reshape(1, -1)
    splits, out_splits = [0] * pg.size(), [0] * pg.size()
    splits[src_dst[pg.rank()]] = out_splits[src_dst.index(pg.rank())] = 1
    return AllToAllSingle.apply(pg, out_splits, splits, first).reshape(self.shape)


all_gather_single = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_tensor_autograd = reduce_scatter_tensor
reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
all_to_all_single_autograd = all_to_all_single
