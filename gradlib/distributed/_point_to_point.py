"""send, recv and their like: between two processes. Ranks in arguments are global ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tape.tensor import Tensor
from ._arguments import check_tensor, members, rank_in
from ._work import Work
from ._world import get_global_rank, the_group

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Any:
    """Begin to send a tensor to a process.

    Args:
        tensor: what is sent; it must not change before the Work's `wait` returns.
        dst: the global rank of the receiver.
        group: which group; that of all processes by default.
        tag: a number that the receiver asks for, to tell messages apart.
        group_dst: the receiver's rank in the group, in place of `dst`.

    Returns:
        A Work; None if this process is not in the group.

    Raises:
        ValueError: the receiver is this process, or not in the group.
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "isend")
    if pg is None:
        return None
    to = rank_in(pg, dst, group_dst, "dst")
    if to is None:
        raise ValueError("Must specify global_rank or group_rank")
    if to == pg.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        )
    return pg._send_to(tensor, to, tag)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Any:
    """Begin to receive a tensor from a process.

    Args:
        tensor: written to; of the size and dtype of what is sent.
        src: the global rank of the sender; by default whoever sends first.
        group: which group; that of all processes by default.
        tag: of the message.
        group_src: the sender's rank in the group, in place of `src`.

    Returns:
        A Work; None if this process is not in the group.
    """
    check_tensor(tensor, "tensor")
    pg = members(group, "irecv")
    if pg is None:
        return None
    return pg._recv_from(tensor, rank_in(pg, src, group_src, "src"), tag)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a process; return when it may be changed.

    Args:
        tensor: what is sent.
        dst: the global rank of the receiver.
        group: which group; that of all processes by default.
        tag: a number that the receiver asks for, to tell messages apart.
        group_dst: the receiver's rank in the group, in place of `dst`.

    Raises:
        ValueError: the receiver is this process, or not in the group.
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from a process.

    Args:
        tensor: written to; of the size and dtype of what is sent.
        src: the global rank of the sender; by default whoever sends first.
        group: which group; that of all processes by default.
        tag: of the message.
        group_src: the sender's rank in the group, in place of `src`.

    Returns:
        The global rank of the sender; -1 if this process is not in the group.
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return get_global_rank(group, work.source_rank())


class P2POp:
    """A send or receive, for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent, or written to.
        peer: the global rank of the other side.
        group: which group; that of all processes by default.
        tag: of the message.
        group_peer: the peer's rank in the group, in place of `peer`.

    Raises:
        ValueError: `op` is something else.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = the_group(group)
        found = rank_in(self.group, peer, group_peer, "peer")
        if found is None:
            raise ValueError("Must specify global_rank or group_rank")
        self.group_peer, self.peer = found, self.group.ranks[found]

    def __repr__(self) -> str:
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, "
            f"group_src={self.group.rank() if self.op is isend else self.group_peer}, "
            f"group_dst={self.group_peer if self.op is isend else self.group.rank()},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several sends and receives.

    Args:
        p2p_op_list: of `P2POp`, all of one group.

    Returns:
        Their Works.

    Raises:
        ValueError: something else is in the list, or other groups.

    Example::

        right, left = (rank + 1) % size, (rank - 1) % size
        ops = [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    return [
        op.op(op.tensor, group=op.group, tag=op.tag, **{"group_dst" if op.op is isend else "group_src": op.group_peer})
        for op in p2p_op_list
    ]  # fmt: skip
