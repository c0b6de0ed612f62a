"""The groups of this process: made, found, asked and destroyed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from ._backend_config import Backend, BackendConfig, maker
from ._errors import left_with
from ._monitor import Failure, Monitor
from ._process_group import ProcessGroup
from ._store import PrefixStore
from .constants import default_pg_nccl_timeout, default_pg_timeout
from .rendezvous import rendezvous

__all__ = [
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "new_group",
]


_REASON_SECONDS = (
    20.0  # that the reason of a broken connection may take to be told, on a machine that is busy
)


class _World:
    """All that this process knows of groups."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: dict[str, ProcessGroup] = {}
        self.backends: dict[str, str] = {}  # by name of the group, as it was asked for
        self.store: Any = None
        self.rank, self.size = -1, -1
        self.inits = 0  # how often this process joined: a store may serve several times
        self.count = 0  # of groups made so far, by all ranks alike: it names them
        self.local_counts: dict[
            str, int
        ] = {}  # of groups that only their members knew of, by ranks
        self.lock = threading.Lock()
        self.monitor: Monitor | None = None

    def note_failure(self, failure: Failure) -> None:
        """A rank is lost: the groups that it is in fail."""
        why = _told(failure)
        for one in list(self.groups.values()):
            if failure.rank in one.ranks:
                one.lose(why)

    def leave(self) -> None:
        """The process ends without `destroy_process_group`: those that wait for something of it are to know."""
        for one in list(self.groups.values()):
            one._leave()

    def explain(self, error: BaseException) -> str | None:
        """What happened to the rank that broke a connection, if that is known within seconds.

        It is as soon as rank 0, which passes it on, gets to run.
        """
        failure = self.monitor.wait(_REASON_SECONDS) if self.monitor is not None else None
        return None if failure is None else _told(failure)


def _told(failure: Failure) -> str:
    """What happened to a rank."""
    if failure.kind == "raised":
        return f"rank {failure.rank} raised:\n{failure.text.rstrip()}"
    return failure.text


world = _World()
_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class _WorldGroup(type):
    """Gives the group of all processes the name WORLD."""

    @property
    def WORLD(cls) -> ProcessGroup | None:  # PyTorch's name
        return world.default

    @WORLD.setter
    def WORLD(cls, value: ProcessGroup | None) -> None:
        world.default = value


class group(metaclass=_WorldGroup):  # PyTorch's name
    """``group.WORLD`` is the group of all processes; None before `init_process_group`.

    Example:
        >>> gradlib.distributed.group.WORLD is None
        True
    """


class GroupMember(metaclass=_WorldGroup):
    """``GroupMember.WORLD`` is the group of all processes; NON_GROUP_MEMBER stands for a group without this process.

    Example:
        >>> gradlib.distributed.GroupMember.NON_GROUP_MEMBER
        -100
    """

    NON_GROUP_MEMBER = -100


# -- making groups -----------------------------------------------------------------------------------------------


def _seconds(timeout: Any) -> timedelta:
    if timeout is None:
        return default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    return timeout


