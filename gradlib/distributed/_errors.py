"""What goes wrong between processes, under PyTorch's names."""

from __future__ import annotations

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
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
