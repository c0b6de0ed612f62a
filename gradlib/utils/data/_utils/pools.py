"""The workers of a DataLoader as a whole: started, given tasks, listened to, ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
import weakref
from multiprocessing import connection
from typing import Any

from . import transport, worker

_PATIENCE = 5.0  # seconds that a process is given to end by itself
_pools: weakref.WeakSet[ProcessPool] = weakref.WeakSet()


class ProcessPool:
    """Worker processes, each with a pipe for tasks and one for answers.

    Nothing is shared between the workers, no lock either: one that dies cannot stop another, and
    shows as the end of its pipe.

    Args:
        job: what the workers do.
        context: the multiprocessing context that starts them; None for the default.
    """

    def __init__(self, job: worker.Job, context: Any) -> None:
        context = multiprocessing.get_context() if context is None else context
        self.tasks: list[Any] = []
        self.answers: list[Any] = []
        self.processes: list[Any] = []
        self.dead: list[int] = []
        self.folder = job.folder
        forked = context.get_start_method() == "fork"
        _pools.add(self)
        for number in range(job.num_workers):
            task_out, task_in = context.Pipe(duplex=False)
            answer_out, answer_in = context.Pipe(duplex=False)
            self.tasks.append(task_in)
            self.answers.append(answer_out)
            # A forked process has copies of all pipes; it must not keep them open.
            inherited = [p for pool in _pools for p in pool.pipes()] if forked else []
            process = context.Process(
                target=worker.process_main,
                args=(job, number, task_out, answer_in, inherited),
                daemon=True,
            )
            process.start()
            task_out.close()
            answer_in.close()
            self.processes.append(process)
        self.open = dict(zip(self.answers, range(job.num_workers), strict=True))
        self.close = weakref.finalize(
            self, _end_processes, self.tasks, self.answers, self.processes, job.folder, os.getpid()
        )

    def pipes(self) -> list[Any]:
        """This side's ends."""
        return [*self.tasks, *self.answers]

    def send(self, number: int, task: Any) -> None:
        """Give worker `number` a task."""
        with contextlib.suppress(BrokenPipeError):  # that it died shows when its answer is awaited
            self.tasks[number].send(task)

    def receive(self, timeout: float | None) -> list[tuple[int, Any]]:
        """Pairs (worker, answer) that have come; waits for the first one.

        Args:
            timeout: seconds; None waits for ever. The list is empty if nothing has come by then.

        Raises:
            RuntimeError: a worker has died.
        """
        ready = connection.wait(list(self.open), 0 if self.dead else timeout)
        answers = []
        for pipe in ready:
            number = self.open[pipe]
            try:
                answers.append((number, transport.receive(pipe)))
            except (EOFError, OSError):
                self.dead.append(number)
                del self.open[pipe]
        if self.dead and not answers:
            raise RuntimeError(self._obituary(self.dead))
        return answers

    def discard(self) -> None:
        """Tasks that wait need not be done: processes find out for themselves."""

    def _obituary(self, numbers: list[int]) -> str:
        """How workers ended, in words."""
        for number in numbers:
            process = self.processes[number]
            process.join(_PATIENCE)
            code = process.exitcode
            if code is not None and code < 0:
                name = signal.Signals(-code).name
                return f"DataLoader worker (pid {process.pid}) is killed by signal: {name}."
        pids = ", ".join(str(self.processes[number].pid) for number in numbers)
        return f"DataLoader worker (pid(s) {pids}) exited unexpectedly"


def _end_processes(
    tasks: list[Any], answers: list[Any], processes: list[Any], folder: str | None, owner: int
) -> None:
    """End the workers, by force if they do not listen."""
    if os.getpid() != owner:
        return  # a forked copy of the loader: the workers are not ours
    for pipe in tasks:
        with contextlib.suppress(OSError):
            pipe.send(None)
    for pipe in (*tasks, *answers):
        pipe.close()  # a worker that is writing gets an error
    deadline = time.monotonic() + _PATIENCE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.terminate()
            process.join(_PATIENCE)
    transport.remove_folder(folder)


class ThreadPool:
    """Worker threads: they share the dataset, and batches need not travel.

    Args:
        job: what the workers do.
    """

    def __init__(self, job: worker.Job) -> None:
        self.inboxes: list[Any] = [queue.SimpleQueue() for _ in range(job.num_workers)]
        self.outbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        for number, inbox in enumerate(self.inboxes):
            threading.Thread(
                target=worker.thread_main,
                args=(job, number, inbox, self.outbox),
                name=f"DataLoader worker {number}",
                daemon=True,
            ).start()
        self.close = weakref.finalize(self, _end_threads, self.inboxes)

    def send(self, number: int, task: Any) -> None:
        """Give worker `number` a task."""
        self.inboxes[number].put(task)

    def receive(self, timeout: float | None) -> list[tuple[int, Any]]:
        """Pairs (worker, answer) that have come; waits for the first, at most `timeout` seconds."""
        try:
            return [self.outbox.get(timeout=timeout)]
        except queue.Empty:
            return []

    def discard(self) -> None:
        """Take back the tasks that wait."""
        for inbox in self.inboxes:
            _drain(inbox)


def _drain(inbox: queue.SimpleQueue[Any]) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            inbox.get_nowait()


def _end_threads(inboxes: list[Any]) -> None:
    for inbox in inboxes:
        _drain(inbox)
        inbox.put(None)
