"""Max pooling with windows at random steps."""

from __future__ import annotations

import numpy as np

from ...op.expose import PUBLIC
from ...op.vmap import each_entry
from ...tape.arrays import backend_of
from ...tape.interop import host_reads
from ...tape.modes import shared
from ...tape.tensor import Tensor, to_host, wrap_dim
from ..kinds import check_kind
from .pool import gather_plane_op, pool_tuple
from .pool_adaptive import argmax_windows


def _fractional_starts(sample, old: int, new: int, k: int) -> list:
    """Start of each window along one dimension: steps of one size or the next, the last window at the end.

    sample: a number in [0, 1), a NumPy scalar in whose precision the steps are computed.
    """
    if new == 1:
        return [old - k]
    kind = type(sample)
    alpha = kind(old - k) / kind(new - 1)
    first = int(sample * alpha)
    return [int((kind(i) + sample) * alpha) - first for i in range(new - 1)] + [old - k]


def _places(array, plane: tuple, bounds: list):
    return argmax_windows(array[plane], bounds)


def _fractional(n, input, kernel_size, output_size, output_ratio, return_indices, random_samples):
    if random_samples is None and shared.batches:
        lead = input.shape[:-n] if input.dim() > n + 1 else (1, *input.shape[:-n])
        random_samples = PUBLIC["rand"](*lead, n, dtype=input.dtype, device=input.device)
    sizes = kernel_size, output_size, output_ratio
    return _fractional_of(n, input, *sizes, return_indices, random_samples)


@each_entry
def _fractional_of(
    n, input, kernel_size, output_size, output_ratio, return_indices, random_samples
):
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    alone = input.dim() == n + 1
    if input.dim() <= n:
        wrap_dim(-n - 1, input.dim())  # raises IndexError
    if input.dim() > n + 2:
        raise RuntimeError(
            f"{name}{'_out' * (n == 3)}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}"
        )
    x = input.unsqueeze(0) if alone else input
    kernel, space = pool_tuple(kernel_size, n, "kernel_size", name), tuple(x.shape[-n:])
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * n
        output_size = [int(s * r) for s, r in zip(space, ratios, strict=True)]
    news = pool_tuple(output_size, n, "output_size", name)
    for i, size in enumerate(x.shape[1:], 1 - alone):
        if not size:
            raise RuntimeError(
                f"{name}{'_out' * (n == 3)}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{list(input.shape)} with dimension {i} being empty."
            )
    sides = ("height", "width") if n == 2 else ("time", "height", "width")
    for side, old, new, k in zip(sides, space, news, kernel, strict=True):
        if new + k - 1 > old - (n == 3):  # in three dimensions one position must be left over
            where = name if n == 2 else name + "_out"
            raise RuntimeError(
                f"{where}(): pool {side} {k} too large relative to input {side} {old}"
            )
    if random_samples is None:
        random_samples = PUBLIC["rand"](*x.shape[:2], n, dtype=x.dtype)
    elif random_samples.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    check_kind(x._array, f"fractional_max_pool{n}d_out_frame")
    host_reads(name, x)
    samples, xp = to_host(random_samples._array), backend_of(x._array)
    where = np.empty((*x.shape[:2], *news), np.int64)
    for b, c in np.ndindex(*x.shape[:2]):
        # as in PyTorch: of two samples the last one belongs to the first dimension, of three the first one
        starts = [
            _fractional_starts(samples[b, c, 1 - d if n == 2 else d], space[d], news[d], kernel[d])
            for d in range(n)
        ]
        bounds = [[(s, s + k) for s in line] for line, k in zip(starts, kernel, strict=True)]
        where[b, c] = to_host(xp.call(_places, x._array, (b, c), bounds))
    index = Tensor._make(xp.asarray(where))
    out = gather_plane_op.call(x, index, n)
    if alone:
        out, index = out.squeeze(0), index.squeeze(0)
    return (out, index) if return_indices else out


def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None,
):  # fmt: skip
    """Maxima of windows at random steps, as many as the output is to have.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        output_size: the size of the output; or
        output_ratio: which part of the size of the input it is, in (0, 1).
        return_indices: whether to return the places, too.
        _random_samples: (N, C, 2) numbers in [0, 1) that decide about the steps; drawn if None.

    Returns:
        A tensor; with `return_indices` a tuple with the places (int64) in the flat channel behind it.

    Raises:
        ValueError: neither `output_size` nor `output_ratio` is given.

    Example:
        >>> F.fractional_max_pool2d(gradlib.ones(1, 1, 4, 4), 2, output_size=2).shape
        torch.Size([1, 1, 2, 2])
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None,
):  # fmt: skip
    """Maxima of windows at random steps, as many as the output is to have.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        output_size: the size of the output; or
        output_ratio: which part of the size of the input it is, in (0, 1).
        return_indices: whether to return the places, too.
        _random_samples: (N, C, 3) numbers in [0, 1) that decide about the steps; drawn if None.

    Returns:
        A tensor; with `return_indices` a tuple with the places (int64) in the flat channel behind it.

    Raises:
        ValueError: neither `output_size` nor `output_ratio` is given.

    Example:
        >>> F.fractional_max_pool3d(gradlib.ones(1, 1, 4, 4, 4), 2, output_size=2).shape
        torch.Size([1, 1, 2, 2, 2])
    """
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None,
):  # fmt: skip
    """``fractional_max_pool2d``, and the places of the maxima.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        output_size: the size of the output; or
        output_ratio: which part of the size of the input it is, in (0, 1).
        return_indices: without effect: the places are always returned.
        _random_samples: (N, C, 2) numbers in [0, 1) that decide about the steps; drawn if None.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        ValueError: neither `output_size` nor `output_ratio` is given.

    Example:
        >>> F.fractional_max_pool2d_with_indices(gradlib.ones(1, 1, 4, 4), 2, output_size=2)[0].shape
        torch.Size([1, 1, 2, 2])
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None,
):  # fmt: skip
    """``fractional_max_pool3d``, and the places of the maxima.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        output_size: the size of the output; or
        output_ratio: which part of the size of the input it is, in (0, 1).
        return_indices: without effect: the places are always returned.
        _random_samples: (N, C, 3) numbers in [0, 1) that decide about the steps; drawn if None.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        ValueError: neither `output_size` nor `output_ratio` is given.

    Example:
        >>> F.fractional_max_pool3d_with_indices(gradlib.ones(1, 1, 4, 4, 4), 2, output_size=2)[0].shape
        torch.Size([1, 1, 2, 2, 2])
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)
