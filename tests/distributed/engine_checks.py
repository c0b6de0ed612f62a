"""Every method of an engine against NumPy: run by each rank of a group, which all draw the same numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = ["u1", "i1", "i2", "i4", "i8"]
FLOATS = ["f2", BFLOAT16, "f4", "f8"]
UFUNCS = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
COUNTS = (1, 5, 40_000)  # the last one is beyond what engines do in one go


class Checks:
    """The checks of one rank.

    Args:
        engine: the engine of this rank.
        put: makes an array of the engine's device of one of NumPy.
        get: the way back.
        nan: reductions that give NaN if one rank has NaN.
        any_source: it can receive from any rank.
        rounds_once: it adds halves in float32, and rounds once.
    """

    def __init__(
        self,
        engine: Any,
        put: Callable = np.array,
        get: Callable = np.asarray,
        nan: tuple[str, ...] = ("sum", "min", "max"),
        any_source: bool = True,
        rounds_once: bool = True,
    ) -> None:
        self.engine, self.put, self.get = engine, put, get
        self.nan_ops, self.any_source, self.rounds_once = nan, any_source, rounds_once
        self.rank, self.size = engine.rank, engine.size

    def run(self) -> None:
        """All that an engine of any kind can do."""
        for dtype in map(np.dtype, [*INTEGERS, *FLOATS]):
            for count in COUNTS:
                self.reductions(dtype, count)
                self.moves(dtype, count)
        self.nan()
        if self.rounds_once:
            self.halves_are_rounded_once()
        self.all_to_all()
        self.points()
        self.engine.barrier()
        self.compare()

    def values(self, dtype: np.dtype, count: int) -> np.ndarray:
        """[ranks, count]: what each rank gives; small integers, whose sums and products are exact in all dtypes."""
        rng = np.random.default_rng(count)
        return rng.integers(1, 3, (self.size, count)).astype(dtype)

    def mine(self, values: np.ndarray) -> Any:
        return self.put(values[self.rank])

    def same(self, found: Any, wanted: np.ndarray) -> None:
        found = self.get(found)
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert np.array_equal(found.astype("f8"), wanted.astype("f8"))

    def reductions(self, dtype: np.dtype, count: int) -> None:
        values = self.values(dtype, count)
        root = self.size - 1
        bits = dtype.kind in "iu"
        for op in [op for op in UFUNCS if bits or op[0] != "b"]:
            wanted = values[0]
            for row in values[1:]:
                wanted = UFUNCS[op](wanted, row)
            array = self.mine(values)
            self.engine.all_reduce(array, op)
            self.same(array, wanted)
            array = self.mine(values)
            self.engine.reduce(array, root, op)
            self.same(array, wanted if self.rank == root else values[self.rank])
            long = self.put(np.concatenate([values[self.rank]] * self.size))
            out = self.put(np.zeros(count, dtype))
            self.engine.reduce_scatter(out, long, op)
            self.same(out, wanted)
            self.same(long, np.concatenate([values[self.rank]] * self.size))

    def moves(self, dtype: np.dtype, count: int) -> None:
        values = self.values(dtype, count)
        together = values.reshape(-1)
        for root in range(self.size):
            array = self.mine(values)
            self.engine.broadcast(array, root)
            self.same(array, values[root])
            out = self.put(np.zeros(together.size, dtype)) if self.rank == root else None
            self.engine.gather(out, self.mine(values), root)
            if out is not None:
                self.same(out, together)
            array = self.put(np.zeros(count, dtype))
            self.engine.scatter(array, self.put(together) if self.rank == root else None, root)
            self.same(array, values[self.rank])
        out = self.put(np.zeros(together.size, dtype))
        self.engine.all_gather(out, self.mine(values))
        self.same(out, together)

    def nan(self) -> None:
        """A NaN on any rank is a NaN on all, as NumPy has it."""
        for op in self.nan_ops:
            for rank in range(self.size):
                array = self.put(np.full(3, np.nan if rank == self.rank else 1.0, "f4"))
                self.engine.all_reduce(array, op)
                assert np.isnan(self.get(array)).all()

    def halves_are_rounded_once(self) -> None:
        """A large number plus ones, each of which would be lost if it was added to it alone."""
        for dtype, big, small in ((BFLOAT16, 256.0, 1.0), (np.dtype("f2"), 2048.0, 1.0)):
            wanted = np.float32(big + small * (self.size - 1)).astype(dtype)
            for count in COUNTS:
                value = big if self.rank == 0 else small
                array = self.put(np.full(count, value, dtype))
                self.engine.all_reduce(array, "sum")
                self.same(array, np.full(count, wanted, dtype))

    def all_to_all(self) -> None:
        """Rank i sends i + j numbers to rank j, so rank 0 sends none to itself."""
        counts = [self.rank + j for j in range(self.size)]
        given = np.concatenate([np.full(n, 10.0 * self.rank + j) for j, n in enumerate(counts)])
        wanted = np.concatenate([np.full(n, 10.0 * i + self.rank) for i, n in enumerate(counts)])
        out = self.put(np.zeros(sum(counts)))
        self.engine.all_to_all(out, self.put(given), counts, counts)
        self.same(out, wanted)

    def points(self) -> None:
        """Each to its neighbour, large and small, in both directions at once, halves too."""
        engine, right, left = self.engine, (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for dtype in (np.dtype("f4"), BFLOAT16):
            for count in (1, 300_000):
                sent = self.put(np.full(count, self.rank, dtype))
                got = self.put(np.zeros(count, dtype))
                receiving = engine.start_recv(got, left, 7)
                sending = engine.start_send(sent, right, 7)
                assert receiving.wait(300) == left
                sending.wait(300)
                assert receiving.done() and sending.done()
                self.same(got, np.full(count, left, dtype))
        array = self.put(np.full(2, self.rank, "i4"))
        if not self.any_source:
            return
        if self.rank == 0:
            for _ in range(self.size - 1):
                source = engine.recv(array, None, 3)
                self.same(array, np.full(2, source, "i4"))
        else:
            engine.send(array, 0, 3)

    def compare(self) -> None:
        engine = self.engine
        assert engine.compare(2**64 - 5, lambda: b"not asked for") is None
        told = engine.compare(2**63 + (self.rank == 1), lambda: b"x" * (self.rank + 1))
        assert told == [b"x" * (r + 1) for r in range(self.size)]

    def wrong_size(self) -> None:
        """A message that is not as long as the array is refused."""
        from gradlib.distributed._errors import DistBackendError

        if self.rank == 0:
            self.engine.send(np.zeros(3, "f4"), 1, 0)
            self.engine.send(np.zeros(5, "f4"), 1, 0)
        elif self.rank == 1:
            for _ in range(2):
                with pytest.raises(DistBackendError):
                    self.engine.recv(np.zeros(4, "f4"), 0, 0)
        self.engine.barrier()

    def aborted(self) -> None:
        """Who waits for others that do not come is woken up, and cannot go on."""
        from gradlib.distributed._errors import DistBackendError

        if self.rank == 0:
            threading.Timer(0.3, self.engine.abort).start()
            for _ in range(2):
                with pytest.raises(DistBackendError, match="abort"):
                    self.engine.all_reduce(np.zeros(3, "f4"), "sum")
