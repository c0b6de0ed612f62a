"""Which processes of a job live: a rank that fails is named on all others within seconds.

Each process has one connection to rank 0's. A rank that raises posts its traceback there; a connection that closes
without a goodbye is a process that was killed. Heartbeats that stay away only raise suspicion, since a process that
holds the interpreter in a long call sends none: a process on the same machine then looks whether it was stopped.

One thread a process, which wakes once a second.
"""

from __future__ import annotations

import atexit
import os
import secrets
import selectors
import socket
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from multiprocessing import util
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from . import _wire
from ._errors import DistNetworkError
from ._gloo.engine import interface
from ._liveness import RUNS, STOPPED, machine, state
from ._store_base import Store
from ._tcp_store import TCPStore
from .elastic.multiprocessing.errors import ERROR_FILE, get_error_handler

__all__ = ["Failure", "Monitor"]

_LATE = 3  # intervals without a heartbeat that raise suspicion
_SILENT_SECONDS = 60.0  # without one, where no process of the same machine can look


class Failure(NamedTuple):
    """What happened to a rank."""

    rank: int
    kind: str  # "raised", "died", "stopped", or "silent"
    text: str  # the traceback, or a sentence


class _Line:
    """One end of a connection between two monitors."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(2.0)  # to send: what is small fits in the system's buffer
        self.connection = connection
        self.rank, self.process, self.machine = -1, 0, ""
        self.heard = time.monotonic()
        self._came = bytearray()
        self._lock = threading.Lock()

    def send(self, *fields: bytes) -> None:
        """Send a message; that the other side is gone shows when it is read from."""
        with self._lock:
            try:
                _wire.send(self.connection, fields)
            except OSError:
                pass

    def read(self) -> tuple[list[list[bytes]], bool]:
        """The messages that have come, and whether the connection is open still."""
        try:
            data = self.connection.recv(1 << 16)
        except OSError:
            data = b""
        self._came += data
        self.heard = time.monotonic()
        messages = []
        while len(self._came) >= 8:
            length = int.from_bytes(self._came[:8], "little")
            if len(self._came) < 8 + length:
                break
            messages.append(_wire.unpack(self._came[8 : 8 + length]))
            del self._came[: 8 + length]
        return messages, bool(data)

    def finish(self) -> None:
        """Close it such that what was sent arrives: bytes that nobody read would break the connection."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.setblocking(False)
            while self.connection.recv(1 << 16):
                pass
        except OSError:
            pass
        self.connection.close()


def _own_address(store: Store) -> str:
    """The address of this machine that the others reach it at: the one it reaches the store from."""
    below = getattr(store, "_underlying_non_prefix_store", store)
    if isinstance(below, TCPStore):
        return below._own_address()
    return interface()  # they share a folder, not more


