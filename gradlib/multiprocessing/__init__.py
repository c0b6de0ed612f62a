"""Python's ``multiprocessing``, with tensors that processes share instead of copying.

Once this is imported, a tensor, storage or parameter that goes through a queue, a pipe, a pool or the arguments of a
process lies in shared memory, its sender's too: what one process writes the others see. No gradient is recorded across
processes, and nothing orders the writes. Memory on CUDA is not passed.
"""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # all of its names under this one
from typing import Any

from .._refused import refuse
from .reductions import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    init_reductions,
    set_sharing_strategy,
)
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_python.__all__,  # pyright: ignore[reportUnsupportedDunderAll]
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
_absent = refuse(__name__)

init_reductions()


def __getattr__(name: str) -> Any:
    try:
        return getattr(_python, name)  # pool, queues, connection...
    except AttributeError:
        return _absent(name)
