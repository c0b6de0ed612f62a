"""Chains and products of small matrices as one call: what Python does between them takes longer than they do.

    sequence = Sequence([Slot(...), ...], [(64, 0, 1), ...], [Product(...), Apply(...)], otherwise)
    sequence(x, weight, out)

A sequence is run by the compiled kernel of `programs.py`. Products are the inner loop of ``np.matmul``, the same call
of BLAS that `dot` makes for such arrays: whether it gives the same bits is tried out for each combination of layouts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Several
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from . import chains, threads
from .chains import Chain

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape, strides in bytes


class Slot(NamedTuple):
    """An array that a sequence is called with: contiguous, or `repeated`: all its elements are one in memory."""

    dtype: np.dtype
    elements: int
    repeated: bool = False


class Product(NamedTuple):
    """``a.dot(b)``: the layouts of both and of the result, what they are made of, and their slots."""

    layouts: tuple[Layout, Layout, Layout]
    dtype: np.dtype
    slots: tuple[int, ...]


class Apply(NamedTuple):
    """A chain, and the slots of its arrays."""

    chain: Chain
    slots: tuple[int, ...]


class Sequence:
    """Steps that can be called as one.

    Args:
        given: the arrays that it is called with, which have the slots 0, 1...
        needs: of what it makes on its way, which has the next slots: bytes, the first step that has it and the last.
        steps: in their order.
        otherwise: is called in its place with arrays that are not as `given` says.
    """

    def __init__(
        self,
        given: Several[Slot],
        needs: Several[tuple[int, int, int]],
        steps: Several[Product | Apply],
        otherwise: Callable,
    ):
        programs = chains.kernel()
        self.given, self.steps, self.otherwise = list(given), list(steps), otherwise
        offsets, scratch = allocated(needs)
        words = [
            len(self.given) + len(offsets),
            len(self.given),
            len(self.steps),
            scratch,
            id(np.ndarray),
            0,
            0,
            0,
        ]
        for g in self.given:
            kind = programs.REPEATED if g.repeated else programs.DENSE
            words += [kind, g.dtype.itemsize, 0, g.elements, id(g.dtype)]
        for offset in offsets:
            words += [programs.SCRATCH, 1, offset, 0, 0]
        for step in self.steps:
            if isinstance(step, Apply):
                words += [programs.PROGRAM, 3 + len(step.slots), step.chain.address, *step.slots]
            else:
                found: Any = loop(step.dtype)
                words += [programs.PRODUCT, 20, *found, *_sizes(step.layouts), *step.slots]
        self.program = np.array(words, np.int64)
        self.address = self.program.ctypes.data
        self.run = programs.run_all

    def __call__(self, *arrays: np.ndarray) -> None:
        if self.run(self.address, id(arrays)):
            self.otherwise(*arrays)


def allocated(needs: Several[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Where what a sequence makes on its way lies, one after the other in the same place: offsets, and bytes of all."""
    free: list[tuple[int, int]] = []  # bytes, offset
    busy: list[tuple[int, int, int]] = []  # last step, bytes, offset
    offsets: dict[int, int] = {}
    total = 0
    for number, (size, first, last) in sorted(enumerate(needs), key=lambda x: x[1][1]):
        free += [(b, o) for end, b, o in busy if end < first]
        busy = [x for x in busy if x[0] >= first]
        size = -(-size // 64) * 64
        fits = [x for x in free if x[0] >= size]
        if fits:
            found = min(fits)
            free.remove(found)
        else:
            found = size, total
            total += size
        busy.append((last, *found))
        offsets[number] = found[1]
    return [offsets[k] for k in range(len(needs))], total


# -- products ----------------------------------------------------------------------------------------------------------


@cache
def loop(dtype: np.dtype) -> tuple[int, int] | None:
    """(address, data) of the loop of ``np.matmul`` for arrays of this kind; None where it has none."""
    return chains.listed(np.matmul, dtype.char * 3)


def _sizes(layouts: tuple[Layout, Layout, Layout]) -> list[int]:
    """What the loop is called with: one product, its sizes, and the strides of the matrices."""
    (a, a_steps), (b, b_steps), (_, out_steps) = layouts
    n, k = (1, *a)[-2:]
    m = b[1] if len(b) == 2 else 1
    # a vector is a row on the left, a column on the right
    left = a_steps if len(a) == 2 else (a[0] * a_steps[0], a_steps[0])
    right = b_steps if len(b) == 2 else (b_steps[0], b_steps[0])
    item = out_steps[-1] if out_steps else 0
    out = {(2, 2): out_steps, (1, 2): (m * item, item), (2, 1): (item, item)}[len(a), len(b)]
    return [1, n, k, m, 0, 0, 0, *left, *right, *out]


def fitting(a: Layout, b: Layout, dtype: np.dtype) -> bool:
    """Whether a product can be a step of a sequence: whether the loop gives what `dot` gives for such arrays."""
    return _same_bits(a, b, dtype, threads.count())


@cache
def _same_bits(a: Layout, b: Layout, dtype: np.dtype, blas: int) -> bool:
    """`fitting` with so many threads of BLAS."""
    if dtype.char not in "fd" or loop(dtype) is None or len(a[0]) + len(b[0]) < 3:
        return False
    some = np.random.Generator(np.random.PCG64(blas))
    for _ in range(2):
        x, y = _laid_out(some, *a, dtype), _laid_out(some, *b, dtype)
        expected = x.dot(y)
        out = np.empty(expected.shape, dtype)
        step = Product((a, b, (out.shape, out.strides)), dtype, (0, 1, 2))
        given = [Slot(dtype, z.size) for z in (x, y, out)]
        refused: list = []
        sequence = Sequence(given, (), [step], lambda *_, refused=refused: refused.append(True))
        sequence(*[z if z.flags.c_contiguous else z.T for z in (x, y, out)])
        if refused or out.tobytes() != expected.tobytes():
            return False
    return True


def _laid_out(some: Any, shape: tuple, strides: tuple, dtype: np.dtype) -> np.ndarray:
    """Random numbers in an array that is contiguous, or the transpose of one that is."""
    if len(shape) == 2 and strides != (shape[1] * dtype.itemsize, dtype.itemsize):
        return _laid_out(some, shape[::-1], strides[::-1], dtype).T
    return some.standard_normal(math.prod(shape)).astype(dtype).reshape(shape)
