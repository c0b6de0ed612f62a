"""Pooling layers."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from . import adaptive_pooling
from .adaptive_pooling import *  # noqa: F403
from .module import Module
from .utils import _pair, _single, _triple

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]
__all__ += adaptive_pooling.__all__


class _MaxPoolNd(Module):
    """Settings that all max poolings share."""

    _function: str
    _shown = (
        "kernel_size={0.kernel_size}, stride={0.stride}, padding={0.padding}, "
        "dilation={0.dilation}, ceil_mode={0.ceil_mode}"
    )

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """input: [N, C, *L] or [C, *L] -> the same form; with indices when they are asked for.

        L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1, rounded down,
        or up with ceil_mode.
        """
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of a signal.

    Args:
        kernel_size: length of the window.
        stride: step between windows; kernel_size by default.
        padding: minus infinity added on both sides; at most half the kernel.
        dilation: step between the elements of a window.
        return_indices: also return where the largest elements are, for `MaxUnpool1d`.
        ceil_mode: keep a last window that is not full.

    Shape:
        [N, C, L] or [C, L] -> [N, C, L'] or [C, L'], L' = (L + 2 padding - dilation (kernel_size - 1)
        - 1) / stride + 1, rounded down, or up with ceil_mode; with indices a pair of these, the
        indices int64 positions in L.

    Raises:
        RuntimeError: at the call, if the padding is more than half a kernel, or no window fits.

    Example:
        >>> nn.MaxPool1d(2)(gradlib.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
        [[3.0, 2.0]]
    """

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of an image; arguments and errors as in `MaxPool1d`.

    kernel_size, stride, padding and dilation are one number, or one for each of H and W.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, C, H', W'] or [C, H', W'], each as L' in `MaxPool1d`;
        indices are positions in an image flattened to H * W.

    Example:
        >>> tuple(nn.MaxPool2d(3, stride=2)(gradlib.randn(20, 16, 50, 32)).shape)
        (20, 16, 24, 15)
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of a volume; arguments and errors as in `MaxPool1d`.

    kernel_size, stride, padding and dilation are one number, or one for each of D, H and W.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form with D', H', W', each as L' in `MaxPool1d`;
        indices are positions in a volume flattened to D * H * W.

    Example:
        >>> tuple(nn.MaxPool3d(2)(gradlib.randn(1, 1, 4, 4, 4)).shape)
        (1, 1, 2, 2, 2)
    """

    _function = "max_pool3d"


class _MaxUnpoolNd(Module):
    """Settings that all max unpoolings share."""

    _function: str
    _each: Any
    _shown = "kernel_size={0.kernel_size}, stride={0.stride}, padding={0.padding}"

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = self._each(kernel_size)
        self.stride = self._each(stride if stride is not None else kernel_size)
        self.padding = self._each(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """input and indices: results of the max pooling -> what it was applied to, zeros else."""
        return getattr(F, self._function)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts the results of `MaxPool1d` back where its indices say; zeros elsewhere.

    Args:
        kernel_size: that of the pooling.
        stride: that of the pooling; kernel_size by default.
        padding: that of the pooling.

    Shape:
        input and indices [N, C, L] or [C, L] -> the same form with
        (L - 1) * stride - 2 padding + kernel_size, or with the `output_size` given to the call.

    Raises:
        RuntimeError: at the call, if an index lies outside of the output.
        ValueError: at the call, if no pooling of that `output_size` gives L.

    Example:
        >>> pooled, where = nn.MaxPool1d(2, return_indices=True)(gradlib.tensor([[1.0, 3.0, 2.0, 0.0]]))
        >>> nn.MaxUnpool1d(2)(pooled, where).tolist()
        [[0.0, 3.0, 2.0, 0.0]]
    """

    _function = "max_unpool1d"
    _each = staticmethod(_single)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts the results of `MaxPool2d` back where its indices say; zeros elsewhere.

    Arguments and errors as in `MaxUnpool1d`; each is one number, or one for each of H and W.

    Shape:
        input and indices [N, C, H, W] or [C, H, W] -> the same form, H and W as L in `MaxUnpool1d`.

    Example:
        >>> pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
        >>> unpool(*pool(gradlib.arange(4.0).reshape(1, 2, 2))).tolist()
        [[[0.0, 0.0], [0.0, 3.0]]]
    """

    _function = "max_unpool2d"
    _each = staticmethod(_pair)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts the results of `MaxPool3d` back where its indices say; zeros elsewhere.

    Arguments and errors as in `MaxUnpool1d`; each is one number, or one for each of D, H and W.

    Shape:
        input and indices [N, C, D, H, W] or [C, D, H, W] -> the same form, sizes as in `MaxUnpool1d`.

    Example:
        >>> pool, unpool = nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)
        >>> tuple(unpool(*pool(gradlib.randn(1, 1, 4, 4, 4))).shape)
        (1, 1, 4, 4, 4)
    """

    _function = "max_unpool3d"
    _each = staticmethod(_triple)


