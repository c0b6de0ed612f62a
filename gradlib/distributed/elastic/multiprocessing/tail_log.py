"""Show files on the terminal while they grow."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from ...._refused import refuse

__all__ = ["TailLog"]

__getattr__ = refuse(__name__, whole=True)


class TailLog:
    """Write each new line of some files to a stream, with the name of its file before it.

    `start` begins, in a thread; `stop` shows what is left, the last line too if it has no end.

    Args:
        name: what the processes are called, such as ``"default"``.
        log_files: by local rank.
        dst: where the lines go.
        log_line_prefixes: what stands before them, by local rank; None for ``[name0]:``.
        interval_sec: between looks.
    """

    def __init__(
        self,
        name: str,
        log_files: Mapping[int, str],
        dst: TextIO,
        log_line_prefixes: Mapping[int, str] | None = None,
        interval_sec: float = 0.1,
    ) -> None:
        self._files = {Path(path): [rank, 0] for rank, path in log_files.items() if path}
        self._name, self._to, self._interval = name, dst, interval_sec
        self._prefixes = log_line_prefixes or {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> TailLog:
        """Begin."""
        if self._files:
            self._thread = threading.Thread(target=self._follow, name="gradlib tail", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Show what is left, and stop."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._over.is_set()

    def _follow(self) -> None:
        while not self._over.wait(self._interval):
            self._show(False)
        self._show(True)

    def _show(self, last: bool) -> None:
        for path, place in self._files.items():
            try:
                with path.open("rb") as file:
                    file.seek(place[1])
                    data = file.read()
            except OSError:
                continue  # not there yet
            if not last:
                data = data[: data.rfind(b"\n") + 1]  # the rest of the line comes next time
            place[1] += len(data)
            prefix = self._prefixes.get(place[0], f"[{self._name}{place[0]}]:")
            for line in data.decode(errors="replace").splitlines():
                self._to.write(f"{prefix}{line}\n")
        self._to.flush()
