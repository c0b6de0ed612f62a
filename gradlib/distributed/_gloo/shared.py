"""Collectives of the ranks of one machine, in memory that all of them map.

Each rank has a cell of words that only it writes (how many barriers it has come to, what it is about to do, whether it
left), a line of text for others to read, and slots for data. A rank writes its data into a slot, all meet at a barrier,
and then read each other's slots. There are two of each slot, used in turn: who writes to one has passed a barrier since
it was last used, so that all have read it.

The order of writes is the order in which others see them on x86-64 alone: on other machines there are messages instead.
"""

from __future__ import annotations

import mmap
import os
import platform
import select
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import DistBackendError, PeerLost
from .links import cuts, said_last
from .liveness import Peers
from .reduction import COMBINE

__all__ = ["FOLDER", "Shared", "available", "create"]

FOLDER = "/dev/shm"
_WORDS = 16  # of a cell: two cache lines, since processors fetch them in pairs
_COUNT, _DIGEST, _LEFT, _ABORT = 0, 1, 3, 4  # the words; _DIGEST has two
_TEXT = 1024  # bytes of a line of text
_SLOT = 1 << 19  # bytes of a slot
_SMALL = 1 << 14  # bytes up to which each rank adds up all for itself
_CHECK = 0.02  # seconds between looks at other processes
_yield = getattr(os, "sched_yield", lambda: time.sleep(0))


def available() -> bool:
    """Whether there can be shared memory here."""
    return (
        platform.machine() in ("x86_64", "AMD64")
        and os.path.isdir(FOLDER)
        and os.environ.get("GRADLIB_GLOO_SHARED_MEMORY", "1") != "0"
    )


def length(size: int) -> int:
    """Bytes that a group of `size` ranks needs."""
    return size * (_WORDS * 8 + _TEXT + 4 * _SLOT)


