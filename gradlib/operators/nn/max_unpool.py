"""The partial inverse of max pooling: each maximum back to its place."""

from __future__ import annotations

import math

import numpy as np

from ...op.declare import declare
from ...op.vmap import all_entries
from ...tape import dtypes
from ...tape.device import beside
from ...tape.lazy import raw_values
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..kinds import check_kind
from .pool import pool_tuple


def _unpool(xp, self, indices, *, shape):
    k = len(shape)
    lead = self.shape[: self.ndim - k]
    values = self.reshape(math.prod(lead), math.prod(self.shape[self.ndim - k :]))
    out = xp.zeros((len(values), math.prod(shape)), self.dtype)
    xp.put_along_axis(out, indices.reshape(values.shape), values, 1)
    return out.reshape(*lead, *shape)


def _unpool_samples(t):
    index = Tensor._make(np.array([[[0, 3], [2, 4]]]))
    return [(t(1, 2, 2), index, (5,))]


max_unpool_op = declare(
    "max_unpool", _unpool, autocast="cpu:float32", promote="free", node="MaxUnpool2DBackward0", samples=_unpool_samples,
    channels_last="self", channels_last_3d=False,
    self=lambda F, g, indices, shape: F.gather_plane(g, indices, len(shape)),
    jvp="linear",
)  # fmt: skip


def _check_places(where, shape: tuple) -> None:
    if where.size and (where.min() < 0 or where.max() >= math.prod(shape)):
        raise RuntimeError(
            f"Found an invalid max index: {int(where.max())} (output volumes are of size {'x'.join(map(str, shape))}"
        )


def _max_unpool(n: int, input, indices, kernel_size, stride, padding, output_size):
    name = f"max_unpool{n}d"
    kernel = pool_tuple(kernel_size, n, "kernel_size", name)
    stride = kernel if stride is None else pool_tuple(stride, n, "stride", name)
    padding = pool_tuple(padding, n, "padding", name)
    if indices.dtype is not dtypes.int64:
        kind = indices.dtype.scalar_type
        found = f" but got: {kind}" if n < 3 else ""
        raise RuntimeError(f"elements in indices should be type int64{found}")
    if input.shape != indices.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with "
            f"shape: {list(indices.shape)}"
        )
    for i, size in enumerate(input.shape[1:], 1):
        if not size:
            raise RuntimeError(
                f"max_unpooling{max(n, 2)}d_forward_out_cpu(): Expected input to have non-zero size for non-batch "
                f"dimensions, but got {list(input.shape)} with dimension {i} being empty."
            )
    space = tuple(input.shape[-n:])
    default = tuple(
        (s - 1) * st + k - 2 * p for s, st, k, p in zip(space, stride, kernel, padding, strict=True)
    )
    if output_size is None:
        shape = default
    else:
        shape = tuple(int(s) for s in output_size)[-n:]
        if len(shape) != n:
            raise ValueError(
                f"output_size should be a sequence containing {n} or {n + 2} elements, but it has "
                f"a length of '{len(output_size)}'"
            )
        for s, d, st in zip(shape, default, stride, strict=True):
            if not d - st < s < d + st:
                raise ValueError(
                    f"invalid output_size {list(shape)} (dim 0 must be between {d - st} and {d + st})"
                )
    where = raw_values(all_entries(indices))
    with beside(where):
        unrecorded(_check_places, where, shape)
    if input._array.size:
        check_kind(input._array, f"max_unpool{max(n, 2)}d")
    return max_unpool_op.call(input, indices, shape)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The values of `input` at the places where ``max_pool1d`` found them, zeros elsewhere.

    Args:
        input: (N, C, L) or (C, L).
        indices: the places that it returned.
        kernel_size, stride, padding: what it was given.
        output_size: the size of the result, where that leaves a choice; a tuple of the last dimensions or of all.

    Returns:
        A tensor.

    Raises:
        ValueError: `output_size` cannot be.

    Example:
        >>> x, places = gradlib.tensor([[[7.0]]]), gradlib.tensor([[[1]]])
        >>> F.max_unpool1d(x, places, 2).flatten()
        tensor([0., 7.])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The values of `input` at the places where ``max_pool2d`` found them, zeros elsewhere.

    Args:
        input: (N, C, H, W) or (C, H, W).
        indices: the places that it returned.
        kernel_size, stride, padding: what it was given.
        output_size: the size of the result, where that leaves a choice; a tuple of the last dimensions or of all.

    Returns:
        A tensor.

    Raises:
        ValueError: `output_size` cannot be.

    Example:
        >>> x, places = gradlib.tensor([[[[7.0]]]]), gradlib.tensor([[[[1]]]])
        >>> F.max_unpool2d(x, places, 2).flatten()
        tensor([0., 7., 0., 0.])
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """The values of `input` at the places where ``max_pool3d`` found them, zeros elsewhere.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        indices: the places that it returned.
        kernel_size, stride, padding: what it was given.
        output_size: the size of the result, where that leaves a choice; a tuple of the last dimensions or of all.

    Returns:
        A tensor.

    Raises:
        ValueError: `output_size` cannot be.

    Example:
        >>> x, places = gradlib.tensor([[[[[7.0]]]]]), gradlib.tensor([[[[[1]]]]])
        >>> F.max_unpool3d(x, places, 2).flatten()
        tensor([0., 7., 0., 0., 0., 0., 0., 0.])
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
