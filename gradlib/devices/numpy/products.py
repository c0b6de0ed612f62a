"""Products of many float32 and float64 numbers: of pairs of neighbours, of pairs of those, and so on.

NumPy multiplies one number after the other, and waits for each product. float32 is multiplied in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...operators.kinds import F4, F8
from . import forward, parallel, vjp
from .blocks import spans
from .sums import LARGE

SMALLEST, LARGEST = 1e-290, 1e290  # products between these have all digits of double precision
FEW = 128  # factors that are multiplied one after the other where their number is odd
BLOCK = 1 << 16  # elements of a block of rows, in double precision
EXACT = 3  # levels of products of single-precision numbers, none of them 0, that are between those


def _serves(x: Any) -> bool:
    return x.size >= LARGE and (x.dtype is F4 or x.dtype is F8) and x.flags.c_contiguous


def _ordinary(x) -> bool:
    size = np.absolute(x)
    return size.min() > SMALLEST and size.max() < LARGEST


def _halved(x):
    """The products of neighbours in the rows of a contiguous array; an odd one goes to the first."""
    n = x.shape[1]
    if n % 2:
        out = x[:, : n - 1 : 2] * x[:, 1::2]
        out[:, 0] *= x[:, n - 1]
        return out
    flat = x.reshape(-1)  # at once, whatever the length of rows
    return (flat[::2] * flat[1::2]).reshape(len(x), n // 2)


def _goes_on(n: int) -> bool:
    return n > FEW or (n > 1 and not n % 2)


def _products(x):
    while _goes_on(x.shape[1]):
        x = _halved(x)
    return np.multiply.reduce(x, 1)


def _products_if_precise(x, level: int):
    """The same; None unless partial products, from those of `level` on, have all their digits."""
    while _goes_on(x.shape[1]):
        x, level = _halved(x), level - 1
        if level <= 0 and not _ordinary(x):
            return None
    if x.shape[1] > 1:  # in their order, as `reduce` multiplies them
        x = np.multiply.accumulate(x, 1)
    return x[:, -1] if _ordinary(x) else None


def _of_rows(x):
    """The product of each row of a contiguous 2-D array."""
    wide = np.empty(len(x))

    def block(i: int, j: int) -> None:
        wide[i:j] = _products(x[i:j].astype(F8, copy=False))

    parallel.each(_blocks(x), x.size, block)
    out, size = wide.astype(x.dtype, copy=False), np.absolute(wide)
    others = ~((size > SMALLEST) & (size < LARGEST))
    if others.any():  # one factor after the other, they may stay in range
        out[others] = np.multiply.reduce(x[others], 1)
    return out


def _blocks(x) -> list[tuple[int, int]]:
    return spans(len(x), max(1, BLOCK // x.shape[1]))


def _gradient_of_rows(g, x):
    """For each element of a 2-D array the product of the others in its row, times that row's `g`.

    It is the quotient of the product of all by the element; None where that could lose digits, or something is 0.
    """
    out, precise = np.empty(x.shape, x.dtype), []
    narrow = x.dtype is F4

    def block(i: int, j: int) -> None:
        wide = x[i:j].astype(F8, copy=False)
        whole = _products_if_precise(wide, EXACT if narrow else 1)
        precise.append(whole is not None)
        if whole is None:
            return
        if narrow:  # whose products with each other are in the range of double precision
            wide = np.divide((whole * g[i:j])[:, None], wide, wide)
            out[i:j] = wide
        else:
            np.divide(whole[:, None], wide, out[i:j])
            out[i:j] *= g[i:j, None]

    parallel.each(_blocks(x), x.size, block)
    return out if all(precise) else None


def _last(x: Any, dim: tuple) -> bool:
    return _serves(x) and len(dim) == 1 and dim[0] == x.ndim - 1 and x.shape[-1] > 1


@forward("prod")
def prod(xp: Any, self: Any, *, dim: tuple, keepdim: bool):
    if not _last(self, dim):
        return NotImplemented
    shape = self.shape
    out = _of_rows(self.reshape(-1, shape[-1]))
    return out.reshape((*shape[:-1], 1) if keepdim else shape[:-1])


@forward("prod_all")
def prod_all(xp: Any, self: Any):
    return _of_rows(self.reshape(1, -1)).reshape(()) if _serves(self) else NotImplemented


@vjp("prod")
def prod_vjp(F: Any, g: Any, self: Any, dim: tuple, keepdim: bool):
    if not _last(self, dim) or g.dtype is not self.dtype:
        return NotImplemented
    found = _gradient_of_rows(g.reshape(-1), self.reshape(-1, self.shape[-1]))
    if found is None:
        found = F.prod_gradient(F.keep_dims(g, self.shape, dim, keepdim), self, dim[0])
    return (found.reshape(self.shape),)


@vjp("prod_all")
def prod_all_vjp(F: Any, g: Any, self: Any):
    if not _serves(self) or g.dtype is not self.dtype:
        return NotImplemented
    flat = self.reshape(-1)
    found = _gradient_of_rows(g.reshape(-1), flat[None])
    if found is None:
        found = F.prod_gradient(g.reshape(1), flat, 0)
    return (found.reshape(self.shape),)