class AvgPool1d(Module):
    """The mean of each window of a signal.

    Args:
        kernel_size: length of the window.
        stride: step between windows; kernel_size by default.
        padding: zeros added on both sides; at most half the kernel.
        ceil_mode: keep a last window that is not full.
        count_include_pad: whether the padding counts as elements.

    Shape:
        [N, C, L] or [C, L] -> [N, C, L'] or [C, L'], L' = (L + 2 padding - kernel_size) / stride + 1,
        rounded down, or up with ceil_mode.

    Raises:
        RuntimeError: at the call, if the padding is more than half a kernel, or no window fits.

    Example:
        >>> nn.AvgPool1d(2)(gradlib.tensor([[1.0, 3.0, 2.0, 0.0]])).tolist()
        [[2.0, 1.0]]
    """

    _shown = "kernel_size={0.kernel_size}, stride={0.stride}, padding={0.padding}"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, L] or [C, L] -> the same form."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolNd(Module):
    """Settings that the average poolings with a divisor share."""

    _function: str
    _shown = "kernel_size={0.kernel_size}, stride={0.stride}, padding={0.padding}"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same form."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of an image; other arguments, sizes and errors as in `AvgPool1d`.

    Args:
        divisor_override: divide the sum by this instead of the number of elements; not 0.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, C, H', W'] or [C, H', W'].

    Example:
        >>> tuple(nn.AvgPool2d(2)(gradlib.randn(1, 3, 4, 4)).shape)
        (1, 3, 2, 2)
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPoolNd):
    """The mean of each window of a volume; arguments and errors as in `AvgPool2d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form with D', H', W'.

    Example:
        >>> tuple(nn.AvgPool3d(2)(gradlib.randn(1, 3, 4, 4, 4)).shape)
        (1, 3, 2, 2, 2)
    """

    _function = "avg_pool3d"


class _FractionalMaxPoolNd(Module):
    """Settings that both fractional poolings share."""

    _function: str
    _each: Any

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        each = self._each
        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = each(output_size) if output_size is not None else None
        self.output_ratio = each(output_ratio) if output_ratio is not None else None
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """input: [N, C, *L] or [C, *L] -> the same form with the output size."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Max pooling over windows placed at random steps, to any smaller output size.

    Args:
        kernel_size: of a window: one number, or (height, width).
        output_size: of the result: one number, or (height, width).
        output_ratio: the size of the result over that of the input, in (0, 1), instead of output_size.
        return_indices: also return where the largest elements are.

    Shape:
        [N, C, H, W] or [C, H, W] -> the same form with the output size.

    Raises:
        ValueError: neither or both of output_size and output_ratio are given, or a ratio is not in (0, 1).
        RuntimeError: at the call, if output_size + kernel_size - 1 is more than the input's size.

    Source: B. Graham, Fractional max-pooling, arXiv:1412.6071 (2014).

    Example:
        >>> tuple(nn.FractionalMaxPool2d(2, output_ratio=0.7)(gradlib.randn(1, 3, 10, 10)).shape)
        (1, 3, 7, 7)
    """

    _function = "fractional_max_pool2d"
    _each = staticmethod(_pair)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Max pooling of volumes over windows placed at random steps; arguments as in `FractionalMaxPool2d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form with the output size.

    Example:
        >>> tuple(nn.FractionalMaxPool3d(2, output_size=3)(gradlib.randn(1, 2, 5, 5, 5)).shape)
        (1, 2, 3, 3, 3)
    """

    _function = "fractional_max_pool3d"
    _each = staticmethod(_triple)


class _LPPoolNd(Module):
    """Settings that all power-average poolings share."""

    _function: str
    _shown = (
        "norm_type={0.norm_type}, kernel_size={0.kernel_size}, "
        "stride={0.stride}, ceil_mode={0.ceil_mode}"
    )

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same form: (sum of x**p) ** (1 / p) per window."""
        return getattr(F, self._function)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool1d(_LPPoolNd):
    """(sum of x**p) ** (1 / p) of each window of a signal; the gradient where the sum is 0 is 0.

    Args:
        norm_type: the power p; the larger, the closer to max pooling.
        kernel_size: length of the window.
        stride: step between windows; kernel_size by default.
        ceil_mode: keep a last window that is not full.

    Shape:
        [N, C, L] or [C, L] -> [N, C, L'] or [C, L'], L' = (L - kernel_size) / stride + 1, rounded down,
        or up with ceil_mode.

    Example:
        >>> nn.LPPool1d(2, 2)(gradlib.tensor([[3.0, 4.0, 0.0, 1.0]])).tolist()
        [[5.0, 1.0]]
    """

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """(sum of x**p) ** (1 / p) of each window of an image; arguments as in `LPPool1d`.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, C, H', W'] or [C, H', W'].

    Example:
        >>> nn.LPPool2d(1, 2)(gradlib.ones(1, 2, 2)).tolist()
        [[[4.0]]]
    """

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """(sum of x**p) ** (1 / p) of each window of a volume; arguments as in `LPPool1d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form with D', H', W'.

    Example:
        >>> nn.LPPool3d(1, 2)(gradlib.ones(1, 2, 2, 2)).tolist()
        [[[[8.0]]]]
    """

    _function = "lp_pool3d"
