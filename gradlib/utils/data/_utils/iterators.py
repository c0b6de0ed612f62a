"""Iterating over a DataLoader: batch after batch, made here or by workers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

from .... import cuda
from ....profiler import record_function
from ....tape.modes import PROFILE, state
from ..sampler import draw_seed
from . import errors, pools, transport, worker
from .fetch import create_fetcher
from .pin_memory import pin_memory


class BaseIterator:
    """What iterating with and without workers has in common.

    Args:
        loader: the DataLoader.
    """

    label: str  # in profiles; PyTorch's name of the class

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.sampler = loader._index_sampler
        self.indices = iter(self.sampler)
        self.base_seed = draw_seed(loader.generator)
        self.yielded = 0
        self.expected = (
            loader._IterableDataset_len_called
        )  # list() asks for the length, too, but later
        self.warned = False
        self.pin = loader.pin_memory and _can_pin()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.sampler)

    def __next__(self) -> Any:
        if state.bits & PROFILE:
            with record_function(f"enumerate(DataLoader)#{self.label}.__next__"):
                return self._next()
        return self._next()

    def _next(self) -> Any:
        batch = self.next_batch()
        self.yielded += 1
        expected = self.expected
        if expected is not None and self.yielded > expected and self.loader._iterable:
            self._warn_of_length(expected)
        return pin_memory(batch) if self.pin else batch

    def next_batch(self) -> Any:
        """The next batch; raises StopIteration after the last."""
        raise NotImplementedError

    def _warn_of_length(self, expected: int) -> None:
        if self.warned:
            return
        self.warned = True
        hint = ""
        if self.loader.num_workers > 0:
            hint = (
                " For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker: see get_worker_info()."
            )
        warnings.warn(
            f"Length of IterableDataset {self.loader.dataset} was reported to be {expected} (when "
            f"accessing len(dataloader)), but {self.yielded} samples have been fetched.{hint}",
            stacklevel=3,
        )


def _can_pin() -> bool:
    """Whether there is a device to pin memory for; warns if there is none."""
    try:
        available = cuda.is_available()
    except ImportError:
        available = False
    if not available:
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
            "memory won't be used.",
            stacklevel=5,
        )
    return available


class SingleProcessIterator(BaseIterator):
    """Fetches each batch when it is asked for."""

    label = "_SingleProcessDataLoaderIter"

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self.fetcher = create_fetcher(
            loader._iterable,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )

    def next_batch(self) -> Any:
        return self.fetcher.fetch(next(self.indices))


class WorkersIterator(BaseIterator):
    """Asks workers for batches ahead of time, and gives them out in the order of the sampler."""

    label = "_MultiProcessingDataLoaderIter"

    def __init__(self, loader: Any) -> None:
        # Here, since multiprocessing takes a while to import and most programs never need it.

        super().__init__(loader)
        self.Ended, self.WorkerError = worker.Ended, errors.WorkerError
        threads = loader.worker_type == "thread"
        job = worker.Job(
            iterable=loader._iterable,
            dataset=loader.dataset,
            auto_collation=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
            base_seed=self.base_seed,
            num_workers=loader.num_workers,
            init_fn=loader.worker_init_fn,
            folder=None if threads else transport.make_folder(),
        )
        context = loader.multiprocessing_context
        self.pool: Any = pools.ThreadPool(job) if threads else pools.ProcessPool(job, context)
        self.epoch = -1
        self.start_epoch()

    def reset(self) -> None:
        """Begin a new epoch with the same workers."""
        self.pool.discard()
        self.indices = iter(self.sampler)
        self.yielded = 0
        self.warned = False
        self.start_epoch()

    def start_epoch(self) -> None:
        """Tell the workers to begin, and give them their first tasks."""
        self.epoch += 1
        self.sent = 0  # number of the next task
        self.wanted = 0  # number of the batch that is next in order
        self.owner: dict[int, int] = {}  # worker of each task that has no answer yet
        self.arrived: dict[int, Any] = {}
        self.active = [True] * self.loader.num_workers
        self.turn = 0
        self.exhausted = False
        for number in range(self.loader.num_workers):
            self.pool.send(number, (self.epoch, None, None))
        for _ in range(self.loader.prefetch_factor * self.loader.num_workers):
            self.send_task()

    def send_task(self) -> None:
        """Give the next batch to the next worker, if there is one of each."""
        if self.exhausted or not any(self.active):
            return
        try:
            index = next(self.indices)
        except StopIteration:
            self.exhausted = True
            return
        while not self.active[self.turn]:
            self.turn = (self.turn + 1) % len(self.active)
        self.pool.send(self.turn, (self.epoch, self.sent, index))
        self.owner[self.sent] = self.turn
        self.sent += 1
        self.turn = (self.turn + 1) % len(self.active)

    def next_batch(self) -> Any:
        number = self._next_number()
        if number is None:
            if not self.loader.persistent_workers:
                self.pool.close()
            raise StopIteration
        batch = self.arrived.pop(number)
        self.send_task()
        if isinstance(batch, self.WorkerError):
            batch.reraise()
        return batch

    def _next_number(self) -> int | None:
        """The number of the batch to give out, once it is here; None when there is none left."""
        deadline = time.monotonic() + self.loader.timeout if self.loader.timeout > 0 else None
        while True:
            if not self.loader.in_order and self.arrived:
                return next(iter(self.arrived))
            while self.wanted < self.sent:
                if self.wanted in self.arrived:
                    self.wanted += 1
                    return self.wanted - 1
                if self.wanted in self.owner:
                    break
                self.wanted += 1  # given out already, or its worker has come to its end
            if not self.owner:
                return None
            self._receive(deadline)

    def _receive(self, deadline: float | None) -> None:
        """Wait for an answer and note what it brings."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        answers = self.pool.receive(left)
        if not answers and deadline is not None and time.monotonic() >= deadline:
            raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds")
        for sender, (epoch, number, batch) in answers:
            if epoch != self.epoch or number not in self.owner:
                continue
            del self.owner[number]
            if isinstance(batch, self.Ended):
                self._worker_ended(sender)
            else:
                self.arrived[number] = batch

    def _worker_ended(self, number: int) -> None:
        """A worker's part of a stream is over: its other tasks go to those that are left."""
        if not self.active[number]:
            return
        self.active[number] = False
        waiting = [task for task, worker_number in self.owner.items() if worker_number == number]
        for task in waiting:
            del self.owner[task]
        for _ in range(len(waiting) + 1):
            self.send_task()
