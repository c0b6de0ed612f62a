"""Max pooling, and what poolings share: checked geometry, and values at chosen positions."""

from __future__ import annotations

import math
from functools import lru_cache

from ...op.declare import declare
from ...op.expose import function
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..kinds import is_half, narrow, raw, unsupported
from .windows import maximum_of_windows, pick, put, windows

# -- values at chosen positions: what maxima are made of ---------------------------------------------------------------


def _flat(index, space):
    k = index.ndim - space
    return index.reshape(math.prod(index.shape[:k]), math.prod(index.shape[k:]))


def _gather_plane(xp, self, index, *, space):
    """self (..., *space dims), index (..., *out dims) of flat positions: the values there."""
    source, where = _flat(self, space), _flat(index, space)
    return xp.take_along_axis(source, where, 1).reshape(index.shape)


def _scatter_plane(xp, self, index, *, shape):
    """The transpose of gather_plane: values added to zeros of the spatial `shape`."""
    k = len(shape)
    values, where = _flat(self, k), _flat(index, k)
    rows = xp.arange(len(values))[:, None] * math.prod(shape)
    total = xp.zeros(values.shape[0] * math.prod(shape), self.dtype)
    xp.add.at(total, (where + rows).reshape(-1), values.reshape(-1))
    return total.reshape(self.shape[: self.ndim - k] + shape)


def _index_samples(t):

    return t(2, 3, 2, dtype=dtypes.int64, low=0, high=5), t(
        2, 2, 2, dtype=dtypes.int64, low=0, high=4
    )


gather_plane_op = declare(
    "gather_plane", _gather_plane, promote="free", dependent="self", channels_last="index",
    self=lambda F, g, index, self_shape, space: F.scatter_plane(g, index, tuple(self_shape[len(self_shape) - space :])),
    samples=lambda t: [(t(2, 3, 5), _index_samples(t)[0], 1), (t(2, 2, 2), _index_samples(t)[1], 2)],
    jvp=lambda F, self_t, index, space: F.gather_plane(self_t, index, space),
    batch="leading",
)  # fmt: skip
scatter_plane_op = declare(
    "scatter_plane", _scatter_plane, promote="free", channels_last="self",
    self=lambda F, g, index, shape: F.gather_plane(g, index, len(shape)),
    samples=lambda t: [(t(2, 3, 2), _index_samples(t)[0], (5,)), (t(2, 2, 2), _index_samples(t)[1], (2, 2))],
    jvp="linear",
    batch="leading",
)  # fmt: skip


# -- max pooling -------------------------------------------------------------------------------------------------------

GEOMETRY = "kernel_size stride padding dilation ceil_mode"


def geometry(shape, kernel_size, stride, padding, dilation, ceil_mode):
    return windows(
        tuple(shape[len(shape) - len(kernel_size) :]),
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode,
    )


def _max_pool(xp, self, *, kernel_size, stride, padding, dilation, ceil_mode):
    d = self.dtype
    if d.kind not in "fViu":
        raise unsupported("max_pool2d", self)
    w = geometry(self.shape, kernel_size, stride, padding, dilation, ceil_mode)
    best, taps = maximum_of_windows(xp, w, xp.wide(self) if is_half(self) else self)
    return narrow(best, d), taps


def _pool_put(xp, self, *, taps, space, kernel_size, stride, padding, dilation, ceil_mode):
    return put(xp, windows(space, kernel_size, stride, padding, dilation, ceil_mode), self, taps)


def _pool_pick(xp, self, *, taps, kernel_size, stride, padding, dilation, ceil_mode):
    return pick(
        xp, geometry(self.shape, kernel_size, stride, padding, dilation, ceil_mode), self, taps
    )


def _tap_samples(t):
    import numpy as np

    return np.arange(12).reshape(2, 3, 2) % 3


pool_put_op = declare(
    "pool_put", _pool_put, jvp="linear", channels_last="self",
    self=lambda F, g, taps, kernel_size, stride, padding, dilation, ceil_mode: F.pool_pick(
        g, taps, kernel_size, stride, padding, dilation, ceil_mode
    ),
    samples=lambda t: [(t(2, 3, 2), _tap_samples(t), (6,), (3,), (3,), (0,), (1,), False),
                       (t(2, 3, 2), _tap_samples(t), (4,), (3,), (2,), (1,), (1,), False)],
)  # fmt: skip
pool_pick_op = declare(
    "pool_pick",
    _pool_pick,
    jvp="linear",
    channels_last="self",
    self=lambda F, g, taps, self_shape, kernel_size, stride, padding, dilation, ceil_mode: (
        F.pool_put(
            g,
            taps,
            tuple(self_shape[len(self_shape) - len(kernel_size) :]),
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
        )
    ),
    samples=lambda t: [
        (t(2, 3, 6), _tap_samples(t), (3,), (3,), (0,), (1,), False),
        (t(2, 3, 4), _tap_samples(t), (3,), (2,), (1,), (1,), False),
    ],
)


