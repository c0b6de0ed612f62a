"""Padding: constant, reflect, replicate, circular. All but constant are gathers along one dimension at a time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...op.declare import declare
from ...op.expose import function
from ...op.plain_numbers import plain_number, python_number
from ...tape.layout import empty_in, suggested
from ...tape.modes import unrecorded
from ...tape.tensor import Tensor
from ..elementwise.cast import clone_op
from ..kinds import unsupported


def _pad_constant(xp, self, *, pads, value):
    """pads: (before, after) for each dimension; negative ones cut. Channels stay last where they are."""
    if not any([a or b for a, b in pads]):
        return clone_op.forward(xp, self, order="K")
    shape, inside, source = _cuts(self.shape, pads)
    wanted = suggested(self)
    if wanted is not None:
        out = empty_in(xp, shape, self.dtype, wanted)
        out[...] = value
    else:
        out = xp.zeros(shape, self.dtype) if value == 0 else xp.full(shape, value, self.dtype)
    out[inside] = self[source]
    return out


@lru_cache(maxsize=256)
def _cuts(space: tuple, pads: tuple) -> tuple:
    """(shape of the padded array, where what is left of the array lies in it, and in the array)."""
    inside, source = [], []
    for n, (a, b) in zip(space, pads, strict=True):
        inside.append(slice(max(a, 0), max(a, 0) + max(n + min(a, 0) + min(b, 0), 0)))
        source.append(slice(max(-a, 0), n + min(b, 0)))
    shape = tuple(n + a + b for n, (a, b) in zip(space, pads, strict=True))
    return shape, tuple(inside), tuple(source)


pad_constant_op = declare(
    "pad_constant",
    _pad_constant,
    public="constant_pad_nd",
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
    batch="pad",
)


# -- gathers along one dimension ---------------------------------------------------------------------------------------


# elements from which slices are quicker than positions, and slices up to which they are
LARGE, MANY = 1 << 13, 4


def _take_along(xp, self, *, where, dim):
    if dim == self.ndim - 1 and self.size >= LARGE and not xp.waits:
        out = _slices_along(xp, self, where)
        if out is not None:
            return out
    return self.take(xp.table(where), axis=dim)


def _slices_along(xp, self, where):
    """`_take_along` the last dimension by copies of slices; None where those are many."""
    n, out = self.shape[-1], None
    times = len(where) // n
    if times > 1 and len(where) == times * n and _in_turn(where, times):
        out = xp.empty((*self.shape[:-1], len(where)), self.dtype)
        for t in range(times):
            out[..., t::times] = self
        return out
    parts = runs(tuple(where.tolist()))
    if len(parts) <= MANY:
        out = xp.empty((*self.shape[:-1], len(where)), self.dtype)
        for start, stop, first, step in parts:
            last = first + (stop - start) * step if step else first + 1
            out[..., start:stop] = self[..., first : last if last >= 0 else None : step or 1]
    return out


def _add_along(xp, self, *, where, dim, size):
    """The transpose of `take_along`: slices of `self` added to zeros at `where`, run by run."""
    lead = (slice(None),) * dim
    times = len(where) // size if size else 0
    if times > 1 and len(where) == times * size and _in_turn(where, times):
        out = self[(*lead, slice(0, None, times))].copy()  # each place so many times in turn
        for t in range(1, times):
            out += self[(*lead, slice(t, None, times))]
        return out
    out = xp.zeros((*self.shape[:dim], size, *self.shape[dim + 1 :]), self.dtype)
    for start, stop, first, step in runs(tuple(where.tolist())):
        last = first + (stop - start) * step
        target = slice(first, last if last >= 0 else None, step)
        if step:
            out[(*lead, target)] += self[(*lead, slice(start, stop))]
        else:
            out[(*lead, first)] += xp.add.reduce(self[(*lead, slice(start, stop))], axis=dim)
    return out


def _in_turn(where, times: int) -> bool:
    """Whether positions are 0, 1, 2... so many times each."""
    return bool((where.reshape(-1, times) == np.arange(len(where) // times)[:, None]).all())


@lru_cache(maxsize=256)
def runs(where: tuple) -> list:
    """Positions as arithmetic runs (start, stop, first value, step)."""
    out, start = [], 0
    while start < len(where):
        stop = start + 1
        step = where[stop] - where[start] if stop < len(where) else 1
        while stop < len(where) and where[stop] - where[stop - 1] == step:
            stop += 1
        out.append((start, stop, where[start], step))
        start = stop
    return out


def _declare_take(name: str, node: str, dependent: str = "", channels_last: str = "self", **spec):
    return declare(
        name, _take_along, jvp="linear", complex=True, tables="where", node=node, dependent=dependent,
        channels_last=channels_last,
        **spec,
        self=lambda F, g, self_shape, where, dim: F.add_along(g, where, dim, self_shape[dim]),
        samples=lambda t: [
            (t(3, 4), np.array([1, 0, 1, 3, 2, 2]), 1), (t(3, 2), np.array([2, 2, 0]), 0),
        ],
    )  # fmt: skip


take_along_op = _declare_take("take_along", "IndexSelectBackward0")
pad_circular_op = _declare_take("pad_circular", "IndexSelectBackward0", channels_last="")
pad_lines_op = _declare_take("pad_lines", "ReflectionPadBackward0", "self", autocast="cpu:float32")
add_along_op = declare(
    "add_along", _add_along, jvp="linear", complex=True, tables="where", node="IndexAddBackward0", channels_last="self",
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
    kept = np.arange(size)[max(-before, 0) : size - max(-after, 0)]
    line = np.arange(-max(before, 0), len(kept) + max(after, 0))
    return kept[line % len(kept)] if len(kept) else line[:0]


def _pad_lines(input: Tensor, pads: list, mode: str) -> Tensor:
    op = pad_circular_op if mode == "circular" else pad_lines_op
    for dim, (before, after) in enumerate(pads):
        if before or after:
            where = unrecorded(_positions, mode, input._array.shape[dim], before, after)
            input = op.call(input, where, dim)
    return input


def _check(input: Tensor, pads: list, mode: str) -> None:
    """RuntimeError where a mode other than constant cannot pad `input`; `pads` is (before, after) of each dimension."""
    shape, ndim = list(input.shape), input.dim()
    n = ndim - next((i for i, p in enumerate(pads) if p is not None), ndim)
    if mode == "circular":
        _check_circular(shape, pads)
        return
    if 0 in shape[ndim - n - 1 :]:
        raise RuntimeError(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {shape}"
        )
    for k in range(1, n + 1):
        before, after = pads[-k]
        if mode == "reflect" and max(before, after) >= shape[-k]:
            raise RuntimeError(
                f"Argument #{2 * k + 2}: Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({before}, {after}) at dimension {ndim - k} of input {shape}"
            )
    names = "DHW"[3 - n :]
    sizes = [s + p[0] + p[1] for s, p in zip(shape[ndim - n :], pads[ndim - n :], strict=True)]
    if min(sizes, default=1) < 1:
        given, made = (
            " ".join(f"{a}: {s}" for a, s in zip(names, values, strict=True))
            for values in (shape[ndim - n :], sizes)
        )
        raise RuntimeError(f"input ({given}) is too small. Calculated output {made}")


def _check_circular(shape: list, pads: list) -> None:
    for size, pair in zip(shape, pads, strict=True):
        before, after = pair or (0, 0)
        if max(before, after) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + before + after < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")


def pad(input, pad, mode="constant", value=None):
    """`input` with borders.

    Args:
        pad: (left, right) of the last dimension, then (top, bottom) of the one before, and so on; negative widths cut
            off.
        mode: "constant"; or "reflect", "replicate" or "circular", which pad the last n dimensions of (N, C, n
            dimensions) or (C, n dimensions).
        value: the number of "constant"; 0 if None.

    Returns:
        A new tensor of the same dtype.

    Raises:
        RuntimeError: an odd number of widths, or more than the dimensions have.
        NotImplementedError: an unknown mode, or one that does not take this number of dimensions.

    Example:
        >>> F.pad(gradlib.tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
        tensor([[2., 1., 2., 3., 2.]])
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
            if a >= 0 and b >= 0:
                continue
            if n + min(a, 0) < 0 or n + min(b, 0) < 0:
                raise RuntimeError("narrow(): length must be non-negative.")
            if n + a + b < 0:
                raise RuntimeError(
                    f"The input size {n}, plus negative padding {a} and {b}, resulted in a "
                    "negative output size, which is invalid. "
                    f"Check dimension {pads.index((a, b))} of your input."
                )
        if value is not None:
            value = python_number(value, "pad(): argument 'value'")
        number = 0.0 if value is None else value if isinstance(value, complex) else float(value)
        number = plain_number(number, input.dtype)
        return pad_constant_op.call(input, tuple(pads), number)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    n = len(pad) // 2
    if n not in (1, 2, 3) or ndim not in (n + 1, n + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {ndim}D input tensor.\nSupported combinations for "
            "non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: "
            "padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if input._array.dtype.kind == "b" and mode != "circular":
        name = "reflection" if mode == "reflect" else "replication"
        raise unsupported(f"{name}_pad{n}d", input)
    _check(input, [None] * (ndim - n) + pads[ndim - n :], mode)
    out = _pad_lines(input, pads, mode)
    return out.clone() if out is input else out


@function("constant_pad_nd")
def constant_pad_nd(input, pad, value=0):
    """`input` with a border of one value: ``nn.functional.pad`` in constant mode.

    Args:
        pad: pairs of widths (before, after), those of the last dimension first; a negative width cuts off.
        value: the number that the border is filled with.

    Returns:
        A new tensor of the same dtype.

    Raises:
        RuntimeError: an odd number of widths, more pairs than dimensions, or less than nothing would be left.

    Example:
        >>> gradlib.constant_pad_nd(gradlib.tensor([1, 2]), (1, 2))
        tensor([0, 1, 2, 0, 0])
    """
    return PUBLIC_PAD(input, pad, "constant", value)


PUBLIC_PAD = pad
