"""Collectives by messages between pairs of ranks.

With n ranks and m bytes: ring all-reduce sends 2 m (n-1)/n bytes from each rank in 2 (n-1) steps, which is the least
possible for large m; recursive doubling sends m log2 n in log2 n steps, which is the least number of steps (R. Thakur,
R. Rabenseifner, W. Gropp, Optimization of collective communication operations in MPICH, 2005). Trees are binomial.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .mail import ABORT, ASK, LEAVE, Address, Mailroom, Receive
from .reduction import COMBINE

__all__ = ["Links"]

_COLLECTIVE, _CHECK = -1, -2  # tags of messages; those of point-to-point messages are >= 0
_ANSWER_SECONDS = 10.0  # for all to say what they called last
_RING = 1 << 16  # bytes from which on a ring is faster than doubling
_DIGESTS = struct.Struct("<QQ")


def as_bytes(array: Any) -> memoryview:
    """The memory of a contiguous array."""
    return memoryview(array.reshape(-1).view(np.uint8))


def cuts(count: int, parts: int) -> list[slice]:
    """`count` elements in parts that differ by at most one."""
    ends = [count * i // parts for i in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def said_last(text: str) -> str:
    """What a rank called last, for an error."""
    if text:
        return f"the last it called was {text}"
    return "it had called no collective of this group"


class Links:
    """The ranks of a group, as seen by one of them.

    Args:
        room: the mail of this process.
        addresses: of all ranks.
        rank: of this process.
        group: the number of the group.
        timeout: of one step, in seconds.
    """

    def __init__(
        self, room: Mailroom, addresses: list[Address], rank: int, group: int, timeout: float
    ) -> None:
        self.room, self.addresses, self.rank, self.group = room, addresses, rank, group
        self.size, self.timeout = len(addresses), timeout
        self._box = room.open(group, addresses)

    def name(self, ranks: list[int]) -> None:
        """What errors are to call the ranks."""
        self._box.names = ranks

    # -- pairs ---------------------------------------------------------------------------------------------------

    def put(self, array: Any, to: int, tag: int = _COLLECTIVE) -> None:
        """Send an array."""
        deadline = time.monotonic() + self.timeout
        self.room.send(self.addresses[to], self.group, self.rank, tag, as_bytes(array), deadline)

    def begin(self, array: Any, source: int | None, tag: int = _COLLECTIVE) -> Receive:
        """Begin to receive into an array."""
        return self.room.receive(self.group, source, tag, as_bytes(array))

    def get(self, array: Any, source: int | None, tag: int = _COLLECTIVE) -> int:
        """Receive into an array; the rank that it came from."""
        return self._wait(self.begin(array, source, tag))

    def _wait(self, receive: Receive) -> int:
        try:
            return receive.wait(self.timeout)
        except TimeoutError:
            raise TimeoutError(self._missing()) from None

    def _missing(self) -> str:
        """Ask all what they called last: who has not come yet?"""
        told, names = self._box.told, self._box.names
        told.clear()
        others = [r for r in range(self.size) if r != self.rank]
        for r in others:
            self._tell(r, ASK, b"")
        deadline = time.monotonic() + _ANSWER_SECONDS
        while (
            not told.keys() | self._box.gone.keys() >= set(others) and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        number = self._box.last.partition(b",")[0]
        late = []
        for r in others:
            if r not in told:
                late.append(f"rank {names[r]} does not answer")
            elif told[r].partition(b",")[0] != number:
                last = told[r].decode(errors="replace")
                late.append(f"rank {names[r]} did not come, {said_last(last)}")
        return "; ".join(late)

    def swap(self, out: Any, array: Any, to: int, source: int, tag: int = _COLLECTIVE) -> None:
        """Send one array to a rank, and receive another from a rank."""
        receive = self.begin(out, source, tag)
        self.put(array, to, tag)
        self._wait(receive)

    # -- collectives ---------------------------------------------------------------------------------------------

    def all_reduce(self, array: Any, op: str) -> None:
        flat = array.reshape(-1)
        if flat.nbytes >= _RING and flat.size >= self.size:
            parts = [flat[cut] for cut in cuts(flat.size, self.size)]
            self._ring_reduce(parts, op)
            self._ring_gather(parts)
        else:
            self._doubling(flat, op)

    def _ring_reduce(self, parts: list[Any], op: str) -> None:
        """Part r of all ranks put together in `parts[r]` of rank r."""
        n, rank, combine = self.size, self.rank, COMBINE[op]
        room = np.empty(max(len(part) for part in parts), parts[0].dtype)
        for step in range(1, n):
            sent, got = (rank - step) % n, (rank - step - 1) % n
            part = parts[got]
            self.swap(room[: len(part)], parts[sent], (rank + 1) % n, (rank - 1) % n)
            combine(room[: len(part)], part, out=part)

    def _ring_gather(self, parts: list[Any]) -> None:
        """`parts[r]` of rank r to all others."""
        n, rank = self.size, self.rank
        for step in range(n - 1):
            sent, got = (rank - step) % n, (rank - step - 1) % n
            self.swap(parts[got], parts[sent], (rank + 1) % n, (rank - 1) % n)

    def _doubling(self, flat: Any, op: str) -> None:
        """All-reduce in steps that double the number of ranks put together; what is over a power of two goes first."""
        combine, rank = COMBINE[op], self.rank
        power = 1 << (self.size.bit_length() - 1)
        over = self.size - power
        other = np.empty_like(flat)
        if rank < 2 * over and rank % 2:
            self.put(flat, rank - 1)
            self.get(flat, rank - 1)
            return
        if rank < 2 * over:
            self.get(other, rank + 1)
            combine(flat, other, out=flat)

        def nth(virtual: int) -> int:
            return 2 * virtual if virtual < over else virtual + over

        mine = rank // 2 if rank < 2 * over else rank - over
        step = 1
        while step < power:
            peer = mine ^ step
            self.swap(other, flat, nth(peer), nth(peer))
            first, second = (other, flat) if peer < mine else (flat, other)
            combine(first, second, out=flat)
            step *= 2
        if rank < 2 * over:
            self.put(flat, rank + 1)

    def broadcast(self, array: Any, root: int) -> None:
        n, mine = self.size, (self.rank - root) % self.size
        step = 1
        while step < n:
            if mine < step:
                if mine + step < n:
                    self.put(array, (self.rank + step) % n)
            elif mine < 2 * step:
                self.get(array, (self.rank - step) % n)
            step *= 2

    def reduce(self, array: Any, root: int, op: str) -> None:
        n, mine = self.size, (self.rank - root) % self.size
        total = array if mine == 0 else array.copy()
        other = np.empty_like(total)
        step = 1
        while step < n:
            if mine & step:
                self.put(total, (self.rank - step) % n)
                return
            if mine + step < n:
                self.get(other, (self.rank + step) % n)
                COMBINE[op](total, other, out=total)
            step *= 2

    def all_gather(self, out: Any, array: Any) -> None:
        parts = list(out.reshape(self.size, -1))
        parts[self.rank][...] = array.reshape(-1)
        self._ring_gather(parts)

    def gather(self, out: Any | None, array: Any, root: int) -> None:
        if out is None:
            self.put(array, root)
            return
        parts = out.reshape(self.size, -1)
        begun = [self.begin(parts[r], r) for r in range(self.size) if r != root]
        parts[root] = array.reshape(-1)
        for receive in begun:
            self._wait(receive)

    def scatter(self, array: Any, source: Any | None, root: int) -> None:
        if source is None:
            self.get(array, root)
            return
        parts = source.reshape(self.size, -1)
        for r in range(self.size):
            if r != root:
                self.put(parts[r], r)
        array.reshape(-1)[...] = parts[root]

    def reduce_scatter(self, out: Any, array: Any, op: str) -> None:
        parts = list(array.reshape(self.size, -1).copy())
        self._ring_reduce(parts, op)
        out.reshape(-1)[...] = parts[self.rank]

    def all_to_all(self, out: Any, array: Any, out_counts: list[int], counts: list[int]) -> None:
        into = np.split(out, np.cumsum(out_counts)[:-1])
        parts = np.split(array, np.cumsum(counts)[:-1])
        others = [(self.rank + i) % self.size for i in range(1, self.size)]
        begun = [self.begin(into[r], r) for r in others]
        for r in reversed(others):
            self.put(parts[r], r)
        into[self.rank][...] = parts[self.rank]
        for receive in begun:
            self._wait(receive)

    def barrier(self) -> None:
        token = np.zeros(1, np.uint8)
        self._disseminate(lambda to, source: self.swap(token, token, to, source))

    def _disseminate(self, exchange: Callable[[int, int], None]) -> None:
        """After this all ranks have heard from all others, directly or not."""
        step = 1
        while step < self.size:
            exchange((self.rank + step) % self.size, (self.rank - step) % self.size)
            step *= 2

    def compare(self, digest: int, describe: Callable[[], bytes]) -> list[bytes] | None:
        """Smallest and largest digest of all ranks; if they differ, the descriptions."""
        self._box.last = describe()
        low = high = digest

        def exchange(to: int, source: int) -> None:
            nonlocal low, high
            theirs = np.empty(_DIGESTS.size, np.uint8)
            mine = np.frombuffer(_DIGESTS.pack(low, high), np.uint8)
            self.swap(theirs, mine, to, source, _CHECK)
            a, b = _DIGESTS.unpack(theirs.tobytes())
            low, high = min(low, a), max(high, b)

        self._disseminate(exchange)
        return None if low == high else self.descriptions(describe())

    def descriptions(self, mine: bytes) -> list[bytes]:
        """The texts of all ranks, cut to one length."""
        cell = np.zeros(1024, np.uint8)
        cell[: len(mine[:1024])] = np.frombuffer(mine[:1024], np.uint8)
        out = np.empty((self.size, 1024), np.uint8)
        for r in range(self.size):
            if r != self.rank:
                self.put(cell, r, _CHECK)
        for r in range(self.size):
            if r == self.rank:
                out[r] = cell
            else:
                self.get(out[r], r, _CHECK)
        return [bytes(row).rstrip(b"\0") for row in out]

    # -- the end -------------------------------------------------------------------------------------------------

    def abort(self, why: str) -> None:
        """Wake up this rank and all others that can be reached."""
        self.room.abort(self.group, why)
        for r in range(self.size):
            if r != self.rank:
                self._tell(r, ABORT, why.encode())

    def aborted(self) -> str | None:
        """Why the group was aborted, if it was."""
        return self._box.dead

    def _tell(self, r: int, tag: int, text: bytes) -> None:
        """Send to the reading thread of a rank."""
        deadline = time.monotonic() + 1.0
        try:
            self.room.send(
                self.addresses[r], self.group, self.rank, tag, memoryview(text), deadline
            )
        except (OSError, RuntimeError):  # it is dead, or full: others tell it
            return

    def leave(self, note: str = "") -> None:
        """Say that nothing more comes from this rank.

        To all, not only those that it ever sent something to: others may wait for a first message, which no broken
        connection ends.
        """
        for r in range(self.size):
            if r != self.rank:
                self._tell(r, LEAVE, self._box.last + note.encode())

    def close(self, note: str = "") -> None:
        """Leave, and take no more mail.

        Args:
            note: what the others are to know.
        """
        self.leave(note)
        self.room.close(self.group)
