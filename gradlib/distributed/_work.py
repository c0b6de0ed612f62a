"""Collectives under way: what `async_op=True` gives, and the thread that carries them out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

from ..futures import Future
from ._backend import Pending
from ._errors import DistBackendError

__all__ = ["Progress", "Work"]

NO_TIMEOUT = timedelta(0)


class Work:
    """A collective, send or receive that may still be going on.

    The tensors that it writes to must not be read, and those that it reads not changed, before `wait` returns.
    """

    def __init__(self, result: Any = None) -> None:
        self._event = threading.Event()
        self._error: BaseException | None = None
        self._result = result
        self._future: Future | None = None
        self._lock = threading.Lock()

    # -- by who carries it out -----------------------------------------------------------------------------------

    def finish(self, error: BaseException | None = None) -> None:
        """Mark it done; who waits goes on."""
        with self._lock:
            self._error = error
            self._event.set()
            future = self._future
        if future is not None:
            self._complete(future)

    def _complete(self, future: Future) -> None:
        if self._error is None:
            future.set_result(self._result)
        else:
            error = self._error
            future.set_exception(
                error if isinstance(error, Exception) else DistBackendError(str(error))
            )

    # -- by who started it ---------------------------------------------------------------------------------------

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""
        return self._event.is_set()

    def is_success(self) -> bool:
        """Whether it is over, and went well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """What it failed with; None if it did not, or is not over."""
        return self._error if self.is_completed() else None

    def wait(self, timeout: timedelta | float | None = NO_TIMEOUT) -> bool:
        """Wait until it is done.

        Args:
            timeout: how long at most (a number is in seconds); none by default, but that of the group.

        Returns:
            True.

        Raises:
            DistBackendError: it failed; says on which rank and how.
            RuntimeError: it was not done within `timeout`.
        """
        seconds = in_seconds(timeout)
        if not self._event.wait(seconds or None):
            raise RuntimeError(f"Wait timeout: the work was not done within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """`wait`, for CPU tensors."""
        self.wait()

    def block_current_stream(self) -> None:
        """Make the current CUDA stream wait for it; for CPU tensors this is `wait`."""
        self.wait()

    def result(self) -> list:
        """The tensors that it wrote to, when it is done.

        Raises:
            RuntimeError: it is not done.
        """
        if not self.is_completed():
            raise RuntimeError("result() of a work that is not completed: wait() for it first")
        return self._result

    def get_future(self) -> Future:
        """A future of the tensors that it writes to."""
        with self._lock:
            if self._future is not None:
                return self._future
            future = self._future = Future()
            done = self._event.is_set()
        if done:
            self._complete(future)
        return future

    def source_rank(self) -> int:
        """The rank in its group that a receive got its data from."""
        raise RuntimeError("sourceRank() may only be called on work objects of a recv")


class PointToPoint(Work):
    """A send or receive.

    Args:
        pending: as the engine gave it.
        result: the tensors.
        after: called once with None, or with what it failed with, in the thread that waits first; it gives what to
            raise.
        timeout: of the group, in seconds.
    """

    def __init__(
        self,
        pending: Pending,
        result: Any,
        after: Callable[[BaseException | None], BaseException | None],
        timeout: float,
    ) -> None:
        super().__init__(result)
        self._pending, self._after, self._timeout = pending, after, timeout
        self._source = -1
        self._settling = threading.Lock()

    def is_completed(self) -> bool:
        if self._pending.done() and not self._event.is_set():
            self._settle(None)
        return self._event.is_set()

    def _settle(self, timeout: float | None) -> None:
        with self._settling:
            if self._event.is_set():
                return
            error: BaseException | None = None
            try:
                self._source = self._pending.wait(timeout)
            except Exception as failure:
                error = failure
            self.finish(self._after(error))

    def wait(self, timeout: timedelta | float | None = NO_TIMEOUT) -> bool:
        if not self._event.is_set():
            self._settle(in_seconds(timeout) or self._timeout)
        return super().wait()

    def get_future(self) -> Future:
        if not self.is_completed() and self._future is None:
            threading.Thread(target=self._settle, args=(self._timeout,), daemon=True).start()
        return super().get_future()

    def source_rank(self) -> int:
        return self._source


def in_seconds(timeout: timedelta | float | None) -> float:
    """A time in seconds; 0 for none."""
    if timeout is None:
        return 0.0
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class Progress:
    """Carries out the collectives of a group, one at a time and in order.

    Who waits for one that is next does it himself, which saves two changes of threads; others are done by a thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = threading.Lock()  # held by who carries out a collective
        self._jobs: deque[tuple[Callable[[], None], Work]] = (
            deque()
        )  # a job leaves it with the turn held
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, job: Callable[[], None]) -> None:
        """Carry out a job, and return when it is done."""
        if self._jobs or not self._turn.acquire(blocking=False):
            self.submit(job, Work()).wait()
            return
        try:
            job()
        finally:
            self._turn.release()

    def submit(self, job: Callable[[], None], work: Work) -> Work:
        """Have a job carried out by the thread; `work` is done when it is."""
        self._jobs.append((job, work))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name=f"gradlib group {self._name}", daemon=True
            )
            self._thread.start()
        self._wake.put(None)
        return work

    def _work(self) -> None:
        while True:
            self._wake.get()
            with self._turn:
                job, work = self._jobs.popleft()
                error: BaseException | None = None
                try:
                    job()
                except BaseException as failure:
                    error = failure
            work.finish(error)
            del job, work, error  # what they hold must not live until the next one comes
