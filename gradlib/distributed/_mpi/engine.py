"""The engine of a group whose ranks are processes of MPI.

Arrays are sent from where they lie. Every operation is a non-blocking one that is asked for its end, so that a failure
found elsewhere (`abort`) can end the wait for it: no call of MPI that waits could be called off.

MPI knows no halves. They are put together here: each rank gets one part of all arrays, adds it in float32, and gives
the result to all, so that it is rounded once and equal on all ranks.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from .._backend import Backend, Pending
from .._errors import DistBackendError
from .._tcp_store import TCPStore
from .._wire import TOKEN
from .loading import forget_job, library, note_failure, note_job
from .reductions import HALVES, WORDS, combine, ops, types

__all__ = ["Mpi"]

GATHERED = 1 << 16  # bytes of all ranks together up to which each puts all of them together
TESTS = 20  # of a request, between looks at the clock
SPIN = 4e-5  # seconds after which a wait sleeps between tests
LOOK = 0.5  # seconds between looks whether another rank has aborted, of who waits that long
NAP = 1e-3  # seconds of the longest sleep, and of one between tests of what nobody waits for

_abandoned: list[Any] = []


def _abandon(request: Any) -> None:
    """Give an operation up. MPI may still write to its arrays, which live as long as the request."""
    _abandoned.append(request)
    note_failure()


def _of_host(array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise NotImplementedError(
            'backend "mpi" moves CPU tensors only. For CUDA tensors use "cpu:mpi,cuda:nccl", or move them first.'
        )


class Mpi(Backend):
    """See `Backend`."""

    name = "mpi"
    device_type = "cpu"

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self.mpi = library()
        self._seconds = timeout.total_seconds()
        self._dead: str | None = None
        self._looked = 0.0  # when the store was asked last whether another rank has aborted
        self._types = types(self.mpi)
        self._ops = ops(self.mpi)
        self._words = {n: self._types[word] for n, word in WORDS.items()}
        self._posted: list[Posted] = []
        self._posting = threading.Lock()
        self._mover: threading.Thread | None = None
        self.comm = self._join()
        self._digests = np.empty(2, np.uint64)
        self._check = self.comm.Allreduce_init(
            self.mpi.IN_PLACE, [self._digests, self.mpi.UINT64_T], self.mpi.MAX
        )

    @staticmethod
    def meet(timeout: timedelta) -> tuple[Any, int, int]:
        """(store, rank, number of ranks) of a job that MPI started: nothing has to be in the environment.

        Args:
            timeout: of the store.
        """
        world = library().COMM_WORLD
        rank, size = world.Get_rank(), world.Get_size()
        hosts = world.allgather(socket.gethostname())
        token = world.bcast(os.environ.get(TOKEN) or secrets.token_hex(16))
        os.environ[TOKEN] = token  # those who know it may use the store
        host = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
        store = None
        if rank == 0:
            store = TCPStore(host, 0, size, True, timeout, wait_for_workers=False)
        port = world.bcast(store.port if store is not None else None)
        return store or TCPStore(host, port, size, False, timeout), rank, size

    def _join(self) -> Any:
        """The communicator of the ranks of the group."""
        world = self.mpi.COMM_WORLD
        if self.rank == 0:
            self.store.set("mpi/tag", str(secrets.randbelow(1 << 14)))
        self.store.set(f"mpi/{self.rank}", str(world.Get_rank()))
        ranks = [int(self.store.get(f"mpi/{r}")) for r in range(self.size)]
        if len(set(ranks)) < self.size:
            raise RuntimeError(
                f'backend "mpi": {self.size} ranks were asked for, but MPI knows of {world.Get_size()} process(es). '
                f"Start the program by MPI's own launcher: mpiexec -n {self.size} python train.py"
            )
        if self.size == world.Get_size():
            note_job(self.store, self.rank, self.size)
        group = world.Get_group().Incl(ranks)
        return world.Create_group(group, int(self.store.get("mpi/tag")))

    def set_timeout(self, timeout: timedelta) -> None:
        super().set_timeout(timeout)
        self._seconds = timeout.total_seconds()

    # -- waiting -------------------------------------------------------------------------------------------------

    def _wait(self, request: Any) -> None:
        """Wait until a request is done."""
        test, begun = request.Test, time.monotonic()
        while True:
            for _ in range(TESTS):
                if test():
                    return
            if self._dead is not None:
                _abandon(request)
                raise DistBackendError(self._dead)
            if not self.pause(begun, self._seconds):
                _abandon(request)
                raise TimeoutError

    def pause(self, begun: float, limit: float) -> bool:
        """Between tests of what has been waited for since `begun`: nothing at first, then sleep.

        The sleep is a twentieth of the time waited so far. To yield the processor costs more where it is shared: who
        sleeps is soon given it back, who yields comes last.

        Returns:
            False when `limit` seconds are over.
        """
        now = time.monotonic()
        waited = now - begun
        if waited > SPIN:
            time.sleep(min(waited / 20, NAP))
        if waited > LOOK and now - self._looked > LOOK:
            self._looked = now
            why = self.aborted()
            if why is not None and self._dead is None:
                self._dead = why
        return waited < limit

    def _run(self, begin: Callable[..., Any], *args: Any) -> None:
        """Begin an operation, and wait for it."""
        if self._dead is not None:
            raise DistBackendError(self._dead)
        try:
            self._wait(begin(*args))
        except self.mpi.Exception as error:
            raise DistBackendError(f"MPI: {error}") from error

    def _typed(self, array: Any) -> list:
        """An array as numbers, for MPI's reductions."""
        _of_host(array)
        return [array, self._types[array.dtype]]

    def _moved(self, array: Any) -> list:
        """An array as words of its element's size: what is only moved may be of any type."""
        _of_host(array)
        size = array.dtype.itemsize
        return [array.reshape(-1).view(WORDS[size]), self._words[size]]

    # -- collectives ---------------------------------------------------------------------------------------------

    def all_reduce(self, array: Any, op: str) -> None:
        if array.dtype not in HALVES:
            number = self._ops[op, array.dtype.kind]
            self._run(self.comm.Iallreduce, self.mpi.IN_PLACE, self._typed(array), number)
            return
        flat = array.reshape(-1)
        if flat.nbytes * self.size <= GATHERED:
            parts = np.empty((self.size, flat.size), flat.dtype)
            self.all_gather(parts, flat)
            combine(parts, op, flat)
            return
        n = -(-flat.size // self.size)
        padded = flat
        if n * self.size > flat.size:  # zeros behind it make equal parts
            padded = np.zeros(n * self.size, flat.dtype)
            padded[: flat.size] = flat
        mine = np.empty(n, flat.dtype)
        self.reduce_scatter(mine, padded, op)
        self.all_gather(padded, mine)
        if padded is not flat:
            flat[...] = padded[: flat.size]

    def broadcast(self, array: Any, root: int) -> None:
        self._run(self.comm.Ibcast, self._moved(array), root)

    def reduce(self, array: Any, root: int, op: str) -> None:
        if array.dtype in HALVES:
            parts = np.empty((self.size, array.size), array.dtype) if self.rank == root else None
            self.gather(parts, array, root)
            if parts is not None:
                combine(parts, op, array.reshape(-1))
            return
        send, receive = self._typed(array), None
        if self.rank == root:
            send, receive = self.mpi.IN_PLACE, send
        self._run(self.comm.Ireduce, send, receive, self._ops[op, array.dtype.kind], root)

    def all_gather(self, out: Any, array: Any) -> None:
        self._run(self.comm.Iallgather, self._moved(array), self._moved(out))

    def gather(self, out: Any | None, array: Any, root: int) -> None:
        into = None if out is None else self._moved(out)
        self._run(self.comm.Igather, self._moved(array), into, root)

    def scatter(self, array: Any, source: Any | None, root: int) -> None:
        given = None if source is None else self._moved(source)
        self._run(self.comm.Iscatter, given, self._moved(array), root)

    def reduce_scatter(self, out: Any, array: Any, op: str) -> None:
        if array.dtype in HALVES:
            parts = np.empty((self.size, out.size), array.dtype)
            self._run(self.comm.Ialltoall, self._moved(array), self._moved(parts))
            combine(parts, op, out.reshape(-1))
            return
        given, into = self._typed(array), self._typed(out)
        self._run(
            self.comm.Ireduce_scatter_block,
            given,
            into,
            self._ops[op, array.dtype.kind],
        )

    def all_to_all(self, out: Any, array: Any, out_counts: list[int], counts: list[int]) -> None:
        (given, word), (into, _) = self._moved(array), self._moved(out)
        self._run(self.comm.Ialltoallv, [given, counts, word], [into, out_counts, word])

    def barrier(self) -> None:
        self._run(self.comm.Ibarrier)

    def compare(self, digest: int, describe: Callable[[], bytes]) -> list[bytes] | None:
        """One small all-reduce: the largest of d and the largest of ~d belong together if all are the same."""
        digests = self._digests
        digests[0] = digest
        digests[1] = digest ^ 0xFFFFFFFFFFFFFFFF
        self._run(self._begin_check)
        if int(digests[0]) ^ int(digests[1]) == 0xFFFFFFFFFFFFFFFF:
            return None
        text = np.frombuffer(describe(), np.uint8)
        lengths = np.empty(self.size, np.int64)
        self.all_gather(lengths, np.array([text.size]))
        together = np.empty(int(lengths.sum()), np.uint8)
        byte = self._words[1]
        self._run(self.comm.Iallgatherv, [text, byte], [together, lengths.tolist(), byte])
        ends = np.cumsum(lengths)
        return [together[end - n : end].tobytes() for n, end in zip(lengths, ends, strict=True)]

    def _begin_check(self) -> Any:
        self._check.Start()
        return self._check

    # -- point to point ------------------------------------------------------------------------------------------

    def send(self, array: Any, to: int, tag: int) -> None:
        self.start_send(array, to, tag).wait(self._seconds)

    def recv(self, array: Any, source: int | None, tag: int) -> int:
        return self.start_recv(array, source, tag).wait(self._seconds)

    def start_send(self, array: Any, to: int, tag: int) -> Pending:
        return self._post(self.comm.Isend, array, to, tag, to)

    def start_recv(self, array: Any, source: int | None, tag: int) -> Pending:
        wanted = self.mpi.ANY_SOURCE if source is None else source
        return self._post(self.comm.Irecv, array, wanted, tag, None)

    def _post(self, begin: Callable, array: Any, peer: int, tag: int, to: int | None) -> Posted:
        """Begin a send (`to` is the rank) or receive (None); it goes on without being waited for."""
        if self._dead is not None:
            raise DistBackendError(self._dead)
        spec = self._moved(array)
        try:
            posted = Posted(self, begin(spec, peer, tag), to, spec)
        except self.mpi.Exception as error:
            raise DistBackendError(f"MPI: {error}") from error
        if not posted.done():
            with self._posting:
                self._posted.append(posted)
                if self._mover is None:
                    self._mover = threading.Thread(
                        target=self._move, name="gradlib mpi", daemon=True
                    )
                    self._mover.start()
        return posted

    def _move(self) -> None:
        """MPI moves data while it is called: call it while there are sends and receives that nobody waits for."""
        while True:
            time.sleep(NAP)
            with self._posting:
                self._posted = [posted for posted in self._posted if not posted.done()]
                if not self._posted:
                    self._mover = None
                    return

    # -- the end -------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        if self._dead is None:
            note_failure()
            self._dead = self.reason or f"rank {self.rank} aborted the process group"
            try:
                self.store.set("mpi/aborted", self._dead)
            except Exception:  # who kept the store is gone: then others know
                return

    def aborted(self) -> str | None:
        try:
            if self.store.check(["mpi/aborted"]):
                return self.store.get("mpi/aborted").decode()
        except Exception:  # the store is gone
            return None
        return None

    def close(self) -> None:
        if self._dead is None and not self.mpi.Is_finalized():
            self._dead = "the process group was destroyed"
            forget_job(self.store)
            self._check.Free()
            self.comm.Free()


class Posted(Pending):
    """A send or receive of MPI; asked by whoever waits for it, and now and then by a thread.

    Args:
        engine: whose it is.
        request: MPI's.
        to: the rank that is sent to; None for a receive.
        spec: the array and MPI's type of its elements.
    """

    def __init__(self, engine: Mpi, request: Any, to: int | None, spec: list) -> None:
        super().__init__()
        self._engine, self._request, self._to, self._spec = engine, request, to, spec
        self._status = engine.mpi.Status()
        self._asking = threading.Lock()

    def done(self) -> bool:
        with self._asking:
            if self._done.is_set():
                return True
            engine = self._engine
            try:
                if self._request.Test(self._status):
                    self._end()
                elif engine._dead is not None:
                    _abandon(self._request)
                    self.finish(-1, DistBackendError(engine._dead))
            except engine.mpi.Exception as error:
                why = f"MPI: {error}"
                if error.Get_error_class() == engine.mpi.ERR_TRUNCATE:
                    why = (
                        f"more than the expected {self._spec[0].nbytes} bytes were sent: the tensors differ in shape "
                        "or dtype"
                    )
                self.finish(-1, DistBackendError(why))
            return self._done.is_set()

    def _end(self) -> None:
        """Mark it done; what is shorter than the array that it goes to is an error."""
        array, word = self._spec
        if self._to is not None:
            self.finish(self._to)
            return
        source, got = self._status.Get_source(), self._status.Get_count(word)
        error = None
        if got != array.size:
            error = DistBackendError(
                f"rank {source} sent {got * array.itemsize} bytes, but {array.nbytes} were expected: the tensors "
                "differ in shape or dtype"
            )
        self.finish(source, error)

    def wait(self, timeout: float | None) -> int:
        if not self.done():
            begun = time.monotonic()
            limit = self._engine._seconds if timeout is None else timeout
            while not self.done():
                if not self._engine.pause(begun, limit):
                    raise TimeoutError
        return super().wait(0)
