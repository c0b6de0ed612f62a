"""Training in several processes: not built yet. Programs that ask are told so; the rest raises when it is used."""

from __future__ import annotations

import enum
import os
from datetime import timedelta

from ._refused import refuse

__all__ = [
    "GroupMember",
    "ReduceOp",
    "default_pg_timeout",
    "group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]

default_pg_timeout = timedelta(minutes=30)

_ABSENT = """
    AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions
    BroadcastOptions BuiltinCommHookType DebugLevel DeviceMesh DistBackendError DistError
    DistNetworkError DistStoreError FileStore GatherOptions GradBucket GroupName HashStore Logger
    P2POp PrefixStore ProcessGroup ProcessGroupGloo QueueEmptyError RankType ReduceOptions
    ReduceScatterOptions Reducer ScatterOptions Store TCPStore Work all_gather all_gather_coalesced
    all_gather_into_tensor all_gather_object all_gather_single all_reduce all_reduce_coalesced
    all_to_all all_to_all_single barrier batch_isend_irecv breakpoint broadcast
    broadcast_object_list destroy_process_group gather gather_object get_backend get_backend_config
    get_debug_level get_default_backend_for_device get_global_rank get_group_rank
    get_node_local_rank get_pg_count get_process_group_ranks get_rank get_world_size
    init_device_mesh init_process_group irecv isend log monitored_barrier new_group new_subgroups
    new_subgroups_by_enumeration record_comm recv recv_object_list reduce reduce_op reduce_scatter
    reduce_scatter_single reduce_scatter_tensor register_rendezvous_handler rendezvous scatter
    scatter_object_list send send_object_list set_debug_level set_debug_level_from_env shrink_group
    split_group supports_complex Backend
"""
__getattr__ = refuse(
    "distributed",
    _ABSENT,
    "It trains in one process: ask distributed.is_initialized(), which is False, before this.",
)


class ReduceOp(enum.Enum):
    """How processes put their values together.

    The names stand in default arguments of programs; nothing reduces yet.
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class group:
    """The group of all processes.

    ``WORLD`` is None, as in PyTorch before there are any.
    """

    WORLD = None


class GroupMember:
    """The group of all processes, and the mark of a process outside a group.

    ``WORLD`` is None, as in PyTorch before there are any.
    """

    WORLD = None
    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """Whether training in several processes is built in: False.

    Programs ask this, and `is_initialized`, before they use anything else here.

    Example::

        >>> import gradlib as torch
        >>> torch.distributed.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """Whether this process is one of several: False, since they cannot be set up.

    Example::

        >>> import gradlib as torch
        >>> torch.distributed.is_initialized()
        False
    """
    return False


def is_backend_available(backend: str) -> bool:
    """Whether processes could speak through this backend: False for all.

    Args:
        backend: such as ``"gloo"`` or ``"nccl"``.
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher of elastic programs started this process.

    It sets ``TORCHELASTIC_RUN_ID``, which is all that is asked.
    """
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def is_gloo_available() -> bool:
    """Whether processes could speak through Gloo: False.

    See `is_available`: nothing of the kind is built in.
    """
    return False


def is_mpi_available() -> bool:
    """Whether processes could speak through MPI: False.

    See `is_available`: nothing of the kind is built in.
    """
    return False


def is_nccl_available() -> bool:
    """Whether processes could speak through NCCL: False.

    See `is_available`: nothing of the kind is built in.
    """
    return False


def is_ucc_available() -> bool:
    """Whether processes could speak through UCC: False.

    See `is_available`: nothing of the kind is built in.
    """
    return False


def is_xccl_available() -> bool:
    """Whether processes could speak through XCCL: False.

    See `is_available`: nothing of the kind is built in.
    """
    return False
