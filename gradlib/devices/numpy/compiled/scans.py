"""Running sums and products of float32 rows, kept in double precision.

Each number waits for the one before it, so several rows are run through at once.
"""

from __future__ import annotations

import numpy as np

from ....operators.kinds import F4
from ....operators.reduce.scan import LARGEST, SMALLEST, cumprod_gradient
from .. import before, parallel, scan
from ..blocks import row_blocks
from . import FEW, jit

f4, f8 = np.float32, np.float64
ROWS = 8  # fewer rows are left to NumPy


@jit()
def _sums(x, out, back):
    """Running sums of rows, from their ends if `back`."""
    rows, n = x.shape
    whole = rows - rows % 8
    for i in range(0, whole, 8):
        a = b = c = d = e = f = g = h = f8(0)
        for k in range(n):
            j = n - 1 - k if back else k
            a += x[i, j]
            b += x[i + 1, j]
            c += x[i + 2, j]
            d += x[i + 3, j]
            e += x[i + 4, j]
            f += x[i + 5, j]
            g += x[i + 6, j]
            h += x[i + 7, j]
            out[i, j] = a
            out[i + 1, j] = b
            out[i + 2, j] = c
            out[i + 3, j] = d
            out[i + 4, j] = e
            out[i + 5, j] = f
            out[i + 6, j] = g
            out[i + 7, j] = h
    for i in range(whole, rows):
        a = f8(0)
        for k in range(n):
            j = n - 1 - k if back else k
            a += x[i, j]
            out[i, j] = a


@jit()
def _products(x, out, back):
    """Running products of rows, from their ends if `back`."""
    rows, n = x.shape
    whole = rows - rows % 8
    for i in range(0, whole, 8):
        a = b = c = d = e = f = g = h = f8(1)
        for k in range(n):
            j = n - 1 - k if back else k
            a *= x[i, j]
            b *= x[i + 1, j]
            c *= x[i + 2, j]
            d *= x[i + 3, j]
            e *= x[i + 4, j]
            f *= x[i + 5, j]
            g *= x[i + 6, j]
            h *= x[i + 7, j]
            out[i, j] = a
            out[i + 1, j] = b
            out[i + 2, j] = c
            out[i + 3, j] = d
            out[i + 4, j] = e
            out[i + 5, j] = f
            out[i + 6, j] = g
            out[i + 7, j] = h
    for i in range(whole, rows):
        a = f8(1)
        for k in range(n):
            j = n - 1 - k if back else k
            a *= x[i, j]
            out[i, j] = a


def _forwards(x, into):
    """The two as rows of contiguous arrays, and whether they run from their ends; None where they are none."""
    back = x.ndim > 0 and x.strides[-1] < 0
    if back:
        x, into = x[..., ::-1], None if into is None else into[..., ::-1]
    out = np.empty(x.shape, F4) if into is None else into
    if not (x.flags.c_contiguous and out.flags.c_contiguous and out.dtype is F4):
        return None
    n = x.shape[-1]
    return x.reshape(-1, n), out.reshape(-1, n), out, back


def _accumulate(ufunc: str, x, into):
    """The running values along the last dimension of float32, as `scan.accumulate`; None: not for these."""
    kernel = {"add": _sums, "multiply": _products}.get(ufunc)
    if kernel is None or x.dtype is not F4 or x.size <= FEW or x.size < ROWS * x.shape[-1]:
        return None
    found = _forwards(x, into)
    if found is None:
        return None
    rows, targets, out, back = found
    parallel.each(
        row_blocks(*rows.shape), x.size, lambda i, j: kernel(rows[i:j], targets[i:j], back)
    )
    if into is not None:
        return into
    return out[..., ::-1] if back else out


scan.rows_by(_accumulate)


# -- the gradient of cumprod -------------------------------------------------------------------------------------------


@jit()
def _share(g, x, products, sums):
    """Of a few rows, with room for two numbers for each of theirs; whether no product is too extreme for it."""
    _products(x, products, False)
    rows, n = x.shape
    sure = True
    for i in range(rows):
        for j in range(n):
            size = abs(products[i, j])
            sure &= (size > SMALLEST) & (size < LARGEST)
            products[i, j] *= g[i, j]
    _sums(products, sums, True)
    return sure


@jit()
def _cumprod_grad(g, x, out):
    """The sums of g times the products to the end, divided by x; false if some product is too extreme for it."""
    rows, n = x.shape
    products, sums = np.empty((8, n)), np.empty((8, n))
    for i in range(0, rows, 8):
        high = min(i + 8, rows)
        if not _share(g[i:high], x[i:high], products[: high - i], sums[: high - i]):
            return False
        for k in range(i, high):
            for j in range(n):
                out[k, j] = sums[k - i, j] / x[k, j]
    return True


@before("cumprod", "vjp")
def cumprod_vjp(F, g, self, dim):
    if (
        dim != self.ndim - 1 or self.size <= FEW
        or g.dtype is not F4 or self.dtype is not F4 or not self.flags.c_contiguous
    ):  # fmt: skip
        return NotImplemented
    n = self.shape[-1]
    above, x = np.ascontiguousarray(g).reshape(-1, n), self.reshape(-1, n)
    out = np.empty(x.shape, F4)
    sure = [True]

    def block(i: int, j: int) -> None:
        if not _cumprod_grad(above[i:j], x[i:j], out[i:j]):
            sure[0] = False

    parallel.each(row_blocks(*x.shape), x.size, block)
    if not sure[0]:
        return (cumprod_gradient(F, g, self, dim),)
    return (out.reshape(self.shape),)
