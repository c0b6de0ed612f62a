"""Where the launchers of several machines meet: who takes part, which ranks each has, whether another failed."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from .. import _wire
from .._errors import DistError, DistNetworkError
from .._store import PrefixStore, Store
from .._tcp_store import TCPStore

__all__ = ["Meeting", "Place"]

_LOST_SECONDS = 30.0  # without a heartbeat of a launcher
_BEAT_SECONDS = 1.0
_LEAVE_SECONDS = 15.0  # that who holds the store waits for the others to have read it


class Place(NamedTuple):
    """What a machine has of a job."""

    node: int  # its number
    nodes: int  # how many there are
    first_rank: int  # of its processes
    world_size: int


def _is_here(host: str) -> bool:
    """Whether a name or address is of this machine."""
    try:
        with _wire.listen(host, 0) as probe:
            bound = probe.getsockname()[0]
    except OSError:
        return False
    return host in ("", "localhost") or bound not in ("0.0.0.0", "::")


class Meeting:
    """The store of a job, which one of the launchers holds, and what they tell each other in it.

    Args:
        host: of the store.
        port: of the store; 0, on its host, chooses one.
        node: the number of this machine; None: in the order in which they come.
        nodes: how many machines the job needs, and how many it takes.
        run_id: of the job.
        is_host: whether this launcher holds the store; None: whether `host` is this machine.
        timeout: to find the others.
        last_call: seconds to wait for more machines than are needed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        node: int | None,
        nodes: tuple[int, int],
        run_id: str,
        is_host: bool | None,
        timeout: float,
        last_call: float,
    ) -> None:
        self._node, self._nodes, self._last_call = node, nodes, last_call
        self._timeout = timeout
        if nodes[1] == 1:  # nobody else is to come
            os.environ.setdefault(_wire.TOKEN, secrets.token_hex(16))
        else:
            os.environ.setdefault(_wire.TOKEN, run_id)
        self.is_host = _is_here(host) if is_host is None else is_host
        limit = timedelta(seconds=timeout)
        try:
            self._server = TCPStore(host, port, None, self.is_host, limit)
        except DistNetworkError:
            # another launcher of this machine may hold it
            if not self.is_host or is_host or port == 0:
                raise
            self.is_host = False
            self._server = TCPStore(host, port, None, False, limit)
        self.host, self.port = host, self._server.port
        self._store: Store = PrefixStore(f"launcher/{run_id}", self._server)
        self._place = Place(0, 1, 0, 0)
        self._round = ""
        self._beats: dict[int, tuple[bytes, float]] = {}
        self._next_beat = 0.0

    def _wait(self, key: str, stopped: Callable[[], bool]) -> bytes:
        """The value of a key, unless this launcher is told to end."""
        deadline = time.monotonic() + self._timeout
        while not self._store.check([key]):
            if stopped():
                raise InterruptedError
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"The other machines of the job did not come to {self.host}:{self.port} within "
                    f"{self._timeout:g} s: {self._nodes[0]} are needed"
                )
            time.sleep(0.05)
        return self._store.get(key)

    def join(self, attempt: int, processes: int, stopped: Callable[[], bool]) -> Place:
        """Take part in a round.

        Args:
            attempt: the number of the round.
            processes: how many this machine starts.
            stopped: asked meanwhile; True gives up.

        Raises:
            TimeoutError: too few machines came.
            RuntimeError: the job is full.
        """
        self._round = f"round/{attempt}"
        self._beats.clear()
        if self._nodes[1] == 1:
            self._place = Place(0, 1, 0, processes)
            return self._place
        came = self._store.add(f"{self._round}/came", 1)
        node = came - 1 if self._node is None else self._node
        if self._node is not None:
            count = self._nodes[1]
        else:
            if node == 0:
                self._call(stopped)
            count = int(self._wait(f"{self._round}/count", stopped))
        if node >= count:
            raise RuntimeError(f"The job has the {count} machines that it takes: none can join it")
        self._store.set(f"{self._round}/processes/{node}", str(processes))
        each = [int(self._wait(f"{self._round}/processes/{n}", stopped)) for n in range(count)]
        self._place = Place(node, count, sum(each[:node]), sum(each))
        return self._place

    def _call(self, stopped: Callable[[], bool]) -> None:
        """The first that came decides who takes part: all that come until there are enough."""
        fewest, most = self._nodes
        key, start, enough = f"{self._round}/came", time.monotonic(), None
        while True:
            came, now = self._store.add(key, 0), time.monotonic()
            if came >= fewest and enough is None:
                enough = now
            if came >= most or (enough is not None and now - enough > self._last_call):
                self._store.set(f"{self._round}/count", str(min(came, most)))
                return
            if stopped():
                raise InterruptedError
            if now - start > self._timeout:
                raise TimeoutError(
                    f"{came} of {fewest} machines came to {self.host}:{self.port} within {self._timeout:g} s"
                )
            time.sleep(0.05)

    # -- while it runs ---------------------------------------------------------------------------------------------

    def trouble(self) -> dict[str, Any] | None:
        """What another machine failed with; asked as often as you like.

        Raises:
            DistError: the machine that holds the store is gone.
        """
        if self._place.nodes == 1 or time.monotonic() < self._next_beat:
            return None
        self._next_beat = time.monotonic() + _BEAT_SECONDS
        self._store.add(f"{self._round}/beat/{self._place.node}", 1)
        for node in set(range(self._place.nodes)) - {self._place.node}:
            key, now = f"{self._round}/beat/{node}", time.monotonic()
            beat = b"%d" % self._store.add(key, 0)
            before, since = self._beats.get(node, (b"", now))
            self._beats[node] = (beat, since if beat == before else now)
            silent = beat == before and now - since > _LOST_SECONDS
            if silent and not self._store.check([f"{self._round}/finished/{node}"]):
                return {"lost": node}
        if self._store.check([f"{self._round}/failed"]):
            return json.loads(self._store.get(f"{self._round}/failed"))
        return None

    def tell(self, failure: dict[str, Any]) -> dict[str, Any]:
        """Tell the others how processes of this machine failed; gives what was told first."""
        if self._place.nodes == 1:
            return failure
        text = json.dumps({**failure, "host": socket.gethostname()})
        return json.loads(self._store.compare_set(f"{self._round}/failed", "", text))

    def finish(self, stopped: Callable[[], bool]) -> dict[str, Any] | None:
        """Wait until the others have finished too; what one of them failed with, if one did."""
        if self._place.nodes == 1:
            return None
        self._store.set(f"{self._round}/finished/{self._place.node}", "1")
        names = [f"{self._round}/finished/{node}" for node in range(self._place.nodes)]
        while not self._store.check(names):
            if (found := self.trouble()) is not None:
                return found
            if stopped():
                raise InterruptedError
            time.sleep(0.1)
        return None

    def leave(self) -> None:
        """Go; who holds the store goes last, so that the others learn what it says."""
        if self._place.nodes == 1:
            return
        try:
            left = self._store.add(f"{self._round}/left", 1)
            deadline = time.monotonic() + _LEAVE_SECONDS
            while self.is_host and left < self._place.nodes and time.monotonic() < deadline:
                time.sleep(0.05)
                left = self._store.add(f"{self._round}/left", 0)
        except DistError:
            pass  # it went before
