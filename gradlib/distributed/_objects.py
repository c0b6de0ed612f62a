"""Collectives on Python objects, which are pickled: only between processes that trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ..tape.tensor import Tensor
from ._arguments import members, rank_in
from ._point_to_point import recv, send
from ._process_group import ProcessGroup
from ._world import get_global_rank
from .collectives import all_gather, broadcast, gather, scatter

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _tensor(pg: ProcessGroup, array: np.ndarray) -> Tensor:
    """A tensor that the group can move: on the CPU if it has an engine for that, else on the current GPU."""
    made = Tensor._make(array)
    return made if pg.serves("cpu") else made.cuda()


def _array(tensor: Tensor) -> np.ndarray:
    """Its values, on the host."""
    return tensor.cpu()._array


def _numbers(pg: ProcessGroup, *values: int) -> Tensor:
    return _tensor(pg, np.array(values, np.int64))


def _blank(pg: ProcessGroup, n: int) -> Tensor:
    return _tensor(pg, np.zeros(n, np.uint8))


def _pickled(value: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(value), np.uint8).copy()


def _loaded(data: Tensor, size: int) -> Any:
    return pickle.loads(_array(data)[:size].tobytes())


def _sizes(mine: int, pg: ProcessGroup) -> list[int]:
    """How many bytes each rank has."""
    sizes = [_numbers(pg, 0) for _ in range(pg.size())]
    all_gather(sizes, _numbers(pg, mine), pg)
    return [int(_array(size)[0]) for size in sizes]


def _padded(pg: ProcessGroup, data: np.ndarray, n: int) -> Tensor:
    out = np.zeros(n, np.uint8)
    out[: len(data)] = data
    return _tensor(pg, out)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """An object of each process, in a list on each.

    Args:
        object_list: a place for each process, written to.
        obj: what this process gives; anything that can be pickled.
        group: of which processes; all by default.

    Example::

        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, {"rank": dist.get_rank()})
    """
    pg = members(group, "all_gather_object")
    if pg is None:
        return
    data = _pickled(obj)
    sizes = _sizes(len(data), pg)
    gathered = [_blank(pg, max(sizes)) for _ in sizes]
    all_gather(gathered, _padded(pg, data, max(sizes)), pg)
    for i, (got, size) in enumerate(zip(gathered, sizes, strict=True)):
        object_list[i] = _loaded(got, size)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """An object of each process, in a list on one.

    Args:
        obj: what this process gives; anything that can be pickled.
        object_gather_list: on process `dst` a place for each process, written to; None on others.
        dst: the global rank of that process; 0 by default.
        group: of which processes; all by default.
        group_dst: its rank in the group, in place of `dst`.

    Raises:
        ValueError: the list is missing where it is needed, or there where it is not.
    """
    pg = members(group, "gather_object")
    if pg is None:
        return
    root = rank_in(pg, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    mine = pg.rank() == root
    if mine and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not mine and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data = _pickled(obj)
    sizes = _sizes(len(data), pg)
    gathered = [_blank(pg, max(sizes)) for _ in sizes] if mine else None
    gather(_padded(pg, data, max(sizes)), gathered, group=pg, group_dst=root)
    for i, got in enumerate(gathered or ()):
        object_gather_list[i] = _loaded(got, sizes[i])  # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects in the list of one process into the lists of the others.

    Args:
        object_list: of the same length on all processes.
        src: the global rank of the sender; 0 by default.
        group: of which processes; all by default.
        device: ignored: objects travel by the CPU, or by the GPU where the group has nothing else.
        group_src: the sender's rank in the group, in place of `src`.
    """
    pg = members(group, "broadcast_object_list")
    if pg is None:
        return
    root = rank_in(pg, 0 if src is None and group_src is None else src, group_src, "src")
    mine = pg.rank() == root
    pieces = [_pickled(value) for value in object_list] if mine else []
    sizes = _numbers(pg, *([len(p) for p in pieces] if mine else [0] * len(object_list)))
    broadcast(sizes, group=pg, group_src=root)
    total = int(_array(sizes).sum())
    data = _tensor(pg, np.concatenate(pieces)) if mine and pieces else _blank(pg, total)
    broadcast(data, group=pg, group_src=root)
    if not mine:
        _take_apart(data, sizes, object_list)


def _take_apart(data: Tensor, sizes: Tensor, into: list[Any]) -> None:
    start, values = 0, _array(data)
    for i, size in enumerate(_array(sizes).tolist()):
        into[i] = pickle.loads(values[start : start + size].tobytes())
        start += size


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """One object of a list to each process.

    Args:
        scatter_object_output_list: its first place is written to.
        scatter_object_input_list: on process `src` an object for each process; ignored on others.
        src: the global rank of that process; 0 by default.
        group: of which processes; all by default.
        group_src: its rank in the group, in place of `src`.

    Raises:
        ValueError: there is no first place, or not an object for each process.
    """
    pg = members(group, "scatter_object_list")
    if pg is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = rank_in(pg, 0 if src is None and group_src is None else src, group_src, "src")
    mine = pg.rank() == root
    given = None
    sizes = _numbers(pg, *[0] * pg.size())
    if mine:
        if not scatter_object_input_list or len(scatter_object_input_list) != pg.size():
            raise ValueError(
                f"scatter_object_list: scatter_object_input_list must have an object for each of the {pg.size()} ranks"
            )
        pieces = [_pickled(value) for value in scatter_object_input_list]
        sizes = _numbers(pg, *[len(p) for p in pieces])
    broadcast(sizes, group=pg, group_src=root)
    longest = int(_array(sizes).max())
    if mine:
        given = [_padded(pg, p, longest) for p in pieces]
    out = _blank(pg, longest)
    scatter(out, given, group=pg, group_src=root)
    scatter_object_output_list[0] = _loaded(out, int(_array(sizes)[pg.rank()]))


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a process.

    Args:
        object_list: anything that can be pickled.
        dst: the global rank of the receiver.
        group: which group; that of all processes by default.
        device: ignored: objects travel by the CPU, or by the GPU where the group has nothing else.
        group_dst: the receiver's rank in the group, in place of `dst`.
        use_batch: ignored.
    """
    pg = members(group, "send_object_list")
    if pg is None:
        return
    pieces = [_pickled(value) for value in object_list]
    send(_numbers(pg, *[len(p) for p in pieces]), dst, group, group_dst=group_dst)
    send(_tensor(pg, np.concatenate(pieces)), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from a process.

    Args:
        object_list: as long as the list that is sent; written to.
        src: the global rank of the sender; by default whoever sends first.
        group: which group; that of all processes by default.
        device: ignored: objects travel by the CPU, or by the GPU where the group has nothing else.
        group_src: the sender's rank in the group, in place of `src`.
        use_batch: ignored.

    Returns:
        The global rank of the sender; -1 if this process is not in the group.
    """
    pg = members(group, "recv_object_list")
    if pg is None:
        return -1
    sizes = _numbers(pg, *[0] * len(object_list))
    source = recv(sizes, src, group, group_src=group_src)
    data = _blank(pg, int(_array(sizes).sum()))
    recv(data, group=pg, group_src=pg.ranks.index(source))
    _take_apart(data, sizes, object_list)
    return get_global_rank(pg, pg.ranks.index(source))
