"""A thread that looks after work on a GPU: the host does not wait for it, and nobody else would see it never end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .._errors import DistBackendError

__all__ = ["Watchdog", "Watched"]

TICK = 0.1  # seconds between looks


class Watched:
    """One operation: `event` comes after it on its stream; None while it is not queued."""

    __slots__ = ("begun", "event", "what")

    def __init__(self, what: str) -> None:
        self.what, self.event, self.begun = what, None, time.monotonic()

    event: Any


class Watchdog:
    """Looks for errors of NCCL and for operations that take too long, and tells.

    Args:
        ask: raises what NCCL, or another rank, has found in the meantime.
        tell: called once, with what went wrong.
        limit: how long an operation may take, in seconds.
    """

    def __init__(self, ask: Callable[[], None], tell: Callable[[str], None], limit: float) -> None:
        self._ask, self._tell, self.limit = ask, tell, limit
        self._entries: deque[Watched] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._thread: threading.Thread | None = None

    def watch(self, what: str) -> Watched:
        """Begin to look after an operation; its event is set when it is queued."""
        entry = Watched(what)
        with self._changed:
            self._entries.append(entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gradlib nccl", daemon=True)
                self._thread.start()
            if len(self._entries) == 1:
                self._changed.notify()
        return entry

    def forget(self, entry: Watched) -> None:
        """It was not queued after all."""
        with self._changed:
            if entry in self._entries:
                self._entries.remove(entry)

    def close(self) -> None:
        """Look after nothing any more."""
        with self._changed:
            self._ended = True
            self._entries.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._entries or self._ended)
                if self._ended:
                    return
            wrong = self._look()
            if wrong is not None:
                self._tell(wrong)
                self.close()
                return
            time.sleep(TICK)

    def _look(self) -> str | None:
        """What is wrong, if anything."""
        try:
            self._ask()
        except DistBackendError as error:
            return str(error)
        except Exception as error:
            with self._changed:
                what = self._entries[0].what if self._entries else "nothing"
            return f"NCCL: {error} (during {what})"
        now = time.monotonic()
        with self._changed:
            while self._entries and self._entries[0].event is not None:
                if not self._entries[0].event.done:
                    break
                self._entries.popleft()
            oldest = self._entries[0] if self._entries else None
        if oldest is not None and now - oldest.begun > self.limit:
            return f"{oldest.what} was not done within {self.limit:g} s"
        return None
