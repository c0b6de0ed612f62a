"""Free ports."""

from __future__ import annotations

from contextlib import closing

from ...._refused import refuse
from . import get_socket_with_port

__all__ = ["get_free_port", "get_socket_with_port"]

__getattr__ = refuse(__name__, whole=True)


def get_free_port() -> int:
    """A port of this machine that nobody has at this moment.

    Example:
        >>> from gradlib.distributed.elastic.utils.distributed import get_free_port
        >>> get_free_port() > 0
        True
    """
    with closing(get_socket_with_port()) as bound:
        return bound.getsockname()[1]
