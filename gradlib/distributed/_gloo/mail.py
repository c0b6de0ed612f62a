"""Messages between processes over TCP: one listener, one reading thread and one connection a direction, for all groups.

Whoever sends dials, once for each receiver, and only writes; whoever listens only reads. The reading thread takes in
everything that comes, so that a send never waits for a receive to be posted, and no order of sends and receives
can lock two processes. A message goes straight into the memory of a receive that waits for it.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque
from typing import Any, NamedTuple

from .._backend import Pending
from .._errors import DistBackendError, DistNetworkError, PeerLost

__all__ = ["Address", "Mailroom", "Receive", "mailroom"]

_HEADER = struct.Struct("<QIqQ")  # group, rank of the sender, tag, bytes that follow
_HELLO = struct.Struct("<32s16s")  # the secret of the listener, the process that dials
# Tags of messages to the reading thread itself: the group ends, and why; the sender leaves it; what was called last?
ABORT, LEAVE, ASK, TELL = range(-(2**62), -(2**62) + 4)


class Address(NamedTuple):
    """How to reach a process: its listener, and the secret that lets in those who read it in the store."""

    host: str
    port: int
    secret: bytes
    process: bytes

    def encode(self) -> bytes:
        return b"|".join(
            [self.host.encode(), b"%d" % self.port, self.secret.hex().encode(), self.process.hex().encode()]
        )  # fmt: skip

    @staticmethod
    def decode(text: bytes) -> Address:
        host, port, *keys = text.decode().split("|")
        secret, process = map(bytes.fromhex, keys)
        return Address(host, int(port), secret, process)


class Receive(Pending):
    """A receive: where the bytes go, and whose they are to be (None: anyone's)."""

    def __init__(self, source: int | None, tag: int, into: memoryview) -> None:
        super().__init__()
        self.source, self.tag, self.into = source, tag, into

    def takes(self, source: int, tag: int) -> bool:
        return tag == self.tag and self.source in (None, source)

    def check(self, source: int, size: int) -> DistBackendError | None:
        """What is wrong with a message of this size."""
        if size == len(self.into):
            return None
        return DistBackendError(
            f"rank {source} sent {size} bytes, but {len(self.into)} were expected: the tensors differ in shape or dtype"
        )


class _Box:
    """What has come for a group and what is waited for; `dead` says why nothing will come any more."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = addresses
        self.processes = [address.process for address in addresses]
        self.names = list(range(len(addresses)))  # what errors call the ranks
        self.last = b""  # what this process called last
        self.told: dict[int, bytes] = {}  # what others said that they called last
        self.arrived: deque[tuple[int, int, bytearray]] = deque()
        self.waiting: list[Receive] = []
        self.dead: str | None = None
        # ranks from which nothing comes any more: how they left; None: their connection broke, and it may be known why
        self.gone: dict[int, str | None] = {}

    def refusal(self, receive: Receive) -> DistBackendError | None:
        """Why this receive cannot be fulfilled by what is still to come."""
        if self.dead is not None:
            return DistBackendError(self.dead)
        source = receive.source
        if source is None and len(self.gone) == len(self.processes) - 1:
            source = next(iter(self.gone))
        if source not in self.gone:
            return None
        left = self.gone[source]
        if left is not None:
            return DistBackendError(f"rank {self.names[source]} {left}")
        return PeerLost(f"rank {self.names[source]} closed its connection: its process ended")


class _Incoming:
    """A connection that is read from: the part of a message that is there so far."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.process: bytes | None = None  # known after its hello
        self.start(_HELLO.size)
        self.header: tuple[int, int, int, int] | None = None
        self.receive: Receive | None = None

    def start(self, size: int, into: memoryview | None = None) -> None:
        self.buffer = memoryview(bytearray(size)) if into is None else into
        self.have = 0


class Mailroom:
    """Sends and receives for all groups of this process.

    Args:
        host: the address to listen on; others are told to come there.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind((host, 0))
        self._listener.listen(512)
        self._listener.setblocking(False)
        self.address = Address(
            host, self._listener.getsockname()[1], secrets.token_bytes(32), secrets.token_bytes(16)
        )
        self._lock = threading.Lock()
        self._boxes: dict[int, _Box] = {}
        self._early: dict[int, list[tuple[int, int, bytearray]]] = {}
        self._gone: set[bytes] = set()
        self._out: dict[bytes, tuple[socket.socket, threading.Lock]] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        threading.Thread(target=self._read_all, name="gradlib mail", daemon=True).start()

    # -- groups --------------------------------------------------------------------------------------------------

    def open(self, group: int, addresses: list[Address]) -> _Box:
        """Take mail for a group from now on.

        Args:
            group: a number that all its processes know it by.
            addresses: of each rank.
        """
        with self._lock:
            box = self._boxes[group] = _Box(addresses)
            for process in self._gone.intersection(box.processes):
                box.gone.setdefault(box.processes.index(process), None)
            early = self._early.pop(group, [])
        for source, tag, data in early:
            self._deliver(group, source, tag, data)
        return box

    def close(self, group: int) -> None:
        """Take no more mail for a group; receives that wait fail."""
        self.abort(group, "the process group was destroyed")
        with self._lock:
            self._boxes.pop(group, None)

    def abort(self, group: int, why: str) -> None:
        """Fail all receives of a group, now and later."""
        with self._lock:
            box = self._boxes.get(group)
            if box is None or box.dead is not None:
                return
            box.dead = why
            waiting, box.waiting = box.waiting, []
        for receive in waiting:
            receive.finish(-1, DistBackendError(why))

    # -- receiving -----------------------------------------------------------------------------------------------

    def receive(self, group: int, source: int | None, tag: int, into: memoryview) -> Receive:
        """Begin to receive into the bytes `into`; `wait` of what this gives waits for them."""
        receive = Receive(source, tag, into)
        with self._lock:
            box = self._boxes.get(group)
            if box is None:
                raise DistBackendError("the process group was destroyed")
            for i, (sender, its_tag, _) in enumerate(box.arrived):
                if receive.takes(sender, its_tag):
                    data = box.arrived[i][2]
                    del box.arrived[i]
                    break
            else:
                why = box.refusal(receive)
                if why is None:
                    box.waiting.append(receive)
                    return receive
                receive.finish(-1, why)
                return receive
        self._fill(receive, sender, data)
        return receive

    @staticmethod
    def _fill(receive: Receive, source: int, data: Any) -> None:
        error = receive.check(source, len(data))
        if error is None:
            receive.into[:] = data
        receive.finish(source, error)

    def _claim(self, group: int, source: int, tag: int) -> Receive | None:
        """The receive that waits for a message; it waits no more."""
        with self._lock:
            box = self._boxes.get(group)
            for i, receive in enumerate(box.waiting if box else ()):
                if receive.takes(source, tag):
                    return box.waiting.pop(i)  # pyright: ignore[reportOptionalMemberAccess]
        return None

    def _deliver(self, group: int, source: int, tag: int, data: bytearray) -> None:
        to_this_thread, receive = tag < ABORT + 4, None
        with self._lock:
            box = self._boxes.get(group)
            if box is None:
                if not to_this_thread or tag == LEAVE:
                    self._early.setdefault(group, []).append((source, tag, data))
                return
            if not to_this_thread:
                receive = next((r for r in box.waiting if r.takes(source, tag)), None)
                if receive is None:
                    box.arrived.append((source, tag, data))
                    return
                box.waiting.remove(receive)
        if receive is None:
            self._hear(group, source, tag, bytes(data))
        else:
            self._fill(receive, source, data)

    def _hear(self, group: int, source: int, tag: int, data: bytes) -> None:
        """A message to this thread."""
        box = self._boxes.get(group)
        if box is None:
            return
        if tag == ABORT:
            self.abort(group, data.decode())
        elif tag == LEAVE:
            self._lose(
                [(box, source)], f"has left the group; the last it called was {data.decode()}"
            )
        elif tag == TELL:
            box.told[source] = data
        else:
            me = box.processes.index(self.address.process)
            try:
                self.send(
                    box.addresses[source],
                    group,
                    me,
                    TELL,
                    memoryview(box.last),
                    time.monotonic() + 1,
                )
            except (OSError, RuntimeError):  # it is gone
                return

    def _lose(self, found: list[tuple[_Box, int]], left: str | None = None) -> None:
        """Fail the receives that only ranks that are gone could fulfil."""
        failed = []
        with self._lock:
            for box, rank in found:
                box.gone.setdefault(rank, left)
                for receive in list(box.waiting):
                    why = box.refusal(receive)
                    if why is not None:
                        box.waiting.remove(receive)
                        failed.append((receive, why))
        for receive, why in failed:
            receive.finish(-1, why)

    # -- the reading thread --------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        while True:
            for key, _ in self._selector.select():
                try:
                    if key.data is None:
                        sock, _ = self._listener.accept()
                        sock.setblocking(False)
                        self._selector.register(sock, selectors.EVENT_READ, _Incoming(sock))
                    else:
                        self._read(key.data)
                except OSError:
                    if key.data is not None:
                        self._lost(key.data)

    def _read(self, connection: _Incoming) -> None:
        """Take in what there is, up to some messages: other connections are to have their turn."""
        for _ in range(16):
            try:
                n = connection.sock.recv_into(connection.buffer[connection.have :])
            except BlockingIOError:
                return
            if n == 0:
                self._lost(connection)
                return
            connection.have += n
            if connection.have == len(connection.buffer) and not self._part(connection):
                return

    def _part(self, connection: _Incoming) -> bool:
        """A hello, a header or the bytes of a message are there. False if that was the end of the connection."""
        if connection.process is None:
            secret, process = _HELLO.unpack(connection.buffer)
            if not hmac.compare_digest(secret, self.address.secret):  # none of this job
                self._selector.unregister(connection.sock)
                connection.sock.close()
                return False
            connection.process = process
        elif connection.header is None:
            group, source, tag, size = connection.header = _HEADER.unpack(connection.buffer)
            receive = self._claim(group, source, tag)
            if receive is not None and (error := receive.check(source, size)) is not None:
                receive.finish(source, error)
                receive = None
            connection.receive = receive
            if size:
                connection.start(size, None if receive is None else receive.into)
                return True
            self._finish(connection)
        else:
            self._finish(connection)
        connection.header = None
        connection.start(_HEADER.size)
        return True

    def _finish(self, connection: _Incoming) -> None:
        assert connection.header is not None
        group, source, tag, size = connection.header
        if connection.receive is not None:
            connection.receive.finish(source)
        else:
            self._deliver(group, source, tag, connection.buffer.obj if size else bytearray())  # type: ignore[arg-type]
        connection.receive = None

    def _lost(self, connection: _Incoming) -> None:
        """The other process closed its end, or died: nothing more comes from it."""
        self._selector.unregister(connection.sock)
        connection.sock.close()
        if connection.receive is not None:
            why = "the connection broke in the middle of a message"
            connection.receive.finish(-1, PeerLost(why))
        process = connection.process
        if process is not None:
            with self._lock:
                self._gone.add(process)
                boxes = [box for box in self._boxes.values() if process in box.processes]
            self._lose([(box, box.processes.index(process)) for box in boxes])

    # -- sending -------------------------------------------------------------------------------------------------

    def send(
        self, to: Address, group: int, source: int, tag: int, data: memoryview, deadline: float
    ) -> None:
        """Send bytes to a process.

        Args:
            to: of the receiver.
            group: the number of the group.
            source: the rank of this process in it.
            tag: what the receiver asks for.
            data: the bytes.
            deadline: on the clock `time.monotonic`.

        Raises:
            DistNetworkError: it cannot be reached.
            PeerLost: it closed its connection.
        """  # fmt: skip
        if to.process == self.address.process:
            self._deliver(group, source, tag, bytearray(data))
            return
        sock, lock = self._connection(to, deadline)
        header = _HEADER.pack(group, source, tag, len(data))
        if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        try:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            if len(data) <= 1 << 16:
                sock.sendall(b"".join((header, data)))
            else:
                sock.sendall(header)
                sock.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise PeerLost(f"the connection to {to.host}:{to.port} broke: {error}") from error
        finally:
            lock.release()

    def _connection(self, to: Address, deadline: float) -> tuple[socket.socket, threading.Lock]:
        with self._lock:
            found = self._out.get(to.process)
        if found is not None:
            return found
        try:
            sock = socket.create_connection(
                (to.host, to.port), timeout=max(0.001, deadline - time.monotonic())
            )
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(_HELLO.pack(to.secret, self.address.process))
        except OSError as error:
            raise DistNetworkError(
                f"{to.host}:{to.port} cannot be reached: {error}. If that is not the interface that the machines see "
                "each other on, set GLOO_SOCKET_IFNAME"
            ) from error
        with self._lock:
            found = self._out.setdefault(to.process, (sock, threading.Lock()))
        if found[0] is not sock:  # another thread was faster
            sock.close()
        return found

    def after_fork(self) -> None:
        """In a child: close what it inherited, so that the end of the parent is seen by the others."""
        for sock, _ in self._out.values():
            sock.close()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()


_rooms: dict[str, Mailroom] = {}
_rooms_lock = threading.Lock()


def mailroom(host: str) -> Mailroom:
    """The mail of this process at an address of its own; made when it is first asked for."""
    with _rooms_lock:
        if host not in _rooms:
            _rooms[host] = Mailroom(host)
        return _rooms[host]


def _forget() -> None:
    global _rooms_lock
    _rooms_lock = threading.Lock()
    for room in _rooms.values():
        room.after_fork()
    _rooms.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
