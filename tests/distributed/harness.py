"""Run a function in several processes that have joined each other, and give what each returned."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from multiprocessing.connection import wait
from typing import Any, NoReturn

import gradlib as torch

__all__ = ["LIMIT", "ROOM", "Failed", "run", "start", "stop"]

# Seconds for all that a test's processes do, and for each collective: they take some seconds, on a machine that is busy
# with other things many times that.
LIMIT = 300.0
# Seconds by which a busy machine may be late beyond what is promised, however long it lets processes wait: what is
# found out late is told from what is found out when LIMIT is over, or never.
ROOM = 60


@cache
def _processes() -> Any:
    """Makes processes as forks of one that has imported what all of them need, and done nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["gradlib.distributed", "gradlib.nn.parallel", "gradlib.distributed.fsdp", __name__]
    )
    return context


class Failed(AssertionError):
    """A rank raised, or ended without an answer."""


def stop(number: int = signal.SIGSTOP) -> NoReturn:
    """Send a signal to the process itself, and do nothing more: of several threads, this one may run on for a while."""
    os.kill(os.getpid(), number)
    while True:
        time.sleep(1)


def _main(
    connection: Any,
    function: Callable[..., Any],
    rank: int,
    size: int,
    backend: str,
    path: str,
    timeout: float,
    kwargs: dict[str, Any],
) -> None:
    """What each process does."""
    for name, value in {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size,
        "TORCH_FR_DUMP_TEMP_FILE": os.path.join(path, "record_"),
    }.items():  # fmt: skip
        os.environ[name] = str(value)
    stacks = open(_stacks(path, rank), "w")  # noqa: SIM115  # open as long as the process lives
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    try:
        torch.distributed.init_process_group(
            backend,
            init_method=f"file://{path}/meet",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout),
        )
        result = function(**kwargs)
        connection.send(("result", result))
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    except BaseException as error:
        connection.send(("error", "".join(traceback.format_exception(error))))
        raise SystemExit(1) from error


def _stacks(path: str, rank: int) -> str:
    """The file to which a rank writes where its threads are, when it gets SIGUSR1."""
    return os.path.join(path, f"stacks_{rank}")


class Job:
    """Processes that were started: `ends` says how each of them came out, `kill` and `stop` do so to one of them."""

    def __init__(
        self,
        function: Callable[..., Any],
        size: int,
        backend: str = "gloo",
        timeout: float = LIMIT,
        collective_timeout: float | None = None,
        **kwargs: Any,
    ) -> None:
        self.size, self.deadline = size, time.monotonic() + timeout
        self.path = tempfile.mkdtemp(prefix="gradlib_ranks_")
        context = _processes()
        self.processes, self.pipes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe(duplex=False)
            limit = collective_timeout or timeout
            given = (theirs, function, rank, size, backend, self.path, limit, kwargs)
            process = context.Process(target=_main, args=given, daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(ours)

    def kill(self, rank: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a rank."""
        os.kill(self.processes[rank].pid, number)  # type: ignore[arg-type]

    def ends(self, ranks: list[int] | None = None) -> list[tuple[str, Any]]:
        """("result", what it returned), ("error", traceback) or ("ended", exit code) for each of these ranks."""
        wanted = list(range(self.size)) if ranks is None else ranks
        found: dict[int, tuple[str, Any]] = {}
        while len(found) < len(wanted):
            left = [rank for rank in wanted if rank not in found]
            ready = wait([self.pipes[rank] for rank in left], self.deadline - time.monotonic())
            if not ready:
                raise Failed(f"ranks {left} were not done in time\n{self._where(left)}")
            for rank in left:
                if self.pipes[rank] in ready:
                    try:
                        found[rank] = self.pipes[rank].recv()
                    except EOFError:
                        self.processes[rank].join()
                        found[rank] = ("ended", self.processes[rank].exitcode)
        return [found[rank] for rank in wanted]

    def _where(self, ranks: list[int]) -> str:
        """Where the threads of some ranks are."""
        for rank in ranks:
            if self.processes[rank].is_alive():
                self.kill(rank, signal.SIGUSR1)
        time.sleep(2)
        texts = []
        for rank in ranks:
            with contextlib.suppress(OSError), open(_stacks(self.path, rank)) as file:
                texts.append(f"rank {rank}:\n{file.read()}")
        return "\n".join(texts)

    def close(self) -> None:
        """End what is still running."""
        for process in self.processes:
            process.join(0.01)
            if process.is_alive():
                process.join(2)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
        for pipe in self.pipes:
            pipe.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


start = Job


def run(
    function: Callable[..., Any],
    size: int,
    backend: str = "gloo",
    timeout: float = LIMIT,
    **kwargs: Any,
) -> list[Any]:
    """Call ``function(**kwargs)`` in `size` processes that have joined each other.

    Args:
        function: of a module that can be imported: processes begin without it.
        size: number of ranks.
        backend: of the group.
        timeout: in seconds, for all of it.

    Returns:
        What each rank returned.

    Raises:
        Failed: with the traceback of the first rank that raised.
    """
    with Job(function, size, backend, timeout, **kwargs) as job:
        ends = job.ends()
        bad = [f"rank {rank} {kind}: {what}" for rank, (kind, what) in enumerate(ends) if kind != "result"]  # fmt: skip
        if bad:
            raise Failed("\n".join(bad))
        return [what for _, what in ends]
