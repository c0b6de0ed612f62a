"""Values that another thread will give: `Future`, as PyTorch has it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from .tape.device import device

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)


class Future(Generic[T]):
    """A value that is set once, in any thread, and that others wait for.

    Args:
        devices: CUDA devices that the value may lie on. Gradients and kernels are ordered by their streams; nothing
            else is kept for these devices.

    Raises:
        ValueError: a device without an index.

    Example::

        >>> import gradlib as torch
        >>> future = torch.futures.Future()
        >>> doubled = future.then(lambda f: 2 * f.value())
        >>> future.set_result(21)
        >>> doubled.wait()
        42
    """

    def __init__(self, *, devices: Sequence[int | str | device] | None = None) -> None:
        for place in devices or ():
            if device(place).index is None:
                raise ValueError(f"Expected devices to have indices, got {place}")
        self._changed = threading.Condition()
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] = []

    def done(self) -> bool:
        """Whether a result or an exception was set.

        Returns:
            True from then on; nothing resets it.
        """
        return self._done

    def wait(self) -> T:
        """Wait until it is done, and give the value.

        Raises:
            Exception: the one that was set in its place.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The value of a future that is done.

        Raises:
            RuntimeError: it is not done yet; `wait` waits.
            Exception: the one that was set in its place.
        """
        if not self._done:
            raise RuntimeError("This Future is not completed: wait() waits for its value.")
        if self._error is not None:
            raise self._error
        return self._result

    def set_result(self, result: T) -> None:
        """Set the value: those who wait go on, and callbacks run in this thread.

        Raises:
            RuntimeError: it is done already.
        """
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception in place of a value; `wait` and `value` raise it.

        Raises:
            AssertionError: `result` is no exception.
            RuntimeError: it is done already.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, result: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._result, self._error, self._done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:  # without the lock: a callback may wait for others
            callback(self)

    def _when_done(self, callback: Callable[[Future], None]) -> None:
        """Call back now if it is done, else later, in the thread that completes it."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what `callback` will make of this one when it is done.

        Args:
            callback: takes this future. What it raises, the new future raises as a RuntimeError.

        Returns:
            The new future. Callbacks run in the thread that sets the value; at once if it is set.

        Raises:
            TypeError: `callback` cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"then(): callback must be callable, not {type(callback).__name__}")
        following: Future[S] = Future()

        def run(future: Future) -> None:
            try:
                result = callback(future)
            except Exception as e:
                error = RuntimeError(f"{_FAILED}: {type(e).__name__}: {e}")
                error.__cause__ = e
                following.set_exception(error)
            else:
                following.set_result(result)

        self._when_done(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback` with this future when it is done; what it raises is logged, and goes no further.

        Args:
            callback: takes this future. It runs at once if the future is done.

        Raises:
            TypeError: `callback` cannot be called.
        """
        if not callable(callback):
            raise TypeError(
                f"add_done_callback(): callback must be callable, not {type(callback).__name__}"
            )

        def run(future: Future) -> None:
            try:
                callback(future)
            except Exception as e:
                _log.error("%s: %s: %s", _FAILED, type(e).__name__, e, exc_info=e)

        self._when_done(run)


_FAILED = "Got the following error when running the callback"


def collect_all(futures: Sequence[Future]) -> Future[list[Future]]:
    """A future of all these futures, done when they are.

    Args:
        futures: any number; none gives a future that is done.

    Returns:
        A future whose value is the list of them; it raises the first exception among them.

    Raises:
        TypeError: something in the list is no future.

    Example::

        >>> import gradlib as torch
        >>> one, two = torch.futures.Future(), torch.futures.Future()
        >>> both = torch.futures.collect_all([one, two])
        >>> one.set_result(1)
        >>> both.done()
        False
        >>> two.set_result(2)
        >>> [f.value() for f in both.wait()]
        [1, 2]
    """
    futures = list(futures)
    if not all(isinstance(f, Future) for f in futures):
        raise TypeError(f"collect_all(): expected a list of Futures, got {futures}")
    together: Future[list[Future]] = Future()
    left, lock = len(futures), threading.Lock()

    def finish() -> None:
        errors = (f._error for f in futures if f._error is not None)
        error = next(errors, None)
        if error is None:
            together.set_result(futures)
        else:
            together.set_exception(error)

    def one_more(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            finish()

    if not futures:
        finish()
    for future in futures:
        future._when_done(one_more)
    return together


def wait_all(futures: Sequence[Future]) -> list:
    """Wait for all these futures, and give their values.

    Args:
        futures: any number of futures.

    Returns:
        Their values, in order.

    Raises:
        Exception: the first that was set in place of a value.

    Example::

        >>> import gradlib as torch
        >>> future = torch.futures.Future()
        >>> future.set_result(1)
        >>> torch.futures.wait_all([future, future])
        [1, 1]
    """
    return [future.value() for future in collect_all(futures).wait()]
