"""Convolution on raw arrays: patches of a few images as the columns of a matrix, times the weights by BLAS.

Shapes: x (N, C, *space), w (O, C / groups, *K), g and the result (N, O, *out). The matrix of patches is
(C * prod(K), images * prod(out)); it is made for so few images at a time that it stays in cache.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product

from ...operators.nn.conv import CONVOLUTIONS, convolutions_by
from ...operators.nn.windows import inside, out_sizes
from . import conv_groups, conv_rows, forward

COLUMNS = 1 << 10  # columns of the matrix of patches to aim for
CELLS = 1 << 19  # elements of it at most
PART = 1 << 15  # elements of a part of it, for sums over the places of one large image
CHANNELS = 8  # rows of a product from which BLAS is about as quick as with more


def images_at_a_time(n: int, rows: int, columns: int) -> int:
    """How many images share one matrix of patches."""
    return max(1, min(n, COLUMNS // max(columns, 1) // 2 * 2, CELLS // max(rows * columns, 1)))


def _reach(space, kernel, out, stride, padding, dilation) -> list[int]:
    """The size of images with `padding` zeros before them, up to the last place that a window reads."""
    return [
        max(p + m, (o - 1) * s + (k - 1) * d + 1)
        for m, k, o, s, p, d in zip(space, kernel, out, stride, padding, dilation, strict=True)
    ]


@lru_cache(256)
def _shifts(space, out, kernel, stride, padding, dilation) -> list[tuple]:
    """For each tap of the last dimension that reads there: (tap, places of the shifted images, columns of x)."""
    inner = tuple([slice(p, p + m) for p, m in zip(padding, space[:-1])])
    found = []
    for t in range(kernel[-1]):
        start, step = t * dilation[-1] - padding[-1], stride[-1]
        first = max(0, -(start // step))
        last = min(out[-1], -((start - space[-1]) // step))
        if first < last:
            columns = slice(first * step + start, (last - 1) * step + start + 1, step)
            found.append((t, (slice(None), slice(None), *inner, slice(first, last)), columns))
    return found


class Patches:
    """Matrices of patches of blocks of images of `x`.

    In two steps, so that what is copied in one go is long: for each tap of the last dimension the whole images,
    shifted and between zeros; of those, for each tap of the others, a run over several rows.
    """

    def __init__(self, xp, x, kernel, out, stride, padding, dilation, block: int):
        self.x, self.lead = x, len(kernel) - 1
        c, space = x.shape[1], x.shape[2:]
        reach = _reach(space, kernel, out, stride, padding, dilation)[:-1]
        shifted = self.shifted = xp.zeros((c, kernel[-1], block, *reach, out[-1]), x.dtype)
        self.moves = [
            (shifted[:, t][target], columns)
            for t, target, columns in _shifts(space, out, kernel, stride, padding, dilation)
        ]
        self.rows, self.columns = c * math.prod(kernel), math.prod(out)
        if not self.lead:
            return
        self.buffer = xp.empty(self.rows * self.columns * block, x.dtype)
        channel, tap, image, *others, row = shifted.strides
        shape, strides = [*out], [*[m * s for m, s in zip(others, stride)], row]
        if stride[-2] == 1:  # rows follow one another
            shape[-2:], strides[-2:] = [out[-2] * out[-1]], [row]
        taps = [m * d for m, d in zip(others, dilation)]
        self.runs = xp.as_strided(
            shifted, (c, *kernel, block, *shape), (channel, *taps, tap, image, *strides)
        )

    def of(self, i: int, j: int):
        """The matrix for images i to j: (C * prod(K), (j - i) * prod(out))."""
        n = j - i
        self._shift(i, j)
        if not self.lead:
            return self.shifted[:, :, :n].reshape(self.rows, -1)
        runs = self.runs[(slice(None),) * (self.lead + 2) + (slice(0, n),)]
        columns = self.buffer[: self.rows * self.columns * n]
        columns.reshape(runs.shape)[...] = runs
        return columns.reshape(self.rows, self.columns * n)

    def parts(self, i: int, j: int):
        """The same in parts that stay in the cache: (columns of the matrix, these columns of it)."""
        many = self.runs.shape[self.lead + 3] if self.lead else 1
        line = self.columns // many
        step = max(1, (max(COLUMNS // 2, PART // self.rows) // 64 * 64 + 16) // line)
        if j - i > 1 or 2 * step > many:
            yield slice(None), self.of(i, j)
            return
        self._shift(i, j)
        for first in range(0, many, step):
            runs = self.runs[(slice(None),) * (self.lead + 2) + (0, slice(first, first + step))]
            columns = self.buffer[: runs.size]
            columns.reshape(runs.shape)[...] = runs
            start = first * line
            yield slice(start, start + step * line), columns.reshape(self.rows, -1)

    def _shift(self, i: int, j: int) -> None:
        source = self.x[i:j].swapaxes(0, 1)
        for target, columns in self.moves:
            target[:, : j - i] = source[..., columns]


class RowPatches:
    """The same with one row for each position and channels fastest: (images * prod(out), prod(K) * C).

    Quicker where the images are small: what is copied in one go is a row of the kernel with all channels.
    """

    def __init__(self, xp, x, kernel, out, stride, padding, dilation, block: int):
        self.xp, self.x, self.kernel, self.out = xp, x, kernel, out
        self.steps = (stride, dilation)
        c, space = x.shape[1], x.shape[2:]
        size = _reach(space, kernel, out, stride, padding, dilation)
        self.padded = xp.zeros((block, *size, c), x.dtype)
        self.inside = self.padded[(*inside(space, padding), slice(None))]
        self.buffer = xp.empty((block, math.prod(out), c * math.prod(kernel)), x.dtype)

    def of(self, i: int, j: int):
        """The matrix for images i to j."""
        n, c = j - i, self.x.shape[1]
        last = tuple(range(2, self.x.ndim))
        self.inside[:n] = self.x[i:j].transpose(0, *last, 1)
        (stride, dilation), moves = self.steps, self.padded.strides
        inner = moves[1:-1]
        view = self.xp.as_strided(
            self.padded[:n],
            (n, *self.out, *self.kernel, c),
            (
                moves[0], *[m * s for m, s in zip(inner, stride, strict=True)],
                *[m * d for m, d in zip(inner, dilation, strict=True)], moves[-1],
            ),
        )  # fmt: skip
        rows = self.buffer[:n]
        rows.reshape(view.shape)[...] = view
        return rows.reshape(-1, rows.shape[2])


def small_images(c: int, kernel, out) -> bool:
    """Whether rows of patches are the better matrix."""
    return out[-1] <= 16 and c * kernel[-1] >= 2 * out[-1]


def is_pointwise(kernel, stride, padding) -> bool:
    """Whether a convolution is one product for each position."""
    return all(k == 1 for k in kernel) and all(s == 1 for s in stride) and not any(padding)


def _forward(xp, x, w, bias, stride, padding, dilation, groups):
    """The convolution (cross-correlation) of x with w."""
    n, kernel, o = x.shape[0], w.shape[2:], w.shape[0]
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    result = xp.empty((n, o, *out), x.dtype)
    length = math.prod(out)
    if not result.size or not w.size:
        result[...] = 0
    elif is_pointwise(kernel, stride, padding) and groups == 1:
        result = xp.matmul(w.reshape(o, -1), x.reshape(n, -1, length)).reshape(result.shape)
    elif groups > 1:
        conv_groups.forward(xp, x, w, result, stride, padding, dilation, groups)
    else:
        _convolve(xp, x, w, result, stride, padding, dilation)
    if bias is not None:
        result += bias.reshape((-1,) + (1,) * len(out))
    return result


def _convolve(xp, x, w, result, stride, before, dilation) -> None:
    """The convolution of x, placed `before` zeros from the start, with w, into `result` of any strides."""
    n, o, out, kernel = x.shape[0], w.shape[0], result.shape[2:], w.shape[2:]
    rows, length = w[0].size, math.prod(out)
    block = images_at_a_time(n, rows, length)
    given = xp, x, kernel, out, stride, before, dilation, block
    if small_images(x.shape[1], kernel, out):
        matrix = xp.ascontiguousarray(w.transpose(*range(2, w.ndim), 1, 0)).reshape(-1, o)
        patches = RowPatches(*given)
        for i in range(0, n, block):
            j = min(i + block, n)
            part = patches.of(i, j).dot(matrix).reshape(j - i, *out, o)
            result[i:j] = part.transpose(0, part.ndim - 1, *range(1, part.ndim - 1))
        return
    if conv_rows.convolve(x, w, result, stride, before, dilation):
        return
    matrix, patches = w.reshape(o, -1), Patches(*given)
    flat = result.reshape(n, o, length) if result.flags.c_contiguous else None
    for i in range(0, n, block):
        j = min(i + block, n)
        columns = patches.of(i, j)
        if flat is not None and j - i == 1:
            xp.dot(matrix, columns, out=flat[i])
        else:
            result[i:j] = xp.dot(matrix, columns).reshape(o, j - i, *out).swapaxes(0, 1)


def _channels_first(g, i: int, j: int):
    """Images i to j of g (N, O, *out) as (O, (j - i) * prod(out))."""
    o = g.shape[1]
    return g[i].reshape(o, -1) if j - i == 1 else g[i:j].swapaxes(0, 1).reshape(o, -1)


def _grad_weight(xp, x, g, kernel, stride, padding, dilation, groups):
    """The gradient of w."""
    n, c, o, out = x.shape[0], x.shape[1], g.shape[1], g.shape[2:]
    if g.size and groups > 1 and c:
        how = (kernel, stride, padding, dilation, groups)
        total = conv_groups.grad_weight(xp, x, g, *how)
        if xp.isfinite(total).all():  # else what lies across the ends, times 0, may have been inf
            return _weight(xp, total, kernel)
    if g.size and groups == 1 and small_images(c, kernel, out):
        return _grad_weight_rows(xp, x, g, kernel, stride, padding, dilation)
    # transposed: BLAS multiplies (rows, L) by (O, L)^T faster than the other way round
    total = xp.zeros((groups, c // groups * math.prod(kernel), o // groups), x.dtype)
    if g.size and total.size:
        rows, length = c * math.prod(kernel), math.prod(out)
        plain = is_pointwise(kernel, stride, padding)
        block = images_at_a_time(n, rows, length)
        patches = None if plain else Patches(xp, x, kernel, out, stride, padding, dilation, block)
        for i in range(0, n, block):
            j = min(i + block, n)
            gradient = _channels_first(g, i, j)
            whole = slice(None)
            parts = [(whole, _channels_first(x, i, j))] if patches is None else patches.parts(i, j)
            for places, columns in parts:
                if groups == 1:
                    total[0] += xp.matmul(columns, gradient[:, places].T)
                else:
                    shape = (groups, -1, columns.shape[1])
                    some = gradient[:, places].reshape(shape).swapaxes(1, 2)
                    total += xp.matmul(columns.reshape(shape), some)
    return _weight(xp, total, kernel)


def _weight(xp, total, kernel):
    """The weight (O, C / groups, *K) of its transpose (groups, C / groups * taps, O / groups)."""
    o, width = total.shape[0] * total.shape[2], total.shape[1] // math.prod(kernel)
    return xp.ascontiguousarray(total.swapaxes(1, 2)).reshape(o, width, *kernel)


def _grad_weight_rows(xp, x, g, kernel, stride, padding, dilation):
    n, c, o, out = x.shape[0], x.shape[1], g.shape[1], g.shape[2:]
    total = xp.zeros((o, c * math.prod(kernel)), x.dtype)
    block = images_at_a_time(n, total.shape[1], math.prod(out))
    patches = RowPatches(xp, x, kernel, out, stride, padding, dilation, block)
    for i in range(0, n, block):
        j = min(i + block, n)
        total += _channels_first(g, i, j).dot(patches.of(i, j))
    total = total.reshape(o, *kernel, c)
    return xp.ascontiguousarray(total.transpose(0, total.ndim - 1, *range(1, total.ndim - 1)))


def _grad_input(xp, g, w, space, stride, padding, dilation, groups):
    """The gradient of x, whose spatial size is `space`; also the transposed convolution."""
    n, o, kernel = g.shape[0], g.shape[1], w.shape[2:]
    c = w.shape[1] * groups
    result = xp.empty((n, c, *space), g.dtype)
    if not result.size or not g.size or not w.size:
        result[...] = 0
    elif is_pointwise(kernel, stride, padding) and groups == 1:
        result = xp.matmul(w.reshape(o, c).T, g.reshape(n, o, -1)).reshape(result.shape)
    elif _by_phase(w, result, stride, groups) and xp.isfinite(w).all():
        # finite, since 0 beyond the ends times an infinite weight is no 0
        _grad_input_by_phase(xp, g, w, result, stride, padding, dilation, groups)
    else:
        _scatter(xp, g, w, result, stride, padding, dilation, groups)
    return result


def _by_phase(w, result, stride, groups: int) -> bool:
    """Whether the gradient of the input is sooner computed as convolutions than added up tap by tap."""
    if groups > 1:
        return True
    several = any([k > s for k, s in zip(w.shape[2:], stride)])  # taps that read one place
    return several and result.shape[1] >= CHANNELS


def _turned(w, groups: int):
    """Weights (O, C / groups, *K) as (C, O / groups, *K), turned round in each dimension."""
    kernel = w.shape[2:]
    parts = w.reshape(groups, w.shape[0] // groups, w.shape[1], *kernel).swapaxes(1, 2)
    parts = parts[(..., *[slice(None, None, -1)] * len(kernel))]
    return parts.reshape(-1, parts.shape[2], *kernel)


def _grad_input_by_phase(xp, g, w, result, stride, padding, dilation, groups) -> None:
    """The places of the input of one phase are a convolution of g with the taps that read there, turned round."""
    lots = zip(g.shape[2:], result.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    for dims in product(*[_phases(*lot) for lot in lots]):
        places, taps, apart, given, before = zip(*dims, strict=True)
        target, kernel, source = result[(..., *places)], w[(..., *taps)], g[(..., *given)]
        if not kernel.size or not source.size:
            target[...] = 0
        elif target.size:
            how = ((1,) * len(dims), before, apart)
            turned = _turned(kernel, groups)
            if groups == 1:
                _convolve(xp, source, turned, target, *how)
            else:
                conv_groups.forward(xp, source, turned, target, *how, groups)


def _phases(length: int, size: int, k: int, s: int, p: int, d: int) -> list[tuple]:
    """Along one dimension, for each phase of an input of `size`: its places, the taps that read there, how far apart
    they read, and what of the `length` of the gradient counts, after how many zeros.

    Place q of the phase r is q * s + r - p of the input; tap t reads from the place t * d.
    """
    period, found = s // math.gcd(s, d), []
    for r in range(s):
        first = max(0, -((r - p) // s))
        start = first * s + r - p
        hits = [t for t in range(min(k, period)) if t * d % s == r]
        taps = slice(hits[0], k, period) if hits else slice(0, 0)
        many, apart = len(range(k)[taps]), period * d // s
        before = (hits[0] * d // s if hits else 0) + apart * (many - 1) - first
        given = slice(max(0, -before), length)
        found.append((slice(start, size, s), taps, apart, given, max(0, before)))
    return found


def _scatter(xp, g, w, result, stride, padding, dilation, groups) -> None:
    """Products of weights and gradients for each tap of the kernel, added where the tap reads the input.

    With stride 1 the gradient is laid out with the row length of the padded input: each tap is then one contiguous
    addition, shifted by a constant, and what the surplus columns add is zero.
    """
    n, o, out, kernel = g.shape[0], g.shape[1], g.shape[2:], w.shape[2:]
    c, space = result.shape[1], result.shape[2:]
    need = tuple(
        (m - 1) * s + (k - 1) * d + 1
        for m, s, k, d in zip(out, stride, kernel, dilation, strict=True)
    )
    size = tuple(max(s + 2 * p, m) for s, p, m in zip(space, padding, need, strict=True))
    steps = [math.prod(size[i + 1 :]) for i in range(len(size))]
    shifts = [
        sum(t * d * s for t, d, s in zip(tap, dilation, steps, strict=True))
        for tap in product(*map(range, kernel))
    ]
    # 0 times an infinite weight is no 0
    wide = all(s == 1 for s in stride) and math.prod(size[1:]) <= 2 * math.prod(out[1:])
    wide = wide and xp.isfinite(w).all()
    shape = (out[0], *size[1:]) if wide else out
    length, taps = math.prod(shape), math.prod(kernel)
    # (groups, taps * C / groups, O / groups)
    matrix = (
        w.reshape(groups, o // groups, c // groups, taps)
        .transpose(0, 3, 2, 1)
        .reshape(groups, -1, o // groups)
    )
    block = images_at_a_time(n, taps * c, length)
    total = xp.empty(
        (groups, c // groups, block, math.prod(size) + (max(shifts) if wide else 0)), g.dtype
    )
    spread = xp.zeros((o, block, *shape), g.dtype) if wide else None
    for i in range(0, n, block):
        j = min(i + block, n)
        m = j - i
        if spread is None:
            source = _channels_first(g, i, j)
        else:
            spread[(slice(None), slice(0, m), slice(None), *[slice(0, k) for k in out[1:]])] = g[
                i:j
            ].swapaxes(0, 1)
            source = spread[:, :m].reshape(o, -1)
        if groups == 1:
            parts = xp.dot(matrix[0], source)
        else:
            parts = xp.matmul(matrix, source.reshape(groups, o // groups, -1))
        parts = parts.reshape(groups, taps, c // groups, m, *((length,) if wide else out))
        here = total[:, :, :m]
        here[...] = 0
        if wide:
            for t, shift in enumerate(shifts):
                here[..., shift : shift + length] += parts[:, t]
        else:
            _add_taps(here.reshape(*here.shape[:3], *size), parts, kernel, out, stride, dilation)
        image = here[..., : math.prod(size)].reshape(c, m, *size)
        result[i:j] = image[inside(space, padding)].swapaxes(0, 1)


def _add_taps(target, parts, kernel, out, stride, dilation) -> None:
    for t, tap in enumerate(product(*map(range, kernel))):
        window = tuple(
            slice(k * d, k * d + (m - 1) * s + 1, s)
            for k, d, m, s in zip(tap, dilation, out, stride, strict=True)
        )
        target[(slice(None), slice(None), slice(None), *window)] += parts[:, t]


# -- overlays ----------------------------------------------------------------------------------------------------------


for _op, _kernel in zip(
    CONVOLUTIONS, convolutions_by(_forward, _grad_input, _grad_weight), strict=True
):
    forward(_op.name)(_kernel)
