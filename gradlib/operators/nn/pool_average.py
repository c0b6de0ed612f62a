"""Averages of windows, and the power averages made of them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ...op.declare import declare
from ...op.expose import function, write_same
from ..kinds import narrow, unsupported
from .pool import (
    checked,
    geometry,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pool_input,
    pool_tuple,
)
from .windows import spread_over_windows, sum_of_windows, windows


@lru_cache(maxsize=64)
def _counts(w, count_include_pad: bool):
    """How many elements each window's sum is divided by: a number, or an array (*out)."""
    import numpy as np

    total = None
    for n, k, s, p, m in zip(w.space, w.kernel, w.stride, w.padding, w.out, strict=True):
        start = np.arange(m) * s - p
        stop = np.minimum(start + k, n + p)
        if not count_include_pad:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        line = stop - start
        total = line if total is None else np.multiply.outer(total, line)
    assert total is not None
    return int(total.flat[0]) if total.size and (total == total.flat[0]).all() else total


def _divide(xp, values, w, count_include_pad, divisor_override):
    by = divisor_override or _counts(w, count_include_pad)
    if values.dtype.kind == "i":  # towards zero, as integers are divided in C
        by = by if isinstance(by, int) else xp.table(by)
        return values // by + ((values % by != 0) & ((values < 0) ^ (by < 0)))
    if not isinstance(by, int):
        by = xp.table(by, values.dtype)
    return values * (1 / by) if isinstance(by, int) else values / by


