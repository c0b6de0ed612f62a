"""A process that outlives the launcher by a moment: if the launcher is killed, it ends what that had started."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["Guard"]

# It reads the numbers of sessions, one a line; the end of its input without a goodbye is the end of the launcher.
_CODE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sessions = []
for line in sys.stdin:
    if line == "goodbye\\n":
        sys.exit()
    sessions.append(int(line))
for session in sessions:
    try:
        os.killpg(session, signal.SIGKILL)
    except OSError:
        pass
"""


class Guard:
    """Watch over processes that lead sessions of their own."""

    def __init__(self) -> None:
        # without site and environment: it starts in a few milliseconds
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except OSError:
            pass  # somebody ended it: the launcher does its work without

    def add(self, session: int) -> None:
        """Watch over one more."""
        self._tell(str(session))

    def close(self) -> None:
        """Let go of all: they have ended."""
        self._tell("goodbye")
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._process.wait()
