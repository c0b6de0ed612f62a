"""Profiles of the threads that a program starts."""

from __future__ import annotations

import functools
import threading
from typing import Any

from ..tape import recording


class NewThreads:
    """Adds a recorder to each thread that is started between `begin` and `end`, while the thread lives.

    A thread that outlives the profile keeps its recorder, which then records nothing.
    """

    def __init__(self, recorder: Any):
        self.recorder, self.over = recorder, False
        self.names: dict[
            int, str
        ] = {}  # by ident: of threads that may have ended when somebody asks

    def begin(self) -> None:
        """Follow the threads that are started from now on."""
        self._start = start = threading.Thread.start

        @functools.wraps(start)
        def followed(thread: threading.Thread) -> None:
            if not self.over:
                thread.run = functools.partial(self._run, thread, thread.run)
            start(thread)

        self._followed = followed
        threading.Thread.start = followed  # type: ignore[method-assign]

    def end(self) -> None:
        """Follow no more of them."""
        self.over = True
        if (
            threading.Thread.start is self._followed
        ):  # else somebody who began later ends later, too
            threading.Thread.start = self._start

    def _run(self, thread: threading.Thread, run: Any) -> None:
        del thread.run
        self.names[threading.get_ident()] = thread.name
        recording.add(self.recorder)
        try:
            run()
        finally:
            recording.remove(self.recorder)
