"""What a process group asks of an engine, and the engines that there are.

A `ProcessGroup` checks arguments, copies what is strided, counts and records collectives; an engine moves and reduces
contiguous raw arrays between the ranks of one group, and knows nothing of tensors.
"""

from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

__all__ = ["Backend", "Pending", "engine", "register"]


class Pending:
    """A send or receive that is under way: done once `finish` was called, with the rank of the other side."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._source = -1
        self._error: BaseException | None = None

    def finish(self, source: int, error: BaseException | None = None) -> None:
        """Mark it done: `source` is the rank that the data came from; `error` is what went wrong."""
        self._source, self._error = source, error
        self._done.set()

    def done(self) -> bool:
        """Whether it is over, well or not."""
        return self._done.is_set()

    def wait(self, timeout: float | None) -> int:
        """Wait until it is done; the rank that the data came from.

        Args:
            timeout: in seconds; None for no limit.

        Raises:
            TimeoutError: it was not done by then; it goes on.
            Exception: what it failed with.
        """
        if not self._done.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._source


class Backend(ABC):
    """An engine for one group: its methods are collectives on C-contiguous raw arrays, in place where that is said.

    Collectives are called by one thread at a time, in the same order on all ranks. `start_send` and `start_recv` are
    called beside them, from any thread, as is `abort`. Ranks are those of the group. Reductions get one of "sum",
    "product", "min", "max", "band", "bor", "bxor"; bool comes as uint8, complex as twice the floats; halves are added
    in float32.

    Args:
        store: a store of this group alone; keys need no prefix.
        rank: of this process in the group.
        size: number of ranks.
        timeout: after which a collective fails.
    """

    name: ClassVar[str]
    device_type: ClassVar[str]
    # False: methods block until they are done. True: they enqueue on `self.stream` (a gradlib.cuda.Stream), and return.
    on_stream: ClassVar[bool] = False

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self.store, self.rank, self.size, self.timeout = store, rank, size, timeout
        self.ranks = list(
            range(size)
        )  # what errors are to call the ranks: the group puts its global ranks here
        self.note = ""  # what others are to know of it when it is closed
        self.reason = ""  # why it is aborted: other ranks are to say so
        self._queues: dict[tuple[str, int], deque] = {}
        self._queues_lock = threading.Lock()

    def set_timeout(self, timeout: timedelta) -> None:
        """Give collectives that begin from now on another time."""
        self.timeout = timeout

    @abstractmethod
    def all_reduce(self, array: Any, op: str) -> None:
        """Put the values of all ranks together, in place on each."""

    @abstractmethod
    def broadcast(self, array: Any, root: int) -> None:
        """Copy the array of `root` into those of the others."""

    @abstractmethod
    def reduce(self, array: Any, root: int, op: str) -> None:
        """`all_reduce` whose result goes to `root` alone; the arrays of the others stay as they are."""

    @abstractmethod
    def all_gather(self, out: Any, array: Any) -> None:
        """The arrays of all ranks behind each other in `out`, on each rank."""

    @abstractmethod
    def gather(self, out: Any | None, array: Any, root: int) -> None:
        """The arrays of all ranks behind each other in `out`, which is None but at `root`."""

    @abstractmethod
    def scatter(self, array: Any, source: Any | None, root: int) -> None:
        """Part number `rank` of `source` of `root`, of as many equal parts as ranks, into `array`."""

    @abstractmethod
    def reduce_scatter(self, out: Any, array: Any, op: str) -> None:
        """Part number `rank` of the reduced `array` into `out`; `array` stays as it is."""

    @abstractmethod
    def all_to_all(self, out: Any, array: Any, out_counts: list[int], counts: list[int]) -> None:
        """`counts[j]` elements of `array` to rank j; `out_counts[i]` elements of rank i into `out`. Both are flat."""

    @abstractmethod
    def send(self, array: Any, to: int, tag: int) -> None:
        """Send an array; it may be changed when this returns."""

    @abstractmethod
    def recv(self, array: Any, source: int | None, tag: int) -> int:
        """Receive into `array`, from any rank if `source` is None; the rank that it came from."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have come."""

    @abstractmethod
    def compare(self, digest: int, describe: Callable[[], bytes]) -> list[bytes] | None:
        """Whether all ranks are about to do the same.

        Args:
            digest: 64 bits that say what this rank is about to do.
            describe: the same as text, if it is needed.

        Returns:
            None if all digests are equal, or else the descriptions of all ranks, on each rank.
        """

    @abstractmethod
    def abort(self) -> None:
        """Make whoever is blocked in a method, and every later call, raise DistBackendError."""

    def aborted(self) -> str | None:
        """Why another rank aborted, if one did."""
        return None

    def leave(self) -> None:  # noqa: B027  # most have nothing to say
        """The process ends, well: say so to those that may wait for something of it, if the engine does not show it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and memory. Other ranks may still be reading what was sent."""

    def submit(self, job: Callable[[], None], arrays: list, result: Any, async_op: bool) -> Any:
        """Of engines with a stream: run `job`, which calls methods of this engine, in order with the caller's stream.

        Args:
            job: queues a collective.
            arrays: those of the caller that it reads and writes.
            result: of the work.
            async_op: give a Work whose `wait` orders streams; else the caller's stream waits, and None is given.
        """
        raise NotImplementedError(f"the engine {self.name} has no stream")

    def start_send(self, array: Any, to: int, tag: int) -> Pending:
        """Begin to send; the array must not change until that is done."""
        return self._beside(("send", to), lambda: (self.send(array, to, tag), to)[1])

    def start_recv(self, array: Any, source: int | None, tag: int) -> Pending:
        """Begin to receive into `array`, from any rank if `source` is None."""
        return self._beside(
            ("recv", -1 if source is None else source), lambda: self.recv(array, source, tag)
        )

    def _beside(self, key: tuple[str, int], work: Callable[[], int]) -> Pending:
        """Run blocking `work` in a thread of its own, after what was given before under the same key."""
        pending = Pending()

        def run() -> None:
            while True:
                with self._queues_lock:
                    if not self._queues[key]:
                        del self._queues[key]
                        return
                    job, result = self._queues[key].popleft()
                try:
                    result.finish(job())
                except BaseException as error:
                    result.finish(-1, error)

        with self._queues_lock:
            waiting = self._queues.get(key)
            if waiting is not None:
                waiting.append((work, pending))
                return pending
            self._queues[key] = deque([(work, pending)])
        threading.Thread(target=run, name=f"gradlib {key[0]} {key[1]}", daemon=True).start()
        return pending


_MODULES = {
    "gloo": "gradlib.distributed._gloo",
    "mpi": "gradlib.distributed._mpi",
    "nccl": "gradlib.distributed._nccl",
}
_made: dict[str, Callable[..., Backend]] = {}


def register(name: str, make: Callable[..., Backend]) -> None:
    """Enter an engine.

    Args:
        name: what `init_process_group` is to know it as.
        make: called with (store, rank, size, timeout).
    """
    _made[name] = make


def engine(name: str) -> Callable[..., Backend]:
    """What makes engines of a name.

    Raises:
        ValueError: there is no such name.
        ImportError: a package that it needs is not installed; says which extra of gradlib brings it.
    """
    if name not in _made:
        if name not in _MODULES:
            raise ValueError(f"Unknown c10d backend type {name.upper()}")
        module = importlib.import_module(_MODULES[name])
        _made[name] = module.ENGINE
    return _made[name]
