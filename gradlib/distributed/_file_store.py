"""FileStore: a store in a file, for processes that share a folder."""

from __future__ import annotations

import os
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ._errors import DistStoreError
from ._store_base import Store, Table, as_bytes, as_key, as_keys, as_pairs

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["FileStore"]

_HEAD = struct.Struct("<IQ")  # of a record: length of the key; length of the value, or _DELETED
_DELETED = 2**64 - 1
# Two counters in the file: who opened it, who closed it. No text that UTF-8 gives starts like this.
_OPENED, _CLOSED = "\x00opened", "\x00closed"


class _Log:
    """The file: records of changes, one behind the other; each process reads what is new since it last looked."""

    def __init__(self, path: str) -> None:
        self.path, self._at, self.table = path, 0, Table()
        self._lock = threading.RLock()

    @contextmanager
    def locked(self, write: bool) -> Iterator[int]:
        """The file, with all changes read, while no other process (or, if `write`, no one) may change it."""
        if fcntl is None:
            raise NotImplementedError("FileStore needs file locks of POSIX: use TCPStore here")
        with self._lock:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise DistStoreError(f"open({self.path}): {error.strerror}") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
                self._read(file)
                yield file
            finally:
                os.close(file)  # which unlocks

    def _read(self, file: int) -> None:
        size = os.fstat(file).st_size
        if size < self._at:  # another job's file has taken its place
            self._at, self.table = 0, Table()
        data = os.pread(file, size - self._at, self._at) if size > self._at else b""
        at = 0
        # A process killed while it wrote leaves half a record: the next writer cuts it off.
        while len(data) - at >= _HEAD.size:
            key_length, value_length = _HEAD.unpack_from(data, at)
            start = at + _HEAD.size
            end = start + key_length + (0 if value_length == _DELETED else value_length)
            if end > len(data):
                break
            key = data[start : start + key_length].decode()
            if value_length == _DELETED:
                self.table.values.pop(key, None)
            else:
                self.table.values[key] = data[start + key_length : end]
            at = end
        self._at += at

    def write(self, file: int, key: str, value: bytes | None) -> None:
        """Record a change; the file is locked for writing. None deletes."""
        name = key.encode()
        head = _HEAD.pack(len(name), _DELETED if value is None else len(value))
        record = head + name + (value or b"")
        os.ftruncate(file, self._at)
        if os.pwrite(file, record, self._at) != len(record):
            os.ftruncate(file, self._at)
            raise DistStoreError(f"write({self.path}): No space left on device")
        self._at += len(record)
        if value is None:
            self.table.values.pop(key, None)
        else:
            self.table.values[key] = value


def _close(log: _Log, world_size: int, process: int) -> None:
    """Count this process out; the last one of a fixed number removes the file."""
    if os.getpid() != process or not os.path.exists(log.path):
        return
    with log.locked(write=True) as file:
        closed = log.table.add(_CLOSED, 1)
        log.write(file, _CLOSED, b"%d" % closed)
        if closed == world_size:
            os.unlink(log.path)


class FileStore(Store):
    """A store in a file, for processes that share a folder. There are no queues.

    Args:
        file_name: the path of the file, which must not be left over from another job.
        world_size: how many processes use it: the last one to close it removes it. Negative: it stays.

    Raises:
        DistStoreError: the file cannot be opened.

    Example:
        >>> from gradlib.distributed import FileStore
        >>> one = FileStore("filestore", 2)
        >>> two = FileStore("filestore", 2)  # in another process
        >>> one.set("first_key", "first_value")
        >>> two.get("first_key")
        b'first_value'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._log = _Log(os.fspath(file_name))
        self._world_size = int(world_size)
        with self._log.locked(write=True) as file:
            opened = self._log.table.add(_OPENED, 1)
            self._log.write(file, _OPENED, b"%d" % opened)
        weakref.finalize(self, _close, self._log, self._world_size, os.getpid())

    @property
    def path(self) -> str:
        """Of the file."""
        return self._log.path

    def clone(self) -> FileStore:
        other = FileStore.__new__(FileStore)  # the file counts processes, not objects
        Store.__init__(other)
        other._log, other._world_size = self._log, self._world_size
        other._timeout, other._first = self._timeout, self  # type: ignore[attr-defined]  # which counts
        return other

    def _change(self, function: str, key: str, change: Callable[[Table, str], Any]) -> Any:
        key = as_key(function, key)
        with self._log.locked(write=True) as file:
            before = self._log.table.values.get(key)
            result = change(self._log.table, key)
            after = self._log.table.values.get(key)
            if after is not None or before is not None:
                self._log.write(file, key, after)
        return result

    def _until(self, keys: list[str], timeout: timedelta, text: str) -> list[bytes]:
        """The values of `keys`, once all are there: looks again after 1 ms, then less often."""
        deadline, pause = time.monotonic() + timeout.total_seconds(), 0.001
        while True:
            with self._log.locked(write=False):
                values = self._log.table.values
                if all(key in values for key in keys):
                    return [values[key] for key in keys]
            if time.monotonic() > deadline:
                raise DistStoreError(text)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def set(self, key: str, value: str | bytes, /) -> None:
        data = as_bytes("set", value)
        self._change("set", key, lambda table, key: table.values.__setitem__(key, data))

    def get(self, key: str, /) -> bytes:
        return self._get([as_key("get", key)])[0]

    def _get(self, keys: list[str]) -> list[bytes]:
        spent = round(self._timeout.total_seconds() * 1000)
        text = f"Timeout waiting for key: {', '.join(keys)} after {spent} ms"
        return self._until(keys, self._timeout, text)

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        return self._get(as_keys("multi_get", keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes], /) -> None:
        pairs = as_pairs("multi_set", keys, values)
        with self._log.locked(write=True) as file:
            for key, value in pairs:
                self._log.write(file, key, value)

    def add(self, key: str, amount: int, /) -> int:
        return self._change("add", key, lambda table, key: table.add(key, int(amount)))

    def check(self, keys: Sequence[str], /) -> bool:
        names = as_keys("check", keys)
        with self._log.locked(write=False):
            return self._log.table.has(names)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        names = as_keys("wait", keys)
        self._until(names, self._timeout if timeout is None else timeout, "Wait timeout")

    def delete_key(self, key: str, /) -> bool:
        return self._change("delete_key", key, Table.delete)

    def num_keys(self) -> int:
        """How many keys have a value, and one more, which counts the processes."""
        return len(self.list_keys()) + 1

    def list_keys(self) -> list[str]:
        with self._log.locked(write=False):
            return [key for key in self._log.table.values if key not in (_OPENED, _CLOSED)]

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes, /
    ) -> bytes:
        expected = as_bytes("compare_set", expected_value)
        desired = as_bytes("compare_set", desired_value)
        change = lambda table, key: table.compare_set(key, expected, desired)
        return self._change("compare_set", key, change)

    def append(self, key: str, value: str | bytes, /) -> None:
        data = as_bytes("append", value)
        self._change("append", key, lambda table, key: table.append(key, data))
