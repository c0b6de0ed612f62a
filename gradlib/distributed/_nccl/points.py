"""Sends and receives on a GPU.

On one stream a send would keep a receive behind it from starting, and two ranks that both send first would wait for
each other for ever. So what is posted is not queued at once but together with what is posted after it, as one group of
NCCL, when somebody asks for any of it, or a moment later. Each pair of ranks has a communicator of its own, as the
others of the group may never take part.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ...cuda.streams import Stream
from ...tape.modes import shared
from .._backend import Pending

if TYPE_CHECKING:
    from .engine import Nccl

__all__ = ["Points"]

MOMENT = 0.01  # seconds that a send waits for company


class Point(Pending):
    """One send or receive."""

    def __init__(self, points: Points, array: Any, peer: int, sending: bool) -> None:
        super().__init__()
        self.points, self.array, self.peer, self.sending = points, array, peer, sending
        self.event: Any = None  # after it on its stream
        self.ready = points.here().record()  # before it on the stream that made the array

    def done(self) -> bool:
        self.points.flush()
        return self._error is not None or self.event.done

    def wait(self, timeout: float | None) -> int:
        """Let the current stream wait for it; the host does not."""
        self.points.flush()
        if self._error is not None:
            raise self._error
        self.points.here().wait(self.event)
        return self.peer


class Points:
    """The sends and receives of an engine.

    Args:
        engine: whose they are.
    """

    def __init__(self, engine: Nccl) -> None:
        self._engine = engine
        self._stream = Stream(engine.device)
        self._lane = shared.cuda.lane(engine.device, self._stream._stream)
        self._pairs: dict[tuple[int, int], Any] = {}
        self._posted: list[Point] = []
        self._posting = threading.Lock()
        self._flushing = threading.Lock()
        self._timer: threading.Timer | None = None

    def here(self) -> Any:
        """The lane that is current on the engine's device."""
        return shared.cuda.current(self._engine.device)

    def post(self, array: Any, peer: int, sending: bool) -> Point:
        """Begin one; `peer` is the other rank."""
        self._engine.check_alive()
        point = Point(self, array, peer, sending)
        with self._posting:
            self._posted.append(point)
            if self._timer is None:
                self._timer = threading.Timer(MOMENT, self.flush)
                self._timer.daemon = True
                self._timer.start()
        return point

    def flush(self) -> None:
        """Queue all that was posted."""
        with self._flushing:
            with self._posting:
                points, self._posted = self._posted, []
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            if not points:
                return
            try:
                self._queue(points)
            except Exception as error:
                for point in points:
                    point.finish(-1, error)

    def _queue(self, points: list[Point]) -> None:
        engine, lane = self._engine, self._lane
        # in one order on all ranks, so that no circle of ranks waits for each other's first meeting
        for pair in sorted({self._pair(point) for point in points}):
            if pair not in self._pairs:
                mine = pair.index(engine.rank)
                size = 1 if pair[0] == pair[1] else 2
                self._pairs[pair] = engine.communicator(f"{pair[0]}-{pair[1]}", mine, size)
        for point in points:
            lane.wait(point.ready)

        def call(stream: int) -> None:
            nccl = engine.nccl
            nccl.groupStart()
            try:
                for point in points:
                    comm, array = self._pairs[self._pair(point)], point.array
                    move = comm.send if point.sending else comm.recv
                    peer = int(point.peer > engine.rank)
                    move(array.data.ptr, array.nbytes, nccl.NCCL_CHAR, peer, stream)
            finally:
                nccl.groupEnd()

        event = engine.run("send, recv", [point.array for point in points], call, lane)
        for point in points:
            point.event = event
            point.finish(point.peer)

    def _pair(self, point: Point) -> tuple[int, int]:
        a, b = self._engine.rank, point.peer
        return (a, b) if a < b else (b, a)

    def synchronize(self) -> None:
        """Wait on the host for all that was queued."""
        self._lane.stream.synchronize()
