"""Buckets: gradients of many parameters behind each other in one tensor, which is reduced in one collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape.accumulation import is_dense
from ..tape.tensor import Tensor

__all__ = ["CLOCK", "FIRST_BUCKET_BYTES", "Bucket", "GradBucket", "assign"]

FIRST_BUCKET_BYTES = 1024 * 1024  # small, so that communication starts early in backward
CLOCK = 4  # slots that say how many forwards of a rank had no backward, modulo their number


def assign(
    tensors: Sequence[Tensor], limits: Sequence[int], order: Sequence[int] | None = None
) -> list[list[int]]:
    """Which tensors share a bucket: neighbours of one dtype and device, until the bucket reaches its limit.

    Args:
        tensors: what goes into buckets.
        limits: bytes of the first bucket of each dtype and device, of the second, and so on; the last holds on.
        order: indices of `tensors`; as they stand if left out.

    Returns:
        The indices of each bucket. Buckets stand in the order in which they were filled if there is an `order`, else in
        that of their first tensors.

    Example:
        >>> assign([gradlib.zeros(2), gradlib.zeros(2), gradlib.zeros(2)], [8, 16])
        [[0], [1, 2]]
    """
    full: list[list[int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}  # (dtype, device) -> indices, bytes
    closed: dict[Any, int] = {}  # how many buckets of this kind are full
    for i in range(len(tensors)) if order is None else order:
        tensor = tensors[i]
        kind = (tensor.dtype, tensor.device)
        members, size = filling.get(kind, ([], 0))
        members.append(i)
        size += tensor.numel() * tensor.element_size()
        done = closed.get(kind, 0)
        if size >= limits[min(done, len(limits) - 1)]:
            full.append(members)
            closed[kind] = done + 1
            filling.pop(kind, None)
        else:
            filling[kind] = members, size
    full += [members for members, _ in filling.values()]
    return full if order is not None else sorted(full, key=min)


class Bucket:
    """The memory of one bucket.

    Behind the gradients there are one number for each parameter, 1 where this rank has a gradient for it, and the
    `CLOCK`: 1 in the slot of this rank's number. They are summed with the gradients, so that every rank learns for free
    which parameters got a gradient anywhere, and whether all ranks are in the same step.

    Args:
        members: indices of the parameters.
        params: the parameters themselves.
        dtype: of the gradients while they are reduced; that of the parameters if left out.
    """

    def __init__(
        self, members: list[int], params: Sequence[Tensor], dtype: Any | None = None
    ) -> None:
        self.members = members
        first = params[members[0]]
        sizes = [params[i].numel() for i in members]
        total = sum(sizes)
        self.whole = ops.zeros(
            total + len(members) + CLOCK, dtype=dtype or first.dtype, device=first.device
        )
        with no_grad():
            self.flat = self.whole[:total]
            self.tail = self.whole[total:]
            views = [_view(part, params[i]) for part, i in zip(self.flat.split(sizes), members)]
        self.views = dict(zip(members, views))
        self.used: dict[int, bool] = {}  # whether this rank has a gradient, for members that are in
        self.work: Any = None  # the reduction that is under way: a Work, or a hook's Future

    def mark(self, clock: int | None) -> None:
        """Write what stands behind the gradients; a rank without inputs has no `clock`."""
        slots = [0.0] * CLOCK
        if clock is not None:
            slots[clock % CLOCK] = 1.0
        marks = [float(self.used.get(i, False)) for i in self.members]
        self.tail.copy_(ops.tensor(marks + slots, dtype=self.whole.dtype))

    @property
    def complete(self) -> bool:
        """Whether all members are in."""
        return len(self.used) == len(self.members)


def _view(part: Tensor, like: Tensor) -> Tensor:
    """A piece of a bucket in the shape of a parameter, and with its strides if they fill the piece."""
    if like.is_contiguous() or not is_dense(like._array):
        return part.view(like.shape)
    return part.as_strided(like.shape, like.stride(), part.storage_offset())


class GradBucket:
    """What a communication hook is given: the gradients of one bucket.

    Example:
        >>> def halve(state, bucket):
        ...     future = gradlib.futures.Future()
        ...     future.set_result(bucket.buffer() / 2)
        ...     return future
    """

    def __init__(self, index: int, bucket: Bucket, params: Sequence[Tensor], is_last: bool) -> None:
        self._index, self._bucket, self._last = index, bucket, is_last
        self._params = params
        self._buffer = bucket.flat

    def index(self) -> int:
        """Which of the buckets this is, in the order in which they are reduced: from 0."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients of all its parameters behind each other, as a tensor of one dimension."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Put another tensor in the place of the buffer.

        Args:
            tensor: as many elements, in the same order.
        """
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """The gradients as parts of the buffer, in the shapes of their parameters."""
        if self._buffer is self._bucket.flat:
            return list(self._bucket.views.values())
        params = self.parameters()
        parts = self._buffer.split([p.numel() for p in params])
        return [_view(part, p) for part, p in zip(parts, params)]

    def parameters(self) -> list[Tensor]:
        """The parameters that the gradients are of."""
        return [self._params[i] for i in self._bucket.members]

    def is_last(self) -> bool:
        """Whether it is the last bucket that this backward pass reduces."""
        return self._last
