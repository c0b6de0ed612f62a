"""Layers that rearrange or resize images."""

from __future__ import annotations

from typing import Any

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.tape.tensor import Tensor

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
    """[..., C r^2, H, W] -> [..., C, H r, W r]: channels become pixels.

    Source: W. Shi et al., Real-time single image and video super-resolution, CVPR 2016.

    Example:
        >>> tuple(nn.PixelShuffle(3)(gradlib.randn(1, 9, 4, 4)).shape)
        (1, 1, 12, 12)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., C r^2, H, W] -> [..., C, H r, W r]."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[..., C, H r, W r] -> [..., C r^2, H, W]: the inverse of `PixelShuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., C, H r, W r] -> [..., C r^2, H, W]."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Splits the channels into groups and takes one of each group in turn.

    Source: X. Zhang et al., ShuffleNet, CVPR 2018.

    Example:
        >>> x = gradlib.arange(4.0).reshape(1, 4, 1, 1)
        >>> nn.ChannelShuffle(2)(x).flatten().tolist()
        [0.0, 2.0, 1.0, 3.0]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Upsample(Module):
    """Resizes [N, C, *L] to `size`, or by `scale_factor`.

    Args:
        size: of the output, one value or one per dimension.
        scale_factor: output size over input size, one value or one per dimension.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: whether corner pixels keep their values.
        recompute_scale_factor: use the ratio of the rounded sizes.

    Example:
        >>> tuple(nn.Upsample(scale_factor=2)(gradlib.randn(1, 1, 2, 3)).shape)
        (1, 1, 4, 6)
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
    """`Upsample` of images with mode "nearest"."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with mode "bilinear" and aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Fold(Module):
    """Adds up blocks [N, C * prod(kernel_size), blocks] where they lie in [N, C, *output_size].

    Args:
        output_size: (H, W) of the result.
        kernel_size: of a block.
        dilation: step between the elements of a block.
        padding: zeros around the result that blocks may cover.
        stride: step between blocks.

    Example:
        >>> tuple(nn.Fold((4, 5), (2, 2))(gradlib.randn(1, 3 * 2 * 2, 12)).shape)
        (1, 3, 4, 5)
    """

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

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Takes the sliding blocks of [N, C, H, W]: [N, C * prod(kernel_size), blocks].

    Args:
        kernel_size: of a block.
        dilation: step between the elements of a block.
        padding: zeros added around the input.
        stride: step between blocks.

    Example:
        >>> tuple(nn.Unfold((2, 3))(gradlib.randn(2, 5, 3, 4)).shape)
        (2, 30, 4)
    """

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

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
