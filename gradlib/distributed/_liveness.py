"""Whether a process of this machine lives: what to ask when its heartbeats stay away."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from pathlib import Path

__all__ = ["RUNS", "STOPPED", "VANISHED", "machine", "state"]

RUNS, STOPPED, VANISHED = "runs", "stopped", "vanished"


@functools.cache
def machine() -> str:
    """What two processes have in common that can look at each other: machine, boot and container."""
    parts = [socket.gethostname()]
    for read in (
        lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        lambda: os.readlink("/proc/self/ns/pid"),
    ):
        try:
            parts.append(read())
        except OSError:
            pass  # no Linux: the name of the machine has to do
    return " ".join(parts)


def state(process: int) -> str:
    """Whether a process of this machine runs (busy or waiting), was stopped, or is there no more."""
    letter = ""
    try:
        letter = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        if not Path("/proc/self/stat").exists():
            asked = subprocess.run(
                ["ps", "-o", "state=", "-p", str(process)], capture_output=True, text=True
            )
            letter = asked.stdout.strip()[:1]
    if letter in ("", "Z", "X"):
        return VANISHED
    return STOPPED if letter in ("T", "t") else RUNS
