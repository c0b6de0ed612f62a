"""Convolutions with a kernel of one element: products of matrices by cuBLAS, for all images in one call.

Nothing is moved for them: images [channels, positions] and the weight [outputs, channels] lie in memory as cuBLAS reads
them, and so do images with their channels last, which are one matrix [images * positions, channels].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import Module, dense, packs_for
from . import reduce


def _rows(a: Any) -> Any:
    """[images * positions, channels] on the memory of `a` [images, channels, *space]; None if it lies otherwise."""
    moved = a.transpose(0, *range(2, a.ndim), 1)
    return moved.reshape(-1, a.shape[1]) if moved.flags.c_contiguous else None


def _images(xp: Any, a: Any) -> Any:
    """[images, channels, positions]."""
    return dense(xp, a).reshape(*a.shape[:2], -1)


def product(
    xp: Any, module: Module, source: Any, weight: Any, bias: Any, back: bool, space: tuple
) -> Any:
    """The convolution of `source`, or with `back` the gradient of its input (and `bias` added).

    source: [images, channels, *space]; weight: [outputs, channels, 1...]. `module` has the kernel that adds a bias.
    """
    matrix = dense(xp, weight).reshape(weight.shape[:2])
    matrix = matrix.T if back else matrix
    rows, shape = _rows(source), (source.shape[0], matrix.shape[0], *space)
    if rows is None:
        flat = xp.convolution_product(matrix, _images(xp, source))
        out, inner = flat.reshape(shape), flat.shape[2]
    else:
        flat, inner = xp.convolution_product(rows, matrix.T), 1
        last = flat.reshape(shape[0], *space, shape[1])
        out = last.transpose(0, last.ndim - 1, *range(1, last.ndim - 1))
    add_bias(xp, module, flat, bias, inner)
    return out


def add_bias(xp: Any, module: Module, flat: Any, bias: Any, inner: int) -> None:
    """Add a bias, or None, to an array in memory: `inner` positions of a channel lie one after another."""
    if bias is not None:
        sizes = (np.int64(n) for n in (flat.size, bias.size, inner))
        blocks = packs_for(flat.size, flat.dtype)
        module.launch(xp, ("add_bias", flat.dtype), blocks, 256, flat, dense(xp, bias), *sizes)


def weight_gradient(xp: Any, x: Any, g: Any, shape: tuple) -> Any:
    """The gradient of the weight, of `shape`: the sum over images of g [outputs, positions] times x transposed."""
    rows, columns = _rows(g), _rows(x)
    if rows is not None and columns is not None:
        return xp.convolution_product(rows.T, columns).reshape(shape)
    g, x = _images(xp, g), _images(xp, x)
    images, parts = len(x), 4 * len(x) * math.prod(shape)
    if (
        images > 1 and parts > x.nbytes + g.nbytes
    ):  # small images: their products are more than they
        g, x = (xp.ascontiguousarray(a.swapaxes(0, 1)).reshape(1, a.shape[1], -1) for a in (g, x))
        images = 1
    if images == 1:
        return xp.convolution_product(g[0], x[0].T).reshape(shape)
    out = xp.empty(shape, x.dtype)
    partial = xp.convolution_product(g, x.swapaxes(1, 2), wide=True).reshape(images, -1)
    reduce.add_parts(xp, partial, out, np.float64(1))
    return out
