"""Convolution over two dimensions of large images: a product for each row of the kernel, added up by BLAS.

The patches of one row of the kernel are the image, shifted along its rows by each tap, with whole rows before and
after: those of the next row of the kernel begin one row further in the same memory. So a third of the patches of a
3 x 3 kernel is copied, and BLAS reads each row's where they lie.

Shapes: x (N, C, H, W), w (O, C, KH, KW), the result (N, O, *out).
"""

from __future__ import annotations

import math

import numpy as np

from . import blas, parallel

LEAST = 1 << 9  # places of the result from which the calls for each image and row of the kernel pay
DEEP = 32  # rows of the patches of a row of the kernel from which a product is long enough to leave the cache
PART = 1 << 15  # elements of the result that are computed together where it is not
PRODUCTS = 1 << 6  # of numbers, in the time of one element of a kernel without products


class Shifted:
    """One image, shifted for each tap of the kernel's rows; (KW, C, phases, rows of a phase, columns of the result).

    Rows that are a stride apart follow one another: they make up a phase.
    """

    def __init__(self, x, kernel, out, stride, before, dilation):
        (height, wide), (step, across) = kernel, stride
        c, rows, columns = x.shape[1:]
        reach = max(before[0] + rows, (out[0] - 1) * step + (height - 1) * dilation[0] + 1)
        self.cells = -(-reach // step) * out[1]  # of a phase
        self.room = np.zeros((wide, c, step, self.cells // out[1], out[1]), x.dtype)
        self.moves = []
        for t in range(wide):
            start = t * dilation[1] - before[1]
            first, last = _inside(start, across, columns, out[1])
            if first >= last:
                continue
            read = slice(first * across + start, (last - 1) * across + start + 1, across)
            for phase in range(step):
                above = max(0, -((phase - before[0]) // step))  # rows of the phase before the image
                given = slice(above * step + phase - before[0], rows, step)
                filled = slice(above, above + len(range(rows)[given]))
                target = self.room[t, :, phase, filled, first:last]
                self.moves.append((target, (slice(None), given, read)))
        lines = [divmod(r * dilation[0], step) for r in range(height)]
        # where the patches of each row of the kernel begin
        self.starts = [phase * self.cells + line * out[1] for line, phase in lines]
        self.width = step * self.cells  # from one row of patches to the next

    def fill(self, image) -> None:
        """Put an image there."""
        for target, read in self.moves:
            target[...] = image[read]


def _inside(start: int, step: int, size: int, many: int) -> tuple[int, int]:
    """Which of the places start, start + step... lie in an image of `size`: (the first, what follows the last)."""
    return max(0, -(start // step)), min(many, -((start - size) // step))


def convolve(x, w, result, stride, before, dilation) -> bool:
    """The convolution of x, placed `before` zeros from the start, with w, into `result` of any strides.

    False, and nothing done, where that is no gain or BLAS cannot be called.
    """
    out, kernel = result.shape[2:], w.shape[2:]
    length = math.prod(out)
    if w.ndim != 4 or kernel[0] == 1 or length < LEAST or not w.dtype == x.dtype == result.dtype:
        return False
    add = blas.adding(x.dtype)
    if add is None:
        return False
    matrices = np.ascontiguousarray(w.transpose(2, 0, 3, 1)).reshape(kernel[0], len(w), -1)
    depth = matrices.shape[2]
    part = length if depth >= DEEP else max(LEAST, PART // len(w))
    size, first_row, next_row = x.dtype.itemsize, blas.address(matrices), matrices[0].nbytes
    free: list[Shifted] = []  # each thread has its own

    def piece(i: int) -> None:
        try:
            shifted = free.pop()
        except IndexError:
            shifted = Shifted(x, kernel, out, stride, before, dilation)
        shifted.fill(x[i])
        image = result[i]
        whole = image if image.flags.c_contiguous else np.empty(image.shape, x.dtype)
        patches, target = blas.address(shifted.room), blas.address(whole)
        for start in range(0, length, part):
            many, kept, row = min(part, length - start), 0.0, first_row
            for run in shifted.starts:
                given = row, depth, patches + (run + start) * size, shifted.width
                add(len(w), many, depth, *given, kept, target + start * size, length)
                kept, row = 1.0, row + next_row
        if whole is not image:
            image[...] = whole
        free.append(shifted)

    work = result.size * depth * kernel[0] // PRODUCTS
    parallel.each([(i,) for i in range(len(x))], work if len(x) > 1 else 0, piece)
    return True
