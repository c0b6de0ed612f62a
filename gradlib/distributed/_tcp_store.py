"""TCPStore: a store that one process holds, and the others reach over the network."""

from __future__ import annotations

import atexit
import errno
import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta

from . import _wire
from ._errors import DistNetworkError, DistStoreError, QueueEmptyError
from ._store_base import Store, as_bytes, as_key, as_keys, as_pairs
from ._tcp_server import EMPTY, FAILED, TIMEOUT, Server

__all__ = ["TCPStore"]

_GRACE_SECONDS = 30.0  # for an answer to travel, beyond what the server may take to give it


class _Link:
    """Connections to a server: one for each request that is under way, so that threads do not wait for each other."""

    def __init__(self, host: str, port: int, token: bytes) -> None:
        self.host, self.port, self.token = host, port, token
        self._idle: list[socket.socket] = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    def open(self, timeout: timedelta) -> None:
        """Connect, as soon as somebody listens.

        Raises:
            DistNetworkError: nobody did in time, or who listens is of another job.
        """
        deadline, pause = time.monotonic() + timeout.total_seconds(), 0.01
        while True:
            left = deadline - time.monotonic()
            try:
                connection = _wire.connect(self.host, self.port, self.token, max(left, 0.01))
                break
            except OSError as error:
                if left <= pause:
                    spent = round(timeout.total_seconds() * 1000)
                    raise DistNetworkError(
                        f"The client socket has timed out after {spent}ms while trying to connect to "
                        f"({self.host}, {self.port})."
                    ) from error
            # at different times: the processes of a job all start at once
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, 0.5)
        with self._lock:
            self._idle.append(connection)

    def ask(self, fields: Sequence[bytes], timeout: timedelta, wait: float = 0.0) -> list[bytes]:
        """Send a request, and give the fields of its answer.

        Args:
            fields: of the request.
            timeout: to connect.
            wait: how long the server may take to answer, in seconds.

        Raises:
            DistNetworkError: the server is gone, or does not answer.
        """
        if self._process != os.getpid():  # after a fork: these connections are the parent's
            self._idle, self._process, self._lock = [], os.getpid(), threading.Lock()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            self.open(timeout)
            return self.ask(fields, timeout, wait)
        try:
            connection.settimeout(wait + _GRACE_SECONDS)
            _wire.send(connection, fields)
            answer = _wire.receive(connection)
        except TimeoutError as error:
            connection.close()
            raise DistNetworkError(
                f"The store at ({self.host}, {self.port}) does not answer: its process hangs, or cannot be reached"
            ) from error
        except OSError as error:
            connection.close()
            raise DistNetworkError(_wire.CLOSED) from error
        except BaseException:  # closed, or interrupted with an answer on its way
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return answer

    def own_address(self, timeout: timedelta) -> str:
        """The address of this machine that the connections go out from."""
        self.ask([b"count"], timeout)
        with self._lock:
            if self._idle:
                return self._idle[0].getsockname()[0]
        return self.own_address(timeout)  # all are in use: there will be one

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


_servers: dict[
    int, tuple[Server, int]
] = {}  # those that are shared, by port, and by how many stores
_servers_lock = threading.RLock()  # a store may be collected, and so closed, while it is held


def _shared_server(host: str, port: int, descriptor: int | None, token: bytes) -> Server:
    with _servers_lock:
        server, users = _servers.get(port, (None, 0))
        if server is None:
            server = _start(host, port, descriptor, token)
        _servers[server.port] = (server, users + 1)
        return server


def _start(host: str, port: int, descriptor: int | None, token: bytes) -> Server:
    if descriptor is not None:
        listener = socket.socket(fileno=descriptor)
        listener.listen(4096)
        if port not in (0, listener.getsockname()[1]):
            bound = listener.getsockname()[1]
            raise DistNetworkError(f"The listen socket is bound to port {bound}, not to {port}.")
        return Server(listener, token)
    try:
        return Server(_wire.listen(host, port), token)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "unknown")
        reason = (error.strerror or str(error)).lower()
        raise DistNetworkError(
            f"The server socket has failed to listen on any local network address. host: {host}, port: {port}, "
            f"code: {-(error.errno or 0)}, name: {name}, message: {reason}"
        ) from error


