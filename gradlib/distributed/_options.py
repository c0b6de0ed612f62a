"""What PyTorch's ProcessGroup takes besides tensors: plain records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ._reduce_op import ReduceOp

__all__ = [
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
]

_UNSET = timedelta(milliseconds=-1)


@dataclass
class _Options:
    timeout: timedelta = _UNSET
    asyncOp: bool = True  # noqa: N815  # PyTorch's names, here and below


@dataclass
class AllreduceOptions(_Options):
    """Of ProcessGroup.allreduce.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        reduceOp: how; see `ReduceOp`.
    """

    reduceOp: Any = ReduceOp.SUM  # noqa: N815


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    """Of ProcessGroup.allreduce_coalesced.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        reduceOp: how; see `ReduceOp`.
    """


@dataclass
class BroadcastOptions(_Options):
    """Of ProcessGroup.broadcast.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        rootRank: the rank in the group of the one process that gives or gets.
        rootTensor: 0: there is one tensor.
    """

    rootRank: int = 0  # noqa: N815
    rootTensor: int = 0  # noqa: N815


@dataclass
class ReduceOptions(AllreduceOptions):
    """Of ProcessGroup.reduce.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        reduceOp: how; see `ReduceOp`.
        rootRank: the rank in the group of the one process that gives or gets.
        rootTensor: 0: there is one tensor.
    """

    rootRank: int = 0  # noqa: N815
    rootTensor: int = 0  # noqa: N815


@dataclass
class ReduceScatterOptions(AllreduceOptions):
    """Of ProcessGroup.reduce_scatter.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        reduceOp: how; see `ReduceOp`.
    """


@dataclass
class GatherOptions(_Options):
    """Of ProcessGroup.gather.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        rootRank: the rank in the group of the one process that gives or gets.
    """

    rootRank: int = 0  # noqa: N815


@dataclass
class ScatterOptions(_Options):
    """Of ProcessGroup.scatter.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        rootRank: the rank in the group of the one process that gives or gets.
    """

    rootRank: int = 0  # noqa: N815


@dataclass
class AllToAllOptions(_Options):
    """Of ProcessGroup.alltoall.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
    """


@dataclass
class BarrierOptions(_Options):
    """Of ProcessGroup.barrier.

    Args:
        timeout: ignored: that of the group counts.
        asyncOp: ignored: these methods give a Work always.
        device_ids: the CUDA devices to use.
        device: the device to use.
    """

    device_ids: list[int] = field(default_factory=list)
    device: Any = None
