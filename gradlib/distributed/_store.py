"""Stores: where the processes of a job leave each other small values before they can talk in any other way.

A store maps text to bytes. What a process waits for is set by another, so most reads block until the key is there.
`HashStore` serves the threads of one process, `FileStore` the processes that share a folder, `TCPStore` all others;
`PrefixStore` gives a part of a program its own keys.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ._errors import DistStoreError, QueueEmptyError
from ._file_store import FileStore
from ._store_base import Store, Table, as_bytes, as_key, as_keys, as_pairs

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store"]


class HashStore(Store):
    """A store for the threads of one process.

    Example:
        >>> from gradlib.distributed import HashStore
        >>> store = HashStore()
        >>> store.add("arrived", 1), store.add("arrived", 1)
        (1, 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition()

    def clone(self) -> HashStore:
        other = HashStore()
        other._table, other._changed, other._timeout = self._table, self._changed, self._timeout
        return other

    def _change(self, change: Callable[[Table], Any]) -> Any:
        with self._changed:
            result = change(self._table)
            self._changed.notify_all()
        return result

    def _until(self, ready: Callable[[], Any], timeout: timedelta | None = None) -> Any:
        """What `ready` gives once it is true; the lock is held."""
        seconds = (self._timeout if timeout is None else timeout).total_seconds()
        deadline = time.monotonic() + seconds
        while not (result := ready()):
            left = deadline - time.monotonic()
            if left <= 0 or not self._changed.wait(left):
                raise DistStoreError("Wait timeout")
        return result

    def set(self, key: str, value: str | bytes, /) -> None:
        key, data = as_key("set", key), as_bytes("set", value)
        self._change(lambda table: table.values.__setitem__(key, data))

    def get(self, key: str, /) -> bytes:
        key = as_key("get", key)
        with self._changed:
            self._until(lambda: key in self._table.values)
            return self._table.values[key]

    def add(self, key: str, amount: int, /) -> int:
        return self._change(lambda table: table.add(as_key("add", key), int(amount)))

    def check(self, keys: Sequence[str], /) -> bool:
        names = as_keys("check", keys)
        with self._changed:
            return self._table.has(names)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        names = as_keys("wait", keys)
        with self._changed:
            self._until(lambda: self._table.has(names), timeout)

    def delete_key(self, key: str, /) -> bool:
        return self._change(lambda table: table.delete(as_key("delete_key", key)))

    def num_keys(self) -> int:
        return len(self._table.values)

    def list_keys(self) -> list[str]:
        with self._changed:
            return list(self._table.values)

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes, /
    ) -> bytes:
        expected = as_bytes("compare_set", expected_value)
        desired = as_bytes("compare_set", desired_value)
        key = as_key("compare_set", key)
        return self._change(lambda table: table.compare_set(key, expected, desired))

    def append(self, key: str, value: str | bytes, /) -> None:
        key, data = as_key("append", key), as_bytes("append", value)
        self._change(lambda table: table.append(key, data))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes], /) -> None:
        pairs = as_pairs("multi_set", keys, values)
        self._change(lambda table: table.values.update(pairs))

    def has_extended_api(self) -> bool:
        return True

    def queue_push(self, key: str, value: str | bytes, /) -> None:
        key, data = as_key("queue_push", key), as_bytes("queue_push", value)
        self._change(lambda table: table.push(key, data))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        key = as_key("queue_pop", key)
        with self._changed:
            if block:
                self._until(lambda: key in self._table.queues)
            value = self._table.pop(key)
        if value is None:
            raise QueueEmptyError("queue is empty")
        return value

    def queue_len(self, key: str, /) -> int:
        return len(self._table.queues.get(as_key("queue_len", key), ()))


class PrefixStore(Store):
    """A part of another store: each key is ``prefix/key`` there.

    Args:
        prefix: of its keys.
        store: the store that holds them.

    Example:
        >>> from gradlib.distributed import HashStore, PrefixStore
        >>> whole = HashStore()
        >>> PrefixStore("part", whole).set("key", "value")
        >>> whole.get("part/key")
        b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore: `store` must be a Store, but got {store!r}")
        self._prefix, self._store = as_key("PrefixStore", prefix), store

    def _full(self, key: str) -> str:
        return f"{self._prefix}/{as_key('PrefixStore', key)}"

    def _all(self, keys: Sequence[str]) -> list[str]:
        return [self._full(key) for key in as_keys("PrefixStore", keys)]

    @property
    def underlying_store(self) -> Store:
        """The store that holds the keys."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        """The store below all prefixes."""
        below = self._store
        while isinstance(below, PrefixStore):
            below = below._store
        return below

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key: that of the store below."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta, /) -> None:
        """Set how long `get` and `wait` wait for a key, in the store below too."""
        self._store.set_timeout(timeout)

    def clone(self) -> PrefixStore:
        return PrefixStore(self._prefix, self._store.clone())

    def set(self, key: str, value: str | bytes, /) -> None:
        self._store.set(self._full(key), value)

    def get(self, key: str, /) -> bytes:
        return self._store.get(self._full(key))

    def add(self, key: str, amount: int, /) -> int:
        return self._store.add(self._full(key), amount)

    def check(self, keys: Sequence[str], /) -> bool:
        return self._store.check(self._all(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        self._store.wait(self._all(keys), self.timeout if timeout is None else timeout)

    def delete_key(self, key: str, /) -> bool:
        return self._store.delete_key(self._full(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        start = self._prefix + "/"
        return [key[len(start) :] for key in self._store.list_keys() if key.startswith(start)]

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes, /
    ) -> bytes:
        return self._store.compare_set(self._full(key), expected_value, desired_value)

    def append(self, key: str, value: str | bytes, /) -> None:
        self._store.append(self._full(key), value)

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        return self._store.multi_get(self._all(keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes], /) -> None:
        self._store.multi_set(self._all(keys), values)

    def has_extended_api(self) -> bool:
        return self._store.has_extended_api()

    def queue_push(self, key: str, value: str | bytes, /) -> None:
        self._store.queue_push(self._full(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._store.queue_pop(self._full(key), block)

    def queue_len(self, key: str, /) -> int:
        return self._store.queue_len(self._full(key))