def _max_pool_grad(F, g, self_shape, taps, kernel_size, stride, padding, dilation, ceil_mode):
    space = tuple(self_shape[len(self_shape) - len(kernel_size) :])
    return F.pool_put(g, raw(taps), space, kernel_size, stride, padding, dilation, ceil_mode)


def _declare_max_pool(n: int):
    one, two, three = (1,) * n, (2,) * n, (3,) * n

    def samples(t):
        import numpy as np

        def distinct(*shape):
            size = math.prod(shape)
            x = t(*shape, requires_grad=False)
            x._array[...] = np.random.default_rng(0).permutation(size).reshape(shape) * 0.1
            return (
                x.requires_grad_(getattr(t, "requires_grad", True)) if isinstance(x, Tensor) else x
            )

        return [(distinct(2, 2, *(4,) * n), two, two, (0,) * n, one, False),
                (distinct(1, 2, *(5,) * n), three, two, one, one, True)]  # fmt: skip

    return declare(
        f"max_pool{n}d_op", _max_pool, node=f"MaxPool{n}DWithIndicesBackward0", hidden={"taps": None}, samples=samples,
        self=_max_pool_grad, dependent="self", channels_last="self", apart="max_pool",
        public=f"max_pool{n}d", autocast="cpu:float32" if n == 3 else "",
    )  # fmt: skip


MAX_POOL = {2: _declare_max_pool(2), 3: _declare_max_pool(3)}
MAX_POOL[1] = MAX_POOL[2]


def _max_pool_indices(xp, self, *, kernel_size, stride, padding, dilation, ceil_mode):
    how = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation}
    best, taps = _max_pool(xp, self, **how, ceil_mode=ceil_mode)
    w = geometry(self.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return best, w.positions(xp, taps, "input")


def _by_index(F, gs, result1, self_shape):
    k = result1.ndim - 2 if result1.ndim > 2 else 1
    return F.scatter_plane(gs[0], result1, tuple(self_shape[len(self_shape) - k :]))


max_pool_indices_op = declare(
    "max_pool_with_indices", _max_pool_indices,
    implementations="max_pool2d", n_out=2, nondifferentiable=(1,), node="MaxPool2DWithIndicesBackward0",
    self=_by_index, samples=MAX_POOL[2].samples, dependent="self", channels_last="self",
    public="max_pool2d_with_indices",
    batch="planes",
)  # fmt: skip


def pool_tuple(value, n: int, name: str, function_name: str) -> tuple:
    """`value` for each of n dimensions: a number, or a sequence of 1 or n numbers."""
    if value.__class__ is int:
        return (value,) * n
    value = tuple(int(v) for v in value) if isinstance(value, (tuple, list)) else (int(value),)
    if len(value) == 1:
        return value * n
    if len(value) != n:
        raise RuntimeError(
            f"{function_name}: {name} must either be a single int, or a tuple of {n} ints"
        )
    return value


def pool_input(input, n: int, name: str):
    """`input` with a batch dimension, and whether it was added. Only the batch may be empty."""
    ndim, shape = input._array.ndim, list(input.shape)
    if ndim not in (n + 1, n + 2):
        if n == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {ndim}-dimensional tensor for argument #1 'self' (while checking "
                f"arguments for {name})"
            )
        raise RuntimeError(f"non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input")
    if not input._array.size and 0 in (inner := shape[ndim - n - 1 :]):
        if n == 3:
            raise RuntimeError(
                f"{name}(): Expected input's non-batch dimensions to have positive length, but input has a shape of "
                f"{shape} and non-batch dimension {inner.index(0)} has length zero!"
            )
        if name == "max_pool1d":
            raise RuntimeError(
                "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but "
                f"got:{shape}"
            )
        image = [*shape[:-1], 1, shape[-1]] if n == 1 else shape
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{image}"
        )
    return (input, False) if ndim == n + 2 else (input.unsqueeze(0), True)


def checked(name: str, n: int, shape, kernel_size, stride, padding, dilation, ceil_mode) -> tuple:
    """The geometry as tuples, for the `shape` (C, and n dimensions); RuntimeError where it makes no sense."""
    how = (name, n, shape, kernel_size, stride, padding, dilation, ceil_mode)
    try:
        return _known(*how)
    except TypeError:  # a list, which cannot be looked up
        return _checked(*how)


def _checked(name: str, n: int, shape, kernel_size, stride, padding, dilation, ceil_mode) -> tuple:
    kernel = pool_tuple(kernel_size, n, "kernel_size", name)
    stride = (
        kernel
        if stride is None or (isinstance(stride, (list, tuple)) and not stride)
        else pool_tuple(stride, n, "stride", name)
    )
    padding, dilation = (
        pool_tuple(padding, n, "padding", name),
        pool_tuple(dilation, n, "dilation", name),
    )
    for what, values in (("kernel size", kernel), ("stride", stride), ("dilation", dilation)):
        if min(values) <= 0:
            sizes = _sizes(what.split()[0], values)
            raise RuntimeError(f"{what} should be greater than zero, but got {sizes}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
    w = windows(tuple(shape[1:]), kernel, stride, padding, dilation, bool(ceil_mode))
    if min(w.out, default=1) < 1:
        if name == "max_pool1d":
            raise RuntimeError(f"max_pool1d() Invalid computed output size: {w.out[0]}")
        lead = (shape[0], 1) if n == 1 else (shape[0],)  # in one dimension images of height 1
        given, made = ("x".join(map(str, (*lead, *sizes))) for sizes in (shape[1:], w.out))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small"
        )
    return kernel, stride, padding, dilation, bool(ceil_mode)


