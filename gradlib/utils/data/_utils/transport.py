"""Batches on their way from a worker process: small ones through a pipe, big ones in shared memory.

The buffers of arrays are written to a file in memory (/dev/shm), which the receiver maps and
removes, so that they are copied once and never pass through the pipe. Where there is no such
folder, everything goes through the pipe.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import shutil
import tempfile
import uuid
from multiprocessing import reduction
from typing import Any

from ....serialization._copies import reduce_tensor
from ....tape.device import copied
from ....tape.lazy import raw_values
from ....tape.tensor import Tensor
from .errors import WorkerError

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

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            base = getattr(obj._array, "base", None)
            if base is not None and getattr(base, "nbytes", 0) > 2 * obj._array.nbytes:
                alone = Tensor._make_subclass(
                    type(obj), Tensor._make(copied(raw_values(obj))), obj._rg
                )
                alone.__dict__.update(obj.__dict__)
                return reduce_tensor(alone, 5)
        return NotImplemented


def _dump(answer: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle of an answer, and the buffers of the arrays in it."""
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, 5, True, buffers.append).dump(answer)
    return file.getvalue(), [buffer.raw() for buffer in buffers]


def send(connection: Any, answer: tuple[int, int, Any], folder: str | None, where: str) -> None:
    """Send an answer; one that cannot be pickled becomes an error that says so.

    Args:
        connection: where to.
        answer: (epoch, number, batch).
        folder: from `make_folder`.
        where: the worker, in words.
    """
    try:
        data, buffers = _dump(answer)
    except Exception as error:
        data, buffers = _dump((*answer[:2], WorkerError(error, where)))
    path = None
    if folder is not None and sum(buffer.nbytes for buffer in buffers) >= _THRESHOLD:
        path = _write(folder, buffers)
    sizes = [buffer.nbytes for buffer in buffers]
    content = None if path is not None else [bytes(buffer) for buffer in buffers]
    connection.send_bytes(pickle.dumps((data, path, sizes, content), 5))


def _write(folder: str, buffers: list[memoryview]) -> str | None:
    """The path of a file with the buffers, each at an aligned position; None if it does not fit."""
    path = os.path.join(folder, uuid.uuid4().hex)
    try:
        with open(path, "xb", buffering=0) as file:
            for buffer in buffers:
                left = buffer
                while left.nbytes:
                    left = left[file.write(left) :]
                file.seek(-buffer.nbytes % _ALIGN, os.SEEK_CUR)
            file.truncate(file.tell())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None
    return path


def receive(connection: Any) -> tuple[int, int, Any]:
    """The next answer.

    Raises:
        EOFError: the worker has ended.
    """
    data, path, sizes, content = pickle.loads(connection.recv_bytes())
    if path is None:
        return pickle.loads(data, buffers=[bytearray(buffer) for buffer in content])
    with open(path, "r+b") as file:
        os.unlink(path)  # the memory lives as long as the map, and the map as long as the arrays
        memory = memoryview(mmap.mmap(file.fileno(), 0))
    buffers, start = [], 0
    for size in sizes:
        buffers.append(memory[start : start + size])
        start += size + -size % _ALIGN
    return pickle.loads(data, buffers=buffers)
