"""The processes of one machine: started together, watched, and ended together, with all that they started."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any, NamedTuple, Protocol

from ..elastic.multiprocessing.api import LogsDest
from ..elastic.multiprocessing.errors import record
from ..elastic.multiprocessing.tail_log import TailLog
from ._guard import Guard

__all__ = ["Entry", "Processes"]


class Entry(NamedTuple):
    """What each process runs."""

    call: Callable[..., Any] | str  # a function, or the path of a program
    arguments: Mapping[int, Sequence[Any]]  # by local rank
    start_method: str = "spawn"  # of multiprocessing, for a function


class _Started(Protocol):
    """A process of either kind."""

    pid: Any

    def poll(self) -> int | None: ...


def _call(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    environment: dict[str, str],
    outputs: tuple[str, str],
    result: str,
) -> None:
    """Run a function as a process of its own, and leave what it returns in a file."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # a forked process has the launcher's
    os.environ.update(environment)
    for path, stream in zip(outputs, (sys.stdout, sys.stderr)):
        if path:
            stream.flush()
            with open(path, "ab", buffering=0) as file:
                os.dup2(file.fileno(), stream.fileno())
    value = record(function)(*arguments)
    with open(result, "wb") as file:
        pickle.dump(value, file)


class _Function:
    """A function that runs in a process."""

    def __init__(self, method: str, *arguments: Any) -> None:
        context: Any = multiprocessing.get_context(method)
        self._process = context.Process(target=_call, args=arguments)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode


class Processes:
    """The processes of this machine.

    Args:
        entry: what they run.
        environments: what is set in each, by local rank, beside what the launcher has.
        logs: where their output goes.
        name: stands before lines on the terminal, with the local rank.
        prefixes: what stands there instead, by local rank.
    """

    def __init__(
        self,
        entry: Entry,
        environments: Mapping[int, dict[str, str]],
        logs: LogsDest,
        name: str,
        prefixes: Mapping[int, str] | None = None,
    ) -> None:
        self._entry, self._environments, self._logs = entry, environments, logs
        self._processes: dict[int, _Started] = {}
        self._exit_codes: dict[int, int] = {}
        self._folder = ""
        self._guard: Guard | None = None
        self._tails = [
            TailLog(name, logs.tee_stdouts, sys.stdout, prefixes),
            TailLog(name, logs.tee_stderrs, sys.stderr, prefixes),
        ]

    def start(self) -> None:
        """Start all; none stays if one cannot be started.

        Raises:
            OSError: there is no such program.
        """
        self._guard = Guard()
        try:
            for rank, environment in self._environments.items():
                self._processes[rank] = self._start(rank, environment)
                self._guard.add(self._processes[rank].pid)
        except BaseException:
            self.stop(0.0, lambda: True)
            self.release()
            raise
        for tail in self._tails:
            tail.start()

    def _start(self, rank: int, environment: dict[str, str]) -> _Started:
        arguments = self._entry.arguments[rank]
        outputs = (self._logs.stdouts.get(rank, ""), self._logs.stderrs.get(rank, ""))
        if not isinstance(self._entry.call, str):
            call, method = self._entry.call, self._entry.start_method
            result = self._result_file(rank)
            return _Function(method, call, arguments, environment, outputs, result)
        with ExitStack() as files:
            streams: list[IO[bytes] | None] = [
                files.enter_context(open(path, "ab")) if path else None for path in outputs
            ]
            return subprocess.Popen(
                [self._entry.call, *map(str, arguments)],
                env={**os.environ, **environment},
                stdout=streams[0],
                stderr=streams[1],
                # a session of its own: Ctrl-C reaches the launcher alone, which ends the process and all it started
                start_new_session=True,
            )

    def _result_file(self, rank: int) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="gradlib_results_")
        return os.path.join(self._folder, str(rank))

    def pid(self, rank: int) -> int:
        """Of a process."""
        return self._processes[rank].pid

    def poll(self) -> dict[int, int]:
        """The exit codes of those that have ended, by local rank."""
        for rank, process in self._processes.items():
            if rank not in self._exit_codes:
                code = process.poll()
                if code is not None:
                    self._exit_codes[rank] = code
                    if code != 0:
                        self._end_session(process.pid)  # what it left behind
        return self._exit_codes

    def running(self) -> bool:
        """Whether one has not ended."""
        return len(self.poll()) < len(self._processes)

    def results(self) -> dict[int, Any]:
        """What the functions returned; None for programs."""
        found: dict[int, Any] = dict.fromkeys(self._processes)
        if self._folder:
            for rank in found:
                with open(self._result_file(rank), "rb") as file:
                    found[rank] = pickle.load(file)
        return found

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        """Signal a process and all of its session."""
        for send in (os.killpg, os.kill):
            try:
                send(pid, number)
                return
            except (ProcessLookupError, PermissionError):
                pass  # not yet the leader of a group, or gone

    @staticmethod
    def _end_session(leader: int) -> None:
        """Kill what is left of the session of a process that has ended; its own number may be another's by now."""
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # nothing is left

    def stop(
        self, grace: float, hurry: Callable[[], bool], number: int = signal.SIGTERM
    ) -> dict[int, int]:
        """End those that run.

        Args:
            grace: seconds that they have to end by themselves after the signal.
            hurry: asked meanwhile: True ends them at once.
            number: the signal that asks them.

        Returns:
            All exit codes.
        """
        running = [rank for rank in self._processes if rank not in self.poll()]
        for rank in running:
            self._signal(self._processes[rank].pid, number)
            self._signal(
                self._processes[rank].pid, signal.SIGCONT
            )  # one that is stopped cannot end
        deadline = time.monotonic() + grace
        while self.running() and time.monotonic() < deadline and not hurry():
            time.sleep(0.02)
        for rank in running:
            if rank not in self._exit_codes:
                self._signal(self._processes[rank].pid, signal.SIGKILL)
            elif self._exit_codes[rank] != 0:
                self._end_session(self._processes[rank].pid)
        while self.running():
            time.sleep(0.005)
        for tail in self._tails:
            tail.stop()
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        return self._exit_codes

    def release(self) -> None:
        """Remove what functions left; nothing more is asked of them."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
