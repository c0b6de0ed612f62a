"""Whether the other processes of this machine are alive, as the operating system knows it."""

from __future__ import annotations

import os
import time

__all__ = ["Peers", "here"]

STOPPED_TOO_LONG = 5.0  # seconds after which a stopped process counts as lost


def _state(pid: int) -> tuple[str, str] | None:
    """The state and the start time of a process, as /proc has them; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def here() -> str:
    """What tells this machine, and this view of its processes, from others; "" where that is not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        space = os.stat("/proc/self/ns/pid").st_ino
        memory = os.stat("/dev/shm").st_dev
    except OSError:
        return ""
    return f"{boot}-{space}-{memory}"


class Peers:
    """The processes of a group's ranks.

    Args:
        pids: the process of each rank; all are on this machine.
        ranks: what each rank is called: its global rank.
    """

    def __init__(self, pids: list[int], ranks: list[int]) -> None:
        self.size, self.pids, self.ranks = len(pids), pids, ranks
        self._began = [(_state(pid) or ("", ""))[1] for pid in pids]
        self._stopped: dict[
            int, tuple[float, float]
        ] = {}  # rank -> first and last time it was seen stopped

    def trouble(self, rank: int) -> str | None:
        """What keeps a rank from ever coming: it ended, or is stopped for long; None if nothing does."""
        pid = self.pids[rank]
        found = _state(pid)
        if found is None or found[0] in "ZX" or found[1] != self._began[rank]:
            return f"has ended: its process {pid} is gone"
        if found[0] != "T":
            self._stopped.pop(rank, None)
            return None
        now = time.monotonic()
        first, last = self._stopped.get(rank, (now, now))
        if now - last > 1.0:  # this process was stopped, too
            first = now
        self._stopped[rank] = first, now
        if now - first > STOPPED_TOO_LONG:
            return f"is stopped: its process {pid} got SIGSTOP"
        return None
