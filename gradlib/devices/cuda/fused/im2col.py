"""unfold and fold: sliding blocks as columns (`kernels/im2col.cu`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ....operators.nn.windows import out_sizes
from ..kernels import FLOATS, blocks_for, dense, family, words
from . import forward
from .embedding import WORDS
from .windows import layout

MODULE = family("im2col", im2col=product(WORDS[1:]), col2im=product(FLOATS))


def _windows(space: tuple, kernel: tuple, dilation: tuple, padding: tuple, stride: tuple) -> tuple:

    out = out_sizes(space, kernel, stride, padding, dilation)
    return out, layout(tuple(space), out, kernel, stride, padding, dilation)


def _launch(xp: Any, kernel: tuple, source: Any, out: Any, windows: Any) -> Any:
    if out.size:
        given = (dense(xp, source), out, windows, np.int64(out.size))
        MODULE.launch(xp, kernel, blocks_for(out.size), 256, *given)
    return out


@forward("im2col")
def im2col(xp, self, *, kernel_size, dilation, padding, stride):
    out, windows = _windows(self.shape[2:], kernel_size, dilation, padding, stride)
    if self.dtype.kind not in "fVc" or windows is None:
        return NotImplemented
    n, c = self.shape[:2]
    columns = xp.empty((n, c * math.prod(kernel_size), math.prod(out)), self.dtype)
    return _launch(xp, ("im2col", words(self.dtype)), self, columns, windows)


@forward("col2im")
def col2im(xp, self, *, output_size, kernel_size, dilation, padding, stride):
    _, windows = _windows(output_size, kernel_size, dilation, padding, stride)
    if self.dtype not in FLOATS or windows is None:
        return NotImplemented
    n, c = self.shape[0], self.shape[1] // math.prod(kernel_size)
    x = xp.empty((n, c, *output_size), self.dtype)
    return _launch(xp, ("col2im", self.dtype), self, x, windows)