def _close(link: _Link, server: Server | None, shared: bool, process: int) -> None:
    if os.getpid() != process:
        return
    link.close()
    if server is None:
        return
    if shared:
        with _servers_lock:
            _, users = _servers[server.port]
            if users > 1:
                _servers[server.port] = (server, users - 1)
                return
            del _servers[server.port]
    server.retire()


_open: weakref.WeakSet[TCPStore] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    stores = list(_open)
    for store in stores:
        store._close()
    for store in stores:
        if store._server is not None and store._process == os.getpid():
            store._server.wait_for_end()


class TCPStore(Store):
    """A store that one process holds, and the others reach over the network.

    The server listens on the interface that `host_name` means, and lets in who knows the token of the job
    (``GRADLIB_JOB_TOKEN``, which the launcher sets).

    Args:
        host_name: name or address of the machine of the server.
        port: that it listens on; 0, on the server, chooses one.
        world_size: how many processes use the store; None if that is not fixed.
        is_master: whether this process holds it.
        timeout: to connect, and for `get` and `wait`.
        wait_for_workers: whether the server waits, here, for `world_size` processes to connect.
        multi_tenant: whether stores of this process with one port share one server.
        master_listen_fd: a socket, bound to `port`, that the server is to listen on.
        use_libuv: has no effect; there is one server.

    Raises:
        TypeError: `port` is no port, or `timeout` no timedelta.
        DistNetworkError: the server cannot be reached or does not let this process in, or it cannot listen.
        DistStoreError: not all processes came.

    Example:
        >>> from gradlib.distributed import TCPStore
        >>> server = TCPStore("127.0.0.1", 0, is_master=True)
        >>> client = TCPStore("127.0.0.1", server.port)  # in another process
        >>> client.set("first_key", "first_value")
        >>> server.get("first_key")
        b'first_value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= port <= 65535:
            raise TypeError(
                f"TCPStore: `port` must be from 0 to 65535, but got {port}: 0 lets the server choose"
            )
        self.set_timeout(timeout)
        token = _wire.job_token()
        self._server: Server | None = None
        shared = multi_tenant and is_master
        if is_master:
            make = _shared_server if shared else _start
            self._server = make(host_name, port, master_listen_fd, token)
            port = self._server.port
        self._link = _Link(host_name, port, token)
        close = weakref.finalize(self, _close, self._link, self._server, shared, os.getpid())
        close.atexit = False  # `_leave` does it, and waits
        _open.add(self)
        self._close, self._process = close, os.getpid()
        self._libuv = use_libuv
        self._link.open(timeout)
        if world_size is not None and world_size > 0:
            self._ask(b"join")
            if is_master and wait_for_workers:
                self._wait_for(world_size)

    def _wait_for(self, world_size: int) -> None:
        fields = [b"all_joined", self._milliseconds(self.timeout), b"%d" % world_size]
        answer = self._link.ask(fields, self.timeout, self.timeout.total_seconds())
        if answer[0] == TIMEOUT:
            assert self._server is not None
            raise DistStoreError(
                f"Timed out after {self.timeout.total_seconds():g} seconds waiting for clients. "
                f"{self._server.joined}/{world_size} clients joined."
            )

    @property
    def host(self) -> str:
        """The name or address of the server, as it was given."""
        return self._link.host

    @property
    def port(self) -> int:
        """That the server listens on."""
        return self._link.port

    def _own_address(self) -> str:
        """The address at which the server, and with it the other processes, reach this machine."""
        return self._link.own_address(self.timeout)

    @property
    def libuvBackend(self) -> bool:
        """What `use_libuv` was."""
        return self._libuv

    def __repr__(self) -> str:
        server = f", server=TCPServer(port={self.port})" if self._server else ""
        return f"TCPStore(client=TCPClient(remote={self.host}:{self.port}){server})"

    def clone(self) -> TCPStore:
        other = TCPStore.__new__(TCPStore)
        Store.__init__(other)
        other._timeout, other._libuv, other._server = self._timeout, self._libuv, self._server
        other._link, other._first = self._link, self  # type: ignore[attr-defined]  # it keeps the server
        return other

    # -- requests --------------------------------------------------------------------------------------------------

    @staticmethod
    def _milliseconds(timeout: timedelta) -> bytes:
        return b"%d" % max(0, round(timeout.total_seconds() * 1000))

    def _ask(self, *fields: bytes) -> list[bytes]:
        """The answer to what is done at once."""
        answer = self._link.ask(fields, self.timeout)
        if answer[0] == FAILED:
            raise ValueError(answer[1].decode())
        if answer[0] == EMPTY:
            raise QueueEmptyError("queue is empty")
        return answer[1:]

    def _ask_and_wait(
        self, what: bytes, keys: list[str], timeout: timedelta | None = None
    ) -> list[bytes]:
        """The answer to what waits for keys."""
        timeout = self.timeout if timeout is None else timeout
        fields = [what, self._milliseconds(timeout), *(key.encode() for key in keys)]
        answer = self._link.ask(fields, self.timeout, timeout.total_seconds())
        if answer[0] == TIMEOUT:
            named = ", ".join(f"/{key}" for key in keys)
            spent = self._milliseconds(timeout).decode()
            raise DistStoreError(f"wait timeout after {spent}ms, keys: {named}")
        return answer[1:]

    def set(self, key: str, value: str | bytes, /) -> None:
        self._ask(b"set", as_key("set", key).encode(), as_bytes("set", value))

    def get(self, key: str, /) -> bytes:
        return self._ask_and_wait(b"get", [as_key("get", key)])[0]

    def add(self, key: str, amount: int, /) -> int:
        return int(self._ask(b"add", as_key("add", key).encode(), b"%d" % amount)[0])

    def check(self, keys: Sequence[str], /) -> bool:
        names = [key.encode() for key in as_keys("check", keys)]
        return self._ask(b"check", *names) == [b"1"]

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None, /) -> None:
        self._ask_and_wait(b"wait", as_keys("wait", keys), timeout)

    def delete_key(self, key: str, /) -> bool:
        return self._ask(b"delete", as_key("delete_key", key).encode()) == [b"1"]

    def num_keys(self) -> int:
        """How many keys have a value, and one more, which counts the processes, if `world_size` is fixed."""
        return int(self._ask(b"count")[0])

    def list_keys(self) -> list[str]:
        return [key.decode() for key in self._ask(b"list")]

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes, /
    ) -> bytes:
        name = as_key("compare_set", key).encode()
        expected = as_bytes("compare_set", expected_value)
        desired = as_bytes("compare_set", desired_value)
        return self._ask(b"compare_set", name, expected, desired)[0]

    def append(self, key: str, value: str | bytes, /) -> None:
        self._ask(b"append", as_key("append", key).encode(), as_bytes("append", value))

    def multi_get(self, keys: Sequence[str], /) -> list[bytes]:
        return self._ask_and_wait(b"get", as_keys("multi_get", keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes], /) -> None:
        pairs = as_pairs("multi_set", keys, values)
        self._ask(b"set", *(field for key, value in pairs for field in (key.encode(), value)))

    def has_extended_api(self) -> bool:
        return True

    def queue_push(self, key: str, value: str | bytes, /) -> None:
        self._ask(b"push", as_key("queue_push", key).encode(), as_bytes("queue_push", value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        key = as_key("queue_pop", key)
        if block:
            return self._ask_and_wait(b"pop", [key])[0]
        return self._ask(b"pop", b"-1", key.encode())[0]

    def queue_len(self, key: str, /) -> int:
        return int(self._ask(b"length", as_key("queue_len", key).encode())[0])
