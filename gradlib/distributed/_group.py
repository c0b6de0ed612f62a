"""ProcessGroup: who takes part, and how a collective is checked, counted, recorded and carried out.

The collectives themselves are in `_transfers`; here is what all of them have in common.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import Any, NoReturn

import numpy as np

from ..tape import dtypes, recording, source
from ..tape.device import stored
from ..tape.modes import PROFILE, state
from ..tape.tensor import Tensor
from . import flight_recorder
from ._arrays import check_plain, written
from ._backend import Backend, Pending
from ._errors import DistBackendError, PeerLost
from ._work import PointToPoint, Progress, Work
from .flight_recorder import Call

__all__ = ["Group"]

_MASK = (1 << 64) - 1
_digests: dict[tuple, int] = {}


def _digest(key: tuple, seq: int) -> int:
    """64 bits for what a rank is about to do, the same in all processes."""
    known = _digests.get(key)
    if known is None:
        made = blake2b(repr(key).encode(), digest_size=8).digest()
        if len(_digests) > 10_000:  # of programs whose shapes never come back
            _digests.clear()
        known = _digests[key] = int.from_bytes(made, "little")
    return (known + seq * 0x9E3779B97F4A7C15) & _MASK


# What PyTorch's profiler calls them.
_RANGES = {
    "all_reduce": "c10d::allreduce_",
    "all_reduce_coalesced": "c10d::allreduce_coalesced_",
    "broadcast": "c10d::broadcast_",
    "reduce": "c10d::reduce_",
    "all_gather": "c10d::allgather_",
    "all_gather_into_tensor": "c10d::_allgather_base_",
    "gather": "c10d::gather_",
    "scatter": "c10d::scatter_",
    "reduce_scatter": "c10d::reduce_scatter_",
    "reduce_scatter_tensor": "c10d::_reduce_scatter_base_",
    "all_to_all": "c10d::alltoall_",
    "all_to_all_single": "c10d::alltoall_base_",
}


def _as_range(
    name: str, tensors: Sequence[Tensor], body: Callable[[Backend], None]
) -> Callable[[Backend], None]:
    """`body` as a range of this thread's profiler, in whatever thread it will run."""
    recorder = state.recorder

    def run(engine: Backend) -> None:
        token = recorder.enter(name, None, tensors, (), -1, recording.OP)
        try:
            body(engine)
        finally:
            recorder.exit(token, None)

    return run


