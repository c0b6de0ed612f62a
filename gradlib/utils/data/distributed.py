"""DistributedSampler: each process of a group takes its own part of a dataset."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from .sampler import Sampler

__all__ = ["DistributedSampler"]

T_co = TypeVar("T_co", covariant=True)


def _process_group() -> Any:
    """The module that knows the group of processes."""
    try:
        return importlib.import_module("gradlib.distributed")
    except ImportError:
        raise RuntimeError("Requires distributed package to be available") from None


def _permutation(count: int, seed: int) -> list[int]:
    """The order that PyTorch's generator of the CPU gives for a seed: ranks may run either library.

    Its generator is the Mersenne twister (M. Matsumoto, T. Nishimura, 1998), its shuffle that of R. A. Fisher and
    F. Yates.
    """
    order = list(range(count))
    if count < 2:
        return order
    draws = np.random.RandomState(seed % 2**32)._bit_generator.random_raw(count - 1)  # type: ignore[attr-defined]
    ends = np.arange(count, 1, -1, dtype=np.uint64)
    for i, step in enumerate((draws % ends).tolist()):
        order[i], order[i + step] = order[i + step], order[i]
    return order


class DistributedSampler(Sampler[T_co]):
    """Every `num_replicas`-th index, starting at `rank`, of an order that all processes share.

    Call `set_epoch` before each epoch, or the order is the same in all of them.

    Args:
        dataset: what is sampled; its length must not change.
        num_replicas: number of processes; that of the process group when left out.
        rank: number of this process; that in the process group when left out.
        shuffle: random order.
        seed: seed of the order; the same in all processes.
        drop_last: leave out what does not divide evenly, instead of taking some indices twice.

    Raises:
        ValueError: `rank` is not in [0, num_replicas - 1].
        RuntimeError: there is no process group to ask.

    Example:
        >>> list(DistributedSampler(range(6), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 5]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = int(_process_group().get_world_size())
        if rank is None:
            rank = int(_process_group().get_rank())
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        whole, rest = divmod(len(dataset), num_replicas)
        self.num_samples = whole if drop_last or not rest else whole + 1
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        if self.shuffle:
            indices = _permutation(count, self.seed + self.epoch)
        else:
            indices = list(range(count))
        if len(indices) < self.total_size:  # start over, as often as it takes
            indices = (indices * -(-self.total_size // max(count, 1)))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the coming epoch.

        Args:
            epoch: number of the epoch; the same in all processes.
        """
        self.epoch = epoch
