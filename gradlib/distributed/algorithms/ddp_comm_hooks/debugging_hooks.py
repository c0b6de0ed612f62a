"""A hook to measure with: what a step costs without communication."""

from __future__ import annotations

from typing import Any

from ....futures import Future
from ..._buckets import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future:
    """Reduce nothing: every rank keeps its own gradients. For measurements alone, since the models drift apart.

    Args:
        _: not used.
        bucket: the gradients.

    Returns:
        A future that is done, of the bucket as it is.

    Example::

        model.register_comm_hook(None, noop_hook)
    """
    future: Future = Future()
    future.set_result(bucket.buffer())
    return future
