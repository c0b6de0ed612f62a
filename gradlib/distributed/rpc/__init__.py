"""Calls between processes: there are none, so that everything here refuses when it is used."""

from __future__ import annotations

from ..._refused import refuse

__getattr__ = refuse(__name__, whole=True)


def is_available() -> bool:
    """False: there are no calls between processes.

    Example:
        >>> gradlib.distributed.rpc.is_available()
        False
    """
    return False