def _avg_pool(
    xp, self, *, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    if self.dtype.kind not in "fV" and not (self.dtype.kind == "i" and self.dtype.itemsize == 8):
        raise unsupported("avg_pool2d", self)
    w = geometry(self.shape, kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode)
    total = sum_of_windows(xp, w, xp.wide(self))
    return narrow(_divide(xp, total, w, count_include_pad, divisor_override), self.dtype)


def _avg_pool_grad(
    xp, self, *, space, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    w = windows(space, kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode)
    values = _divide(xp, xp.wide(self), w, count_include_pad, divisor_override)
    return narrow(spread_over_windows(xp, w, values), self.dtype)


def _declare_avg_pool(n: int):
    wide = max(n, 2)  # a row is averaged as PyTorch averages an image

    def samples(t):
        one, two, three = (1,) * n, (2,) * n, (3,) * n
        return [(t(2, 2, *(4,) * n), two, two, (0,) * n, False, True, None),
                (t(1, 2, *(6,) * n), three, two, one, True, False, None),
                (t(1, 2, *(4,) * n), three, one, one, False, True, 5)]  # fmt: skip

    def grad_samples(t):
        one, two, three = (1,) * n, (2,) * n, (3,) * n
        return [(t(2, 2, *(2,) * n), (4,) * n, two, two, (0,) * n, False, True, None),
                (t(1, 2, *(4,) * n), (6,) * n, three, two, one, True, False, None)]  # fmt: skip

    def back(
        F,
        g,
        self_shape,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    ):
        k = len(kernel_size)  # 1 in the gradient of a gradient of rows, which is one of images
        space = tuple(self_shape[len(self_shape) - k :])
        op = getattr(F, f"avg_pool{max(k, 2)}d_grad")
        return op(
            g, space, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    def forth(F, g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        op = getattr(F, f"avg_pool{n}d_op")
        return op(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    if n > 1:
        declare(
            f"avg_pool{n}d_grad", _avg_pool_grad, public=f"avg_pool{n}d_backward",
            self=forth, jvp="linear", samples=grad_samples,
            channels_last="self", channels_last_3d=False, batch="planes",
            node=f"AvgPool{n}DBackwardBackward0",
        )  # fmt: skip
    return declare(
        f"avg_pool{n}d_op", _avg_pool, public=f"avg_pool{n}d",
        autocast="cpu:float32" if n == 3 else "", dependent="self",
        channels_last="self" if n > 1 else "", channels_last_3d=False,
        self=back, jvp="linear", batch="planes", samples=samples,
        node=f"AvgPool{wide}DBackward0",
    )  # fmt: skip


AVG_POOL = {n: _declare_avg_pool(n) for n in (2, 3, 1)}


def _avg(n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    name = f"avg_pool{n}d"
    input, alone = pool_input(input, n, name)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    kernel, stride, padding, _, ceil_mode = checked(
        name, n, input._array.shape[1:], kernel_size, stride, padding, 1, ceil_mode
    )
    space = input._array.shape[2:]
    if n == 3 and any([s < k for s, k in zip(space, kernel, strict=True)]):
        given, wanted = (
            " ".join(f"{k}{axis}: {v}" for axis, v in zip("THW", values, strict=True))
            for k, values in (("", space), ("k", kernel))
        )
        raise RuntimeError(f"input image ({given}) smaller than kernel size ({wanted})")
    out = AVG_POOL[n].call(
        input, kernel, stride, padding, ceil_mode, bool(count_include_pad), divisor_override
    )
    return out.squeeze(0) if alone else out


@function("avg_pool1d")
def avg_pool1d(
    input, kernel_size, stride=None, padding: Any = 0, ceil_mode=False, count_include_pad=True
):
    """The average of each window.

    Args:
        input: (N, C, L) or (C, L).
        kernel_size: the size of a window.
        stride: how far the window moves; `kernel_size` if None.
        padding: zeros on both sides, at most half of a window.
        ceil_mode: whether a last window that sticks out counts.
        count_include_pad: whether the zeros of `padding` count as elements.

    Returns:
        A tensor.

    Raises:
        RuntimeError: another number of dimensions, no place for a window, or too much padding.

    Example:
        >>> F.avg_pool1d(gradlib.arange(4.0).reshape(1, 1, 4), 2)
        tensor([[[0.5000, 2.5000]]])
    """
    return _avg(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None,
    *, out=None,
):  # fmt: skip
    """The average of each window.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: zeros on both sides, at most half of a window.
        ceil_mode: whether a last window that sticks out counts.
        count_include_pad: whether the zeros of `padding` count as elements.
        divisor_override: what the sums are divided by instead of the number of elements.
        out: written to instead of a new tensor.

    Returns:
        A tensor.

    Raises:
        RuntimeError: another number of dimensions, no place for a window, or too much padding.

    Example:
        >>> F.avg_pool2d(gradlib.arange(16.0).reshape(1, 1, 4, 4), 4).item()
        7.5
    """
    result = _avg(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return result if out is None else write_same(out, result)


def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None,
    *, out=None,
):  # fmt: skip
    """The average of each window.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        padding: zeros on both sides, at most half of a window.
        ceil_mode: whether a last window that sticks out counts.
        count_include_pad: whether the zeros of `padding` count as elements.
        divisor_override: what the sums are divided by instead of the number of elements.
        out: written to instead of a new tensor.

    Returns:
        A tensor.

    Raises:
        RuntimeError: another number of dimensions, no place for a window, or too much padding.

    Example:
        >>> F.avg_pool3d(gradlib.arange(64.0).reshape(1, 1, 4, 4, 4), 4).item()
        31.5
    """
    result = _avg(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return result if out is None else write_same(out, result)


def _lp(n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = pool_tuple(kernel_size, n, "kernel_size", f"lp_pool{n}d")
    if norm_type in (math.inf, -math.inf):
        largest = (max_pool1d, max_pool2d, max_pool3d)[n - 1]
        if norm_type > 0:
            return largest(input.abs(), kernel, stride, 0, 1, ceil_mode)
        return -largest(-input.abs(), kernel, stride, 0, 1, ceil_mode)
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
    out = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return (out.sign() * out.abs().relu()).mul(math.prod(kernel)).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window: the root of the sum of the powers.

    Args:
        input: (N, C, L) or (C, L).
        norm_type: the power p, not 0; inf for the largest size, -inf for the smallest.
        kernel_size: the size of a window.
        stride: how far the window moves; `kernel_size` if None.
        ceil_mode: whether a last window that sticks out counts.

    Returns:
        A tensor.

    Raises:
        RuntimeError: no place for a window.

    Example:
        >>> F.lp_pool1d(gradlib.ones(1, 1, 2), 1, 2).item()
        2.0
    """
    return _lp(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window: the root of the sum of the powers.

    Args:
        input: (N, C, H, W) or (C, H, W).
        norm_type: the power p, not 0; inf for the largest size, -inf for the smallest.
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        ceil_mode: whether a last window that sticks out counts.

    Returns:
        A tensor.

    Raises:
        RuntimeError: no place for a window.

    Example:
        >>> F.lp_pool2d(gradlib.ones(1, 1, 2, 2), 1, 2).item()
        4.0
    """
    return _lp(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of each window: the root of the sum of the powers.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        norm_type: the power p, not 0; inf for the largest size, -inf for the smallest.
        kernel_size: the size of a window, an int or one for each dimension.
        stride: how far the window moves; `kernel_size` if None.
        ceil_mode: whether a last window that sticks out counts.

    Returns:
        A tensor.

    Raises:
        RuntimeError: no place for a window.

    Example:
        >>> F.lp_pool3d(gradlib.ones(1, 1, 2, 2, 2), 1, 2).item()
        8.0
    """
    return _lp(3, input, norm_type, kernel_size, stride, ceil_mode)
