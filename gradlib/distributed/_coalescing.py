"""Several collectives as one: `_coalescing_manager`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._process_group import ProcessGroup
from ._work import Work
from ._world import the_group

__all__ = ["CoalescingManager", "coalescing_manager", "collected"]


class _Open(threading.local):
    """What each thread is collecting, for each group."""

    def __init__(self) -> None:
        self.calls: dict[ProcessGroup, list[tuple[str, tuple]]] = {}


_open = _Open()


def collected(group: ProcessGroup, op: str, args: tuple) -> bool:
    """Whether a call is to be made with others, later; it is noted then."""
    if not _open.calls or group not in _open.calls:
        return False
    _open.calls[group].append((op, args))
    return True


class CoalescingManager:
    """What `_coalescing_manager` gives: the works of the collectives inside, to wait for."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """Add a work."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all of them."""
        for work in self.works:
            work.wait()


@contextmanager
def coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[CoalescingManager]:
    """Collectives of one kind inside the block (all_reduce, all_gather_into_tensor, reduce_scatter_tensor) run as one.

    Args:
        group: theirs.
        device: ignored.
        async_ops: do them meanwhile: `wait` of what this gives waits for them.

    Raises:
        RuntimeError: different kinds, or different ops, inside one block.
    """
    pg = the_group(group)
    if pg in _open.calls:
        raise RuntimeError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = CoalescingManager()
    calls = _open.calls[pg] = []
    try:
        yield manager
    finally:
        del _open.calls[pg]
    if not calls:
        return
    name = calls[0][0]
    if any(op != name for op, _ in calls):
        raise RuntimeError(
            f"Coalescing manager requires all ops of one kind, but got {sorted({op for op, _ in calls})}"
        )
    columns = [list(column) for column in zip(*(args for _, args in calls), strict=True)]
    if name != "all_gather_into_tensor" and any(op is not columns[-1][0] for op in columns[-1]):
        raise RuntimeError("Coalescing manager requires all ops to have the same ReduceOp")
    if name == "all_reduce":
        work = pg._all_reduce(columns[0], columns[1][0], async_ops, "all_reduce_coalesced")
    elif name == "all_gather_into_tensor":
        work = pg._all_gather_into(columns[0], columns[1], async_ops)
    else:
        inputs = [[given] for given in columns[1]]
        work = pg._reduce_scatter(
            columns[0], inputs, columns[2][0], async_ops, "reduce_scatter_tensor"
        )
    manager.append(work)
