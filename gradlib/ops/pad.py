"""Padding: constant, reflect, replicate, circular. All but constant are gathers along one dimension at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..core.op import declare
from ..core.tensor import Tensor
from .expose import function


def _pad_constant(xp, self, *, pads, value):
    """pads: (before, after) for each dimension; negative ones cut."""
    shape = tuple(n + a + b for n, (a, b) in zip(self.shape, pads, strict=True))
    inside, source = [], []
    for n, (a, b) in zip(self.shape, pads, strict=True):
        inside.append(slice(max(a, 0), max(a, 0) + max(n + min(a, 0) + min(b, 0), 0)))
        source.append(slice(max(-a, 0), n + min(b, 0)))
    out = xp.zeros(shape, self.dtype) if value == 0 else xp.full(shape, value, self.dtype)
    out[tuple(inside)] = self[tuple(source)]
    return out


pad_constant_op = declare(
    "pad_constant",
    _pad_constant,
    node="ConstantPadNdBackward0",
    complex=True,
    self=lambda F, g, pads: F.pad_constant(g, tuple((-a, -b) for a, b in pads), 0),
    jvp=lambda F, self_t, pads: F.pad_constant(self_t, pads, 0),
    samples=lambda t: [
        (t(2, 3), ((0, 0), (1, 2)), 0.5),
        (t(3, 4), ((1, -1), (-2, 1)), 0),
        (t(0, 2), ((1, 0), (0, 0)), 1),
        (t(), (), 0),
    ],
)


# -- gathers along one dimension ---------------------------------------------------------------------------------------


def _take_along(xp, self, *, where, dim):
    return self.take(xp.asarray(where), axis=dim)


def _add_along(xp, self, *, where, dim, size):
    """The transpose of `take_along`: slices of `self` added to zeros at `where`, run by run."""
    out = xp.zeros((*self.shape[:dim], size, *self.shape[dim + 1 :]), self.dtype)
    lead = (slice(None),) * dim
    for start, stop, first, step in runs(tuple(where.tolist())):
        last = first + (stop - start) * step
        target = slice(first, last if last >= 0 else None, step)
        if step:
            out[(*lead, target)] += self[(*lead, slice(start, stop))]
        else:
            out[(*lead, first)] += xp.add.reduce(self[(*lead, slice(start, stop))], axis=dim)
    return out


@lru_cache(maxsize=256)
def runs(where: tuple) -> list:
    """Positions as arithmetic runs (start, stop, first value, step) with step 1, -1 or 0."""
    out, start = [], 0
    while start < len(where):
        stop = start + 1
        step = where[stop] - where[start] if stop < len(where) else 1
        if step in (-1, 0, 1):
            while stop < len(where) and where[stop] - where[stop - 1] == step:
                stop += 1
        else:
            step = 1
        out.append((start, stop, where[start], step))
        start = stop
    return out


take_along_op = declare(
    "take_along", _take_along, jvp="linear", complex=True, node="IndexSelectBackward0",
    self=lambda F, g, self_shape, where, dim: F.add_along(g, where, dim, self_shape[dim]),
    samples=lambda t: [(t(3, 4), np.array([1, 0, 1, 3, 2, 2]), 1), (t(3, 2), np.array([2, 2, 0]), 0)],
)  # fmt: skip
add_along_op = declare(
    "add_along", _add_along, jvp="linear", complex=True, node="IndexAddBackward0",
    self=lambda F, g, where, dim, size: F.take_along(g, where, dim),
    samples=lambda t: [(t(3, 6), np.array([1, 0, 1, 3, 2, 2]), 1, 4), (t(3, 2), np.array([2, 2, 0]), 0, 3)],
)  # fmt: skip


@lru_cache(maxsize=256)
def _positions(mode: str, size: int, before: int, after: int):
    """Which element of a line of `size` each element of the padded line is; a hashable constant."""
    line = np.arange(-before, size + after)
    if mode == "reflect":
        period = max(2 * (size - 1), 1)
        line = np.abs(line) % period
        return np.where(line >= size, period - line, line)
    if mode == "replicate":
        return np.clip(line, 0, size - 1)
    return line % size


def _pad_lines(input: Tensor, pads: list, mode: str) -> Tensor:
    for dim, (before, after) in enumerate(pads):
        if before or after:
            input = take_along_op.call(
                input, _positions(mode, input._array.shape[dim], before, after), dim
            )
    return input


def _check(input: Tensor, pads: list, mode: str) -> None:
    for dim, (before, after) in enumerate(pads):
        size = input._array.shape[dim]
        if mode == "reflect" and max(before, after) >= size:
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {dim} of input {list(input.shape)}"
            )
        if mode == "circular" and max(before, after) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if mode != "circular" and size + before + after < 1:
            raise RuntimeError(f"input ({size}) is too small for padding ({before}, {after})")


def pad(input, pad, mode="constant", value=None):
    """Pad the last dimensions: `pad` is (left, right) of the last, then (top, bottom) of the one before, and so on.

    mode: "constant" (with `value`, 0 if None; negative numbers cut), "reflect", "replicate" or "circular"; the last
    three pad the last n dimensions of (N, C, n dimensions) or (C, n dimensions).

    Raises:
        RuntimeError: an odd number of paddings, or more than the dimensions have.
        NotImplementedError: an unknown mode, or one that does not take this number of dimensions.
    """
    pad = [int(p) for p in pad]
    ndim = input._array.ndim
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} "
            f"and input of dimension {ndim}"
        )
    pads = [(0, 0)] * (ndim - len(pad) // 2) + [
        (pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)
    ]
    if mode == "constant":
        for n, (a, b) in zip(input._array.shape, pads, strict=True):
            if n + a + b < 0:
                raise RuntimeError(
                    f"The input size {n}, plus negative padding {a} and {b}, resulted in a "
                    "negative output size, which is invalid. "
                    f"Check dimension {pads.index((a, b))} of your input."
                )
        return pad_constant_op.call(input, tuple(pads), 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"Padding mode '{mode}' doesn't take in value argument")
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    n = len(pad) // 2
    if n not in (1, 2, 3) or ndim not in (n + 1, n + 2):
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
        )
    _check(input, pads, mode)
    out = _pad_lines(input, pads, mode)
    return out.clone() if out is input else out


@function("constant_pad_nd")
def constant_pad_nd(input, pad, value=0):
    """``nn.functional.pad`` in constant mode."""
    return PUBLIC_PAD(input, pad, "constant", value)


PUBLIC_PAD = pad
