"""DataLoader: batches of a dataset, in order or shuffled, made here or by workers."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ._utils.collate import default_collate, default_convert
from ._utils.info import get_worker_info
from ._utils.iterators import BaseIterator, SingleProcessIterator, WorkersIterator
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
_BaseDataLoaderIter = BaseIterator
_SingleProcessDataLoaderIter = SingleProcessIterator
_MultiProcessingDataLoaderIter = WorkersIterator
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Forever(Sampler[None]):
    """What stands for the indices of a stream."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches.

    The order of the batches does not depend on the number of workers, and with a seed
    (`manual_seed`, or `generator`) neither does what is in them.

    Args:
        dataset: a Dataset, anything else with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: samples in a batch; None: samples as they are, without a batch dimension.
        shuffle: a new random order in every epoch.
        sampler: iterable of indices, in place of `shuffle`.
        batch_sampler: iterable of lists of indices, in place of `batch_size`, `shuffle`, `sampler`
            and `drop_last`.
        num_workers: workers that make batches ahead of time; 0: made when they are asked for.
        collate_fn: from a list of samples to a batch; `default_collate` when left out.
        pin_memory: put tensors into page-locked memory, if there is a CUDA device.
        drop_last: leave out a last batch that is smaller.
        timeout: seconds to wait for a batch of a worker; 0: for ever.
        worker_init_fn: called in each worker with its number, before it begins.
        multiprocessing_context: how processes start: "fork", "spawn", "forkserver", or a context.
        generator: draws the order and the seed of the workers.
        prefetch_factor: batches that each worker makes ahead; 2 when left out.
        persistent_workers: keep the workers from one epoch to the next.
        pin_memory_device: accepted and ignored.
        in_order: False gives batches of workers out as they come.
        worker_type: "process", or "thread": threads share the dataset and start at once, and suit
            samples whose making releases the interpreter lock: reading files, NumPy on big arrays.

    Raises:
        ValueError: options that contradict each other or are out of range.

    Example:
        >>> loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
        >>> for xb, yb in loader:
        ...     train_on(xb, yb)
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    prefetch_factor: int | None
    _iterator: Any
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_type: str = "process",
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_type)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_type = worker_type
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_stream(shuffle, sampler, batch_sampler)
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            if self._iterable:
                sampler = _Forever()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.__initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts worker processes; None for Python's default."""
        return self.__context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            import multiprocessing  # here, since most programs never need it
            from multiprocessing.context import BaseContext

            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{methods!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self.__context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> BaseIterator:
        if self.num_workers == 0:
            return SingleProcessIterator(self)
        self.check_worker_number_rationality()
        return WorkersIterator(self)

    def __iter__(self) -> BaseIterator:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator.reset()
        return self._iterator

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn when there are more worker processes than processors that this process may use.

        Called when a DataLoader with workers is iterated over.
        """
        if not self.num_workers or self.worker_type != "process":
            return
        if hasattr(os, "sched_getaffinity"):
            limit = len(os.sched_getaffinity(0))
        else:
            limit = os.cpu_count() or 1
        if self.num_workers <= limit:
            return
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. Our "
            f"suggested max number of worker in current system is {limit}, which is smaller than "
            "what this DataLoader is going to create. Please be aware that excessive worker "
            "creation might get DataLoader running slow or even freeze, lower the worker number to "
            "avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _check_workers(
    num_workers: int,
    timeout: float,
    prefetch_factor: int | None,
    persistent_workers: bool,
    worker_type: str,
) -> None:
    """ValueError for options about workers that are out of range or need workers."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if worker_type not in ("process", "thread"):
        raise ValueError(f"worker_type should be 'process' or 'thread', but got {worker_type!r}")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """ValueError for options that ask for an order of what has none."""
    wrong = None
    if shuffle not in (False, None):
        wrong = "shuffle", shuffle
    elif sampler is not None:
        wrong = "sampler", sampler
    elif batch_sampler is not None:
        wrong = "batch_sampler", batch_sampler
    if wrong is not None:
        name, value = wrong
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
            f"{name}={value}"
        )
