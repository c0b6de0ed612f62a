"""Small helpers of programs that are launched."""

from __future__ import annotations

import os
import socket
from string import Template
from typing import Any

from ...._refused import refuse

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]

__getattr__ = refuse(__name__, whole=True)


def get_env_variable_or_raise(env_name: str) -> str:
    """The value of an environment variable.

    Args:
        env_name: its name.

    Raises:
        ValueError: it is not set.

    Example:
        >>> from gradlib.distributed.elastic.utils import get_env_variable_or_raise
        >>> bool(get_env_variable_or_raise("PATH"))
        True
    """
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port() -> socket.socket:
    """A socket that is bound to a free port of this machine.

    Whoever wants the port closes the socket, and takes it.

    Example:
        >>> from gradlib.distributed.elastic.utils import get_socket_with_port
        >>> with get_socket_with_port() as bound:
        ...     port = bound.getsockname()[1]
    """
    bound = socket.socket()
    bound.bind(("localhost", 0))
    bound.listen(0)
    return bound


class macros:
    """What may stand in the arguments of a program, and is replaced for each process.

    ``${local_rank}`` is all there is.
    """

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[Any]:
        """`args` with the local rank put in.

        Args:
            args: of a program; what is not text stays.
            local_rank: of a process.

        Example:
            >>> from gradlib.distributed.elastic.utils import macros
            >>> macros.substitute(["--device", "cuda:${local_rank}"], "1")
            ['--device', 'cuda:1']
        """
        put = lambda text: Template(text).safe_substitute(local_rank=local_rank)
        return [put(arg) if isinstance(arg, str) else arg for arg in args]
