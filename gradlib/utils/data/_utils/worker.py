"""What a worker of a DataLoader does: fetch batches, in a process or in a thread of its own.

A task is (epoch, number, index), `(epoch, None, None)` starts an epoch, None ends the worker. An
answer is (epoch, number, batch); the batch may be a WorkerError or, at the end of a stream, Ended.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .... import random as gradlib_random
from ....tape.arrays import backend_for
from ....tape.generator import Generator, set_thread_generator
from . import info, transport
from .errors import WorkerError
from .fetch import create_fetcher


class Ended:
    """Stands for a batch that does not exist: the worker's part of a stream is over."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all workers of a DataLoader are given."""

    iterable: bool
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    num_workers: int
    init_fn: Callable[[int], Any] | None
    folder: str | None  # for batches that go through shared memory


class Worker:
    """The loop of one worker, apart from how tasks and answers travel.

    Args:
        job: what to do.
        number: which worker this is.
        kind: "process" or "thread".
        get: the next task; waits for it.
        put: hands an answer over.
    """

    def __init__(
        self,
        job: Job,
        number: int,
        kind: str,
        get: Callable[[], Any],
        put: Callable[[tuple[int, int, Any]], None],
    ) -> None:
        self.job, self.number, self.get, self.put = job, number, get, put
        self.where = f"in DataLoader worker {kind} {number}"
        self.failed: WorkerError | None = None
        self.fetcher: Any = None
        self.ended = False
        self.orphaned = False  # the process that asked has died without a word
        self.epoch = -1  # newest epoch that was asked for: tasks of older ones are not worth doing

    def run(self) -> None:
        """Answer tasks until there is a None."""
        try:
            if self.job.init_fn is not None:
                self.job.init_fn(self.number)
        except Exception as error:
            self.failed = WorkerError(error, self.where)
        while (task := self.get()) is not None:
            epoch, number, index = task
            if number is None:
                self.start_epoch(epoch)
            elif epoch >= self.epoch:
                self.put((epoch, number, self.batch(index)))

    def start_epoch(self, epoch: int) -> None:
        """Begin to read the dataset, or begin again."""
        job = self.job
        self.epoch = max(self.epoch, epoch)
        self.ended = False
        try:
            self.fetcher = create_fetcher(
                job.iterable, job.dataset, job.auto_collation, job.collate_fn, job.drop_last
            )
        except Exception as error:
            self.failed = WorkerError(error, self.where)

    def batch(self, index: Any) -> Any:
        """One batch, or what went wrong."""
        if self.failed is not None:
            failed, self.failed = self.failed, None
            self.ended = True
            return failed
        if self.ended:
            return Ended()
        try:
            return self.fetcher.fetch(index)
        except Exception as error:
            if self.job.iterable and isinstance(error, StopIteration):
                self.ended = True
                return Ended()
            return WorkerError(error, self.where)


# --------------------------------------------------------------------------------------------
# In a process


def process_main(job: Job, number: int, tasks: Any, answers: Any, inherited: list[Any]) -> None:
    """The main function of a worker process.

    Args:
        job: what to do.
        number: which worker this is.
        tasks: connection that tasks come from.
        answers: connection that answers go to.
        inherited: connections of others, which a forked process must not keep open.
    """
    for connection in inherited:
        if not connection.closed:
            connection.close()
    seed = job.base_seed + number
    info.process_info = info.WorkerInfo(number, job.num_workers, seed, job.dataset)
    random.seed(seed)
    gradlib_random.manual_seed(seed % 2**64)
    backend_for("cpu").work_alone(process=True)
    np.random.seed(np.random.SeedSequence([job.base_seed, number]).generate_state(4))
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    worker = Worker(
        job,
        number,
        "process",
        inbox.get,
        lambda answer: transport.send(answers, answer, job.folder, worker.where),
    )
    receiver = threading.Thread(target=_receive, args=(tasks, inbox, worker), daemon=True)
    receiver.start()
    try:
        worker.run()
    except (BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        receiver.join(1.0)  # whoever asked is gone
    if worker.orphaned:
        transport.remove_folder(job.folder)


def _receive(tasks: Any, inbox: queue.SimpleQueue[Any], worker: Worker) -> None:
    """Move tasks to the inbox as they come, so that sending one never has to wait for a batch."""
    task: Any = ()
    while task is not None:
        try:
            task = tasks.recv()
        except (EOFError, OSError):
            task, worker.orphaned = None, True
        if task is None:
            worker.epoch = 2**62  # what is still waiting is not wanted any more
        elif task[1] is None:
            worker.epoch = task[0]
        inbox.put(task)


# --------------------------------------------------------------------------------------------
# In a thread


def thread_main(job: Job, number: int, inbox: Any, outbox: Any) -> None:
    """The main function of a worker thread; `inbox` and `outbox` are queues."""
    seed = (job.base_seed + number) % 2**64
    info.thread.info = info.WorkerInfo(number, job.num_workers, seed, job.dataset)
    set_thread_generator(Generator().manual_seed(seed))
    backend_for("cpu").work_alone()
    worker = Worker(job, number, "thread", inbox.get, lambda answer: outbox.put((number, answer)))
    worker.run()
