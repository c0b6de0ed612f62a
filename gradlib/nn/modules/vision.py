"""Layers that rearrange or resize images."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class PixelShuffle(Module):
    """Makes r^2 channels into one with r times the height and width: sub-pixel convolution.

    Element [c, h, w] of the result is [c r^2 + (h mod r) r + w mod r, h // r, w // r] of the input.

    Args:
        upscale_factor: r.

    Shape:
        [..., C r^2, H, W] -> [..., C, H r, W r].

    Raises:
        RuntimeError: at the call, if the channels are no multiple of r^2.

    Source: W. Shi et al., Real-time single image and video super-resolution, CVPR 2016.

    Example:
        >>> nn.PixelShuffle(2)(gradlib.arange(4.0).reshape(4, 1, 1)).tolist()
        [[[0.0, 1.0], [2.0, 3.0]]]
    """

    _shown = "upscale_factor={0.upscale_factor}"

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., C r^2, H, W] -> [..., C, H r, W r]."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """Makes r x r pixels of a channel into r^2 channels: the inverse of `PixelShuffle`.

    Args:
        downscale_factor: r.

    Shape:
        [..., C, H r, W r] -> [..., C r^2, H, W].

    Raises:
        RuntimeError: at the call, if height or width is no multiple of r.

    Example:
        >>> nn.PixelUnshuffle(2)(gradlib.arange(4.0).reshape(1, 2, 2)).flatten().tolist()
        [0.0, 1.0, 2.0, 3.0]
    """

    _shown = "downscale_factor={0.downscale_factor}"

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., C, H r, W r] -> [..., C r^2, H, W]."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """Splits the channels into groups and takes one of each group in turn.

    Args:
        groups: how many; must divide C.

    Shape:
        [N, C, *L] -> the same.

    Raises:
        RuntimeError: at the call, if C is no multiple of `groups`.

    Source: X. Zhang et al., ShuffleNet, CVPR 2018.

    Example:
        >>> x = gradlib.arange(4.0).reshape(1, 4, 1, 1)
        >>> nn.ChannelShuffle(2)(x).flatten().tolist()
        [0.0, 2.0, 1.0, 3.0]
    """

    _shown = "groups={0.groups}"

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> the same shape."""
        return F.channel_shuffle(input, self.groups)


class Upsample(Module):
    """Resizes signals, images and volumes to `size`, or by `scale_factor`.

    Args:
        size: of the output, one value or one per dimension.
        scale_factor: output size over input size, one value or one per dimension.
        mode: "nearest" (any), "linear" (signals), "bilinear" or "bicubic" (images), "trilinear" (volumes).
        align_corners: whether the centres of corner pixels stay at the corners, instead of their edges.
        recompute_scale_factor: use the ratio of the rounded sizes.

    Shape:
        [N, C, *L] -> [N, C, *L'], L' = size or floor(L * scale_factor).

    Raises:
        ValueError: at the call, if neither or both of size and scale_factor are given, or the number
            of sizes does not fit the input.

    Example:
        >>> nn.Upsample(scale_factor=2)(gradlib.tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 1.0, 2.0, 2.0]]]
        >>> nn.Upsample(size=3, mode="linear", align_corners=True)(gradlib.tensor([[[1.0, 2.0]]])).tolist()
        [[[1.0, 1.5, 2.0]]]
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(f) for f in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> [N, C, *new L]."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images with mode "nearest"; the name is deprecated in PyTorch.

    Args:
        size: (height, width) of the output, or one number for both.
        scale_factor: output size over input size.

    Shape:
        [N, C, H, W] -> [N, C, H', W'].

    Example:
        >>> nn.UpsamplingNearest2d(size=(1, 2))(gradlib.ones(1, 1, 1, 1)).tolist()
        [[[[1.0, 1.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with mode "bilinear" and aligned corners; deprecated in PyTorch.

    Args:
        size: (height, width) of the output, or one number for both.
        scale_factor: output size over input size.

    Shape:
        [N, C, H, W] -> [N, C, H', W'].

    Example:
        >>> nn.UpsamplingBilinear2d(size=(1, 3))(gradlib.tensor([[[[1.0, 2.0]]]])).tolist()
        [[[[1.0, 1.5, 2.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Fold(Module):
    """Adds up blocks where they lie in an image: the transpose of `Unfold`.

    Args:
        output_size: (H, W) of the result.
        kernel_size: of a block.
        dilation: step between the elements of a block.
        padding: zeros around the result that blocks may cover.
        stride: step between blocks.

    Shape:
        [N, C * prod(kernel_size), blocks] or without N -> [N, C, *output_size] or without N.

    Raises:
        RuntimeError: at the call, if the number of blocks or of their elements is not that of the settings.

    Example:
        >>> blocks = nn.Unfold(2)(gradlib.ones(1, 1, 2, 3))
        >>> nn.Fold((2, 3), 2)(blocks).tolist()
        [[[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]]
    """

    _shown = (
        "output_size={0.output_size}, kernel_size={0.kernel_size}, dilation={0.dilation}, "
        "padding={0.padding}, stride={0.stride}"
    )

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C * prod(kernel_size), blocks] -> [N, C, *output_size]."""
        return F.fold(
            input,
            self.output_size,
            self.kernel_size,
            self.dilation,
            self.padding,
            self.stride,
        )


class Unfold(Module):
    """Takes the sliding blocks of an image as columns: a convolution is a matrix product with them.

    Args:
        kernel_size: of a block.
        dilation: step between the elements of a block.
        padding: zeros added around the input.
        stride: step between blocks.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, C * prod(kernel_size), blocks] or without N.

    Raises:
        RuntimeError: at the call, if no block fits.

    Example:
        >>> nn.Unfold((1, 2))(gradlib.arange(3.0).reshape(1, 1, 3)).tolist()
        [[0.0, 1.0], [1.0, 2.0]]
    """

    _shown = (
        "kernel_size={0.kernel_size}, dilation={0.dilation}, padding={0.padding}, stride={0.stride}"
    )

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, H, W] -> [N, C * prod(kernel_size), blocks]."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