_known = lru_cache(maxsize=256, typed=True)(_checked)


def _sizes(name: str, values) -> str:
    return " ".join(
        f"{name}{axis}: {v}" for axis, v in zip("THW"[3 - len(values) :], values, strict=True)
    )


def _max(n, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    name = f"max_pool{n}d"
    if n == 1 and not return_indices and input._array.dtype.kind in "iu":
        raise unsupported("max_pool1d_impl", input._array)
    input, alone = pool_input(input, n, name)
    how = checked(
        name, n, input._array.shape[1:], kernel_size, stride, padding, dilation, ceil_mode
    )
    if return_indices:
        out, where = max_pool_indices_op.call(input, *how)
        return (out.squeeze(0), where.squeeze(0)) if alone else (out, where)
    out = MAX_POOL[n].call(input, *how)
    return out.squeeze(0) if alone else out


@function("max_pool1d")
def max_pool1d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The maximum of each window.

    Args:
        input: (N, C, L) or (C, L).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: places of minus infinity on both sides, at most half of a window.
        dilation: the distance of the elements of a window.
        ceil_mode: whether a last window that sticks out counts.
        return_indices: whether to return the places, too.

    Returns:
        A tensor; with `return_indices` a tuple with the places (int64) in the flat channel behind it. nan where a
            window has one.

    Raises:
        RuntimeError: another number of dimensions, no place for a window, or too much padding.

    Example:
        >>> F.max_pool1d(gradlib.arange(4.0).reshape(1, 1, 4), 2).flatten()
        tensor([1., 3.])
    """
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function("max_pool2d")
def max_pool2d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The maximum of each window.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: places of minus infinity on both sides, at most half of a window.
        dilation: the distance of the elements of a window.
        ceil_mode: whether a last window that sticks out counts.
        return_indices: whether to return the places, too.

    Returns:
        A tensor; with `return_indices` a tuple with the places (int64) in the flat channel behind it. nan where a
            window has one.

    Raises:
        RuntimeError: another number of dimensions, no place for a window, or too much padding.

    Example:
        >>> F.max_pool2d(gradlib.arange(16.0).reshape(1, 1, 4, 4), 2).flatten()
        tensor([ 5.,  7., 13., 15.])
    """
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function("max_pool3d")
def max_pool3d(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """The maximum of each window.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: places of minus infinity on both sides, at most half of a window.
        dilation: the distance of the elements of a window.
        ceil_mode: whether a last window that sticks out counts.
        return_indices: whether to return the places, too.

    Returns:
        A tensor; with `return_indices` a tuple with the places (int64) in the flat channel behind it. nan where a
            window has one.

    Raises:
        RuntimeError: another number of dimensions, no place for a window, or too much padding.

    Example:
        >>> F.max_pool3d(gradlib.arange(64.0).reshape(1, 1, 4, 4, 4), 4).flatten()
        tensor([63.])
    """
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function("max_pool1d_with_indices")
def max_pool1d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """``max_pool1d``, and the places of the maxima.

    Args:
        input: (N, C, L) or (C, L).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: places of minus infinity on both sides, at most half of a window.
        dilation: the distance of the elements of a window.
        ceil_mode: whether a last window that sticks out counts.
        return_indices: without effect: the places are always returned.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        RuntimeError: another number of dimensions, or no place for a window.

    Example:
        >>> F.max_pool1d_with_indices(gradlib.arange(4.0).reshape(1, 1, 4), 4)[1].flatten()
        tensor([3])
    """
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """``max_pool2d``, and the places of the maxima.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: places of minus infinity on both sides, at most half of a window.
        dilation: the distance of the elements of a window.
        ceil_mode: whether a last window that sticks out counts.
        return_indices: without effect: the places are always returned.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        RuntimeError: another number of dimensions, or no place for a window.

    Example:
        >>> F.max_pool2d_with_indices(gradlib.arange(16.0).reshape(1, 1, 4, 4), 4)[1].flatten()
        tensor([15])
    """
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """``max_pool3d``, and the places of the maxima.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: places of minus infinity on both sides, at most half of a window.
        dilation: the distance of the elements of a window.
        ceil_mode: whether a last window that sticks out counts.
        return_indices: without effect: the places are always returned.

    Returns:
        A tuple (values, indices), the places (int64) in the flat channel.

    Raises:
        RuntimeError: another number of dimensions, or no place for a window.

    Example:
        >>> F.max_pool3d_with_indices(gradlib.arange(64.0).reshape(1, 1, 4, 4, 4), 4)[1].flatten()
        tensor([63])
    """
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)
