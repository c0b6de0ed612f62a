"""Where processes meet: a URL gives a store that all reach, and says which of how many this process is.

``env://`` reads the variables of a launcher, ``tcp://host:port`` and ``file:///path`` name the place themselves;
programs may add schemes.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlparse

from . import _wire
from ._errors import DistStoreError
from ._launched import Launched, first_host, fresh_token, launched, meeting_point, slurm_port
from ._store import FileStore, PrefixStore, Store
from ._tcp_store import TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Meeting = tuple[Store, int, int]  # store, rank, world size
Handler = Callable[..., Iterator[Meeting]]

default_pg_timeout = timedelta(minutes=30)
_handlers: dict[str, Handler] = {}


def register_rendezvous_handler(scheme: str, handler: Handler) -> None:
    """Let `rendezvous` know a scheme.

    Args:
        scheme: what a URL begins with, such as ``"tcp"``.
        handler: called with a URL and keywords (``timeout``), gives an iterator over (store, rank, world_size).

    Raises:
        RuntimeError: the scheme is known.

    Example:
        >>> from gradlib.distributed import HashStore, register_rendezvous_handler, rendezvous
        >>> def alone(url, **keywords):
        ...     yield HashStore(), 0, 1
        >>> register_rendezvous_handler("alone", alone)
        >>> next(rendezvous("alone://"))[1:]
        (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
) -> Iterator[tuple[Store, int, int]]:
    """Meet the other processes of a job.

    Args:
        url: ``env://``, ``tcp://host:port`` or ``file:///path``; ``?rank=0&world_size=2`` may follow.
        rank: of this process; -1 if the URL, or the launcher, says it.
        world_size: how many processes there are; -1 as for `rank`.
        kwargs: ``timeout``, a timedelta.

    Returns:
        An iterator over (store, rank, world_size), which gives one.

    Raises:
        RuntimeError: there is no handler for the scheme, or an argument has the wrong type.
        ValueError: rank, world size, or a part of the URL or of the environment is missing.

    Example:
        >>> from gradlib.distributed import rendezvous
        >>> store, rank, world_size = next(rendezvous("tcp://127.0.0.1:0", rank=0, world_size=1))
        >>> rank, world_size
        (0, 1)
    """
    if not isinstance(url, str | bytes):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    text = url.decode() if isinstance(url, bytes) else url
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parsed = urlparse(text)
    if rank != -1 or world_size != -1:
        query = dict(parse_qsl(parsed.query))
        if "rank" in query or "world_size" in query:
            raise AssertionError(
                f"The url: {text} has node-specific arguments(rank, world_size) already."
            )
        if rank != -1:
            query["rank"] = str(rank)
        if world_size != -1:
            query["world_size"] = str(world_size)
        parsed = parsed._replace(query="&".join(f"{name}={value}" for name, value in query.items()))
    if parsed.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    return _handlers[parsed.scheme](parsed.geturl(), **kwargs)


def _error(scheme: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _wanted(scheme: str, query: dict[str, str]) -> tuple[int, int]:
    for name, words in (("rank", "rank"), ("world_size", "world size")):
        if name not in query:
            raise _error(scheme, f"{words} parameter missing")
    return int(query["rank"]), int(query["world_size"])


def _check(scheme: str, rank: int, world_size: int) -> None:
    """No process may wait for others that cannot be: what an environment that is half of another job's gives."""
    if not 0 <= rank < world_size:
        raise _error(scheme, f"rank {rank} is not one of {world_size} processes")


# -- file:// -----------------------------------------------------------------------------------------------------


def _file(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Iterator[Meeting]:
    parsed = urlparse(url)
    if not parsed.path:
        raise _error("file", "path missing")
    rank, world_size = _wanted("file", dict(parse_qsl(parsed.query)))
    _check("file", rank, world_size)
    store = FileStore(parsed.path, world_size)
    store.set_timeout(timeout)
    if store.add(f"rendezvous/{rank}", 1) != 1:
        raise DistStoreError(
            f"Rank {rank} has met others at {parsed.path} before: the file is left over from a job that was killed, "
            "or two processes have one rank. Remove the file, or give each job another one"
        )
    yield store, rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


# -- tcp:// ------------------------------------------------------------------------------------------------------


def _store_at(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    """The store of a job: rank 0 holds it, or, if that says so, the launcher."""
    _check("tcp", rank, world_size)
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        agents = TCPStore(host, port, world_size, False, timeout)
        return PrefixStore(f"/worker/attempt_{attempt}", agents)
    return TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True)


def _tcp(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Iterator[Meeting]:
    parsed = urlparse(url)
    if parsed.port is None:
        raise _error("tcp", "port number missing")
    rank, world_size = _wanted("tcp", dict(parse_qsl(parsed.query)))
    host = parsed.hostname or "localhost"
    yield _store_at(host, parsed.port, rank, world_size, timeout), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


# -- env:// ------------------------------------------------------------------------------------------------------


def _alone_on_machine(job: Launched, timeout: timedelta) -> Store:
    """The store of a job that mpiexec or srun started on this machine: no port need be free, none is asked for."""
    point = meeting_point()
    before = os.environ.get(_wire.TOKEN)
    if job.rank != 0:
        port, os.environ[_wire.TOKEN] = point.find(timeout)
        return TCPStore("127.0.0.1", port, job.size, False, timeout)
    os.environ[_wire.TOKEN] = before or fresh_token()
    store = TCPStore("127.0.0.1", 0, job.size, True, timeout, wait_for_workers=False)
    point.leave(store.port, os.environ[_wire.TOKEN])
    weakref.finalize(store, point.remove)
    return store


def _place(job: Launched | None) -> tuple[str, int]:
    """Where rank 0 is, as the environment says, or as Slurm's list of nodes does."""
    if job is not None and job.by == "Slurm":
        nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_NODELIST", "")
        host = os.environ.get("MASTER_ADDR") or first_host(nodes)
        return host, int(os.environ.get("MASTER_PORT") or slurm_port())
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name):
            raise _error("env", f"environment variable {name} expected, but not set")
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def _env(url: str, timeout: timedelta = default_pg_timeout, **kwargs: Any) -> Iterator[Meeting]:
    query = dict(parse_qsl(urlparse(url).query))
    job = launched()

    def number(name: str, variable: str, of_launcher: int | None) -> int:
        if name in query:
            return int(query[name])
        if os.environ.get(variable):
            return int(os.environ[variable])
        if of_launcher is None:
            raise _error("env", f"environment variable {variable} expected, but not set")
        return of_launcher

    rank = number("rank", "RANK", job.rank if job else None)
    world_size = number("world_size", "WORLD_SIZE", job.size if job else None)
    _check("env", rank, world_size)
    here = job is not None and job[1:3] == (rank, world_size) and job.local_size == world_size
    if job is not None and here and not os.environ.get("MASTER_PORT"):
        yield _alone_on_machine(job, timeout), rank, world_size
    else:
        host, port = _place(job)
        yield _store_at(host, port, rank, world_size, timeout), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


class _Callable(ModuleType):
    """This module: in ``torch.distributed`` the function of its name stands, until somebody imports the module."""

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Meeting]:
        return rendezvous(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