class Group:
    """The common part of a process group: ranks, engines, and the way of each collective.

    Args:
        ranks: the global rank of each of its ranks.
        rank: of this process in it.
        name: unique in the job, and the same on all ranks.
        store: for this group alone.
        timeout: of a collective.
        engines: what makes the engine of each device type, by its name ("cpu", "cuda").
        description: what the user calls it.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        rank: int,
        name: str,
        store: Any,
        timeout: timedelta,
        engines: dict[str, tuple[str, Callable[[], Backend]]],
        description: str = "",
    ) -> None:
        self.ranks, self._rank, self._name = list(ranks), rank, name
        self._limit: timedelta | None = None  # of all engines, where it was set later
        self._store, self.timeout, self.group_desc = store, timeout, description or "undefined"
        self.bound_device_id: Any = None
        self._makers = engines
        self._engines: dict[str, Backend] = {}
        self._making = threading.Lock()
        self._progress = Progress(name)
        self._seq = self._p2p_seq = 0
        self._broken: str | None = None
        # given the error of a lost rank, what happened to it, by who watches the processes of the job
        self.explain: Callable[[BaseException], str | None] = lambda error: None
        self.splits = self.monitored = (
            0  # how often `split_group` and `monitored_barrier` were called
        )
        for device_type in engines:
            if device_type == "cpu":  # those of GPUs meet when they are first used
                self.engine(device_type)

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    # -- engines -------------------------------------------------------------------------------------------------

    def engine(self, device_type: str) -> Backend:
        """The engine for tensors of a device type.

        Raises:
            RuntimeError: the group has none.
        """
        found = self._engines.get(device_type)
        if found is not None:
            return found
        with self._making:
            if device_type not in self._engines:
                if device_type not in self._makers:
                    raise RuntimeError(
                        f"No backend type associated with device type {device_type}: this group has "
                        f"{', '.join(f'{d}:{n}' for d, (n, _) in self._makers.items())}. Name one for it, as in "
                        'init_process_group("cpu:gloo,cuda:nccl"), or move the tensor.'
                    )
                made = self._engines[device_type] = self._makers[device_type][1]()
                made.ranks[:] = self.ranks
                if self._limit is not None:
                    made.set_timeout(self._limit)
            return self._engines[device_type]

    def serves(self, device_type: str) -> bool:
        """Whether it has an engine for tensors of a device type."""
        return device_type in self._makers

    def _engine_of(self, tensors: Sequence[Tensor]) -> Backend:
        if len(tensors) == 1 and tensors[0]._array.__class__ is np.ndarray:
            return self._engines.get("cpu") or self.engine("cpu")
        if not tensors:
            return self.engine(next(iter(self._makers)))
        kinds = {stored(tensor._array).__class__.__module__.partition(".")[0] for tensor in tensors}
        if len(kinds) > 1:
            raise RuntimeError("all tensors of a collective must be on one device")
        return self.engine(tensors[0].device.type)

    # -- the way of a collective ---------------------------------------------------------------------------------

    def run(
        self,
        op: str,
        tensors: Sequence[Tensor],
        body: Callable[[Backend], None],
        *,
        key: tuple,
        detail: str = "",
        outputs: Sequence[Tensor] = (),
        result: Any = None,
        async_op: bool = False,
        limit: timedelta | None = None,
    ) -> Work | None:
        """Carry out a collective, or have it carried out.

        Args:
            op: its name.
            tensors: its arguments on this rank.
            body: does it, given the engine.
            key: what all ranks must agree in.
            detail: its other arguments, for people.
            outputs: those of the tensors that are written to.
            result: of the work's future; the outputs by default.
            async_op: give a Work at once; else return None when it is done.
            limit: after which it fails; that of the group by default.

        Raises:
            DistBackendError: ranks did not agree, or one of them was lost; says which, where and what they called.
        """
        check_plain(op, tensors)
        engine = self._engine_of(tensors)
        self._seq = seq = self._seq + 1
        call = self._call(op, tensors, seq, detail)
        call.backend = engine.name
        if limit is not None and not engine.on_stream:
            call.limit = limit
        digest = _digest((op, *key), seq)
        if outputs:
            written(outputs, call.site, op)
        given = list(outputs) if result is None else result
        if state.bits & PROFILE:
            body = _as_range(f"{engine.name}:{op}", tensors, body)
            span = recording.Span(_RANGES.get(op, f"c10d::{op}"), recording.OP, None, tensors)
            try:
                return self._submit(call, engine, digest, body, tensors, outputs, given, async_op)
            finally:
                span.end()
        return self._submit(call, engine, digest, body, tensors, outputs, given, async_op)

    def _submit(
        self,
        call: Call,
        engine: Backend,
        digest: int,
        body: Callable[[Backend], None],
        tensors: Sequence[Tensor],
        outputs: Sequence[Tensor],
        given: Any,
        async_op: bool,
    ) -> Work | None:
        """Do it now, or have it done by the progress thread or on a stream."""
        if engine.on_stream:
            arrays = [stored(tensor._array) for tensor in (*tensors, *outputs)]
            return engine.submit(
                lambda: self._carry_out(call, engine, digest, body), arrays, given, async_op
            )
        work = Work(given) if async_op else None
        if work is None:
            self._progress.run(lambda: self._carry_out(call, engine, digest, body))
        else:
            self._progress.submit(lambda: self._carry_out(call, engine, digest, body), work)
        return work

    def _call(
        self, op: str, tensors: Sequence[Tensor], seq: int, detail: str, p2p: bool = False
    ) -> Call:
        frame = source.user_frame(sys._getframe(2))
        arrays = [tensor._array for tensor in tensors]
        return Call(
            op,
            self._name,
            self._rank,
            seq,
            tuple([array.shape for array in arrays]),
            dtypes.BY_NP.get(arrays[0].dtype) if arrays else None,
            sum([array.nbytes for array in arrays]),
            detail,
            (frame.f_code, frame.f_lasti),
            p2p,
        )

    def _carry_out(
        self, call: Call, engine: Backend, digest: int, body: Callable[[Backend], None]
    ) -> None:
        """Check that all ranks do the same, then do it."""
        if self._broken is not None:
            self._refuse(call)
        call.state, call.started = "started", time.time_ns()
        before = engine.timeout
        try:
            if call.limit is not None:
                engine.set_timeout(call.limit)
            described = engine.compare(digest, call.line)
            if described is None:
                body(engine)
        except BaseException as error:
            raise self._failed(call, error) from error
        finally:
            if call.limit is not None:
                engine.set_timeout(before)
        call.ended = time.time_ns()
        if described is not None:
            call.state = "failed"
            raise DistBackendError(self._mismatch(call, described))
        call.state = "completed"

    # -- what goes wrong -----------------------------------------------------------------------------------------

    def _where(self) -> str:
        return "" if self._name == "0" else f" of group {self._name} (ranks {self.ranks})"

    def _refuse(self, call: Call) -> NoReturn:
        call.state, call.error = "failed", self._broken
        raise DistBackendError(
            f"{call} cannot run on rank {self.ranks[self._rank]}: the process group failed before. {self._broken}"
        )

    def _mismatch(self, call: Call, described: list[bytes]) -> str:
        lines = [
            f"  rank {self.ranks[r]}: {text.decode(errors='replace')}"
            for r, text in enumerate(described)
        ]
        call.error = "ranks called different things"
        return "\n".join(
            [f"Ranks called different collectives{self._where()}:", *lines, self._written_record()]
        )

    def _written_record(self) -> str:
        """Write the flight record; says where it is."""
        try:
            path = flight_recorder.dump(rank=self.ranks[0] if self._rank < 0 else self.ranks[self._rank])  # fmt: skip
        except OSError as error:
            return f"(The record of this rank's collectives could not be written: {error})"
        return f"The last collectives of this rank are in {path}"

    def _failed(self, call: Call, error: BaseException) -> BaseException:
        """Close the group after an error, and give the error to raise."""
        call.state, call.ended = "failed", time.time_ns()
        known = self.explain(error) if isinstance(error, PeerLost) else None
        if known is not None:
            reason = known
        elif isinstance(error, TimeoutError):
            limit = call.limit or self.timeout
            reason = f"not all ranks came within {limit.total_seconds():g} s: {error}"
        else:
            reason = str(error) or type(error).__name__
        call.error = reason
        text = f"{call} failed on rank {self.ranks[self._rank]}{self._where()}: {reason}"
        self.lose(text)
        if not isinstance(error, (DistBackendError, TimeoutError, OSError, RuntimeError)):
            return error
        return DistBackendError(f"{text}\n{self._written_record()}")

    def lose(self, why: str) -> None:
        """Fail what is under way and what comes later, on all ranks that can be reached.

        Args:
            why: as a sentence.
        """
        if self._broken is not None:
            return
        engines = list(self._engines.values())
        told = [reason for engine in engines if (reason := engine.aborted()) is not None]
        self._broken = why = told[0] if told else why  # what came first is the cause
        for engine in engines:
            engine.reason = why
            engine.abort()

    # -- point to point ------------------------------------------------------------------------------------------

    def point(
        self,
        op: str,
        tensor: Tensor,
        start: Callable[[Backend], Pending],
        after: Callable[[], None],
        detail: str,
    ) -> PointToPoint:
        """Begin a send or receive."""
        check_plain(op, (tensor,))
        engine = self._engine_of((tensor,))
        self._p2p_seq += 1
        call = self._call(op, (tensor,), self._p2p_seq, detail, p2p=True)
        if self._broken is not None:
            self._refuse(call)
        if op == "recv":
            written((tensor,), call.site, op)
        call.state, call.started = "started", time.time_ns()

        def settle(error: BaseException | None) -> BaseException | None:
            if error is not None:
                return self._failed(call, error)
            after()
            call.state, call.ended = "completed", time.time_ns()
            return None

        try:
            pending = start(engine)
        except Exception as error:
            raise self._failed(call, error) from error
        return PointToPoint(pending, [tensor], settle, self.timeout.total_seconds())

    # -- the end -------------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """Make all collectives of the group fail, on this rank and on the others."""
        self.lose(f"rank {self.ranks[self._rank]} aborted the process group")

    def _leave(self) -> None:
        """Tell the other ranks that this process ends."""
        for engine in list(self._engines.values()):
            engine.leave()

    def shutdown(self, note: str = "") -> None:
        """Close the connections of the group.

        Args:
            note: what those that wait for this rank are to know.
        """
        self._broken = self._broken or "the process group was destroyed"
        for engine in self._engines.values():
            engine.note = note
            engine.close()
        self._engines.clear()
