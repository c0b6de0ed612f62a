"""Hooks that average a bucket: as it is, or in half the bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ....futures import Future
from ....tape import dtypes
from ....tape.tensor import Tensor
from ... import collectives
from ..._buckets import GradBucket
from ..._world import the_group

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future]


def _average(process_group: Any, tensor: Tensor) -> Future:
    """The sum over all ranks of a tensor, in place, that is divided by their number first: sums cannot overflow."""
    group = the_group(process_group)
    tensor.div_(group.size())
    work = collectives.all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients, as happens without a hook.

    Args:
        process_group: whose ranks; all if None.
        bucket: the gradients, one tensor of n elements.

    Returns:
        A future of the averages.

    Example::

        model.register_comm_hook(process_group, allreduce_hook)
    """
    return _average(process_group, bucket.buffer())


def _compressed(dtype: Any, process_group: Any, bucket: GradBucket) -> Future:
    buffer = bucket.buffer()

    def restore(future: Future) -> Tensor:
        return buffer.copy_(future.value())

    return _average(process_group, buffer.to(dtype, copy=True)).then(restore)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in float16: half the bytes.

    Args:
        process_group: whose ranks; all if None.
        bucket: the gradients, one tensor of n elements.

    Returns:
        A future of the averages, in the dtype of the bucket.

    Example::

        model.register_comm_hook(None, fp16_compress_hook)
    """
    return _compressed(dtypes.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Average the gradients in bfloat16: half the bytes, and the range of float32.

    Args:
        process_group: whose ranks; all if None.
        bucket: the gradients, one tensor of n elements.

    Returns:
        A future of the averages, in the dtype of the bucket.

    Example::

        model.register_comm_hook(None, bf16_compress_hook)
    """
    return _compressed(dtypes.bfloat16, process_group, bucket)


def _wrapped(hook: Hook, dtype: Any) -> Hook:
    @wraps(hook)
    def compressed(hook_state: Any, bucket: GradBucket) -> Future:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def restore(future: Future) -> Tensor:
            value = future.value()
            return whole.copy_(value[0] if isinstance(value, (list, tuple)) else value)

        return hook(hook_state, bucket).then(restore)

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that runs another one on gradients in float16.

    Args:
        hook: such as ``powerSGD_hook``.

    Returns:
        A hook of the same arguments; its future gives the dtype of the bucket.

    Example::

        model.register_comm_hook(state, fp16_compress_wrapper(powerSGD_hook))
    """
    return _wrapped(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that runs another one on gradients in bfloat16.

    Args:
        hook: such as ``powerSGD_hook``.

    Returns:
        A hook of the same arguments; its future gives the dtype of the bucket.

    Example::

        model.register_comm_hook(state, bf16_compress_wrapper(powerSGD_hook))
    """
    return _wrapped(hook, dtypes.bfloat16)