def create(size: int) -> str | None:
    """A file for a group of `size` ranks; None if there is no room."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="gradlib-", dir=FOLDER)
    except OSError:
        return None
    try:
        os.posix_fallocate(
            descriptor, 0, length(size)
        )  # else the first write to a full disk ends the process
    except OSError:
        os.unlink(path)
        return None
    finally:
        os.close(descriptor)
    return path


class Shared:
    """The ranks of a group, as seen by one of them.

    Args:
        path: of the file that `create` made.
        rank: of this process.
        peers: the processes of all ranks.
        timeout: of one step, in seconds.
    """

    def __init__(self, path: str, rank: int, peers: Peers, timeout: float) -> None:
        size = peers.size
        self.rank, self.size, self.peers, self.timeout = rank, size, peers, timeout
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), length(size))
        whole = memoryview(self._map)
        texts, slots = size * _WORDS * 8, size * (_WORDS * 8 + _TEXT)
        self._words = whole[:texts].cast("Q")
        self._texts = [whole[texts + r * _TEXT :][:_TEXT] for r in range(size)]
        memory = np.frombuffer(whole, np.uint8)[slots:].reshape(2, 2, size, _SLOT)
        # [which of the two][rank]; `_results` are for what ranks have put together
        self._slots, self._results = memory[0], memory[1]
        self._counts = [r * _WORDS + _COUNT for r in range(size) if r != rank]
        self._mine = rank * _WORDS
        self._barriers = self._turn = self._compared = 0
        self._dead: str | None = None

    # -- meeting -------------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Return when all ranks have come."""
        self._barriers = target = self._barriers + 1
        words = self._words
        words[self._mine] = target
        for at in self._counts:
            if words[at] < target:
                spins = 0
                while words[at] < target:
                    spins += 1
                    if spins > 200:
                        self._wait(at, target)
                    elif spins > 20:
                        _yield()

    def _wait(self, at: int, target: int) -> None:
        """Wait without using up the processor: other threads and processes have work to do."""
        words, began, looked, pause, tries = self._words, time.monotonic(), 0.0, 2e-5, 0
        while words[at] < target:
            tries += 1
            if tries < 100:
                select.select((), (), (), 0)  # lets other threads run
                continue
            time.sleep(pause)
            pause = min(pause * 1.1, 5e-4)
            now = time.monotonic()
            if now - looked > _CHECK:
                looked = now
                self._look(target)
                if now - began > self.timeout and words[at] < target:
                    raise TimeoutError(self._missing(target))

    def _look(self, target: int) -> None:
        """Raise if what is waited for will never come."""
        words = self._words
        why = self.aborted()
        late = [r for r in range(self.size) if r != self.rank and words[r * _WORDS] < target]
        # when all have come, it does not matter that one of them was the end of the group right after
        if why is not None and late:
            raise DistBackendError(why)
        for r in late:
            left = bool(words[r * _WORDS + _LEFT])
            why = "has left the group" if left else self.peers.trouble(r)
            if why is not None and words[r * _WORDS] < target:
                kind = DistBackendError if left else PeerLost
                raise kind(f"rank {self.peers.ranks[r]} {why}; {self._last(r)}")

    def _last(self, r: int) -> str:
        return said_last(self._text(r))

    def _missing(self, target: int) -> str:
        """Who has not come, and what they did last."""
        late = [r for r in range(self.size) if self._words[r * _WORDS] < target]
        return "; ".join(f"rank {self.peers.ranks[r]} did not come, {self._last(r)}" for r in late)

    def _text(self, r: int) -> str:
        return bytes(self._texts[r]).partition(b"\0")[0].decode(errors="replace")

    def _say(self, text: bytes) -> None:
        cut = text[: _TEXT - 1] + b"\0"
        self._texts[self.rank][: len(cut)] = cut

    def compare(self, digest: int, describe: Callable[[], bytes]) -> list[bytes] | None:
        words = self._words
        self._say(describe())
        self._compared ^= 1
        which = _DIGEST + self._compared
        words[self._mine + which] = digest
        self.barrier()
        for r in range(self.size):
            if words[r * _WORDS + which] != digest:
                found = [bytes(text).partition(b"\0")[0] for text in self._texts]
                self.barrier()  # nobody writes the next text before all have read these
                return found
        return None

    # -- moving --------------------------------------------------------------------------------------------------

    def _cells(self, array: Any) -> Any:
        """The slots of all ranks that are next in turn, with the dtype of `array`: [rank, element]."""
        self._turn ^= 1
        return self._slots[self._turn].view(array.dtype)

    def all_reduce(self, array: Any, op: str) -> None:
        if array.nbytes <= _SMALL:
            cells = self._cells(array)[:, : array.size]
            cells[self.rank] = array
            self.barrier()
            self._put_together(cells, array, op)
            return
        combine, n, rank = COMBINE[op], self.size, self.rank
        step = _SLOT // array.itemsize
        for start in range(0, array.size, step):
            chunk = array[start : start + step]
            parts = cuts(len(chunk), n)
            own = parts[rank]
            cells = self._cells(array)
            results = self._results[self._turn].view(array.dtype)
            for r, part in enumerate(parts):
                if r != rank:
                    cells[rank, part] = chunk[part]
            self.barrier()
            total = chunk[own]
            for r in range(n):
                if r != rank:
                    combine(total, cells[r, own], out=total)
            results[rank, own] = total
            self.barrier()
            for r, part in enumerate(parts):
                if r != rank:
                    chunk[part] = results[r, part]

    @staticmethod
    def _put_together(cells: Any, out: Any, op: str) -> None:
        """The rows of `cells` put together in `out`, in the same order on all ranks."""
        combine = COMBINE[op]
        combine(cells[0], cells[1], out=out)
        for row in cells[2:]:
            combine(out, row, out=out)

    def broadcast(self, array: Any, root: int) -> None:
        step = _SLOT // array.itemsize
        for start in range(0, array.size, step):
            chunk = array[start : start + step]
            cell = self._cells(array)[root, : len(chunk)]
            if self.rank == root:
                cell[...] = chunk
            self.barrier()
            if self.rank != root:
                chunk[...] = cell

    def reduce(self, array: Any, root: int, op: str) -> None:
        step = _SLOT // array.itemsize
        for start in range(0, array.size, step):
            chunk = array[start : start + step]
            cells = self._cells(array)[:, : len(chunk)]
            cells[self.rank] = chunk
            self.barrier()
            if self.rank == root:
                self._put_together(cells, chunk, op)

    def all_gather(self, out: Any, array: Any) -> None:
        self._gather(out.reshape(self.size, -1), array)

    def gather(self, out: Any | None, array: Any, root: int) -> None:
        self._gather(None if out is None else out.reshape(self.size, -1), array)

    def _gather(self, rows: Any | None, array: Any) -> None:
        step = _SLOT // array.itemsize
        for start in range(0, array.size, step):
            chunk = array[start : start + step]
            cells = self._cells(array)[:, : len(chunk)]
            cells[self.rank] = chunk
            self.barrier()
            if rows is not None:
                rows[:, start : start + len(chunk)] = cells

    def scatter(self, array: Any, source: Any | None, root: int) -> None:
        rows = None if source is None else source.reshape(self.size, -1)
        step = _SLOT // array.itemsize // self.size
        for start in range(0, array.size, step):
            chunk = array[start : start + step]
            cells = self._cells(array)[root, : self.size * len(chunk)].reshape(self.size, -1)
            if rows is not None:
                cells[...] = rows[:, start : start + len(chunk)]
            self.barrier()
            chunk[...] = cells[self.rank]

    def reduce_scatter(self, out: Any, array: Any, op: str) -> None:
        rows = array.reshape(self.size, -1)
        step = _SLOT // array.itemsize // self.size
        for start in range(0, out.size, step):
            chunk = out[start : start + step]
            cells = self._cells(array)[:, : self.size * len(chunk)]
            cells = cells.reshape(self.size, self.size, -1)
            cells[self.rank] = rows[:, start : start + len(chunk)]
            self.barrier()
            self._put_together(cells[:, self.rank], chunk, op)

    def all_to_all(self, out: Any, array: Any, out_counts: list[int], counts: list[int]) -> None:
        n, rank = self.size, self.rank
        given = self._cells(np.empty(0, np.int64))[:, : 2 * n].reshape(n, 2, n)
        given[rank] = counts, out_counts
        self.barrier()
        sent, wanted = given[:, 0].copy(), given[:, 1].T.copy()
        if (sent != wanted).any():
            i, j = np.argwhere(sent != wanted)[0]
            raise DistBackendError(
                f"rank {self.peers.ranks[i]} sends {sent[i, j]} elements to rank {self.peers.ranks[j]}, which expects "
                f"{wanted[i, j]}"
            )
        step = _SLOT // array.itemsize // n
        starts, ends = np.cumsum([0, *counts]), np.cumsum([0, *out_counts])
        for start in range(0, int(sent.max()), step):
            cells = self._cells(array)[:, : n * step].reshape(n, n, step)
            for r in range(n):
                part = array[starts[r] + start : min(starts[r] + start + step, starts[r + 1])]
                cells[rank, r, : len(part)] = part
            self.barrier()
            for r in range(n):
                part = out[ends[r] + start : min(ends[r] + start + step, ends[r + 1])]
                part[...] = cells[r, rank, : len(part)]

    # -- the end -------------------------------------------------------------------------------------------------

    def abort(self, why: str) -> None:
        """Wake up this rank and all others."""
        if self._dead is None:
            self._dead = why
            self._say(why.encode())
            self._words[self._mine + _ABORT] = 1

    def aborted(self) -> str | None:
        """Why the group was aborted, if it was."""
        if self._dead is not None:
            return self._dead
        words = self._words
        aborts = [r for r in range(self.size) if words[r * _WORDS + _ABORT]]
        return self._text(aborts[0]) if aborts else None

    def close(self, note: str = "") -> None:
        """Say that this rank comes no more. The memory goes when nobody uses it.

        Args:
            note: what the others are to know.
        """
        if note:
            self._say((self._text(self.rank) + note).encode())
        self._dead = self._dead or "the process group was destroyed"
        self._words[self._mine + _LEFT] = 1
