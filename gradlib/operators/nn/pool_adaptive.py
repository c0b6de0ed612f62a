"""Max pooling whose windows follow from the output size."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ...op.expose import function
from ...op.vmap import each_entry
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.layout import empty_in, suggested
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..kinds import check_kind
from .interpolate import adaptive_size
from .pool import gather_plane_op


def _argmax(xp, rows):
    """Where the maximum of each row is: the first, but the last nan."""
    best = rows.argmax(axis=-1)
    if rows.dtype.kind != "f":
        return best
    nan = rows != rows
    found = nan.any(axis=-1)
    if not xp.waits and not found.any():
        return best
    return xp.where(found, rows.shape[-1] - 1 - nan[..., ::-1].argmax(axis=-1), best)


def argmax_windows(array, bounds: list) -> np.ndarray:
    """Flat positions of the maxima of windows: `bounds` has for each dimension a list of (start, stop)."""
    n = len(bounds)
    xp = backend_of(array)
    space = array.shape[array.ndim - n :]
    lead = array.shape[: array.ndim - n]
    wide = xp.wide(array)
    wanted = suggested(array) if n == 2 else None
    out = empty_in(xp, (*lead, *map(len, bounds)), np.dtype(np.int64), wanted)
    for cell in product(*[range(len(b)) for b in bounds]):
        limits = [b[i] for b, i in zip(bounds, cell, strict=True)]
        part = wide[(..., *[slice(*limit) for limit in limits])]
        shape = part.shape[part.ndim - n :]
        best = _argmax(xp, part.reshape(*lead, math.prod(shape)))
        flat, scale = 0, 1
        for (start, _), size, whole in zip(
            reversed(limits), reversed(shape), reversed(space), strict=True
        ):
            flat = flat + (best % size + start) * scale
            best, scale = best // size, scale * whole
        out[(..., *cell)] = flat
    return out


def _take_maxima(input, bounds):
    with beside(input._array):
        where = Tensor._make(unrecorded(argmax_windows, input._array, bounds))
    return gather_plane_op.call(input, where, len(bounds)), where


@each_entry
def _adaptive_max(n: int, input, output_size, return_indices: bool):
    news, space = adaptive_size(f"adaptive_max_pool{n}d", n, output_size, input, 1)
    if input._array.size:
        check_kind(input._array, f"adaptive_max_pool{max(n, 2)}d")
    bounds = [
        [(i * old // new, -(-(i + 1) * old // new)) for i in range(new)]
        for new, old in zip(news, space, strict=True)
    ]
    out, where = _take_maxima(input, bounds)
    return (out, where) if return_indices else out


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima of windows that are chosen so that the output has a given size.

    Args:
        input: (N, C, L) or (C, L).
        output_size: an int.
        return_indices: whether to return the places, too.

    Returns:
        A tensor in which the last dimension becomes `output_size`; with `return_indices` a tuple with the places
            (int64) behind it.

    Raises:
        RuntimeError: another number of dimensions.

    Example:
        >>> F.adaptive_max_pool1d(gradlib.arange(4.0).reshape(1, 1, 4), 2)
        tensor([[[1., 3.]]])
    """
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima of windows that are chosen so that the output has a given size.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: an int or one for each dimension; None keeps a size.
        return_indices: whether to return the places, too.

    Returns:
        A tensor in which the last two dimensions become `output_size`; with `return_indices` a tuple with the places
            (int64) in the flat channel behind it.

    Raises:
        RuntimeError: another number of dimensions.

    Example:
        >>> F.adaptive_max_pool2d(gradlib.arange(4.0).reshape(1, 1, 2, 2), 1).item()
        3.0
    """
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima of windows that are chosen so that the output has a given size.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: an int or one for each dimension; None keeps a size.
        return_indices: whether to return the places, too.

    Returns:
        A tensor in which the last three dimensions become `output_size`; with `return_indices` a tuple with the
            places (int64) in the flat channel behind it.

    Raises:
        RuntimeError: another number of dimensions.

    Example:
        >>> F.adaptive_max_pool3d(gradlib.arange(8.0).reshape(1, 1, 2, 2, 2), 1).item()
        7.0
    """
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """``adaptive_max_pool1d``, and the places of the maxima.

    Args:
        input: (N, C, L) or (C, L).
        output_size: an int.
        return_indices: without effect: the places are always returned.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        RuntimeError: another number of dimensions.

    Example:
        >>> F.adaptive_max_pool1d_with_indices(gradlib.arange(2.0).reshape(1, 1, 2), 1)[1].item()
        1
    """
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """``adaptive_max_pool2d``, and the places of the maxima.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: an int or one for each dimension; None keeps a size.
        return_indices: without effect: the places are always returned.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        RuntimeError: another number of dimensions.

    Example:
        >>> F.adaptive_max_pool2d_with_indices(gradlib.arange(4.0).reshape(1, 1, 2, 2), 1)[1].item()
        3
    """
    return _adaptive_max(2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """``adaptive_max_pool3d``, and the places of the maxima.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        output_size: an int or one for each dimension; None keeps a size.
        return_indices: without effect: the places are always returned.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        RuntimeError: another number of dimensions.

    Example:
        >>> F.adaptive_max_pool3d_with_indices(gradlib.arange(8.0).reshape(1, 1, 2, 2, 2), 1)[1].item()
        7
    """
    return _adaptive_max(3, input, output_size, True)


@function("adaptive_max_pool1d")
def _adaptive_max_pool1d_public(input, output_size):
    """The largest element in each of `output_size` equal parts of a row, and its index: see
    `nn.functional.adaptive_max_pool1d`.

    input: [N, C, L] or [C, L]. Returns (values, indices), each [..., output_size].

    Example:
        >>> gradlib.adaptive_max_pool1d(gradlib.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)[0]
        tensor([[3., 2.]])
    """
    return _adaptive_max(1, input, output_size, True)
