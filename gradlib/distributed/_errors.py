"""What goes wrong between processes, under PyTorch's names."""

from __future__ import annotations

import traceback

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
    "left_with",
]


class DistError(RuntimeError):
    """Whatever fails between the processes of a job.

    Example:
        >>> issubclass(gradlib.distributed.DistBackendError, gradlib.distributed.DistError)
        True
    """


class DistBackendError(DistError):
    """A collective failed: ranks called different things, one of them died, or was not there in time."""


class PeerLost(DistBackendError):
    """A rank will never come: its process ended, or its connection broke. Who watches processes may know why."""


class DistNetworkError(DistError):
    """A process could not be reached, or its connection broke."""


class DistStoreError(DistError):
    """The store that the processes meet at did not do what was asked."""


class QueueEmptyError(DistError):
    """`Store.queue_pop` found nothing, and was not to wait."""


def left_with(error: BaseException | None) -> str:
    """What others are to know of an exception that is being handled, as in `finally: destroy_process_group()`."""
    if error is None:
        return ""
    said = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"; it left with an exception: {said}{place}"
