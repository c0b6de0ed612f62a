"""Batches on their way from a worker process: small ones through a pipe, big ones in shared memory.

The buffers of arrays are written to a file in memory (/dev/shm), which the receiver maps and
removes, so that they are copied once and never pass through the pipe. Where there is no such
folder, everything goes through the pipe.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import shutil
import tempfile
import uuid
from multiprocessing import reduction
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.serialization import reduce_tensor
from gradlib.utils.data._utils.errors import WorkerError

_MEMORY_FOLDER = "/dev/shm"
_THRESHOLD = 32 * 1024  # bytes; below that a pipe is as quick, and it does not make the worker wait
_ALIGN = 64


def make_folder() -> str | None:
    """A folder in memory for the batches of one DataLoader; None where there is no such thing."""
    if not os.access(_MEMORY_FOLDER, os.W_OK):
        return None
    return tempfile.mkdtemp(prefix="gradlib-", dir=_MEMORY_FOLDER)


def remove_folder(folder: str | None) -> None:
    """Remove it with the batches that nobody has taken."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


class _Pickler(reduction.ForkingPickler):
    """Pickles a tensor that is part of a bigger one without the rest of it."""

    def __init__(self, file: Any, buffer_callback: Any) -> None:
        super().__init__(file, 5)
        self.buffer_callback = buffer_callback

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor) and type(obj).__reduce_ex__ is Tensor.__reduce_ex__:
            array = obj._array
            base = getattr(array, "base", None)
            if base is not None and getattr(base, "nbytes", 0) > 2 * array.nbytes:
                return reduce_tensor(_compact(obj), 5)
        return NotImplemented


def _compact(tensor: Tensor) -> Tensor:
    """The same tensor with memory of its own."""
    copy = Tensor._make_subclass(type(tensor), Tensor._make(tensor._array.copy()), tensor._rg)
    copy.__dict__.update(tensor.__dict__)
    return copy


def _dump(answer: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle of an answer, and the buffers of the arrays in it."""
    buffers: list[memoryview] = []
    file = io.BytesIO()
    # ForkingPickler does not pass `buffer_callback` on, so its table is given to a plain pickler.
    pickler = _make_pickler(file, buffers)
    pickler.dump(answer)
    return file.getvalue(), buffers


def _make_pickler(file: io.BytesIO, buffers: list[memoryview]) -> Any:
    raise NotImplementedError