def make(
    ranks: Sequence[int],
    backend: str,
    name: str,
    timeout: Any,
    description: str,
) -> ProcessGroup:
    """A group that this process is in."""
    given, limit = timeout, _seconds(timeout)
    store = PrefixStore(f"group/{name}", world.store)
    rank = list(ranks).index(world.rank)
    makers: dict[str, tuple[str, Callable[[], Any]]] = {}
    config = BackendConfig(backend).get_device_backend_map()
    for device, engine in config.items():
        if backend == Backend.UNDEFINED and device == "cuda" and not _has("cupy"):
            continue
        make = maker(engine)
        wait = default_pg_nccl_timeout if given is None and engine == Backend.NCCL else limit
        place = PrefixStore(f"{device}/{engine}", store)
        makers[device] = (
            engine,
            lambda make=make, place=place, wait=wait: make(place, rank, len(ranks), wait),
        )
    made = ProcessGroup(ranks, rank, name, store, limit, makers, description)
    made.explain = world.explain
    world.groups[name], world.backends[name] = made, backend
    return made


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Join the other processes of a job: all of them call this first.

    Args:
        backend: ``"gloo"`` (CPU, nothing to install), ``"mpi"`` (CPU, under mpiexec), ``"nccl"`` (CUDA), or one for
            each device type, ``"cpu:gloo,cuda:nccl"``. By default gloo, and nccl where CuPy is installed.
        init_method: where the processes meet: ``"env://"`` (the default; the launcher sets MASTER_ADDR, MASTER_PORT,
            RANK and WORLD_SIZE), ``"tcp://10.1.1.20:23456"`` or ``"file:///shared/path"``.
        timeout: after which a collective fails; 30 minutes by default, 10 with nccl.
        world_size: number of processes, if `init_method` does not say.
        rank: of this process, if `init_method` does not say.
        store: where the processes meet, in place of `init_method`.
        group_name: ignored, as in PyTorch.
        pg_options: ignored: the engines have no options.
        device_id: the CUDA device of this process.

    Raises:
        ValueError: it was called before, or the environment lacks something.
        AssertionError: there is no such backend, or arguments are missing or contradict each other.
        DistNetworkError: the others did not come.

    Example::

        import gradlib as torch

        torch.distributed.init_process_group("gloo")
        x = torch.ones(2) * torch.distributed.get_rank()
        torch.distributed.all_reduce(x)
    """
    if world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    limit = _seconds(timeout)
    name = Backend(backend) if backend is not None else Backend(Backend.UNDEFINED)
    config = BackendConfig(name).get_device_backend_map()
    for one in config.values():
        if one not in Backend.backend_list:
            raise AssertionError(f"Unknown backend type {one}")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    meet = None
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    elif init_method is None and name == Backend.MPI:
        meet = getattr(maker(name), "meet", None)
    if meet is not None:
        store, rank, world_size = meet(limit)
    elif store is None:
        rendezvous_iterator = rendezvous(init_method or "env://", rank, world_size, timeout=limit)
        store, rank, world_size = next(rendezvous_iterator)
        store.set_timeout(limit)
    world.store = PrefixStore(f"default_pg/{world.inits}", store)
    world.rank, world.size, world.count = rank, world_size, 1
    world.inits += 1
    try:
        if world_size > 1:
            world.monitor = Monitor(world.store, rank, world_size, world.note_failure)
            world.monitor.on_end = world.leave
        made = make(list(range(world_size)), name, "0", timeout, "default_pg")
    except BaseException:
        _forget()
        raise
    made.bound_device_id = device_id
    world.default = made


def _forget() -> None:
    if world.monitor is not None:
        with contextlib.suppress(OSError):  # its thread may be ending already
            world.monitor.close()
        world.monitor = None
    world.default, world.store, world.rank, world.size = None, None, -1, -1
    world.groups.clear()
    world.backends.clear()


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, and close its connections.

    Args:
        group: which; all groups by default, after which `init_process_group` may be called again.

    Raises:
        ValueError: there is no such group.
        AssertionError: there is no group at all.
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    wanted = world.default if group is None else group
    if wanted is None:
        raise AssertionError("Process group cannot be None")
    if wanted not in world.groups.values():
        raise ValueError("Invalid process group specified")
    if wanted is not world.default:
        wanted.shutdown()
        del world.groups[wanted.group_name], world.backends[wanted.group_name]
        return
    note = left_with(sys.exc_info()[1])
    for one in reversed(list(world.groups.values())):
        one.shutdown(note)
    _forget()


def new_group(
    ranks: Iterable[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some of the processes. All processes of the job call this, in the same order.

    Args:
        ranks: the global ranks that it is of; all by default.
        timeout: after which a collective fails; that of the job's group by default.
        backend: as in `init_process_group`; that of the job's group by default.
        pg_options: ignored: the engines have no options.
        use_local_synchronization: only the members call this; the group is then named by its ranks.
        group_desc: what to call it in messages.
        device_id: the CUDA device of this process.
        sort_ranks: rank i of the group is the i-th smallest of `ranks`; else it is the i-th of them.

    Returns:
        The group; GroupMember.NON_GROUP_MEMBER on a process that is not in it.

    Raises:
        ValueError: a rank that there is not, or twice; the job has no group yet.
    """
    default = _get_default_group()
    _seconds(timeout)
    chosen = list(range(world.size) if ranks is None else ranks)
    if sort_ranks:
        chosen.sort()
    for r in chosen:
        if not 0 <= r < world.size:
            raise ValueError(
                f"Rank {r} is out of range. Valid ranks are 0 to {world.size - 1} (world_size={world.size})"
            )
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {chosen}")
    with world.lock:
        if use_local_synchronization:
            stem = "_".join(map(str, chosen))
            count = world.local_counts[stem] = world.local_counts.get(stem, 0) + 1
            name = f"local_{stem}:{count}"
        else:
            name = str(world.count)
            world.count += 1
    if world.rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    made = make(
        chosen,
        Backend(backend) if backend is not None else world.backends[default.group_name],
        name,
        default.timeout if timeout is None else timeout,
        group_desc or "",
    )
    made.bound_device_id = device_id
    return made


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """Give collectives of a group that begin from now on another time."""
    the_group(group).set_timeout(_seconds(timeout))


