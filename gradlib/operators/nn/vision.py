"""Image operations: unfold and fold, pixel and channel shuffles."""

from __future__ import annotations

import math

from ...op.declare import declare
from ...op.expose import function
from ..kinds import refuse
from .conv import ntuple
from .windows import around, inside, out_sizes, taps, zero_padded

# -- unfold and fold ---------------------------------------------------------------------------------------------------


def _unfold(xp, self, *, kernel_size, dilation, padding, stride):
    """(N, C, H, W) to (N, C * prod(kernel), positions)."""
    refuse("im2col_out_cpu", self, "iu")
    n, c = self.shape[:2]
    out = out_sizes(self.shape[2:], kernel_size, stride, padding, dilation)
    source = zero_padded(xp, self, padding)
    moves = source.strides
    view = xp.as_strided(
        source,
        (n, c, *kernel_size, *out),
        (
            *moves[:2], *[m * d for m, d in zip(moves[2:], dilation, strict=True)],
            *[m * s for m, s in zip(moves[2:], stride, strict=True)],
        ),
    )  # fmt: skip
    return view.copy().reshape(n, c * math.prod(kernel_size), math.prod(out))


def _fold(xp, self, *, output_size, kernel_size, dilation, padding, stride):
    """The transpose of `_unfold`: columns added where they came from."""
    refuse("col2im_out_cpu", self, "iu")
    n, k = self.shape[0], math.prod(kernel_size)
    c, out = self.shape[1] // k, out_sizes(output_size, kernel_size, stride, padding, dilation)
    parts = self.reshape(n, c, k, *out)
    total = xp.zeros((n, c, *around(output_size, padding)), self.dtype)
    for i, tap in enumerate(taps(kernel_size, out, stride, dilation)):
        total[tap] += parts[:, :, i]
    return total[inside(output_size, padding)].copy()


