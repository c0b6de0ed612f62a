"""Which of how many processes this one is, as launchers other than PyTorch's say it: mpiexec and srun."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from . import _wire
from ._errors import DistNetworkError

__all__ = ["Launched", "first_host", "fresh_token", "launched", "meeting_point", "slurm_port"]


class Launched(NamedTuple):
    """This process among those that a launcher started together."""

    by: str
    rank: int
    size: int
    local_rank: int  # among those of this machine
    local_size: int


# Launcher, and the variables it sets: rank, size, local rank, local size.
_VARIABLES = (
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        "MVAPICH",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    ("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # SLURM_NTASKS is there in a batch script too, which is one process: SLURM_STEP_NUM_TASKS only under srun
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
)


def launched() -> Launched | None:
    """What mpiexec or srun says of this process; None if neither started it."""
    for by, rank, size, local_rank, local_size in _VARIABLES:
        if rank in os.environ and size in os.environ:
            of_slurm = os.environ.get("SLURM_STEP_TASKS_PER_NODE", "") if by == "Slurm" else ""
            here = os.environ.get(local_size) or _slurm_local_size(of_slurm)
            return Launched(
                by,
                int(os.environ[rank]),
                int(os.environ[size]),
                int(os.environ.get(local_rank, 0)),
                int(here or 0),
            )
    return None


def _slurm_local_size(tasks: str) -> str:
    """The number of tasks on this node, of a text such as ``2(x3),1``."""
    counts: list[str] = []
    for part in filter(None, tasks.split(",")):
        count, _, times = part.partition("(x")
        counts += [count] * int(times.rstrip(")") or 1)
    node = int(os.environ.get("SLURM_NODEID", 0))
    return counts[node] if node < len(counts) else ""


def first_host(hosts: str) -> str:
    """The first of a list of hosts as Slurm writes it: ``node[03-05,9],login`` begins with ``node03``."""
    found = re.match(r"([^,\[]+)(?:\[([^\],-]+))?", hosts)
    return "".join(filter(None, found.groups())) if found else ""


def slurm_port() -> int:
    """A port that all processes of this step of a Slurm job compute alike: other jobs on the node get others."""
    step = f"{os.environ.get('SLURM_JOB_ID')}.{os.environ.get('SLURM_STEP_ID')}"
    return 20000 + int.from_bytes(hashlib.sha256(step.encode()).digest()[:4], "little") % 12000


# -- one machine: the port is chosen by the system, and left in a file -------------------------------------------


def _job_here() -> str:
    """What names this job among those of this machine: what its launcher calls it, or the launcher's process."""
    for name in ("PMIX_NAMESPACE", "PMI_JOBID"):
        if os.environ.get(name):
            return os.environ[name]
    parent = os.getppid()
    try:
        stat = Path(f"/proc/{parent}/stat").read_text()
        return f"{parent}.{stat.rpartition(')')[2].split()[19]}"  # and when it started
    except (OSError, IndexError):
        return str(parent)


_times = 0


class _Point:
    """A file with the address of the store of a job, and its token."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def leave(self, port: int, token: str) -> None:
        """Say where the store is: for processes of this user alone."""
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        part.touch(mode=0o600)
        part.write_text(f"{port} {token}")
        part.replace(self._path)

    def find(self, timeout: timedelta) -> tuple[int, str]:
        """Where the store is, once it is said.

        Raises:
            DistNetworkError: it was not in time.
        """
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            try:
                if self._path.stat().st_uid != os.getuid():
                    raise DistNetworkError(f"{self._path} is another user's: remove it")
                port, _, token = self._path.read_text().partition(" ")
                return int(port), token
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    raise DistNetworkError(
                        f"Rank 0 has not said within {timeout.total_seconds():g} s where it is ({self._path}): set "
                        f"MASTER_ADDR and MASTER_PORT if the launcher's processes do not share {tempfile.gettempdir()}"
                    ) from None
                time.sleep(0.01)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def meeting_point() -> _Point:
    """Where the processes of a job on one machine meet: another file each time."""
    global _times
    _times += 1
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = hashlib.sha256(f"{_job_here()} {_times}".encode()).hexdigest()[:20]
    return _Point(Path(tempfile.gettempdir()) / f"gradlib-job-{user}-{name}")


def fresh_token() -> str:
    """A token for a job that has none."""
    return os.environ.get(_wire.TOKEN) or secrets.token_hex(16)
