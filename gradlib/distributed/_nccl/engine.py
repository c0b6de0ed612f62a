"""The engine of a group whose ranks have a GPU each.

Operations are queued on a stream of the engine's own. It waits for what the caller's stream had queued before, and the
caller's stream for it, unless the caller works on the engine's stream himself: then he says when to wait. Arrays are
kept until the operations on them are done.

Before a collective, ranks compare what they are about to do, on the host and by gloo: NCCL itself would hang, or mix up
the bytes of different tensors. So a collective begins when all hosts have come to it; GPUs go on with what is queued.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import reduce as fold
from typing import Any

import ml_dtypes
import numpy as np

from ...cuda.streams import Stream
from ...devices.cuda.library import current_device, library
from ...devices.packages import find
from ...tape.arrays import backend_of
from ...tape.modes import shared
from .._backend import Backend, Pending
from .._errors import DistBackendError
from .._gloo.engine import Gloo
from .._store import PrefixStore
from .points import Points
from .watchdog import Watchdog
from .work import StreamWork

__all__ = ["Nccl", "nccl_library"]

_OPS = {"sum": "NCCL_SUM", "product": "NCCL_PROD", "min": "NCCL_MIN", "max": "NCCL_MAX"}
_TYPES = {
    "u1": "NCCL_UINT8", "i1": "NCCL_INT8", "i4": "NCCL_INT32", "u4": "NCCL_UINT32", "i8": "NCCL_INT64",
    "u8": "NCCL_UINT64", "f2": "NCCL_FLOAT16", "f4": "NCCL_FLOAT32", "f8": "NCCL_FLOAT64",
}  # fmt: skip
_WIDER = {np.dtype("i2"): np.dtype("i4"), np.dtype("u2"): np.dtype("u4")}
_BITS = {"band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor"}


def nccl_library() -> Any:
    """``cupy.cuda.nccl``.

    Raises:
        ImportError: CuPy finds no NCCL; says what to install.
        RuntimeError: there is no CUDA device, or no CuPy.
    """
    cuda = library()
    with warnings.catch_warnings():  # CuPy warns of what the error says
        warnings.simplefilter("ignore")
        found = find("cupy.cuda.nccl")
    if found is None or not found.available:
        major = cuda.runtime.runtimeGetVersion() // 1000
        raise ImportError(
            f'backend "nccl": CuPy found no NCCL library. Install it with pip install nvidia-nccl-cu{major}'
        )
    return found


class Nccl(Backend):
    """See `Backend`."""

    name = "nccl"
    device_type = "cuda"
    on_stream = True

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self.nccl = nccl_library()
        self.device = current_device()
        self.stream = Stream(self.device)
        self.lane = shared.cuda.lane(self.device, self.stream._stream)
        self._types = {np.dtype(k): getattr(self.nccl, name) for k, name in _TYPES.items()}
        self._types[np.dtype(ml_dtypes.bfloat16)] = self.nccl.NCCL_BFLOAT16
        self._dead: str | None = None
        self._communicators: list[Any] = []
        self._host = Gloo(PrefixStore("host", store), rank, size, timeout)
        self._comm = self.communicator("all", rank, size)
        self._watchdog = Watchdog(self._ask, self.fail, timeout.total_seconds())
        self._points = Points(self)

    def set_timeout(self, timeout: timedelta) -> None:
        super().set_timeout(timeout)
        self._host.set_timeout(timeout)
        self._watchdog.limit = timeout.total_seconds()

    def communicator(self, key: str, rank: int, size: int) -> Any:
        """A communicator with others that ask for the same key; waits for them.

        Args:
            key: its name.
            rank: of this process in it.
            size: number of its ranks.

        Raises:
            TimeoutError: the others did not come.
            DistBackendError: NCCL failed.
        """
        if rank == 0:
            self.store.set(f"nccl/{key}", bytes(self.nccl.get_unique_id()))
        name = bytes(self.store.get(f"nccl/{key}"))
        made: list[Any] = []

        def make() -> None:  # NCCL waits without a limit
            try:
                with library().Device(self.device):
                    made.append(self.nccl.NcclCommunicator(size, name, rank))
            except Exception as error:
                made.append(error)

        thread = threading.Thread(target=make, name="gradlib nccl meets", daemon=True)
        thread.start()
        thread.join(self.timeout.total_seconds())
        if not made:
            raise TimeoutError
        if isinstance(made[0], Exception):
            raise DistBackendError(f"NCCL: {made[0]}") from made[0]
        self._communicators.append(made[0])
        return made[0]

    # -- the stream ----------------------------------------------------------------------------------------------

    def run(self, what: str, arrays: list, call: Callable[[int], None], lane: Any = None) -> Any:
        """Queue an operation.

        Args:
            what: its name.
            arrays: that it reads and writes.
            call: does it, given the address of the stream.
            lane: the stream; the engine's by default.

        Returns:
            An event after it.
        """
        lane = lane or self.lane
        self.check_alive()
        for array in arrays:
            if array.device.id != self.device:
                raise RuntimeError(
                    f"{what}: a tensor is on cuda:{array.device.id}, but this process takes part with cuda:"
                    f"{self.device}. Call torch.cuda.set_device before the first collective, or move the tensor."
                )
        streams = shared.cuda
        here = streams.current(self.device)
        if here is not lane:
            lane.wait(here.record())
        entry = self._watchdog.watch(what)
        try:
            with library().Device(self.device):
                call(lane.stream.ptr)
        except self.nccl.NcclError as error:
            self._watchdog.forget(entry)
            raise DistBackendError(self._dead or f"NCCL: {error} (in {what})") from error
        event = lane.record()
        if streams.held is None:  # an event of a capture cannot be asked
            entry.event = event
        else:
            self._watchdog.forget(entry)
        streams.retire(arrays, lane)
        return event

    def queue(self, what: str, arrays: list, call: Callable[[int], None]) -> None:
        """`run`, and let the caller's stream wait for it."""
        event = self.run(what, arrays, call)
        here = shared.cuda.current(self.device)
        if here is not self.lane:
            here.wait(event)

    def submit(
        self, job: Callable[[], None], arrays: list, result: Any, async_op: bool
    ) -> StreamWork | None:
        """Run `job`, which calls methods of this engine, with the engine's stream as the current one.

        So what it does before and after the collective itself is in order, too, and goes on beside what the caller
        queues next.

        Args:
            job: queues a collective.
            arrays: those of the caller that it reads and writes.
            result: of the work.
            async_op: give a work; else the caller's stream waits for the end, and None is given.
        """
        streams = shared.cuda
        current, here = streams.current(), streams.current(self.device)
        self.lane.wait(here.record())
        self.lane.enter()
        try:
            job()
            event = self.lane.record()
            streams.retire(arrays, self.lane)
        finally:
            here.enter()
            current.enter()
        if async_op:
            return StreamWork(self, event, result)
        here.wait(event)
        return None

    # -- reductions ----------------------------------------------------------------------------------------------

    def _op(self, op: str) -> int:
        return getattr(self.nccl, _OPS[op])

    def all_reduce(self, array: Any, op: str) -> None:
        if op in _BITS:
            array[...] = self._gathered(array, op)
        elif array.dtype in _WIDER:
            wide = array.astype(_WIDER[array.dtype])
            self.all_reduce(wide, op)
            array[...] = wide
        else:
            at, number = array.data.ptr, self._types[array.dtype]
            self.queue(
                "all_reduce",
                [array],
                lambda s: self._comm.allReduce(at, at, array.size, number, self._op(op), s),
            )

    def reduce(self, array: Any, root: int, op: str) -> None:
        if op in _BITS or array.dtype in _WIDER:
            total = array.copy()
            self.all_reduce(total, op)
            if self.rank == root:
                array[...] = total
            return
        at, number = array.data.ptr, self._types[array.dtype]
        self.queue(
            "reduce",
            [array],
            lambda s: self._comm.reduce(at, at, array.size, number, self._op(op), root, s),
        )

    def reduce_scatter(self, out: Any, array: Any, op: str) -> None:
        if op in _BITS:
            out.reshape(-1)[...] = self._gathered(array, op).reshape(self.size, -1)[self.rank]
        elif array.dtype in _WIDER:
            wide = out.astype(_WIDER[array.dtype])
            self.reduce_scatter(wide, array.astype(wide.dtype), op)
            out[...] = wide
        else:
            given, into, number = array.data.ptr, out.data.ptr, self._types[array.dtype]
            self.queue(
                "reduce_scatter",
                [array, out],
                lambda s: self._comm.reduceScatter(given, into, out.size, number, self._op(op), s),
            )

    def _gathered(self, array: Any, op: str) -> Any:
        """A reduction that NCCL does not have: everybody gets all arrays, and puts them together."""
        xp = backend_of(array).xp
        parts = xp.empty((self.size, *array.shape), array.dtype)
        self.all_gather(parts, array)
        return fold(getattr(xp, _BITS[op]), list(parts))

    # -- moves: of bytes -----------------------------------------------------------------------------------------

    def broadcast(self, array: Any, root: int) -> None:
        at, byte = array.data.ptr, self.nccl.NCCL_CHAR
        self.queue(
            "broadcast",
            [array],
            lambda s: self._comm.broadcast(at, at, array.nbytes, byte, root, s),
        )

    def all_gather(self, out: Any, array: Any) -> None:
        given, into, byte = array.data.ptr, out.data.ptr, self.nccl.NCCL_CHAR
        self.queue(
            "all_gather",
            [array, out],
            lambda s: self._comm.allGather(given, into, array.nbytes, byte, s),
        )

    def gather(self, out: Any | None, array: Any, root: int) -> None:
        n = array.nbytes
        sends = [(array.data.ptr, n, root)]
        receives = [] if out is None else [(out.data.ptr + r * n, n, r) for r in range(self.size)]
        self._exchange("gather", [array] if out is None else [array, out], sends, receives)

    def scatter(self, array: Any, source: Any | None, root: int) -> None:
        n = array.nbytes
        sends = []
        if source is not None:
            sends = [(source.data.ptr + r * n, n, r) for r in range(self.size)]
        arrays = [array] if source is None else [array, source]
        self._exchange("scatter", arrays, sends, [(array.data.ptr, n, root)])

    def all_to_all(self, out: Any, array: Any, out_counts: list[int], counts: list[int]) -> None:
        def parts(whole: Any, counts: list[int]) -> list[tuple[int, int, int]]:
            ends, size = np.cumsum(counts).tolist(), whole.dtype.itemsize
            return [
                (whole.data.ptr + (end - n) * size, n * size, r)
                for r, (n, end) in enumerate(zip(counts, ends, strict=True))
            ]

        self._exchange("all_to_all", [array, out], parts(array, counts), parts(out, out_counts))

    def _exchange(self, what: str, arrays: list, sends: list, receives: list) -> None:
        """Sends and receives that go on side by side: (address, bytes, rank) of each."""
        nccl, byte = self.nccl, self.nccl.NCCL_CHAR

        def call(stream: int) -> None:
            nccl.groupStart()
            try:
                for at, n, peer in sends:
                    if n:
                        self._comm.send(at, n, byte, peer, stream)
                for at, n, peer in receives:
                    if n:
                        self._comm.recv(at, n, byte, peer, stream)
            finally:
                nccl.groupEnd()

        self.queue(what, arrays, call)

    # -- point to point ------------------------------------------------------------------------------------------

    def send(self, array: Any, to: int, tag: int) -> None:
        self.start_send(array, to, tag).wait(None)

    def recv(self, array: Any, source: int | None, tag: int) -> int:
        return self.start_recv(array, source, tag).wait(None)

    def start_send(self, array: Any, to: int, tag: int) -> Pending:
        return self._points.post(array, to, sending=True)

    def start_recv(self, array: Any, source: int | None, tag: int) -> Pending:
        if source is None:
            raise RuntimeError(
                "recv: NCCL cannot receive from any rank. Name the source, or use a gloo or mpi group."
            )
        return self._points.post(array, source, sending=False)

    # -- the host ------------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        self.check_alive()
        shared.cuda.current(self.device).stream.synchronize()
        self.lane.stream.synchronize()
        self._host.barrier()

    def compare(self, digest: int, describe: Callable[[], bytes]) -> list[bytes] | None:
        self.check_alive()
        return self._host.compare(digest, describe)

    # -- the end -------------------------------------------------------------------------------------------------

    def check_alive(self) -> None:
        """Raise what was found wrong since the last call.

        Raises:
            DistBackendError: the engine was aborted, an operation failed or took too long.
        """
        if self._dead is not None:
            raise DistBackendError(self._dead)

    @property
    def failed(self) -> bool:
        """Whether it cannot be used any more."""
        return self._dead is not None

    def _ask(self) -> None:
        why = self._host.aborted()
        if why is not None:
            raise DistBackendError(why)
        for comm in list(self._communicators):
            comm.check_async_error()

    def fail(self, reason: str) -> None:
        """Abort because of `reason`."""
        if self._dead is None:
            self._dead = self._host.reason = reason
            self._host.abort()
            for comm in self._communicators:
                comm.abort()

    def abort(self) -> None:
        self.fail(self.reason or f"rank {self.rank} aborted the process group")

    def aborted(self) -> str | None:
        return self._host.aborted()

    def close(self) -> None:
        if self._dead is None:
            self._dead = "the process group was destroyed"
            self._watchdog.close()
            self.lane.stream.synchronize()
            self._points.synchronize()
            for comm in self._communicators:
                comm.destroy()
            self._host.note = self.note
            self._host.close()