im2col_op = declare(
    "im2col",
    _unfold,
    jvp="linear",
    complex=True,
    self=lambda F, g, self_shape, kernel_size, dilation, padding, stride: F.col2im(
        g, tuple(self_shape[2:]), kernel_size, dilation, padding, stride
    ),
    samples=lambda t: [
        (t(2, 3, 4, 5), (2, 3), (1, 1), (1, 0), (2, 1)),
        (t(1, 2, 5, 5), (2, 2), (2, 1), (0, 1), (1, 2)),
    ],
    node="Im2ColBackward0",
    batch="images",
)
col2im_op = declare(
    "col2im",
    _fold,
    jvp="linear",
    complex=True,
    node="Col2ImBackward0",
    self=lambda F, g, kernel_size, dilation, padding, stride: F.im2col(
        g, kernel_size, dilation, padding, stride
    ),
    samples=lambda t: [
        (t(2, 8, 9), (4, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
        (t(1, 4, 6), (3, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
    ],
    batch="images",
)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding blocks of images as columns.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a block, an int or two.
        dilation: the distance of the elements of a block.
        padding: zeros on both sides.
        stride: how far the block moves.

    Returns:
        (N, C * KH * KW, number of blocks).

    Raises:
        RuntimeError: another number of dimensions, or no place for a block.

    Example:
        >>> F.unfold(gradlib.arange(6.0).reshape(1, 1, 2, 3), 2)
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """
    if input.dim() not in (3, 4) or 0 in input.shape[input.dim() - 3 :]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            "dimensions for input, but got: "
            f"{list(input.shape)}"
        )
    how = _pairs(kernel_size, dilation, padding, stride)
    alone = input.dim() == 3
    x = input.unsqueeze(0) if alone else input
    kernel, dilation, padding, stride = how
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    if min(out) < 1:
        raise RuntimeError(
            f"Given input with spatial size ({', '.join(map(str, x.shape[2:]))}), "
            f"kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, calculated shape of the array of sliding blocks as "
            f"({', '.join(map(str, out))}), but its components must be at least one."
        )
    out = im2col_op.call(x, *how)
    return out.squeeze(0) if alone else out


def _pairs(*values) -> tuple:
    return tuple(ntuple(v, 2, "argument") for v in values)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns put back to images, overlapping elements summed: the gradient of ``unfold``.

    Args:
        input: (N, C * KH * KW, number of blocks), or without N.
        output_size: the size of an image, an int or two.
        kernel_size, dilation, padding, stride: as of ``unfold``.

    Returns:
        (N, C, *output_size).

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> F.fold(gradlib.ones(1, 4, 2), (2, 3), 2)
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """
    output_size, *how = _pairs(output_size, kernel_size, dilation, padding, stride)
    if input.dim() not in (2, 3) or 0 in input.shape[input.dim() - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            "non-zero dimensions for input, but "
            f"got: {list(input.shape)}"
        )
    alone = input.dim() == 2
    x = input.unsqueeze(0) if alone else input
    kernel, dilation, padding, stride = how
    if x.shape[1] % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    blocks = out_sizes(output_size, kernel, stride, padding, dilation)
    if x.shape[2] != math.prod(blocks):
        raise RuntimeError(
            f"Given output_size={output_size}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, "
            "expected size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {blocks[0]} * {blocks[1]} = "
            f"{math.prod(blocks)}, but got input.size(2)={x.shape[2]}."
        )
    out = col2im_op.call(x, output_size, kernel, dilation, padding, stride)
    return out.squeeze(0) if alone else out


# -- shuffles ----------------------------------------------------------------------------------------------------------


def _pixel_shuffle(xp, self, *, upscale_factor):
    r, (c, h, w) = upscale_factor, self.shape[-3:]
    lead = self.shape[:-3]
    k = len(lead)
    x = self.reshape(*lead, c // (r * r), r, r, h, w)
    moved = x.transpose(*range(k), k, k + 3, k + 1, k + 4, k + 2).copy()
    return moved.reshape(*lead, c // (r * r), h * r, w * r)


def _pixel_unshuffle(xp, self, *, downscale_factor):
    r, (c, h, w) = downscale_factor, self.shape[-3:]
    lead = self.shape[:-3]
    k = len(lead)
    x = self.reshape(*lead, c, h // r, r, w // r, r)
    moved = x.transpose(*range(k), k, k + 2, k + 4, k + 1, k + 3).copy()
    return moved.reshape(*lead, c * r * r, h // r, w // r)


pixel_shuffle_op = declare(
    "pixel_shuffle", _pixel_shuffle, jvp="linear", complex=True, channels_last="self",
    self=lambda F, g, upscale_factor: F.pixel_unshuffle(g, upscale_factor),
    samples=lambda t: [(t(2, 8, 2, 3), 2), (t(9, 1, 2), 3)],
    batch="leading",
)  # fmt: skip
pixel_unshuffle_op = declare(
    "pixel_unshuffle", _pixel_unshuffle, jvp="linear", complex=True, channels_last="self",
    self=lambda F, g, downscale_factor: F.pixel_shuffle(g, downscale_factor),
    samples=lambda t: [(t(2, 2, 4, 6), 2), (t(1, 3, 6), 3)],
    batch="leading",
)  # fmt: skip
channel_shuffle_op = declare(
    "channel_shuffle", lambda xp, self, *, groups: self.reshape(
        self.shape[0], groups, self.shape[1] // groups, *self.shape[2:]).swapaxes(1, 2).copy().reshape(self.shape),
    self=lambda F, g, groups: F.channel_shuffle(g, max(g.shape[1] // groups, 1)), jvp="linear", complex=True,
    channels_last="self",
    samples=lambda t: [(t(2, 6, 2), 3), (t(1, 4, 2, 2), 2)],
    batch="planes",
)  # fmt: skip


@function("pixel_shuffle")
def pixel_shuffle(input, upscale_factor):
    """Channels spread over places: images that are larger by a factor with fewer channels.

    Args:
        input: (..., C * r * r, H, W).
        upscale_factor: r.

    Returns:
        (..., C, H * r, W * r).

    Raises:
        RuntimeError: fewer than three dimensions, or channels that do not divide so.

    Example:
        >>> F.pixel_shuffle(gradlib.arange(4).reshape(4, 1, 1), 2)
        tensor([[[0, 1],
                 [2, 3]]])
    """
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if upscale_factor <= 0:
        raise RuntimeError(
            f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}"
        )
    c = input.shape[-3]
    if c % (upscale_factor * upscale_factor):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            "of upscale_factor, but "
            f"input.size(-3)={c} is not divisible by {upscale_factor**2}"
        )
    return pixel_shuffle_op.call(input, upscale_factor)


@function("pixel_unshuffle")
def pixel_unshuffle(input, downscale_factor):
    """Places gathered into channels: the inverse of ``pixel_shuffle``.

    Args:
        input: (..., C, H * r, W * r).
        downscale_factor: r.

    Returns:
        (..., C * r * r, H, W).

    Raises:
        RuntimeError: fewer than three dimensions, or sizes that do not divide so.

    Example:
        >>> F.pixel_unshuffle(gradlib.arange(4).reshape(1, 2, 2), 2).flatten()
        tensor([0, 1, 2, 3])
    """
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if downscale_factor <= 0:
        raise RuntimeError(
            f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}"
        )
    for name, size in (("height", input.shape[-2]), ("width", input.shape[-1])):
        if size % downscale_factor:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({-2 if name == 'height' else -1})={size} is not divisible by {downscale_factor}"
            )
    return pixel_unshuffle_op.call(input, downscale_factor)


@function("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(input, groups):
    """Channels, which are in groups, taken in turn from each group.

    Args:
        input: (N, C, ...).
        groups: how many, which divide C.

    Returns:
        A tensor of the same shape.

    Raises:
        RuntimeError: fewer than three dimensions, or channels that do not divide so.

    Example:
        >>> F.channel_shuffle(gradlib.arange(4).reshape(1, 4, 1), 2).flatten()
        tensor([0, 2, 1, 3])
    """
    if input.dim() < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups."
        )
    return channel_shuffle_op.call(input, groups)
