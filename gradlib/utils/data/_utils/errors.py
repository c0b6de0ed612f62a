"""Errors of a worker, carried to the process or thread that asked for the batch."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

__all__ = ["WorkerError"]


class _Verbatim(str):
    """Text that a KeyError shows with its line breaks: it prints the repr of its argument."""

    def __repr__(self) -> str:
        return str(self)


class WorkerError:
    """An exception as its type and its text; the traceback itself cannot leave a process.

    Args:
        error: the exception, caught in the worker.
        where: the worker, in words.
    """

    __slots__ = ("kind", "text")

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: Any = type(error)
        self.text = "".join(traceback.format_exception(error))
        self.text = f"Caught {self.kind.__name__} {where}.\nOriginal {self.text}"
        try:
            pickle.dumps(self.kind)
        except Exception:
            self.kind = RuntimeError  # its class exists in the worker only

    def reraise(self) -> None:
        """Raise an exception of the same type, with the worker's traceback as its text."""
        if issubclass(self.kind, KeyError):
            raise self.kind(_Verbatim(self.text))
        try:
            error = self.kind(self.text)
        except Exception:  # its constructor wants something else
            error = RuntimeError(self.text)
        raise error
