"""Convolution by groups on raw arrays: shifted runs of memory in place of patches.

Shapes: x (N, C, *space), w (O, C / groups, *K), g and results (N, O, *out).

A group with one output channel alone would be a product of a single row. For high kernels `forward` gives it several:
rows of the output that lie below one another, computed from all rows of the input that any of them reads, with the
weight 0 for those that it does not. The matrix of patches has fewer elements for each result then, and BLAS more to do
with each.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ...operators.kinds import F4, F8
from . import parallel

COLUMNS = 1 << 10  # columns of the matrix of patches to aim for
CELLS = 1 << 19  # elements of it at most
ROWS = 4  # rows of the output that a group of one channel computes together,
HIGH = 5  # with kernels of so many rows: for lower ones it saves less than it costs to put the rows in their places


class Shifted:
    """The matrices of patches of some groups of a few images, one product for each group.

    An image is cut into its phases: the places that are a multiple of the stride, those one further, and so on. In a
    phase each tap of the kernel reads one contiguous run, shifted by a constant: a row of the matrix is one copy, with
    no regard to the ends of rows and of images. What is computed across them is cut off, or has the weight 0.

    Shapes: flat (groups, C / groups, phases * images * cells of a phase), the matrix (groups, C / groups * taps, L).
    """

    def __init__(
        self, xp, n, groups, width, space, out, kernel, stride, before, dilation, dtype, copied=True
    ):
        """For `n` images of `space`, placed `before` zeros from the start; `width` channels in each group.

        copied: whether there is a matrix; else the runs are read where they are.
        """  # fmt: skip
        self.xp, self.n, self.groups = xp, n, groups
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        reach = [
            max(b + m, (o - 1) * s + d * (k - 1) + 1)
            for b, m, o, s, d, k in zip(before, space, out, stride, dilation, kernel, strict=True)
        ]
        self.size = tuple([-(-m // s) for m, s in zip(reach, stride, strict=True)])
        self.steps = [math.prod(self.size[i + 1 :]) for i in range(len(kernel))]
        taps = math.prod(kernel) if copied else math.prod(stride) + 1
        # of the last image only what its windows read, of those before it all
        self.cells = math.prod(self.size)
        last = sum((o - 1) * s for o, s in zip(out, self.steps, strict=True)) + 1
        self.images = max(
            1, min(n, COLUMNS // self.cells // 2 * 2, CELLS // (width * taps * self.cells))
        )
        self.length = (self.images - 1) * self.cells + last
        self.at_a_time = max(1, min(groups, CELLS // (width * taps * self.length)))
        shape = (self.at_a_time, width)
        self.flat = xp.zeros((*shape, math.prod(stride) * self.images * self.cells), dtype)
        image = self.flat.reshape(*shape, *stride, self.images, *self.size)
        self.phases = [  # (cells of a phase that an image has, what of the image they hold)
            self._phase(image, offsets, before, space, stride)
            for offsets in product(*map(range, stride))
        ]
        self.cut = (..., *[slice(0, m) for m in out])
        self._find_runs()
        if copied:
            self.matrix = xp.empty((self.at_a_time, width * taps, self.length), dtype)
            room = self.matrix.reshape(*shape, *kernel, self.length)
            self.rows = [room[(..., *every, slice(None))] for every, _ in self.runs]

    def _phase(self, image, offsets, before, space, stride):
        cells, read = [], []
        for o, b, m, s in zip(offsets, before, space, stride, strict=True):
            first = max(0, -((o - b) // s))  # where the image begins in this phase
            start = first * s + o - b
            cells.append(slice(first, first + len(range(start, m, s))))
            read.append(slice(start, m, s))
        return image[(slice(None), slice(None), *offsets)][(..., *cells)], (..., *read)

    def _find_runs(self) -> None:
        """For each phase the taps that read there, and their runs (groups, C / groups, *taps, L)."""
        moves = self.flat.strides
        lots = list(zip(self.stride, self.dilation, self.steps, strict=True))
        periods = [s // math.gcd(s, d) for s, d, _ in lots]  # taps of one phase are so far apart
        apart = [
            p * d // s * step * moves[2] for p, (s, d, step) in zip(periods, lots, strict=True)
        ]
        self.runs = []
        for tap in product(*[range(min(k, p)) for k, p in zip(self.kernel, periods, strict=True)]):
            every = [slice(t, None, p) for t, p in zip(tap, periods, strict=True)]
            taps = [len(range(k)[e]) for k, e in zip(self.kernel, every, strict=True)]
            number = inner = 0
            for t, (s, d, step) in zip(tap, lots, strict=True):
                number = number * s + t * d % s
                inner += t * d // s * step
            first = self.flat[:, :, number * self.images * self.cells + inner :]
            shape = (*self.flat.shape[:2], *taps, self.length)
            self.runs.append(
                (every, self.xp.as_strided(first, shape, (*moves[:2], *apart, moves[2])))
            )

    def blocks(self) -> list[tuple[int, int]]:
        """Blocks of images, as the first and what follows the last."""
        return [(i, min(i + self.images, self.n)) for i in range(0, self.n, self.images)]

    def group_blocks(self) -> list[tuple[int, int]]:
        """The same of groups."""
        step = self.at_a_time
        return [(h, min(h + step, self.groups)) for h in range(0, self.groups, step)]

    def wide(self, width: int):
        """Room for one value for each cell: (flat, the same as images, cut to the places of windows)."""
        flat = self.xp.zeros((self.at_a_time, width, self.images * self.cells), self.flat.dtype)
        rows = flat.reshape(self.at_a_time, width, self.images, *self.size)[self.cut]
        return flat, rows

    def fill(self, x, images, groups) -> int:
        """Put a part of x where the runs are; their length."""
        source, m = part(x, images, groups), groups[1] - groups[0]
        for cells, read in self.phases:
            cells[:m, :, : images[1] - images[0]] = source[read]
        return self.length - (self.images - (images[1] - images[0])) * self.cells

    def patches(self, x, images, groups):
        """The matrix of patches of a part of x."""
        length, m = self.fill(x, images, groups), groups[1] - groups[0]
        for rows, (_, runs) in zip(self.rows, self.runs, strict=True):
            rows[:m, ..., :length] = runs[:m, ..., :length]
        return self.matrix[:m, :, :length]


def part(x, images, groups):
    """A part of x (N, groups, width, *space) as (groups, width, images, *space)."""
    return x[slice(*images), slice(*groups)].transpose(1, 2, 0, *range(3, x.ndim))


def by_group(x, groups: int):
    """x (N, C, *space) as (N, groups, C / groups, *space)."""
    return x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])


# -- forward -----------------------------------------------------------------------------------------------------------


def forward(xp, x, w, result, stride, before, dilation, groups) -> None:
    """The convolution of x with w, into `result`; x is placed `before` zeros from the start."""
    many = ROWS if w.shape[0] == groups and x.dtype in (F4, F8) and dilation[0] == 1 else 1
    if many > 1 and w.shape[2] >= max(HIGH, stride[0] + 1) and result.shape[2] >= many:
        taller = w_of_rows(xp, w, many, stride[0])
        longer = (stride[0] * many, *stride[1:])
        if _forward(xp, x, taller, result, longer, before, dilation, groups, many):
            return
    _forward(xp, x, w, result, stride, before, dilation, groups, 1)


def w_of_rows(xp, w, many: int, step: int):
    """Weights (groups, 1, *K) for `many` rows of the output at once: (groups * many, 1, taller K).

    The kernel of each row stands `step` below that of the one before it.
    """
    groups, _, height, *rest = w.shape
    taller = xp.zeros((groups, many, (many - 1) * step + height, *rest), w.dtype)
    for r in range(many):
        taller[:, r, r * step : r * step + height] = w[:, 0]
    return taller.reshape(groups * many, 1, *taller.shape[2:])


def _forward(xp, x, w, result, stride, before, dilation, groups, many: int) -> bool:
    """`forward` with `many` rows of the output as output channels of w: false if some number is not finite.

    Such a number may come from a row that an output does not read.
    """
    x, result = by_group(x, groups), by_group(result, groups)
    matrix = xp.ascontiguousarray(w).reshape(groups, w.shape[0] // groups, -1)
    rows_out = -(-result.shape[3] // many)
    out = (rows_out, *result.shape[4:])
    how = (len(x), groups, x.shape[2], x.shape[3:], out, w.shape[2:], stride, before, dilation)
    targets = [result[:, :, :, r::many] for r in range(many)]
    finite = [True]

    shifted = Shifted(xp, *how, x.dtype)
    flat, rows = shifted.wide(matrix.shape[1])

    def piece(images, groups) -> None:
        m, count = groups[1] - groups[0], images[1] - images[0]
        patches = shifted.patches(x, images, groups)
        products = flat[:m, :, : patches.shape[2]]
        np.matmul(matrix[slice(*groups)], patches, out=products)
        if many > 1:
            if not np.isfinite(np.add.reduce(products, None)):
                finite[0] = False
            for r, target in enumerate(targets):
                target = part(target, images, groups)
                target[...] = rows[:m, r : r + 1, :count, : target.shape[3]]
        else:
            part(result, images, groups)[...] = rows[:m, :, :count]

    spans = [(images, some) for images in shifted.blocks() for some in shifted.group_blocks()]
    parallel.one(lambda: [piece(*span) for span in spans])
    return finite[0]


# -- gradients ---------------------------------------------------------------------------------------------------------


def grad_weight(xp, x, g, kernel, stride, padding, dilation, groups):
    """The gradient of w as (groups, C / groups * taps, O / groups); nan where something infinite lies near ends."""
    x, g = by_group(x, groups), by_group(g, groups)
    single = x.shape[2] == g.shape[2] == 1 and x.dtype in (F4, F8)  # products of vectors
    taps = math.prod(kernel)
    total = xp.zeros((groups, x.shape[2] * taps, g.shape[2]), x.dtype)
    how = (len(x), groups, x.shape[2], x.shape[3:], g.shape[3:], kernel, stride, padding, dilation)

    shifted = Shifted(xp, *how, x.dtype, copied=not single)
    flat, rows = shifted.wide(g.shape[2])

    def piece(*groups) -> None:
        m, sums = groups[1] - groups[0], total[slice(*groups)]
        for images in shifted.blocks():
            rows[:m, :, : images[1] - images[0]] = part(g, images, groups)
            if not single:
                patches = shifted.patches(x, images, groups)
                gradient = flat[:m, :, : patches.shape[2]].swapaxes(1, 2)
                sums += np.matmul(patches, gradient)
                continue
            length = shifted.fill(x, images, groups)
            for every, runs in shifted.runs:
                some = sums.reshape(m, *kernel)[(slice(None), *every)]
                gradient = flat[:m, 0, :length].reshape(m, *[1] * len(kernel), length)
                some += np.vecdot(runs[:m, 0, ..., :length], gradient)

    parallel.one(lambda: [piece(*groups) for groups in shifted.group_blocks()])
    return total
