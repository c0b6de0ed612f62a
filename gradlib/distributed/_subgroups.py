"""Groups of parts of a group, and a barrier that names who is missing."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ._arguments import members
from ._backend_config import Backend
from ._process_group import ProcessGroup
from ._reduce_op import ReduceOp
from ._world import get_rank, make, new_group, the_group, world

__all__ = [
    "DebugLevel",
    "get_debug_level",
    "monitored_barrier",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "set_debug_level",
    "set_debug_level_from_env",
    "split_group",
    "supports_complex",
]


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups without common ranks. All processes of the job call this.

    Args:
        ranks_per_subgroup_list: the global ranks of each group.
        timeout: after which a collective fails; that of the job's group by default.
        backend: as in `init_process_group`; that of the job's group by default.
        pg_options: ignored: the engines have no options.
        group_desc: what to call them in messages.

    Returns:
        The group that this process is in (None if it is in none), and all groups.

    Raises:
        ValueError: there are no ranks, or one is in two groups.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}"
                )
            seen[rank] = ranks
    mine, groups = None, []
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if world.rank in ranks:
            mine = made
    return mine, groups


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbours each: those on one machine, if they were started machine by machine.

    Args:
        group_size: ranks of a group; those of a machine by default, as the launcher set it in LOCAL_WORLD_SIZE.
        group: ignored, as in PyTorch.
        timeout: after which a collective fails; that of the job's group by default.
        backend: as in `init_process_group`; that of the job's group by default.
        pg_options: ignored: the engines have no options.
        group_desc: what to call them in messages.

    Returns:
        The group that this process is in, and all groups.

    Raises:
        ValueError: the ranks cannot be cut into groups of this size.
    """
    n = the_group(None).size()
    if group_size is None:
        if "LOCAL_WORLD_SIZE" not in os.environ:
            raise ValueError(
                "new_subgroups: group_size must be given where no launcher set LOCAL_WORLD_SIZE"
            )
        group_size = int(os.environ["LOCAL_WORLD_SIZE"])
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if n < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({n})"
        )
    if n % group_size:
        raise ValueError(f"The world size ({n}) must be divisible by '{group_size=}'")
    lists = [list(range(start, start + group_size)) for start in range(0, n, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Cut a group into parts. All ranks of that group, and nobody else, call this.

    Args:
        parent_pg: the group; that of all processes by default.
        split_ranks: the ranks, in the group, of each part.
        timeout: after which a collective of the part fails; that of the group by default.
        pg_options: ignored: the engines have no options.
        group_desc: what to call the parts in messages.
        backend: as in `init_process_group`; that of the group by default.

    Returns:
        The part that this process is in; None if it is in none.

    Raises:
        ValueError: there are no parts, or one has ranks that the group has not, or that another has.
    """
    parent = the_group(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    everyone = [rank for part in split_ranks for rank in part]
    if len(set(everyone)) != len(everyone) or not all(0 <= r < parent.size() for r in everyone):
        raise ValueError(
            f"split_group: parts must have different ranks below {parent.size()}, but got "
            f"{list(map(list, split_ranks))}"
        )
    parent.splits += 1
    for i, part in enumerate(split_ranks):
        if parent.rank() in part:
            return make(
                [parent.ranks[r] for r in part],
                Backend(backend) if backend else world.backends[parent.group_name],
                f"{parent.group_name}/{parent.splits}.{i}",
                parent.timeout if timeout is None else timeout,
                group_desc or f"{parent.group_desc}:split:{parent.splits}",
            )
    return None


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that names the ranks that do not come.

    Args:
        group: of which processes; all by default. It must have gloo.
        timeout: how long rank 0 waits for the others; that of the group by default.
        wait_all_ranks: name all that are missing, not the first.

    Raises:
        RuntimeError: on rank 0, with the ranks that did not come; on others, that rank 0 knows more.
        ValueError: the group has another backend.
    """
    pg = members(group, "monitored_barrier")
    if pg is None:
        return
    if pg._makers.get("cpu", ("",))[0] != Backend.GLOO:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    limit = pg.timeout if timeout is None else timeout
    milliseconds = int(limit.total_seconds() * 1000)
    pg.monitored += 1
    store, n, me = pg.get_group_store(), pg.monitored, get_rank()
    if pg.rank():
        store.set(f"monitored/{n}/{pg.rank()}", b"1")
        try:
            store.wait([f"monitored/{n}/all"], limit)
            well = store.get(f"monitored/{n}/all") == b"well"
        except RuntimeError:
            well = False
        if not well:
            raise RuntimeError(
                f"[Rank {me}]: Rank {me} successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0. Please check rank 0 logs for faulty rank."
            )
        return
    missing = []
    for r in range(1, pg.size()):
        try:
            store.wait([f"monitored/{n}/{r}"], timedelta(milliseconds=1) if missing else limit)
        except RuntimeError:
            missing.append(str(pg.ranks[r]))
            if not wait_all_ranks:
                break
    store.set(f"monitored/{n}/all", b"ill" if missing else b"well")
    if missing:
        names = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise RuntimeError(
            f"[Rank {me}]: {names} failed to pass monitoredBarrier in {milliseconds} ms"
        )


def supports_complex(reduceOp: ReduceOp) -> bool:  # PyTorch's name
    """Whether complex tensors can be put together so.

    Args:
        reduceOp: which way.

    Example:
        >>> from gradlib.distributed import ReduceOp
        >>> from gradlib.distributed.distributed_c10d import supports_complex
        >>> supports_complex(ReduceOp.SUM), supports_complex(ReduceOp.MAX)
        (True, False)
    """
    return reduceOp.op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


class DebugLevel(enum.Enum):
    """What ``TORCH_DISTRIBUTED_DEBUG`` asks for. Ranks are compared on all levels.

    Example:
        >>> [level.name for level in gradlib.distributed.DebugLevel]
        ['OFF', 'INFO', 'DETAIL']
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """The level that was set, or that of the environment's ``TORCH_DISTRIBUTED_DEBUG``.

    Example:
        >>> gradlib.distributed.get_debug_level().name
        'OFF'
    """
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set the level.

    Args:
        level: which.
    """
    global _level
    _level = level


def set_debug_level_from_env() -> None:
    """Set the level to that of ``TORCH_DISTRIBUTED_DEBUG``.

    Raises:
        RuntimeError: it is none of OFF, INFO and DETAIL.
    """
    wanted = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") or "OFF"
    if wanted not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, but is {wanted!r}"
        )
    set_debug_level(DebugLevel[wanted])