# -- asking ------------------------------------------------------------------------------------------------------


def is_initialized() -> bool:
    """Whether `init_process_group` was called, and not undone.

    Example:
        >>> gradlib.distributed.is_initialized()
        False
    """
    return world.default is not None


def _get_default_group() -> ProcessGroup:
    """The group of all processes.

    Raises:
        ValueError: there is none yet.
    """
    if world.default is None:
        raise ValueError(_NOT_INITIALIZED)
    return world.default


def _get_default_store() -> Any:
    """The store that all processes share."""
    _get_default_group()
    return world.store


def is_member(group: Any) -> bool:
    """Whether this process is in a group; None stands for all processes."""
    return not isinstance(group, int)


def the_group(group: Any) -> ProcessGroup:
    """`group`, or the one of all processes for None.

    Raises:
        TypeError: it is no group.
    """
    if group is None:
        return _get_default_group()
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"expected a process group, but got {type(group).__name__}: {group!r}")
    return group


def get_rank(group: Any = None) -> int:
    """The rank of this process.

    Args:
        group: in which; among all processes by default.

    Returns:
        A number from 0; -1 if it is not in the group.
    """
    return the_group(group).rank() if is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """The number of processes.

    Args:
        group: in which; of all by default.

    Returns:
        A number; -1 if this process is not in the group.
    """
    return the_group(group).size() if is_member(group) else -1


def get_process_group_ranks(group: Any) -> list[int]:
    """The global ranks of a group, in the order of its own ranks.

    Args:
        group: which; None for all processes.
    """
    return list(the_group(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The global rank of a rank of a group.

    Raises:
        ValueError: the group has no such rank.
    """
    ranks = the_group(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a process.

    Raises:
        ValueError: the process is not in the group.
    """
    ranks = the_group(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank of this process on its machine, as the launcher set it in LOCAL_RANK.

    Args:
        fallback_rank: what to give without a launcher.

    Raises:
        RuntimeError: neither is there.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def get_backend(group: Any = None) -> Backend:
    """The backend of a group, such as ``"gloo"``.

    Args:
        group: which; that of all processes by default.

    Raises:
        ValueError: this process is not in it.
    """
    if not is_member(group):
        raise ValueError("Invalid process group specified")
    wanted = the_group(group)
    if wanted.group_name not in world.backends:
        raise ValueError(f"Invalid process group specified: {wanted}")
    names = {name for name, _ in wanted._makers.values()}
    return Backend(names.pop() if len(names) == 1 else world.backends[wanted.group_name])


def get_backend_config(group: Any = None) -> str:
    """Which backend serves which device type, as in ``"cpu:gloo,cuda:nccl"``.

    Args:
        group: which; that of all processes by default.
    """
    wanted = the_group(group)
    return ",".join(f"{device}:{name}" for device, (name, _) in wanted._makers.items())


def get_default_backend_for_device(device: Any) -> str:
    """The backend that `init_process_group` takes for a device type.

    Args:
        device: a device or its name.

    Raises:
        ValueError: there is none for it.

    Example:
        >>> gradlib.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = getattr(device, "type", str(device).partition(":")[0])
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def get_pg_count() -> int:
    """The number of groups that this process is in.

    Example:
        >>> gradlib.distributed.get_pg_count()
        0
    """
    return len(world.groups)
