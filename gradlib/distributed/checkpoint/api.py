"""The error of a save or a load that failed on some of the processes."""

from __future__ import annotations

import traceback

__all__ = ["CheckpointException"]

Failure = tuple[BaseException, traceback.StackSummary]


class CheckpointException(BaseException):
    """A save or a load failed; every process of the group gets this error, with what happened on each of them.

    Args:
        msg: what was being done.
        failures: the error and the place it came from, for each process that failed, by rank.

    Example:
        >>> error = CheckpointException("write", {1: (OSError("disk full"), [])})
        >>> "disk full" in str(error), list(error.failures)
        (True, [1])
    """

    def __init__(self, msg: str, failures: dict[int, Failure]):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Failure]:
        """The error and its place by rank.

        Returns:
            rank -> (the exception, its stack); the ranks that had no error of their own are not in it.
        """
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{self._failures.keys()} while: {self.args[0]}\n"]
        for rank, (error, stack) in self._failures.items():
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            lines += traceback.format_list(stack)
            lines += traceback.format_exception_only(type(error), error)
        return "".join(lines)
