"""Poolings whose windows follow from the output size or from chance, and the inverse of max pooling."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ...op.declare import declare
from ...op.expose import PUBLIC, function
from ...op.vmap import all_entries, each_entry
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.device import beside
from ...tape.interop import host_reads
from ...tape.layout import empty_in, suggested
from ...tape.lazy import raw_values
from ...tape.modes import shared
from ...tape.tensor import Tensor, to_host, wrap_dim
from ..kinds import check_kind
from .interpolate import adaptive_size
from .pool import gather_plane_op, pool_tuple

# -- maxima of given windows -------------------------------------------------------------------------------------------


def _argmax_windows(array, bounds: list) -> np.ndarray:
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
        best = part.reshape(*lead, math.prod(shape)).argmax(axis=-1)
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
        where = Tensor._make(_argmax_windows(input._array, bounds))
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


# -- fractional max pooling --------------------------------------------------------------------------------------------


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
    samples = to_host(random_samples._array)
    where = np.empty((*x.shape[:2], *news), np.int64)
    for b, c in np.ndindex(*x.shape[:2]):
        # as in PyTorch: of two samples the last one belongs to the first dimension, of three the first one
        starts = [
            _fractional_starts(samples[b, c, 1 - d if n == 2 else d], space[d], news[d], kernel[d])
            for d in range(n)
        ]
        bounds = [[(s, s + k) for s in line] for line, k in zip(starts, kernel, strict=True)]
        where[b, c] = to_host(_argmax_windows(x._array[b, c], bounds))
    index = Tensor._make(backend_of(x._array).asarray(where))
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


# -- max_unpool --------------------------------------------------------------------------------------------------------


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
        outside = where.size and (where.min() < 0 or where.max() >= math.prod(shape))
    if outside:
        raise RuntimeError(
            f"Found an invalid max index: {int(where.max())} (output volumes are of size {'x'.join(map(str, shape))}"
        )
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
