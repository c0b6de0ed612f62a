"""Depthwise convolution of float32 and its gradients: each channel of an image is computed in the first-level cache.

Shapes: x (N, C, H, W), w (C, 1, *K), g and results (N, C, *out). A channel is put between zeros in its phases, the
places that are a multiple of the stride, those one further, and so on: `room`, (phases, cells of a phase). Each tap of
the kernel then reads one contiguous run of it, with no regard to the ends of rows; what is computed across them is cut
off, or is a product with 0.
"""

from __future__ import annotations

import math

import numpy as np

from ....operators.kinds import F4
from ....operators.nn.windows import out_sizes
from .. import before, parallel
from ..blocks import row_blocks
from . import FEW, jit

f4 = np.float32


@jit()
def _pieces(height, width, stride, padding, pitch):
    """For each row of a channel and each phase of its columns: (phase, first cell, first column, columns, row)."""
    (sh, sw), (ph, pw) = stride, padding
    found = np.empty((height * sw, 5), np.int64)
    for i in range(height):
        for q in range(sw):
            r, first = i + ph, (q - pw) % sw
            found[i * sw + q, 0] = r % sh * sw + q
            found[i * sw + q, 1] = r // sh * pitch + (first + pw) // sw
            found[i * sw + q, 2] = first
            found[i * sw + q, 3] = max(0, (width - first + sw - 1) // sw)
            found[i * sw + q, 4] = i
    return found


@jit()
def _taps(kh, kw, stride, dilation, pitch):
    """For each tap of the kernel: (phase, first cell) of what it reads."""
    (sh, sw), (dh, dw) = stride, dilation
    found = np.empty((kh * kw, 2), np.int64)
    for ky in range(kh):
        for kx in range(kw):
            y, x = ky * dh, kx * dw
            found[ky * kw + kx, 0] = y % sh * sw + x % sw
            found[ky * kw + kx, 1] = y // sh * pitch + x // sw
    return found


@jit()
def _put_pairs(x, room, pieces):
    """`_put` for steps of 2 and rows of pairs, both phases at once: there are instructions for that."""
    width = x.shape[1]
    for k in range(0, len(pieces), 2):
        low, high = (k, k + 1) if pieces[k, 2] == 0 else (k + 1, k)
        even = room[pieces[low, 0], pieces[low, 1] : pieces[low, 1] + width // 2]
        odd = room[pieces[high, 0], pieces[high, 1] : pieces[high, 1] + width // 2]
        row = x[pieces[k, 4]]
        for j in range(width // 2):
            even[j] = row[2 * j]
            odd[j] = row[2 * j + 1]


@jit()
def _put(x, room, pieces, step):
    """A channel (H, W) in its phases."""
    if step == 2 and x.shape[1] % 2 == 0:
        _put_pairs(x, room, pieces)
        return
    for k in range(len(pieces)):
        phase, start, first, count, i = pieces[k]
        cells, row = room[phase, start : start + count], x[i, first:]
        if step == 1:
            for j in range(count):
                cells[j] = row[j]
        else:
            for j in range(count):
                cells[j] = row[j * step]


@jit()
def _take_pairs(room, pieces, x):
    width = x.shape[1]
    for k in range(0, len(pieces), 2):
        low, high = (k, k + 1) if pieces[k, 2] == 0 else (k + 1, k)
        even = room[pieces[low, 0], pieces[low, 1] : pieces[low, 1] + width // 2]
        odd = room[pieces[high, 0], pieces[high, 1] : pieces[high, 1] + width // 2]
        row = x[pieces[k, 4]]
        for j in range(width // 2):
            row[2 * j] = even[j]
            row[2 * j + 1] = odd[j]


@jit()
def _take(room, pieces, x, step):
    """The inverse of `_put`."""
    if step == 2 and x.shape[1] % 2 == 0:
        _take_pairs(room, pieces, x)
        return
    for k in range(len(pieces)):
        phase, start, first, count, i = pieces[k]
        cells, row = room[phase, start : start + count], x[i, first:]
        if step == 1:
            for j in range(count):
                row[j] = cells[j]
        else:
            for j in range(count):
                row[j * step] = cells[j]


@jit()
def _spread(g, wide, pitch):
    """Rows of g with room between them."""
    height, width = g.shape
    for h in range(height):
        row, cells = g[h], wide[h * pitch : h * pitch + width]
        for j in range(width):
            cells[j] = row[j]


@jit()
def _forward(x, w, out, stride, padding, dilation, size, low, high):
    """Of the channels from `low` to `high`."""
    height, width = out.shape[2:]
    pitch = size[1]
    taps = _taps(w.shape[2], w.shape[3], stride, dilation, pitch)
    pieces = _pieces(x.shape[2], x.shape[3], stride, padding, pitch)
    room = np.zeros((stride[0] * stride[1], size[0] * pitch), f4)
    length = (height - 1) * pitch + width
    sums = np.zeros(height * pitch, f4)
    for i in range(x.shape[0]):
        for c in range(low, high):
            _put(x[i, c], room, pieces, stride[1])
            weights = w[c, 0].reshape(-1)
            for j in range(length):
                sums[j] = f4(0)
            t = 0
            while t + 3 <= len(taps):  # three at once, so that sums are read and written less
                a = room[taps[t, 0], taps[t, 1] : taps[t, 1] + length]
                b = room[taps[t + 1, 0], taps[t + 1, 1] : taps[t + 1, 1] + length]
                d = room[taps[t + 2, 0], taps[t + 2, 1] : taps[t + 2, 1] + length]
                u, v, s = weights[t], weights[t + 1], weights[t + 2]
                for j in range(length):
                    sums[j] += u * a[j] + v * b[j] + s * d[j]
                t += 3
            while t < len(taps):
                a, u = room[taps[t, 0], taps[t, 1] : taps[t, 1] + length], weights[t]
                for j in range(length):
                    sums[j] += u * a[j]
                t += 1
            for h in range(height):
                row, target = sums[h * pitch : h * pitch + width], out[i, c, h]
                for j in range(width):
                    target[j] = row[j]


@jit("reassoc")
def _grad_weight(x, g, dw, stride, padding, dilation, size, low, high):
    """Added to dw (C, taps), in float64 from image to image."""
    height, width = g.shape[2:]
    pitch = size[1]
    taps = _taps(size[2], size[3], stride, dilation, pitch)
    pieces = _pieces(x.shape[2], x.shape[3], stride, padding, pitch)
    room = np.zeros((stride[0] * stride[1], size[0] * pitch), f4)
    length = (height - 1) * pitch + width
    wide = np.zeros(height * pitch, f4)
    for i in range(x.shape[0]):
        for c in range(low, high):
            _put(x[i, c], room, pieces, stride[1])
            _spread(g[i, c], wide, pitch)
            t = 0
            while t + 3 <= len(taps):
                a = room[taps[t, 0], taps[t, 1] : taps[t, 1] + length]
                b = room[taps[t + 1, 0], taps[t + 1, 1] : taps[t + 1, 1] + length]
                d = room[taps[t + 2, 0], taps[t + 2, 1] : taps[t + 2, 1] + length]
                u, v, s = f4(0), f4(0), f4(0)
                for j in range(length):
                    u += wide[j] * a[j]
                    v += wide[j] * b[j]
                    s += wide[j] * d[j]
                dw[c, t] += u
                dw[c, t + 1] += v
                dw[c, t + 2] += s
                t += 3
            while t < len(taps):
                a, u = room[taps[t, 0], taps[t, 1] : taps[t, 1] + length], f4(0)
                for j in range(length):
                    u += wide[j] * a[j]
                dw[c, t] += u
                t += 1


@jit()
def _grad_input(g, w, dx, stride, padding, dilation, size, low, high):
    """Of the channels from `low` to `high`."""
    height, width = g.shape[2:]
    pitch, step = size[1], stride[1]
    taps = _taps(w.shape[2], w.shape[3], stride, dilation, pitch)
    pieces = _pieces(dx.shape[2], dx.shape[3], stride, padding, pitch)
    room = np.empty((stride[0] * step, size[0] * pitch), f4)
    length = (height - 1) * pitch + width
    wide = np.zeros(height * pitch, f4)
    for i in range(g.shape[0]):
        for c in range(low, high):
            room[:] = f4(0)
            _spread(g[i, c], wide, pitch)
            weights = w[c, 0].reshape(-1)
            for t in range(len(taps)):
                a, u = room[taps[t, 0], taps[t, 1] : taps[t, 1] + length], weights[t]
                for j in range(length):
                    a[j] += u * wide[j]
            _take(room, pieces, dx[i, c], step)


# -- overlays ----------------------------------------------------------------------------------------------------------


def _suits(x, outputs: int, width: int, groups: int, *others) -> bool:
    """Whether these are the images, and other arrays, of a depthwise convolution in one or two dimensions."""
    return (
        groups == x.shape[1] == outputs
        and width == 1
        and x.ndim in (3, 4)
        and x.size > FEW
        and all([a.dtype is F4 and a.size and a.flags.c_contiguous for a in (x, *others)])
    )


def _flat(x):
    """In two dimensions."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], 1, x.shape[2])


def _pairs(space, out, kernel, stride, padding, dilation) -> tuple:
    """(stride, padding, dilation, sizes of a phase and of the kernel) in two dimensions."""
    if len(space) == 1:
        space, out, kernel, stride, dilation = [(1, *a) for a in (space, out, kernel, stride, dilation)]  # fmt: skip
        padding = (0, *padding)
    size = [
        -(-max(m + 2 * p, (o - 1) * s + (k - 1) * d + 1) // s)
        for m, o, k, s, p, d in zip(space, out, kernel, stride, padding, dilation, strict=True)
    ]
    return tuple(stride), tuple(padding), tuple(dilation), (*size, *kernel)


def _by_channels(kernel, x, w, out, how) -> None:
    """The kernel on blocks of channels of each image."""
    channels = row_blocks(x.shape[1], x.shape[2] * x.shape[3])
    spans = [(i, c, d) for i in range(len(x)) for c, d in channels]

    def block(i: int, c: int, d: int) -> None:
        kernel(x[i : i + 1], w, out[i : i + 1], *how, c, d)

    parallel.each(spans, x.size, block)


@before("convolution")
def convolution(xp, input, weight, bias=None, *, stride, padding, dilation, groups):
    if not _suits(input, weight.shape[0], weight.shape[1], groups, weight):
        return NotImplemented
    kernel, space = weight.shape[2:], input.shape[2:]
    sizes = out_sizes(space, kernel, stride, padding, dilation)
    if min(sizes) < 1 or (bias is not None and bias.dtype is not F4):
        return NotImplemented
    out = np.empty((*input.shape[:2], *sizes), F4)
    how = _pairs(space, sizes, kernel, stride, padding, dilation)
    _by_channels(_forward, _flat(input), _flat(weight), _flat(out), how)
    if bias is not None:
        out += bias.reshape((-1,) + (1,) * len(space))
    return out


@before("conv_grad_input")
def conv_grad_input(xp, grad, weight, *, space, stride, padding, dilation, groups):
    if not _suits(grad, weight.shape[0], weight.shape[1], groups, weight) or not min(space):
        return NotImplemented
    if not np.isfinite(weight).all():  # 0 beyond the ends times infinity is no 0
        return NotImplemented
    kernel = weight.shape[2:]
    out = np.empty((*grad.shape[:2], *space), F4)
    rest = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    if all(s == 1 for s in stride) and min(rest) >= 0:  # a convolution with the kernel turned round
        turned = np.ascontiguousarray(np.flip(weight, tuple(range(2, weight.ndim))))
        how = _pairs(grad.shape[2:], space, kernel, stride, rest, dilation)
        _by_channels(_forward, _flat(grad), _flat(turned), _flat(out), how)
        return out
    how = _pairs(space, grad.shape[2:], kernel, stride, padding, dilation)
    _by_channels(_grad_input, _flat(grad), _flat(weight), _flat(out), how)
    return out


@before("conv_grad_weight")
def conv_grad_weight(xp, input, grad, *, kernel_size, stride, padding, dilation, groups):
    if not _suits(input, grad.shape[1], input.shape[1] // groups, groups, grad):
        return NotImplemented
    x, g = _flat(input), _flat(grad)
    total = np.zeros((x.shape[1], math.prod(kernel_size)))
    how = _pairs(input.shape[2:], grad.shape[2:], kernel_size, stride, padding, dilation)

    def block(c: int, d: int) -> None:
        _grad_weight(x, g, total, *how, c, d)

    parallel.each(row_blocks(x.shape[1], x.size // x.shape[1]), x.size, block)
    if not np.isfinite(total).all():  # what lies beyond the ends of rows may have been infinite
        return NotImplemented
    return total.astype(F4).reshape(-1, 1, *kernel_size)
