"""The server of a TCPStore: one thread that waits for all connections at once, and does what each asks in turn.

Nothing it does takes long. What must wait for a key stays with that key, and is answered by who sets it, or when its
time is over.
"""

from __future__ import annotations

import heapq
import itertools
import math
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import defaultdict

from . import _wire
from ._store_base import Table

__all__ = ["EMPTY", "FAILED", "OK", "TIMEOUT", "Server"]

OK, TIMEOUT, EMPTY, FAILED = b"k", b"t", b"e", b"f"  # the first field of an answer
_RETIRED_SECONDS, _LAST_SECONDS = 5.0, 2.0
_LARGEST = 2**32  # bytes of a request: a store is for small values


class _Client:
    """One connection: what came of the next request, what is yet to be sent, and what it waits for."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.nonce: bytes | None = secrets.token_bytes(16)  # None: it has shown the token
        self.came = bytearray()
        self.to_send = bytearray(_wire.GREETING + self.nonce)
        self.request: list[bytes] | None = None  # the one that waits
        self.key = ""  # that it waits for
        self.ticket = 0  # of what waits: an old deadline finds another


class Server:
    """Hold a store and serve it.

    Args:
        listener: a socket that listens.
        token: what clients must know; see `_wire`.
    """

    def __init__(self, listener: socket.socket, token: bytes) -> None:
        self.port: int = listener.getsockname()[1]
        self.joined = 0  # clients that said they are one of `world_size`
        self._counts = False
        self._listener, self._token = listener, token
        self._table = Table()
        self._waiting: dict[str, list[_Client]] = defaultdict(list)  # by the key that is missing
        self._deadlines: list[tuple[float, int, _Client]] = []
        self._tickets = itertools.count(1)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        for each in (listener, self._woken):
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
        self._deaf = threading.Event()  # it listens no more
        self._end = math.inf  # when it stops at the latest
        self._thread = threading.Thread(target=self._serve, name="gradlib TCPStore", daemon=True)
        self._thread.start()

    def retire(self) -> None:
        """Listen no more, and stop when the last client has gone, or after some seconds.

        Who holds the store often ends first: the others are to get the answer to what they asked it last.
        """
        try:
            self._wake.send(b"x")
        except OSError:
            return
        if threading.current_thread() is not self._thread:
            self._deaf.wait()

    def wait_for_end(self) -> None:
        """Wait until all clients have gone, two seconds at most: this process is about to end."""
        self._thread.join(_LAST_SECONDS)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while self._end == math.inf or (self._clients() and time.monotonic() < self._end):
            next_deadline = self._deadlines[0][0] if self._deadlines else math.inf
            left = min(next_deadline, self._end) - time.monotonic()
            for key, events in self._selector.select(None if left == math.inf else max(0.0, left)):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(64)
                    self._end = time.monotonic() + _RETIRED_SECONDS
                    self._selector.unregister(self._listener)
                    self._listener.close()
                    self._deaf.set()
                else:
                    self._attend(key.data, events)
            self._expire()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]  # they are sockets
        self._selector.close()
        self._wake.close()

    def _clients(self) -> bool:
        return any(isinstance(key.data, _Client) for key in self._selector.get_map().values())

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            time.sleep(0.01)  # it left again, or there are no file descriptors, which may last
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ, client)
        self._until(client, _wire.HANDSHAKE_SECONDS)
        self._flush(client)

    def _drop(self, client: _Client) -> None:
        self._forget(client)
        try:
            self._selector.unregister(client.connection)
        except (KeyError, ValueError):
            return  # dropped before
        client.connection.close()

    def _attend(self, client: _Client, events: int) -> None:
        if events & selectors.EVENT_READ:
            try:
                data = client.connection.recv(1 << 16)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self._drop(client)
                return
            client.came += data or b""
            self._requests(client)
        if events & selectors.EVENT_WRITE:
            self._flush(client)

    def _flush(self, client: _Client) -> None:
        """Send what the connection takes now; the rest when it takes more."""
        if client.connection.fileno() < 0:
            return
        try:
            while client.to_send:
                del client.to_send[: client.connection.send(client.to_send)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.to_send else 0)
        if self._selector.get_key(client.connection).events != wanted:
            self._selector.modify(client.connection, wanted, client)

    def _requests(self, client: _Client) -> None:
        while client.connection.fileno() >= 0:
            if client.nonce is not None:
                if len(client.came) < 48:
                    return
                expected = _wire.proof(self._token, b"client", client.nonce)
                if not secrets.compare_digest(bytes(client.came[:32]), expected):
                    self._drop(client)
                    return
                client.to_send += _wire.proof(self._token, b"server", bytes(client.came[32:48]))
                client.nonce, client.ticket = None, 0
                del client.came[:48]
                self._flush(client)
                continue
            if len(client.came) < 8:
                return
            (length,) = struct.unpack_from("<Q", client.came)
            if length > _LARGEST:
                self._drop(client)
                return
            if len(client.came) < 8 + length:
                return
            fields = _wire.unpack(client.came[8 : 8 + length])
            del client.came[: 8 + length]
            self._answer(client, fields)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _until(self, client: _Client, seconds: float) -> None:
        client.ticket = next(self._tickets)
        heapq.heappush(self._deadlines, (time.monotonic() + seconds, client.ticket, client))

    def _forget(self, client: _Client) -> None:
        """Let it wait no more."""
        if client.request is not None:
            self._waiting[client.key].remove(client)
            if not self._waiting[client.key]:
                del self._waiting[client.key]
        client.ticket, client.request = 0, None

    def _expire(self) -> None:
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, ticket, client = heapq.heappop(self._deadlines)
            if ticket != client.ticket:
                continue
            if client.nonce is not None:
                self._drop(client)  # it never showed a token
            else:
                self._forget(client)
                self._reply(client, [TIMEOUT])

    def _reply(self, client: _Client, fields: list[bytes]) -> None:
        client.to_send += _wire.pack(fields)
        self._flush(client)

    def _answer(self, client: _Client, fields: list[bytes]) -> None:
        try:
            answer = [OK, *getattr(self, f"_do_{fields[0].decode()}")(*fields[1:])]
        except _Missing as missing:
            if client.ticket == 0:
                if missing.seconds <= 0:
                    self._reply(client, [TIMEOUT])
                    return
                self._until(client, missing.seconds)
            client.request, client.key = fields, missing.key
            self._waiting[missing.key].append(client)
            return
        except _Empty:
            answer = [EMPTY]
        except Exception as error:  # of this client: the others are served on
            answer = [FAILED, str(error).encode()]
        client.ticket = 0
        self._reply(client, answer)

    def _came(self, key: str) -> None:
        """Answer who waits for a key; each may go on to wait for another."""
        for client in self._waiting.pop(key, ()):
            fields, client.request = client.request, None
            assert fields is not None
            self._answer(client, fields)

    # -- what clients ask: fields in, fields out -------------------------------------------------------------------

    def _do_set(self, *pairs: bytes) -> list[bytes]:
        names = [key.decode() for key in pairs[::2]]
        self._table.values.update(zip(names, pairs[1::2]))
        for name in names:
            self._came(name)
        return []

    def _do_get(self, milliseconds: bytes, *keys: bytes) -> list[bytes]:
        names = [key.decode() for key in keys]
        for name in names:
            if name not in self._table.values:
                raise _Missing(name, int(milliseconds) / 1000)
        return [self._table.values[name] for name in names]

    def _do_wait(self, milliseconds: bytes, *keys: bytes) -> list[bytes]:
        for name in (key.decode() for key in keys):
            if not self._table.has([name]):
                raise _Missing(name, int(milliseconds) / 1000)
        return []

    def _do_add(self, key: bytes, amount: bytes) -> list[bytes]:
        total = self._table.add(key.decode(), int(amount))
        self._came(key.decode())
        return [b"%d" % total]

    def _do_check(self, *keys: bytes) -> list[bytes]:
        return [b"%d" % self._table.has([key.decode() for key in keys])]

    def _do_delete(self, key: bytes) -> list[bytes]:
        return [b"%d" % self._table.delete(key.decode())]

    def _do_count(self) -> list[bytes]:
        return [b"%d" % (len(self._table.values) + self._counts)]

    def _do_list(self) -> list[bytes]:
        return [key.encode() for key in self._table.values]

    def _do_compare_set(self, key: bytes, expected: bytes, desired: bytes) -> list[bytes]:
        value = self._table.compare_set(key.decode(), expected, desired)
        self._came(key.decode())
        return [value]

    def _do_append(self, key: bytes, value: bytes) -> list[bytes]:
        self._table.append(key.decode(), value)
        self._came(key.decode())
        return []

    def _do_push(self, key: bytes, value: bytes) -> list[bytes]:
        self._table.push(key.decode(), value)
        self._came(key.decode())
        return []

    def _do_pop(self, milliseconds: bytes, key: bytes) -> list[bytes]:
        value = self._table.pop(key.decode())
        if value is not None:
            return [value]
        if int(milliseconds) < 0:
            raise _Empty
        raise _Missing(key.decode(), int(milliseconds) / 1000)

    def _do_length(self, key: bytes) -> list[bytes]:
        return [b"%d" % len(self._table.queues.get(key.decode(), ()))]

    def _do_join(self) -> list[bytes]:
        self._counts = True
        self.joined += 1
        self._table.values[_JOINED] = b""
        self._came(_JOINED)
        del self._table.values[_JOINED]
        return [b"%d" % self.joined]

    def _do_all_joined(self, milliseconds: bytes, size: bytes) -> list[bytes]:
        if self.joined < int(size):
            raise _Missing(_JOINED, int(milliseconds) / 1000)
        return []


_JOINED = "\x00joined"  # no key of a program: it is set and deleted in one step, to wake who counts clients


class _Empty(Exception):
    """There is nothing in the queue, and the client does not wait."""


class _Missing(Exception):
    """A request must wait for a key."""

    def __init__(self, key: str, seconds: float) -> None:
        self.key, self.seconds = key, seconds
