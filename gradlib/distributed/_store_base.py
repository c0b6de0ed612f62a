"""What all stores have in common: their methods, what they hold, and the checks of their arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

__all__ = ["Store", "Table", "as_bytes", "as_key", "as_keys", "as_pairs"]


def as_key(function: str, key: Any) -> str:
    """`key`, if it can be one.

    Raises:
        TypeError: it is not a str.
    """
    if not isinstance(key, str):
        raise TypeError(
            f"{function}(): incompatible function arguments. A key must be str, but got {key!r}"
        )
    return key


def as_bytes(function: str, value: Any) -> bytes:
    """A value as it is kept.

    Raises:
        TypeError: it is neither str nor bytes.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"{function}(): incompatible function arguments. A value must be str or bytes, but got {value!r}"
    )


def as_keys(function: str, keys: Any) -> list[str]:
    """A list of keys.

    Raises:
        TypeError: it is one key, or no sequence of str.
    """
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence):
        raise TypeError(
            f"{function}(): incompatible function arguments. A list of keys was expected, but got {keys!r}"
        )
    return [as_key(function, key) for key in keys]


def as_pairs(function: str, keys: Any, values: Any) -> list[tuple[str, bytes]]:
    """Keys with their values.

    Raises:
        ValueError: there are more of one than of the other.
    """
    keys = as_keys(function, keys)
    if len(keys) != len(values):
        raise ValueError(f"{function}(): got {len(keys)} keys, but {len(values)} values")
    return [(key, as_bytes(function, value)) for key, value in zip(keys, values)]


class Table:
    """What a store holds: values, counters (kept as their text) and queues. Not guarded: whoever has it locks."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def has(self, keys: Sequence[str]) -> bool:
        return all(key in self.values or key in self.queues for key in keys)

    def add(self, key: str, amount: int) -> int:
        before = self.values.get(key, b"0")
        try:
            total = int(before) + amount
        except ValueError:
            raise ValueError(
                f"add: the value of {key!r} is not a number: {before[:40]!r}"
            ) from None
        self.values[key] = b"%d" % total
        return total

    def append(self, key: str, value: bytes) -> None:
        self.values[key] = self.values.get(key, b"") + value

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        if key not in self.values:
            if expected:
                return expected
            self.values[key] = desired
        elif self.values[key] == expected:
            self.values[key] = desired
        return self.values[key]

    def delete(self, key: str) -> bool:
        in_queues = self.queues.pop(key, None) is not None
        return self.values.pop(key, None) is not None or in_queues

    def push(self, key: str, value: bytes) -> None:
        self.queues.setdefault(key, deque()).append(value)

    def pop(self, key: str) -> bytes | None:
        queue = self.queues.get(key)
        if queue is None:
            return None
        value = queue.popleft()
        if not queue:
            del self.queues[key]  # so that who waits for the key waits for the next push
        return value


def _missing(store: Store, name: str) -> NoReturn:
    raise NotImplementedError(f"{type(store).__name__} has no method {name!r}: define it")


class Store:
    """A map from text to bytes that the processes of a job share: the base of all stores, and of a program's own.

    A subclass defines `set`, `get`, `add`, `check`, `wait` and `delete_key`, and what else it is asked for.

    Example:
        >>> from gradlib.distributed import HashStore
        >>> store = HashStore()
        >>> store.set("colour", "red")
        >>> store.get("colour")
        b'red'
    """

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta, /) -> None:
        """Set how long `get` and `wait` wait for a key.

        Raises:
            TypeError: it is not a timedelta.
        """
        if not isinstance(timeout, timedelta):
            raise TypeError(
                f"set_timeout(): incompatible function arguments. A timedelta was expected, but got {timeout!r}"
            )
        self._timeout = timeout

    def set(self, key: str, value: str | bytes, /) -> None:
        """Set the value of a key, new or not, and wake who waits for it.

        Args:
            key: any text.
            value: text is kept as UTF-8.
        """
        _missing(self, "set")

    def get(self, key: str, /) -> bytes:
        """The value of a key; waits until it is there.

        Raises:
            DistStoreError: it was not there within `timeout`.
        """
        _missing(self, "get")

    def add(self, key: str, amount: int, /) -> int:
        """Add to a counter, which starts at 0; the sum.

        Raises:
            ValueError: the key was set to what is not a number.
        """
        _missing(self, "add")

    def check(self, keys: Sequence[str], /) -> bool:
        """Whether all keys are there; does not wait.

        Args:
            keys: a list of them.

        Example:
            >>> from gradlib.distributed import HashStore
            >>> HashStore().check(["colour"])
            False
        """
        _missing(self, "check")

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        """Wait until all keys are there.

        Args:
            keys: a list of them.
            timeout: None for the one of the store.

        Raises:
            DistStoreError: some were not there in time.
        """
        _missing(self, "wait")

    def delete_key(self, key: str, /) -> bool:
        """Delete a key.

        Args:
            key: which may not be there.

        Returns:
            Whether it was.
        """
        _missing(self, "delete_key")

    def num_keys(self) -> int:
        """How many keys have a value.

        Some stores keep one more for themselves, which counts.
        """
        _missing(self, "num_keys")

    def list_keys(self) -> list[str]:
        """All keys that have a value, in no order.

        Raises:
            NotImplementedError: this kind of store cannot tell.
        """
        raise NotImplementedError("listKeys support is not implemented.")

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes, /
    ) -> bytes:
        """Set a key if its value is the expected one, or if it is not there and ``""`` is expected.

        Returns:
            The value after that; `expected_value` if the key is not there.
        """
        _missing(self, "compare_set")

    def append(self, key: str, value: str | bytes, /) -> None:
        """Put a value behind that of a key.

        Args:
            key: which may be new.
            value: what is added to the bytes that are there.
        """
        _missing(self, "append")

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        """`get` of several keys.

        Args:
            keys: all are waited for.

        Raises:
            DistStoreError: some were not there within `timeout`.
        """
        return [self.get(key) for key in as_keys("multi_get", keys)]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes], /) -> None:
        """`set` of several keys.

        Raises:
            ValueError: there are not as many values as keys.
        """
        for key, value in as_pairs("multi_set", keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are one step.

        If not, another process may come in between.
        """
        return False

    def queue_push(self, key: str, value: str | bytes, /) -> None:
        """Put a value at the end of a queue, and wake who waits for one.

        Args:
            key: of the queue; a key of values may have the same name, but should not.
            value: text is kept as UTF-8.
        """
        raise NotImplementedError("queue support is not implemented.")

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue.

        Args:
            key: of the queue.
            block: wait for a value if there is none.

        Raises:
            QueueEmptyError: there is none, and `block` is False.
            DistStoreError: there was none within `timeout`.
        """
        raise NotImplementedError("queue support is not implemented.")

    def queue_len(self, key: str, /) -> int:
        """How many values a queue has.

        Args:
            key: of the queue; one that nobody pushed to has none.
        """
        raise NotImplementedError("queue support is not implemented.")

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` processes have called this with the same key, which serves once.

        Raises:
            DistStoreError: they had not in time.
        """
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_member", "1")
        self.wait([f"{key}/last_member"], self.timeout if timeout is None else timeout)

    def clone(self) -> Store:
        """Another object for the same store.

        It may be used at the same time by another thread, with a `timeout` of its own.
        """
        _missing(self, "clone")
