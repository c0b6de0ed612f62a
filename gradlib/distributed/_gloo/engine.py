"""The engine of a group: shared memory if all ranks are on one machine, messages if not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from .._backend import Backend, Pending
from .links import Links
from .liveness import Peers, here
from .mail import Address, mailroom
from .reduction import HALVES
from .shared import Shared, available, create

__all__ = ["Gloo"]


class Gloo(Backend):
    """See `Backend`."""

    name = "gloo"
    device_type = "cpu"

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        room = mailroom(interface())
        place = f"{here()} {os.getpid()}".encode()
        store.set(f"address/{rank}", b"#".join([room.address.encode(), place]))
        addresses, places = [], []
        for r in range(size):
            address, _, place = store.get(f"address/{r}").partition(b"#")
            addresses.append(Address.decode(address))
            places.append(place.decode().split(" "))
        if rank == 0:
            store.set("group", os.urandom(8))
        name = int.from_bytes(store.get("group"), "little")
        limit = timeout.total_seconds()
        self._links = Links(room, addresses, rank, name, limit)
        self._links.name(self.ranks)
        self._shared: Shared | None = None
        if size > 1 and len({host for host, _ in places}) == 1 and places[0][0]:
            self._shared = self._map(Peers([int(pid) for _, pid in places], self.ranks))
        self._ways: Any = self._shared or self._links

    def set_timeout(self, timeout: timedelta) -> None:
        super().set_timeout(timeout)
        self._links.timeout = timeout.total_seconds()
        if self._shared is not None:
            self._shared.timeout = timeout.total_seconds()

    def _map(self, peers: Peers) -> Shared | None:
        """Memory that all ranks map, which is on all of them or on none."""
        store, rank, size = self.store, self.rank, self.size
        if rank == 0:
            store.set("shared", (create(size) if available() else None) or "")
        path = store.get("shared").decode()
        if not path:
            return None
        try:
            found = Shared(path, rank, peers, self.timeout.total_seconds())
        except OSError:
            found = None
        store.set(f"mapped/{rank}", "no" if found is None else "yes")
        everywhere = all([store.get(f"mapped/{r}") == b"yes" for r in range(size)])
        if rank == 0:
            os.unlink(path)  # it lives as long as it is mapped
        return found if everywhere else None

    def _in_float32(self, array: Any, run: Callable[[Any], None]) -> None:
        """Run a reduction in place; halves as float32, so that they are rounded once."""
        if array.dtype in HALVES:
            wide = array.astype(np.float32)
            run(wide)
            array[...] = wide
        else:
            run(array)

    def all_reduce(self, array: Any, op: str) -> None:
        if self.size == 1:
            return
        if array.dtype not in HALVES:
            self._ways.all_reduce(array, op)
            return
        self._in_float32(array, lambda a: self._ways.all_reduce(a, op))

    def broadcast(self, array: Any, root: int) -> None:
        self._ways.broadcast(array, root)

    def reduce(self, array: Any, root: int, op: str) -> None:
        if self.rank == root:
            self._in_float32(array, lambda a: self._ways.reduce(a, root, op))
        else:
            wide = array.astype(np.float32) if array.dtype in HALVES else array
            self._ways.reduce(wide, root, op)

    def all_gather(self, out: Any, array: Any) -> None:
        self._ways.all_gather(out, array)

    def gather(self, out: Any | None, array: Any, root: int) -> None:
        self._ways.gather(out, array, root)

    def scatter(self, array: Any, source: Any | None, root: int) -> None:
        self._ways.scatter(array, source, root)

    def reduce_scatter(self, out: Any, array: Any, op: str) -> None:
        wide = array.astype(np.float32) if array.dtype in HALVES else array
        self._in_float32(out, lambda o: self._ways.reduce_scatter(o, wide, op))

    def all_to_all(self, out: Any, array: Any, out_counts: list[int], counts: list[int]) -> None:
        self._ways.all_to_all(out, array, out_counts, counts)

    def send(self, array: Any, to: int, tag: int) -> None:
        self._links.put(array, to, tag)

    def recv(self, array: Any, source: int | None, tag: int) -> int:
        return self._links.get(array, source, tag)

    def start_send(self, array: Any, to: int, tag: int) -> Pending:
        """Send at once: the other side takes it in without being asked."""
        pending = Pending()
        self._links.put(array, to, tag)
        pending.finish(to)
        return pending

    def start_recv(self, array: Any, source: int | None, tag: int) -> Pending:
        return self._links.begin(array, source, tag)

    def barrier(self) -> None:
        self._ways.barrier()

    def compare(self, digest: int, describe: Callable[[], bytes]) -> list[bytes] | None:
        return None if self.size == 1 else self._ways.compare(digest, describe)

    def abort(self) -> None:
        why = self.reason or f"rank {self.rank} aborted the process group"
        if self._shared is not None:
            self._shared.abort(why)
        self._links.abort(why)

    def aborted(self) -> str | None:
        return self._links.aborted() or (self._shared and self._shared.aborted())

    def leave(self) -> None:
        self._links.leave()

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close(self.note)
        self._links.close(self.note)


def interface() -> str:
    """The address that this process listens on.

    ``GLOO_SOCKET_IFNAME`` names a network interface, or an address; without it, it is the one that the host's name
    stands for, and 127.0.0.1 if that is not an address of this machine.
    """
    wanted = os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
    if wanted:
        return _address_of(wanted)
    try:
        host = socket.gethostbyname(socket.gethostname())
        with socket.socket() as probe:
            probe.bind((host, 0))
        return host
    except OSError:
        return "127.0.0.1"


def _address_of(name: str) -> str:
    """The IPv4 address of a network interface; an address stays."""
    try:
        socket.inet_aton(name)
        return name
    except OSError:
        pass
    if name == "lo":
        return "127.0.0.1"
    try:
        import fcntl  # not on Windows

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            found = fcntl.ioctl(probe.fileno(), 0x8915, name.encode()[:15].ljust(256, b"\0"))
        return socket.inet_ntoa(found[20:24])
    except (ImportError, OSError):
        raise ValueError(
            f"GLOO_SOCKET_IFNAME is {name!r}, but there is no such network interface with an IPv4 address"
        ) from None
