"""Convolutions and their gradients (`kernels/conv.cu`, and cuDNN)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from ....operators.nn.conv import _bias_grad
from ....operators.nn.windows import out_sizes
from ....tape.switches import switches
from .. import cudnn, precision
from ..kernels import F4, F8, FLOATS, HALVES, blocks_for, dense, family
from . import forward, one_by_one, paths, reduce, vjp
from .windows import layout

MODULE = family(
    "conv",
    conv_map=product(FLOATS),
    conv_weight=product(FLOATS),
    conv_depthwise=product(FLOATS),
    conv_depthwise_weight=product(FLOATS),
    add_bias=product(FLOATS),
)
THREADS, COLUMNS = 128, 128  # of a block, of its tile
ENOUGH_BLOCKS, LEAST = (
    512,
    512,
)  # blocks that fill a large GPU; positions that a part of a sum should have
FURTHEST = 1 << 30  # of three dimensions the first: beyond begins what is NOWHERE in conv.cu
MOST_BLOCKS = 65535  # of the second and third dimension of a grid


class _Sizes:
    """What a convolution reads: x (images, channels, space), weight (outputs, channels / groups, kernel)."""

    def __init__(self, images: int, weight_shape: tuple, space: tuple, out: tuple, *how: Any):
        self.how = stride, padding, dilation, self.groups = how
        self.images, self.kernel, self.stride = images, weight_shape[2:], stride
        self.outputs, self.channels = weight_shape[0] // self.groups, weight_shape[1]
        self.space, self.out = tuple(space), tuple(out)
        self.windows = layout(self.space, self.out, self.kernel, stride, padding, dilation)
        if len(space) == 3 and max(space[0], out[0], padding[0]) >= FURTHEST:
            self.windows = None
        self.pointwise = self.groups == 1 and math.prod((*self.kernel, *stride)) == 1
        self.pointwise = self.pointwise and not any(padding)
        self.depthwise = self.channels == 1 and self.groups > 1

    def shapes(self) -> cudnn.Shapes | None:
        """As cuDNN takes them; None if it does not."""
        channels, outputs = self.channels * self.groups, self.outputs * self.groups
        return cudnn.shapes(
            (self.images, channels, *self.space),
            (outputs, self.channels, *self.kernel),
            (self.images, outputs, *self.out),
            *self.how,
        )

    def numbers(self, *more: int) -> tuple:
        """Arguments of the kernels: images, groups, channels and outputs of a group."""
        given = (self.groups, self.channels, self.outputs, *more)
        return self.windows, np.int64(self.images), *(np.int32(n) for n in given)


def _alike(*arrays: Any) -> bool:
    """Whether arrays (or None) have elements, and one dtype that kernels take."""
    dtype = arrays[0].dtype
    return dtype in FLOATS and all(a is None or (a.dtype == dtype and a.size) for a in arrays)


def _case(xp: Any, sizes: _Sizes, *arrays: Any) -> paths.Convolution:
    """What decides which way of the table `paths` is taken."""
    alike, dtype = _alike(*arrays), arrays[0].dtype
    tf32 = dtype == F4 and precision.convolutions_take_tf32()
    there = alike and switches.cudnn and getattr(xp, "cudnn", None)
    return paths.Convolution(
        fits=alike and sizes.windows is not None,
        alike=alike,
        pointwise=sizes.pointwise,
        depthwise=sizes.depthwise,
        tf32=tf32,
        half=dtype in HALVES,
        cudnn=bool(there and there.lib and sizes.shapes()),
    )


def _by_cudnn(xp: Any, kind: str, sizes: _Sizes, first: Any, second: Any, bias: Any = None) -> Any:
    """A call of cuDNN, and `bias` added; NotImplemented if it does not have it."""
    made = xp.cudnn.run(kind, sizes.shapes(), first, second)
    if made is NotImplemented:
        return NotImplemented
    memory, last = made
    one_by_one.add_bias(xp, MODULE, memory, bias, 1 if last else math.prod(memory.shape[2:]))
    n = memory.ndim
    return memory.transpose(0, n - 1, *range(1, n - 1)) if last else memory


def _tiles(rows: int, columns: int, dtype: Any) -> tuple[int, int]:
    return blocks_for(columns, COLUMNS), blocks_for(rows, 32 if dtype == F8 else 64)


def _map(xp: Any, sizes: _Sizes, source: Any, weight: Any, bias: Any, back: bool) -> Any:
    """The convolution of `source`, or with `back` the gradient of its input (and `bias` added)."""
    space = sizes.space if back else sizes.out
    case = _case(xp, sizes, source, weight, bias)
    way = paths.way("convolution", case)
    if way == "cudnn":
        kind, first, second = (
            (cudnn.DATA, weight, source) if back else (cudnn.FORWARD, source, weight)
        )
        out = _by_cudnn(xp, kind, sizes, first, second, bias)
        if out is not NotImplemented:
            return out
        way = paths.way("convolution", case._replace(cudnn=False))
    if way == "product":
        return one_by_one.product(xp, MODULE, source, weight, bias, back, space)
    rows = sizes.channels if back else sizes.outputs
    shape = (sizes.images, rows * sizes.groups, *space)
    if way == "formula" or 0 in shape:
        return NotImplemented
    out = xp.empty(shape, source.dtype)
    given = (dense(xp, source), dense(xp, weight), dense(xp, bias), out)
    if way == "depthwise":
        numbers = (np.int32(sizes.groups), np.int32(sizes.outputs), np.int32(back))
        given = (*given, sizes.windows, *numbers, np.int64(out.size))
        MODULE.launch(xp, ("conv_depthwise", source.dtype), blocks_for(out.size), 256, *given)
        return out
    steps = sizes.stride if back else (1,) * len(space)
    columns = sizes.images * math.prod(blocks_for(n, s) for n, s in zip(space, steps, strict=True))
    grid = (*_tiles(rows, columns, source.dtype), sizes.groups * math.prod(steps))
    if max(grid[1:]) > MOST_BLOCKS:
        return NotImplemented
    MODULE.launch(xp, ("conv_map", source.dtype), grid, THREADS, *given, *sizes.numbers(back))
    return out


def _weight(xp: Any, sizes: _Sizes, x: Any, g: Any) -> Any:
    """The gradient of the weight."""
    case = _case(xp, sizes, x, g)
    way = paths.way("convolution", case)
    if way == "cudnn":
        out = _by_cudnn(xp, cudnn.FILTER, sizes, x, g)
        if out is not NotImplemented:
            return out
        way = paths.way("convolution", case._replace(cudnn=False))
    if way == "product":
        shape = (g.shape[1], x.shape[1], *sizes.kernel)
        return one_by_one.weight_gradient(xp, x, g, shape)
    if way == "formula":
        return NotImplemented
    rows, columns = sizes.outputs, sizes.channels * math.prod(sizes.kernel)
    out = xp.empty((rows * sizes.groups, sizes.channels, *sizes.kernel), x.dtype)
    given = (dense(xp, x), dense(xp, g))
    if not out.size:
        return out
    if way == "depthwise":
        kernel, grid = ("conv_depthwise_weight", x.dtype), (rows * sizes.groups, columns)
        numbers = (np.int64(sizes.images), np.int32(sizes.groups), np.int32(rows))
        if columns > MOST_BLOCKS:
            return NotImplemented
        MODULE.launch(xp, kernel, grid, 256, *given, out, sizes.windows, *numbers)
        return out
    tiles = _tiles(rows, columns, x.dtype)
    length = sizes.images * math.prod(sizes.out)
    parts = max(1, min(ENOUGH_BLOCKS // (math.prod(tiles) * sizes.groups), length // LEAST))
    if max(tiles[1], sizes.groups * parts) > MOST_BLOCKS:
        return NotImplemented
    wide = F4 if x.dtype in HALVES else x.dtype
    partial = xp.empty((parts, out.size), wide) if parts > 1 else None
    kernel, grid = ("conv_weight", x.dtype), (*tiles, sizes.groups * parts)
    MODULE.launch(xp, kernel, grid, THREADS, *given, partial, out, *sizes.numbers(parts))
    if parts > 1:
        reduce.add_parts(xp, partial, out, np.float64(1))
    return out


# -- overlays ----------------------------------------------------------------------------------------------------------


@forward("convolution")
def convolution(xp, input, weight, bias=None, *, stride, padding, dilation, groups):
    space = input.shape[2:]
    out = out_sizes(space, weight.shape[2:], stride, padding, dilation)
    how = (stride, padding, dilation, groups)
    sizes = _Sizes(input.shape[0], weight.shape, space, out, *how)
    return _map(xp, sizes, input, weight, bias, False)


@forward("conv_transpose")
def conv_transpose(xp, input, weight, bias=None, *, space, stride, padding, dilation, groups):
    how = (stride, padding, dilation, groups)
    sizes = _Sizes(input.shape[0], weight.shape, space, input.shape[2:], *how)
    return _map(xp, sizes, input, weight, bias, True)


@forward("conv_grad_input")
def conv_grad_input(xp, grad, weight, *, space, stride, padding, dilation, groups):
    how = {"space": space, "stride": stride, "padding": padding, "dilation": dilation}
    return conv_transpose(xp, grad, weight, None, groups=groups, **how)


@forward("conv_grad_weight")
def conv_grad_weight(xp, input, grad, *, kernel_size, stride, padding, dilation, groups):
    shape = (grad.shape[1], input.shape[1] // groups, *kernel_size)
    how = (stride, padding, dilation, groups)
    sizes = _Sizes(input.shape[0], shape, input.shape[2:], grad.shape[2:], *how)
    return _weight(xp, sizes, input, grad)


def _gradients(F: Any, g: Any, needs: tuple, source: Any, weight: Any) -> Any:
    """`source` and `weight` make the first two gradients; that of the bias, if there is one, is a sum."""

    made = [make() if need else None for make, need in zip((source, weight), needs, strict=False)]
    if any(m is NotImplemented for m in made):
        return NotImplemented
    return *made, *(_bias_grad(F, g) if need else None for need in needs[2:])


@vjp("convolution")
def convolution_vjp(
    F, g, input, weight, input_shape, weight_shape, stride, padding, dilation, groups, needs
):
    xp, how = F.backend, (stride, padding, dilation, groups)
    sizes = _Sizes(g.shape[0], tuple(weight_shape), input_shape[2:], g.shape[2:], *how)
    return _gradients(
        F,
        g,
        needs,
        lambda: _map(xp, sizes, g, weight, None, True),
        lambda: _weight(xp, sizes, input, g),
    )


@vjp("conv_transpose")
def conv_transpose_vjp(
    F, g, input, weight, input_shape, weight_shape, stride, padding, dilation, groups, needs
):
    xp, how = F.backend, (stride, padding, dilation, groups)
    sizes = _Sizes(g.shape[0], tuple(weight_shape), g.shape[2:], input_shape[2:], *how)
    return _gradients(
        F,
        g,
        needs,
        lambda: _map(xp, sizes, g, weight, None, False),
        lambda: _weight(xp, sizes, g, input),
    )
