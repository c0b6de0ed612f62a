"""Collectives on tensors: what all processes of a group call together. Ranks in arguments are global ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..tape.sparse import is_sparse
from ..tape.tensor import Tensor
from . import _sparse
from ._arguments import (
    check_count,
    check_list,
    check_same_dtype,
    check_sizes,
    check_tensor,
    members,
    rank_in,
)
from ._coalescing import collected
from ._process_group import ProcessGroup, counts_of
from ._reduce_op import PremulSum, ReduceOp

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def all_reduce(
    tensor: Tensor,
    op: ReduceOp | PremulSum = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Put the tensors of all processes together, in place: all have the same values then, bit by bit.

    Args:
        tensor: any shape and dtype, the same on all processes; strided views are fine. Complex tensors can be added
            and averaged. float16 and bfloat16 are added in float32. Sparse COO tensors may have other places on each
            process; they can be added and averaged, become coalesced, and are done when the call returns.
        op: how; see `ReduceOp`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.

    Raises:
        DistBackendError: the processes called different things, or one of them was lost.
        ValueError: `op` has no meaning for the dtype.

    Example::

        x = torch.tensor([1.0, 2.0]) * torch.distributed.get_rank()
        torch.distributed.all_reduce(x)  # with 3 processes: [3., 6.]
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "all_reduce")
    if pg is not None and is_sparse(tensor):
        return _sparse.all_reduce(tensor, op, pg, async_op)
    if pg is None or collected(pg, "all_reduce", (tensor, op)):
        return None
    return pg._all_reduce((tensor,), op, async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: ReduceOp | PremulSum = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`all_reduce` of several tensors as one collective.

    Args:
        tensors: a list of tensors of one dtype, of the same shapes on all processes.
        op: how; see `ReduceOp`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    check_list(given, "tensor")
    check_same_dtype(*given)
    pg = members(group, "all_reduce_coalesced")
    if pg is None:
        return None
    return pg._all_reduce(given, op, async_op, "all_reduce_coalesced")


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Copy the tensor of one process into those of the others.

    Args:
        tensor: what is sent on process `src`, and written to on others; as many elements on all.
        src: the global rank of the sender.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.
        group_src: the sender's rank in the group, in place of `src`.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "broadcast")
    if pg is None:
        return None
    root = rank_in(pg, src, group_src, "src")
    if root is None:
        raise ValueError("Must specify global_rank or group_rank")
    return pg._broadcast((tensor,), root, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp | PremulSum = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """`all_reduce` whose result one process gets; the tensors of the others stay as they are.

    Args:
        tensor: as for `all_reduce`.
        dst: the global rank of that process.
        op: how; see `ReduceOp`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.
        group_dst: its rank in the group, in place of `dst`.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "reduce")
    if pg is None:
        return None
    root = rank_in(pg, dst, group_dst, "dst")
    if root is None:
        raise ValueError("Must specify global_rank or group_rank")
    return pg._reduce(tensor, root, op, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all processes, in a list on each.

    Args:
        tensor_list: a tensor for each process, written to; of the shape and dtype of `tensor`.
        tensor: what this process gives; as many elements on all.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_list(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    check_same_dtype(*tensor_list, tensor)
    pg = members(group, "all_gather")
    if pg is None:
        return None
    check_count("all_gather", tensor_list, pg)
    check_sizes("all_gather", tensor_list, tensor)
    return pg._all_gather([tensor_list], [tensor], async_op)


def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """`all_gather` of several tensors as one collective.

    Args:
        output_tensor_lists: for each process the list of tensors that it gives.
        input_tensor_list: what this process gives.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_list(input_tensor_list, "tensor_list")
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for out in output_tensor_lists:
        check_list(out, "output_tensor_lists")
    pg = members(group, "all_gather_coalesced")
    if pg is None:
        return None
    by_tensor = [list(row) for row in zip(*output_tensor_lists, strict=True)]
    for row, tensor in zip(by_tensor, input_tensor_list, strict=True):
        check_count("all_gather_coalesced", row, pg)
        check_sizes("all_gather_coalesced", row, tensor)
    return pg._all_gather(by_tensor, input_tensor_list, async_op, "all_gather_coalesced")


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all processes, behind each other in one tensor.

    Args:
        output_tensor: written to; as many elements as all inputs together, concatenated or stacked.
        input_tensor: what this process gives; as many elements on all.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    pg = members(group, "all_gather_into_tensor")
    if pg is None:
        return None
    if output_tensor.dtype != input_tensor.dtype:
        raise RuntimeError("output tensor must have the same type as input tensor")
    if output_tensor._array.size != pg.size() * input_tensor._array.size:
        raise RuntimeError("output tensor size must be equal to world_size times input tensor size")
    if collected(pg, "all_gather_into_tensor", (output_tensor, input_tensor)):
        return None
    return pg._all_gather_into([output_tensor], [input_tensor], async_op)


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """The newer name of `all_gather_into_tensor`.

    Args:
        output_tensor: written to; as many elements as all inputs together.
        input_tensor: what this process gives.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.
    """
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def _check_list_at_root(
    op: str,
    tensor: Tensor,
    tensors: list[Tensor] | None,
    at_root: bool,
    root: str,
    pg: ProcessGroup,
) -> None:
    """The list of gather and scatter: one tensor for each process on one of them, and none on the others."""
    name = f"{op}_list"
    if tensors:
        check_list(tensors, name)
        check_same_dtype(tensor, *tensors)
    if not at_root:
        if tensors:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{root} ranks.")
        return
    if not tensors:
        raise ValueError(f"Argument ``{name}`` must be specified on {root} rank.")
    check_count(op, tensors, pg)
    check_sizes(op, tensors, tensor)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """The tensors of all processes, in a list on one.

    Args:
        tensor: what this process gives; as many elements on all.
        gather_list: on process `dst` a tensor for each process, written to; None on others.
        dst: the global rank of that process; 0 by default.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.
        group_dst: its rank in the group, in place of `dst`.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "gather")
    if pg is None:
        return None
    root = rank_in(pg, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    assert root is not None
    _check_list_at_root("gather", tensor, gather_list, pg.rank() == root, "destination", pg)
    return pg._gather(gather_list, tensor, root, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """One tensor of a list to each process.

    Args:
        tensor: written to; as many elements on all.
        scatter_list: on process `src` a tensor for each process; None on others.
        src: the global rank of that process; 0 by default.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.
        group_src: its rank in the group, in place of `src`.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "scatter")
    if pg is None:
        return None
    root = rank_in(pg, 0 if src is None and group_src is None else src, group_src, "src")
    assert root is not None
    _check_list_at_root("scatter", tensor, scatter_list, pg.rank() == root, "source", pg)
    return pg._scatter(tensor, scatter_list, root, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp | PremulSum = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Put lists of tensors of all processes together, and leave tensor number r of the result with process r.

    Args:
        output: written to.
        input_list: a tensor for each process, of the shape of `output`.
        op: how; see `ReduceOp`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(output, "output")
    check_list(input_list, "input_list")
    check_same_dtype(output, *input_list)
    pg = members(group, "reduce_scatter")
    if pg is None:
        return None
    check_count("reduce_scatter", input_list, pg)
    check_sizes("reduce_scatter", input_list, output)
    return pg._reduce_scatter([output], [input_list], op, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp | PremulSum = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Put tensors of all processes together, and leave part number r of the result with process r.

    Args:
        output: written to.
        input: as many elements as the outputs of all processes, concatenated or stacked.
        op: how; see `ReduceOp`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    pg = members(group, "reduce_scatter_tensor")
    if pg is None:
        return None
    if output.dtype != input.dtype:
        raise RuntimeError("input tensor must be the same type as the output tensor.")
    if input._array.size != pg.size() * output._array.size:
        raise RuntimeError("input tensor must be the same size as output size times world size")
    if collected(pg, "reduce_scatter_tensor", (output, input, op)):
        return None
    return pg._reduce_scatter([output], [[input]], op, async_op, "reduce_scatter_tensor")


def reduce_scatter_single(
    output: Tensor,
    input: Tensor,
    op: ReduceOp | PremulSum = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """The newer name of `reduce_scatter_tensor`.

    Args:
        output: written to.
        input: as many elements as the outputs of all processes.
        op: how; see `ReduceOp`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.
    """
    return reduce_scatter_tensor(output, input, op, group, async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """A tensor from each process to each process.

    Args:
        output_tensor_list: number r is written what process r has for this one.
        input_tensor_list: number r is for process r. Shapes may differ.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    check_same_dtype(*output_tensor_list, *input_tensor_list)
    pg = members(group, "all_to_all")
    if pg is None:
        return None
    check_count("all_to_all", output_tensor_list, pg)
    check_count("all_to_all", input_tensor_list, pg)
    return pg._all_to_all(output_tensor_list, input_tensor_list, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Parts of a tensor from each process to each process.

    Args:
        output: written to: part r is what process r has for this one.
        input: part r is for process r.
        output_split_sizes: lengths of the parts along the first dimension; equal by default.
        input_split_sizes: the same for `input`.
        group: of which processes; all by default.
        async_op: give a Work at once, and do it meanwhile.

    Returns:
        A Work if `async_op`, or else None.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_same_dtype(output, input)
    pg = members(group, "all_to_all_single")
    if pg is None:
        return None
    out_counts = counts_of(output, output_split_sizes, pg.size())
    counts = counts_of(input, input_split_sizes, pg.size())
    return pg._all_to_all_single(output, input, out_counts, counts, async_op)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Any:
    """Return when all processes have come.

    Args:
        group: of which processes; all by default.
        async_op: give a Work at once, whose `wait` returns then.
        device_ids: a list with the CUDA device to use; ignored on the CPU.
        timeout: after which it fails; that of the group by default, and always with NCCL.

    Returns:
        A Work if `async_op`, or else None.
    """
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    pg = members(group, "barrier")
    return None if pg is None else pg.barrier(timeout=timeout, async_op=async_op)
