"""How a launched process says why it failed, and how the launcher says which one failed first.

The launcher names a file in ``TORCHELASTIC_ERROR_FILE``. A process that raises writes its traceback there: under
`record`, or, once it is one of a process group, whenever nobody handles an exception.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ...._errors import DistBackendError

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
NO_FILE = "<N/A>"
_P = ParamSpec("_P")
_R = TypeVar("_R")


class ErrorHandler:
    """Write why a process failed to the file that its launcher named.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing.errors import get_error_handler
        >>> handler = get_error_handler()
        >>> handler.initialize()
    """

    def initialize(self) -> None:
        """Be called before the program starts.

        It does nothing: it is there for handlers of a program's own.
        """

    def record_exception(self, e: BaseException) -> None:
        """Write an exception with its traceback, if there is a file for it.

        Args:
            e: what was raised.
        """
        path = os.environ.get(ERROR_FILE)
        if not path:
            return
        text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
        data = {
            "message": {
                "message": f"{type(e).__name__}: {e}",
                "extraInfo": {"py_callstack": text, "timestamp": repr(time.time())},
            }
        }
        self._write(path, data)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Pass on the file of a process below, as the reason why this one fails.

        Args:
            rootcause_error_file: the file of the process below.
            error_code: is written into it, if it is not 0.
        """
        path = os.environ.get(ERROR_FILE)
        if not path:
            return
        data = json.loads(Path(rootcause_error_file).read_text())
        if error_code and isinstance(data.get("message"), dict):
            data["message"]["errorCode"] = error_code
        self._write(path, data)

    @staticmethod
    def _write(path: str, data: dict[str, Any]) -> None:
        """Write it whole or not at all: the launcher may look at any time."""
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=Path(path).parent)
            with os.fdopen(handle, "w") as file:
                json.dump(data, file)
            os.replace(part, path)
        except OSError as error:  # the disk is full: the traceback is on stderr too
            print(f"gradlib: {path} could not be written: {error}", file=sys.stderr)


def get_error_handler() -> ErrorHandler:
    """What `record` uses.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing.errors import get_error_handler
        >>> type(get_error_handler()).__name__
        'ErrorHandler'
    """
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A process that failed.

    Args:
        local_rank: its number on its machine.
        pid: of the process.
        exitcode: negative: the number of the signal that ended it.
        error_file: that it may have written.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False, repr=False)
    message: str = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data = {}
        self._when = time.time()
        try:
            self.error_file_data = json.loads(Path(self.error_file).read_text())
        except (OSError, ValueError):
            self.error_file = NO_FILE
        said = self.error_file_data.get("message", "")
        if isinstance(said, dict):
            more = said.get("extraInfo", {})
            self.message = more.get("py_callstack") or str(said.get("message", ""))
            self._when = float(more.get("timestamp", self._when))
        elif said:
            self.message = str(said)
        elif self.exitcode < 0:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            )
        else:
            self.message = (
                "is in what this rank printed; @record on its main function brings it here"
            )
        self.timestamp = int(self._when)

    def signal_name(self) -> str:
        """Of the signal that ended it; ``<N/A>`` if none did."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else NO_FILE
        except ValueError:
            return f"signal {-self.exitcode}"

    def timestamp_isoformat(self) -> str:
        """When it failed, in local time."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Some of the processes that were launched failed: says which one failed first, and why.

    Args:
        name: of the program.
        failures: by global rank.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
        >>> error = ChildFailedError("train.py", {1: ProcessFailure(1, 4711, -9, "")})
        >>> error.get_first_failure()[0]
        1
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError: there must be at least one failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how.

        A process that the launcher ended (SIGTERM), or whose collective failed, is not the first, unless there is no
        other: the others' collectives fail because of the first one.
        """

        def place(each: tuple[int, ProcessFailure]) -> tuple[bool, bool, float]:
            failure = each[1]
            return (
                failure.exitcode == -15,
                DistBackendError.__name__ in failure.message,
                failure._when,
            )

        return min(self.failures.items(), key=place)

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All of it as text: the first failure with its traceback, then the others in short.

        Args:
            boarder_delim: the sign that the first and last line are made of.
            section_delim: that of the lines between the parts.
        """
        root, first = self.get_first_failure()
        width = 80
        lines = [
            "",
            boarder_delim * width,
            f"{self.name} FAILED",
            section_delim * width,
            "Root Cause (first observed failure):",
            f"  time      : {first.timestamp_isoformat()}",
            f"  host      : {socket.gethostname()}",
            f"  rank      : {root} (local_rank: {first.local_rank})",
            f"  exitcode  : {first.exitcode} (pid: {first.pid}) {self._signal(first)}".rstrip(),
            f"  error_file: {first.error_file}",
            "  traceback : " + "\n    ".join(first.message.rstrip().splitlines()),
            section_delim * width,
            "Other Failures:",
        ]
        others = sorted((rank, failure) for rank, failure in self.failures.items() if rank != root)
        for rank, failure in others:
            said = failure.error_file_data.get("message", "")
            short = said.get("message", "") if isinstance(said, dict) else failure.message
            line = (str(short).strip().splitlines() or [""])[0]
            how = f"exitcode {failure.exitcode} {self._signal(failure)}".rstrip()
            lines.append(f"  rank {rank}, {how}: {line}")
        if not others:
            lines.append("  <NO_OTHER_FAILURES>")
        return "\n".join([*lines, boarder_delim * width])

    @staticmethod
    def _signal(failure: ProcessFailure) -> str:
        return f"({failure.signal_name()})" if failure.exitcode < 0 else ""


def record(
    fn: Callable[_P, _R], error_handler: ErrorHandler | None = None
) -> Callable[_P, _R | None]:
    """A decorator for the main function of a program: the launcher gets the traceback of what it raises.

    Args:
        fn: the main function.
        error_handler: None for `get_error_handler`.

    Example:
        >>> from gradlib.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return 3
        >>> main()
        3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:
                return None  # as PyTorch has it
            raise
        except ChildFailedError as error:
            failure = error.get_first_failure()[1]
            if failure.error_file != NO_FILE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            else:
                handler.record_exception(error)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
