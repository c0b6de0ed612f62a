"""unfold and fold: sliding blocks as columns (`kernels/im2col.cu`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...numpy.conv import out_size
from ..kernels import FLOATS, blocks_for, dense, family, instance, instances, launcher_of, words
from . import forward, vjp
from .embedding import WORDS
from .windows import layout

MODULE = family("im2col", instances("im2col", WORDS[1:]), instances("col2im", FLOATS))


def _windows(space: tuple, kernel: tuple, dilation: tuple, padding: tuple, stride: tuple) -> tuple:

    sizes = zip(space, kernel, stride, padding, dilation, strict=True)
    out = tuple(out_size(*one) for one in sizes)
    return out, layout(tuple(space), out, kernel, stride, padding, dilation)


def _launch(xp: Any, kernel: str, source: Any, out: Any, windows: Any) -> Any:
    if out.size:
        given = (dense(xp, source), out, windows, np.int64(out.size))
        launcher_of(xp).launch(MODULE, kernel, blocks_for(out.size), 256, given)
    return out


@forward("im2col")
def im2col(xp, self, *, kernel_size, dilation, padding, stride):
    out, windows = _windows(self.shape[2:], kernel_size, dilation, padding, stride)
    if self.dtype.kind not in "fVc" or windows is None:
        return NotImplemented
    n, c = self.shape[:2]
    columns = xp.empty((n, c * math.prod(kernel_size), math.prod(out)), self.dtype)
    return _launch(xp, instance("im2col", words(self.dtype)), self, columns, windows)


@forward("col2im")
def col2im(xp, self, *, output_size, kernel_size, dilation, padding, stride):
    _, windows = _windows(output_size, kernel_size, dilation, padding, stride)
    if self.dtype not in FLOATS or windows is None:
        return NotImplemented
    n, c = self.shape[0], self.shape[1] // math.prod(kernel_size)
    x = xp.empty((n, c, *output_size), self.dtype)
    return _launch(xp, instance("col2im", self.dtype), self, x, windows)


def _one(gradient: Any) -> Any:
    return gradient if gradient is NotImplemented else (gradient,)


@vjp("im2col")
def im2col_vjp(F, g, self_shape, kernel_size, dilation, padding, stride):
    how = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return _one(col2im(F.backend, g, output_size=tuple(self_shape[2:]), **how))


@vjp("col2im")
def col2im_vjp(F, g, kernel_size, dilation, padding, stride):
    how = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return _one(im2col(F.backend, g, **how))
