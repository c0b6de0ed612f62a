"""Connections between the processes of a job: who may join, and how a message looks.

Both sides of a connection prove that they know the token of the job (HMAC over the other side's random bytes), so the
token itself never travels, and a stranger's process, another job's, or a port scanner is let go at once.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import socket
import struct
from collections.abc import Sequence

from ._errors import DistNetworkError

__all__ = [
    "CLOSED",
    "GREETING",
    "HANDSHAKE_SECONDS",
    "TOKEN",
    "accept_token",
    "connect",
    "job_token",
    "listen",
    "pack",
    "proof",
    "receive",
    "send",
    "show_token",
    "unpack",
]

TOKEN = "GRADLIB_JOB_TOKEN"
# What names a job where no token was given: not secret, but enough to keep two jobs on one port apart.
_JOB_NAMES = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE", "PMI_JOBID")

CLOSED = "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
GREETING = b"gradlib1"
_NONCE, _PROOF = 16, 32
HANDSHAKE_SECONDS = 30.0  # far above what a busy machine may let a process of the job wait


def job_token() -> bytes:
    """What the processes of this job know and others do not.

    It is ``GRADLIB_JOB_TOKEN``, which the launcher sets to random letters; without it, the name that a launcher or
    scheduler gave the job; without that, nothing, and any program that speaks this protocol may join.
    """
    given = os.environ.get(TOKEN)
    if given is None:
        given = "/".join(os.environ[name] for name in _JOB_NAMES if os.environ.get(name))
    return given.encode()


# -- messages ----------------------------------------------------------------------------------------------------


def pack(fields: Sequence[bytes]) -> bytes:
    """A message of byte strings: the length of what follows, their number, their lengths, themselves."""
    lengths = struct.pack(f"<I{len(fields)}Q", len(fields), *map(len, fields))
    body = b"".join((lengths, *fields))
    return struct.pack("<Q", len(body)) + body


def unpack(body: bytes | bytearray) -> list[bytes]:
    """The byte strings of a message, without its first length."""
    (count,) = struct.unpack_from("<I", body)
    at, fields = 4 + 8 * count, []
    for length in struct.unpack_from(f"<{count}Q", body, 4):
        fields.append(bytes(body[at : at + length]))
        at += length
    return fields


def _exactly(connection: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        more = connection.recv_into(view[got:])
        if not more:
            raise DistNetworkError(CLOSED)
        got += more
    return data


def send(connection: socket.socket, fields: Sequence[bytes]) -> None:
    """Send a message on a blocking connection."""
    connection.sendall(pack(fields))


def receive(connection: socket.socket) -> list[bytes]:
    """The next message of a blocking connection.

    Raises:
        DistNetworkError: the other side closed it.
    """
    (length,) = struct.unpack("<Q", _exactly(connection, 8))
    return unpack(_exactly(connection, length))


# -- who may join ------------------------------------------------------------------------------------------------


def proof(token: bytes, side: bytes, nonce: bytes) -> bytes:
    """That one side knows the token: only for these random bytes, and not to be used by the other side."""
    return hmac.digest(token, GREETING + side + nonce, hashlib.sha256)


def show_token(connection: socket.socket, token: bytes) -> None:
    """Let in, as the side that connected.

    Raises:
        DistNetworkError: the other side is of another job, or is no gradlib at all.
        OSError: it closed the connection at once.
    """
    before = connection.gettimeout()
    connection.settimeout(HANDSHAKE_SECONDS)
    try:
        hello = bytes(_exactly(connection, len(GREETING) + _NONCE))
    except TimeoutError:
        hello = b""
    except DistNetworkError as error:
        raise ConnectionResetError(
            "closed before it greeted"
        ) from error  # a server that is just closing
    nonce = secrets.token_bytes(_NONCE)
    if hello.startswith(GREETING):
        try:
            connection.sendall(proof(token, b"client", hello[len(GREETING) :]) + nonce)
            answer = bytes(_exactly(connection, _PROOF))
        except (OSError, DistNetworkError):
            answer = b""
        if hmac.compare_digest(answer, proof(token, b"server", nonce)):
            connection.settimeout(before)
            return
    host, port = connection.getpeername()[:2]
    raise DistNetworkError(
        f"The process at ({host}, {port}) did not let this one in: it is of another job, or no gradlib. All "
        f"processes of a job must find the same token in {TOKEN}, which the launcher sets."
    )


def accept_token(connection: socket.socket, token: bytes) -> bool:
    """Check, as the side that was connected to, that the other is of this job; blocks half a minute at most."""
    before = connection.gettimeout()
    connection.settimeout(HANDSHAKE_SECONDS)
    try:
        nonce = secrets.token_bytes(_NONCE)
        connection.sendall(GREETING + nonce)
        answer = bytes(_exactly(connection, _PROOF + _NONCE))
        if not hmac.compare_digest(answer[:_PROOF], proof(token, b"client", nonce)):
            return False
        connection.sendall(proof(token, b"server", answer[_PROOF:]))
        connection.settimeout(before)
        return True
    except (OSError, DistNetworkError):
        return False


# -- places ------------------------------------------------------------------------------------------------------


def connect(host: str, port: int, token: bytes, seconds: float | None = None) -> socket.socket:
    """A connection to a process of this job; tried once.

    Raises:
        OSError: nobody listens there.
        DistNetworkError: who listens there is not of this job.
    """
    connection = socket.create_connection((host, port), seconds)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(None)
        show_token(connection, token)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_literal(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return True
        except OSError:
            pass
    return host in ("localhost", "")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the interface that a host's name or address means.

    Two cases listen on all interfaces: a name of this machine that its own table of hosts maps to the loopback (other
    machines resolve it to a real address), and an address that none of its interfaces has (a service of Kubernetes).

    Args:
        host: name or address.
        port: 0 chooses a free one.

    Raises:
        OSError: the port is taken, or the name is unknown.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first: a name with both is connected to through either, and 127.0.0.1 is what "localhost" is written for
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    everywhere = "::" if family == socket.AF_INET6 else "0.0.0.0"
    if not _is_literal(host) and str(address[0]).startswith(("127.", "::1")):
        address = (everywhere, *address[1:])
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            server.bind((everywhere, *address[1:]))
        server.listen(4096)
    except BaseException:
        server.close()
        raise
    return server
