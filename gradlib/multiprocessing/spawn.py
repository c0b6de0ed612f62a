"""Several processes that run one function, and whose first error ends them all."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process has failed.

    Args:
        msg: the text.
        error_index: which process.
        error_pid: its number in the system.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process has raised.

    The text has its traceback.
    """


class ProcessExitedException(ProcessException):
    """A process has ended without an error of Python's: by a signal, or with an exit code.

    Args:
        msg: the text.
        error_index: which process.
        error_pid: its number in the system.
        exit_code: below 0 for a signal.
        signal_name: such as "SIGKILL".
    """

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        args = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), args


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], error_file: str) -> None:
    """What a process runs. An error is left in a file: a pipe may be full, and nobody reads before the end."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has it, too
    except Exception:
        with open(error_file, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together; see `start_processes`.

    Args:
        processes: of multiprocessing.
        error_files: where each leaves the traceback of its error.
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes in the system.

        In the order in which they were started.
        """
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends; where one has failed, end the others and raise.

        Args:
            timeout: seconds to wait at most.
            grace_period: seconds that the others get to end by themselves, and again after they were asked to.

        Returns:
            True if all have ended, False if some run on.

        Raises:
            ProcessRaisedException: one has raised.
            ProcessExitedException: one was killed, or exited with a code that is not 0.
        """
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            process = self.processes[index]
            process.join()
            if process.exitcode:
                self._end(grace_period)
                raise self._error(index)
        if not self.sentinels:
            self._remove_files()
        return not self.sentinels

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))

    def _end(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._wait(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._wait(30 if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _error(self, index: int) -> ProcessException:
        process = self.processes[index]
        with open(self.error_files[index], encoding="utf-8") as file:
            trace = file.read()
        self._remove_files()
        if trace:
            text = f"\n\n-- Process {index} terminated with the following error:\n{trace}"
            return ProcessRaisedException(text, index, process.pid)
        code, name = process.exitcode, None
        how = f"exit code {code}"
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            how = f"signal {name}"
        text = f"process {index} terminated with {how}"
        return ProcessExitedException(text, index, process.pid, code, name)

    def _remove_files(self) -> None:
        for path in self.error_files:
            with contextlib.suppress(OSError):
                os.unlink(path)


SpawnContext = ProcessContext  # its name of old


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: Any = None,
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in `nprocs` processes, i from 0 on.

    Args:
        fn: a function of a module, so that it can be pickled (but with "fork").
        args: its other arguments; tensors among them are shared.
        nprocs: how many processes.
        join: wait for all of them.
        daemon: whether they end with this process.
        start_method: "spawn", "fork" or "forkserver".
        numa_options: not taken.

    Returns:
        None; without `join` a `ProcessContext`.

    Raises:
        ProcessRaisedException: one has raised.
        ProcessExitedException: one was killed, or exited with a code that is not 0.
        NotImplementedError: `numa_options` are given.

    Example::

        def train(rank, model):
            ...

        if __name__ == "__main__":
            torch.multiprocessing.start_processes(train, (model,), nprocs=4)
    """
    if numa_options is not None:
        raise NotImplementedError("gradlib binds no process to memory: leave numa_options out")
    context: Any = multiprocessing.get_context(start_method)
    processes, files = [], []
    for i in range(nprocs):
        descriptor, path = tempfile.mkstemp(prefix="gradlib-error-")
        os.close(descriptor)
        process = context.Process(target=_run, args=(fn, i, args, path), daemon=daemon)
        process.start()
        processes.append(process)
        files.append(path)
    started = ProcessContext(processes, files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in `nprocs` fresh processes; see `start_processes`.

    Args:
        fn: a function of a module, which the processes import.
        args: its other arguments; tensors among them are shared.
        nprocs: how many processes.
        join: wait for all of them.
        daemon: whether they end with this process.
        start_method: another one than "spawn" is a matter of `start_processes`, and is taken here, too.

    Returns:
        None; without `join` a `ProcessContext`.

    Raises:
        ProcessRaisedException: one has raised.
        ProcessExitedException: one was killed, or exited with a code that is not 0.

    Example::

        if __name__ == "__main__":
            torch.multiprocessing.spawn(train, args=(model,), nprocs=4)
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
