"""Collectives that gradients flow through. They give new tensors, and all ranks call backward as they called forward.

Each gradient is a collective, too: the one that goes the other way. So a loss that all ranks add up has the gradient
of the whole job on each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._refused import refuse
from ...operators import public as ops
from ...tape.tensor import Tensor
from .._arguments import check_list, check_tensor
from .._differentiable import (
    AllGather,
    AllReduce,
    AllToAllSingle,
    Broadcast,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
)
from .._reduce_op import ReduceOp
from .._world import get_group_rank, the_group

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

__getattr__ = refuse(__name__, whole=True)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes put together, as a new tensor. Its gradient is the sum of all processes' gradients.

    Args:
        tensor: any shape, the same on all processes.
        op: how; SUM and AVG have a gradient.
        group: of which processes; all by default.

    Returns:
        A tensor of the same shape.

    Example::

        loss = torch.distributed.nn.functional.all_reduce(loss)  # of all processes
        loss.backward()
    """
    check_tensor(tensor, "tensor")
    return AllReduce.apply(the_group(group), op, tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of one process, on all. The sender's gradient is the sum of all gradients, that of others zero.

    Args:
        tensor: what is sent on process `src`; a tensor of the same shape on others.
        src: the global rank of the sender.
        group: of which processes; all by default.

    Returns:
        A new tensor of the same shape.
    """
    check_tensor(tensor, "tensor")
    pg = the_group(group)
    return Broadcast.apply(pg, get_group_rank(pg, src), tensor)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The tensors of all processes put together on one. Its gradient goes to all.

    Args:
        tensor: any shape, the same on all processes.
        dst: the global rank of the process that gets the result.
        op: how; SUM and AVG have a gradient.
        group: of which processes; all by default.

    Returns:
        The result on `dst`; on others a copy of `tensor`, which is not to be used.
    """
    check_tensor(tensor, "tensor")
    pg = the_group(group)
    return Reduce.apply(pg, get_group_rank(pg, dst), op, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, on each. A tensor's gradient is the sum of what all processes have for it.

    Args:
        tensor: any shape, the same on all processes.
        group: of which processes; all by default.

    Returns:
        A tensor for each process, ordered by rank.
    """
    check_tensor(tensor, "tensor")
    return AllGather.apply(the_group(group), tensor).unbind(0)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, on one.

    Args:
        tensor: any shape, the same on all processes.
        dst: the global rank of the process that gets them.
        group: of which processes; all by default.

    Returns:
        A tensor for each process; zeros on all but `dst`.
    """
    check_tensor(tensor, "tensor")
    pg = the_group(group)
    return Gather.apply(pg, get_group_rank(pg, dst), tensor).unbind(0)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """One tensor of a list of one process, for each.

    Args:
        tensors: a tensor for each process, of one shape; those of process `src` are sent.
        src: the global rank of that process.
        group: of which processes; all by default.

    Returns:
        The tensor for this process.
    """
    given = list(tensors)
    check_list(given, "tensors")
    pg = the_group(group)
    return Scatter.apply(pg, get_group_rank(pg, src), ops.stack(given))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The lists of tensors of all processes put together, one tensor of the result for each.

    Args:
        output: as PyTorch takes it: the result is written into it, too.
        input_list: a tensor for each process, of one shape.
        op: how; SUM and AVG have a gradient.
        group: of which processes; all by default.

    Returns:
        The tensor for this process, with its history.
    """
    given = list(input_list)
    check_list(given, "input_list")
    out = ReduceScatter.apply(the_group(group), op, ops.stack(given))
    output.detach().copy_(out.detach())
    return out


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """A tensor from each process to each process.

    Args:
        output_tensor_list: tensors of the shapes that are expected; the results are written into them, too.
        input_tensor_list: number r is for process r.
        group: of which processes; all by default.

    Returns:
        What the processes had for this one, with their histories.
    """
    outs, given = list(output_tensor_list), list(input_tensor_list)
    check_list(outs, "output_tensor_list")
    check_list(given, "input_tensor_list")
    sizes, out_sizes = [t.numel() for t in given], [t.numel() for t in outs]
    flat = ops.cat([t.reshape(-1) for t in given])
    parts = AllToAllSingle.apply(the_group(group), out_sizes, sizes, flat).split(out_sizes)
    results = tuple(part.reshape(out.shape) for part, out in zip(parts, outs, strict=True))
    for out, result in zip(outs, results, strict=True):
        out.detach().copy_(result.detach())
    return results


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Parts of a tensor, along its first dimension, from each process to each process.

    Args:
        output: a tensor of the shape that is expected; the result is written into it, too.
        input: part r is for process r.
        output_split_sizes: lengths of the parts of the result; equal by default.
        input_split_sizes: the same for `input`.
        group: of which processes; all by default.

    Returns:
        What the processes had for this one, with its history.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    out = AllToAllSingle.apply(the_group(group), output_split_sizes, input_split_sizes, input)
    output.detach().copy_(out.detach())
    return out


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None) -> Tensor:
    """`all_gather` into one tensor: that of all processes, concatenated along the first dimension."""
    out = AllGather.apply(the_group(group), input_tensor).reshape(output_tensor.shape)
    output_tensor.detach().copy_(out.detach())
    return out
