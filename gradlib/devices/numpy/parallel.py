"""Pieces of one computation on several threads: inside its functions NumPy lets go of the interpreter's lock.

    run(count, piece)        # piece(0), ..., piece(count - 1), in any order, on get_num_threads() threads

What a piece is never depends on the number of threads, nor does what becomes of its results: so numbers do not either.
Threads are made by the first computation that is large enough, and wait for the next one. A piece is raw NumPy: it runs
in a copy of the caller's context (`np.errstate`), and nothing of this library's own state is there.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from ...op import spreading
from . import threads

SHARED = 1 << 18  # elements from which waking threads pays


class _Job:
    """A computation in pieces; all threads that work on it take the next piece until there is none."""

    __slots__ = ("context", "count", "errors", "finished", "lock", "next", "piece", "running")

    def __init__(self, count: int, piece: Callable[[int], Any]):
        self.count, self.piece, self.next, self.running = count, piece, 0, 0
        self.errors: dict[int, BaseException] = {}
        self.lock, self.finished = threading.Lock(), threading.Lock()
        self.finished.acquire()
        self.context = contextvars.copy_context()

    def work(self) -> None:
        while True:
            with self.lock:
                i = self.next
                if i >= self.count:
                    return
                self.next = i + 1
                self.running += 1
                piece = self.piece
            try:
                piece(i)
            except BaseException as error:
                self.errors[i] = error
            with self.lock:
                self.running -= 1
                if i in self.errors:
                    self.next = (
                        self.count
                    )  # pieces before this one have begun, and run to their end
                if self.next >= self.count and not self.running:
                    self.finished.release()

    def end(self) -> None:
        """Wait for the pieces that other threads work on."""
        try:
            self.finished.acquire()
        except BaseException:  # Ctrl-C: nobody may write to arrays any more when this returns
            with self.lock:
                done, self.next = not self.running, self.count
            if not done:
                self.finished.acquire()
            raise
        finally:
            self.piece = _nothing  # whoever finds the job in the queue later keeps no arrays alive


def _nothing(i: int) -> None:
    pass


class _Crew:
    """The threads of this process."""

    def __init__(self):
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.members: list[threading.Thread] = []
        self.lock = threading.Lock()

    def call(self, n: int, job: _Job) -> None:
        """Let `n` threads look at a job."""
        if len(self.members) < n:
            with self.lock:
                while len(self.members) < n:
                    name = f"gradlib-{len(self.members) + 1}"
                    made = threading.Thread(
                        target=_serve, args=(self.jobs,), name=name, daemon=True
                    )
                    try:
                        made.start()
                    except RuntimeError:  # the interpreter ends, or the system has no more
                        break
                    self.members.append(made)
        for _ in range(min(n, len(self.members))):
            self.jobs.put(job)

    def dismiss(self) -> None:
        for _ in self.members:
            self.jobs.put(None)
        for member in self.members:
            member.join(1.0)
        self.members = []


def _serve(jobs: SimpleQueue) -> None:
    _here.busy = True
    while (job := jobs.get()) is not None:
        job.context.copy().run(job.work)
        job = None


_here = threading.local()
_crew = _Crew()


def _forget() -> None:
    """In the child of a fork, where only the thread that forked is left."""
    global _crew, _here
    _crew, _here = _Crew(), threading.local()
    threads.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _crew.dismiss())


def width() -> int:
    """How many threads a computation of this thread may use: 1 inside a piece."""
    return 1 if getattr(_here, "busy", False) else threads.count()


def alone(process: bool = False) -> None:
    """This thread, or this process, is one of many: its computations use no threads beside it."""
    if process:
        threads.limit(1, warn=False)
    else:
        _here.busy = True


def members() -> int:
    """How many threads there are beside those of the callers."""
    return len(_crew.members)


def run(count: int, piece: Callable[[int], Any]) -> None:
    """``piece(i)`` for all i below `count`; the exception of the first piece that raised one is the caller's.

    Linear algebra inside a piece has one thread, also where there is but one piece: the order of its additions may
    depend on that.
    """
    n = width() if count else 0
    if n <= 1:
        for i in range(count):
            piece(i)
        return
    spreading.begin()
    job = _Job(count, piece)
    _here.busy = True
    threads.borrow()
    try:
        _crew.call(min(n, count) - 1, job)
        job.work()
        job.end()
    finally:
        threads.give_back()
        _here.busy = False
    if job.errors:
        raise job.errors[min(job.errors)]


def one(function: Callable, *args: Any) -> Any:
    """``function(*args)`` with one thread for linear algebra, so that its sums are those of one thread."""
    found: list[Any] = []
    run(1, lambda _: found.append(function(*args)))
    return found[0]


def each(spans: list[tuple], size: int, piece: Callable[..., Any]) -> None:
    """``piece(*span)`` for all parts of something of `size` elements: on several threads if that is large."""
    if size < SHARED:
        for span in spans:
            piece(*span)
    else:
        run(len(spans), lambda k: piece(*spans[k]))


TOGETHER = 32  # results that are kept until it is their turn


def in_order(spans: list[tuple[int, int]], size: int, piece: Callable[[int, int], Any]) -> Iterator:
    """What ``piece(start, stop)`` returns for each span, in their order; they run like those of `each`."""
    if size < SHARED or width() == 1:
        for i, j in spans:
            yield piece(i, j)
        return
    for first in range(0, len(spans), TOGETHER):
        some = spans[first : first + TOGETHER]
        found: list[Any] = [None] * len(some)

        def one(k: int, some=some, found=found) -> None:
            found[k] = piece(*some[k])

        run(len(some), one)
        yield from found


spreading.share_by(run, width)