class Monitor:
    """Watch all processes of a job, and let them know of this one.

    Args:
        store: of this job; keys need no prefix.
        rank: of this process.
        size: number of processes.
        on_failure: called once, in a thread of the monitor, with the first `Failure` of another rank.
        on_leave: called in that thread with each rank that closed its monitor.
        interval: between heartbeats, in seconds.

    Example:
        >>> from gradlib.distributed import HashStore
        >>> from gradlib.distributed._monitor import Monitor
        >>> monitor = Monitor(HashStore(), 0, 1, print)
        >>> monitor.close()
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        on_failure: Callable[[Failure], None],
        interval: float = 1.0,
        on_leave: Callable[[int], None] | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self.failure: Failure | None = None  # the first one that was seen
        self.left: set[int] = set()  # the ranks that said goodbye
        self._on_failure, self._on_leave, self._interval = on_failure, on_leave, interval
        self.on_end: Callable[[], None] | None = (
            None  # called when the process ends, and nothing has failed
        )
        self._known = threading.Event()
        self._lock = threading.Lock()
        self._lines: dict[int, _Line] = {}  # by rank; those below rank 0's, or the one to it
        self._leaving = self._closed = False
        self._process = os.getpid()
        self._selector = selectors.DefaultSelector()
        self._wake, woken = socket.socketpair()
        woken.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ)
        self._arrivals: list[_Line] = []
        self._listener: socket.socket | None = None
        if size > 1:
            self._join(store) if rank else self._receive_others(store)
        self._thread = threading.Thread(target=self._loop, name="gradlib monitor", daemon=True)
        self._thread.start()
        _open.add(self)
        _install()

    # -- what the process says -------------------------------------------------------------------------------------

    def post(self, error: BaseException) -> None:
        """Tell all ranks that this one fails, with the traceback of an exception."""
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._fail(Failure(self.rank, "raised", text))

    def wait(self, seconds: float) -> Failure | None:
        """The failure of a rank, if one is known within some seconds: what broke a connection, most likely."""
        self._known.wait(seconds)
        return self.failure

    def close(self) -> None:
        """Say goodbye, and watch no more."""
        if self._leaving or os.getpid() != self._process:
            return
        self._leaving = True
        _open.discard(self)
        for line in list(self._lines.values()):
            line.send(b"goodbye")
        self._closed = (
            True  # not before: the thread then closes the connections, on which goodbye is said
        )
        try:
            self._wake.send(b"x")
        except OSError:
            pass  # the thread saw it already
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # -- failures --------------------------------------------------------------------------------------------------

    def _fail(self, failure: Failure) -> None:
        """Note the first failure, tell it, and pass it on."""
        with self._lock:
            if self.failure is not None or self._leaving:
                return
            self.failure = failure
        message = (b"failure", b"%d" % failure.rank, failure.kind.encode(), failure.text.encode())
        for line in list(self._lines.values()):
            line.send(*message)
        self._known.set()
        if failure.rank != self.rank:
            self._on_failure(failure)

    def _fail_without_word(self, rank: int, kind: str) -> None:
        line = self._lines.get(rank)
        where = f" (process {line.process} on {line.machine.split(' ')[0]})" if line else ""
        said = {
            "died": "ended without a word: killed (kill -9, or out of memory), or left by os._exit",
            "stopped": "was stopped (SIGSTOP, or a debugger): it neither works nor answers",
            "silent": f"has not been heard of for {_SILENT_SECONDS:g} s: its machine or network is down",
        }[kind]
        self._fail(Failure(rank, kind, f"rank {rank}{where} {said}"))

    # -- connections -----------------------------------------------------------------------------------------------

    def _receive_others(self, store: Store) -> None:
        """Rank 0: listen, and say where."""
        host, token = _own_address(store), secrets.token_bytes(16)
        self._listener = _wire.listen(host, 0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        port = self._listener.getsockname()[1]
        place = [host.encode(), b"%d" % port, token, b"%d" % os.getpid(), machine().encode()]
        store.set("monitor/place", _wire.pack(place)[8:])
        self._token = token

    def _join(self, store: Store) -> None:
        host, port, token, process, where = _wire.unpack(store.get("monitor/place"))
        seconds = store.timeout.total_seconds()
        try:
            line = _Line(_wire.connect(host.decode(), int(port), token, seconds))
        except OSError as error:
            raise DistNetworkError(
                f"rank {self.rank} cannot connect to rank 0 at ({host.decode()}, {port.decode()}): {error}"
            ) from error
        line.rank, line.process, line.machine = 0, int(process), where.decode()
        line.send(b"hello", b"%d" % self.rank, b"%d" % os.getpid(), machine().encode())
        self._lines[0] = line
        self._selector.register(line.connection, selectors.EVENT_READ, line)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return

        def admit() -> None:  # in its own thread: a stranger may say nothing for half a minute
            if not _wire.accept_token(connection, self._token):
                connection.close()
                return
            self._arrivals.append(_Line(connection))
            self._wake.send(b"a")

        threading.Thread(target=admit, name="gradlib monitor door", daemon=True).start()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        due = time.monotonic() + self._interval
        while not self._closed:
            events = self._selector.select(max(0.0, due - time.monotonic()))
            for key, _ in events:
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Line):
                    self._hear(key.data)
                else:
                    key.fileobj.recv(64)  # type: ignore[union-attr]  # it was only to wake
            while self._arrivals:
                line = self._arrivals.pop()
                self._selector.register(line.connection, selectors.EVENT_READ, line)
            now = time.monotonic()
            if now >= due and not events:  # all that came is read
                self._beat(now, now - due)
                due = now + self._interval
        self._let_go()

    def _let_go(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Line):
                key.data.finish()
            else:
                key.fileobj.close()  # type: ignore[union-attr]  # they are sockets
        self._selector.close()
        self._wake.close()

    def _beat(self, now: float, overslept: float) -> None:
        """Send heartbeats, and look for whose stay away."""
        for line in list(self._lines.values()):
            line.send(b"beat")
            if (
                overslept > self._interval
            ):  # this process was busy, or stopped: what came meanwhile is read first
                line.heard = now
            late = now - line.heard
            if late > _SILENT_SECONDS and not self._can_look(line):
                self._fail_without_word(line.rank, "silent")
            elif late > _LATE * self._interval:
                self._look(line, now)

    def _can_look(self, line: _Line) -> bool:
        """Whether a process on the machine of another can say what became of it."""
        machines = {other.machine for other in self._lines.values() if other is not line}
        return line.machine in machines | {machine()}

    def _look(self, line: _Line, now: float) -> None:
        """Look at a process whose heartbeats stay away, or let one on its machine do so."""
        if line.machine == machine():
            self._judge(line.rank, state(line.process))
            return
        for other in list(self._lines.values()):
            punctual = now - other.heard <= _LATE * self._interval
            if other is not line and other.machine == line.machine and punctual:
                other.send(b"look", b"%d" % line.rank, b"%d" % line.process)
                return

    def _judge(self, rank: int, found: str) -> None:
        if found != RUNS:
            self._fail_without_word(rank, "stopped" if found == STOPPED else "died")

    def _hear(self, line: _Line) -> None:
        messages, is_open = line.read()
        for what, *fields in messages:
            if what == b"hello":
                line.rank, line.process = int(fields[0]), int(fields[1])
                line.machine = fields[2].decode()
                self._lines[line.rank] = line
                if self.failure is not None:  # it came too late to be told
                    rank, kind, text = self.failure
                    line.send(b"failure", b"%d" % rank, kind.encode(), text.encode())
            elif what == b"failure":
                self._fail(Failure(int(fields[0]), fields[1].decode(), fields[2].decode()))
            elif what == b"look":
                line.send(b"seen", fields[0], state(int(fields[1])).encode())
            elif what == b"seen":
                self._judge(int(fields[0]), fields[1].decode())
            elif what == b"goodbye":
                self._forget(line)
                self._note_leave(line.rank)
                return
            elif what == b"left":
                self._note_leave(int(fields[0]))
        if not is_open:
            self._forget(line)
            if line.rank >= 0:
                self._lines[line.rank] = line  # for what is said of it
                self._fail_without_word(line.rank, "died")
                self._lines.pop(line.rank, None)

    def _note_leave(self, rank: int) -> None:
        self.left.add(rank)
        for line in list(self._lines.values()) if self.rank == 0 else ():
            line.send(b"left", b"%d" % rank)
        if self._on_leave is not None:
            self._on_leave(rank)

    def _forget(self, line: _Line) -> None:
        self._selector.unregister(line.connection)
        line.connection.close()
        self._lines.pop(line.rank, None)


# -- what ends a process -----------------------------------------------------------------------------------------

_open: weakref.WeakSet[Monitor] = weakref.WeakSet()
_installed = False
_finalized = 0  # the process whose end is known of


def _post(error: BaseException | None) -> None:
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return
    # for the launcher first: once others know of it they fail as well, and the launcher ends whoever is left then
    if not Path(os.environ.get(ERROR_FILE, "/")).exists():  # else @record has written it
        get_error_handler().record_exception(error)
    for monitor in list(_open):
        monitor.post(error)


def _install() -> None:
    """Let the monitors know of exceptions that nobody handles, and of the end of the process."""
    global _installed, _finalized
    if _finalized != os.getpid():
        _finalized = os.getpid()
        # children of multiprocessing end without atexit; what they failed with is being handled at that moment
        util.Finalize(None, _leave, exitpriority=100)
    if _installed:
        return
    _installed = True
    before, before_in_threads = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _post(error)
        before(kind, error, trace)

    def hook_in_threads(args: threading.ExceptHookArgs) -> None:
        # a daemon thread is one whose work may be lost: the process goes on without it
        if args.thread is None or not args.thread.daemon:
            _post(args.exc_value)
        before_in_threads(args)

    sys.excepthook, threading.excepthook = hook, hook_in_threads
    atexit.register(_leave)
    os.register_at_fork(after_in_child=_let_go_in_child)


def _leave() -> None:
    _post(sys.exc_info()[1])
    for monitor in list(_open):
        if monitor.on_end is not None and monitor.failure is None:
            monitor.on_end()
        monitor.close()


def _let_go_in_child() -> None:
    """After a fork: a connection that the child keeps open would hide that the parent was killed."""
    for monitor in list(_open):
        for line in monitor._lines.values():
            line.connection.close()
        if monitor._listener is not None:
            monitor._listener.close()
        monitor._leaving = monitor._closed = True
    _open.clear()
