"""Who asks: code of a dataset can find out which worker runs it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info` tells a worker about itself.

    Attributes:
        id: number of the worker, from 0.
        num_workers: how many there are.
        seed: the seed its random numbers were started with.
        dataset: its dataset; in a process a copy of its own.

    Example:
        >>> info = gradlib.utils.data.WorkerInfo(id=1, num_workers=2, seed=7, dataset=[])
        >>> list(range(10))[info.id :: info.num_workers]
        [1, 3, 5, 7, 9]
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


process_info: WorkerInfo | None = None
thread = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Which DataLoader worker this code runs in; None outside of workers.

    Example:
        >>> class Numbers(IterableDataset):
        ...     def __iter__(self):
        ...         info = get_worker_info()
        ...         start, step = (info.id, info.num_workers) if info else (0, 1)
        ...         return iter(range(start, 100, step))
    """
    return getattr(thread, "info", process_info)
