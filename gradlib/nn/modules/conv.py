"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from typing import Any

from ..._refused import refuse
from ...tape.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import add_parameter
from .module import Module, changed
from .utils import _ntuple, _reverse_repeat_tuple

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]
__getattr__ = refuse(__name__)

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Parameters and settings that all convolutions share.

    Weight and bias start in U(-k, k), k = sqrt(groups / (in_channels * prod(kernel_size))).
    """

    bias: Any
    _dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding: Any = padding  # a string or a tuple
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_widths()
        first, second = in_channels, out_channels
        if not transposed:
            first, second = second, first
        shape = (first, second // groups, *kernel_size)
        add_parameter(self, "weight", shape, True, device, dtype)
        add_parameter(self, "bias", out_channels, bias, device, dtype)
        self.reset_parameters()

    def _padding_widths(self) -> list[int]:
        """Padding before and after each dimension, last dimension first, as `F.pad` takes it."""
        if not isinstance(self.padding, str):
            return list(_reverse_repeat_tuple(self.padding, 2))
        widths = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (d, k) in enumerate(zip(self.dilation, self.kernel_size)):
                total = d * (k - 1)
                at = 2 * (len(self.kernel_size) - 1 - i)
                widths[at], widths[at + 1] = total // 2, total - total // 2
        return widths

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, in place.

        Both come from U(-k, k), k = sqrt(groups / (in_channels * prod(kernel_size))).
        """
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        conv = _CONV[self._dims]
        if self.padding_mode == "zeros":
            return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        no_padding = (0,) * self._dims
        return conv(padded, weight, bias, self.stride, no_padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, in_channels, *L] or [in_channels, *L] -> the same form, out_channels.

        L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1
        """
        params = self._parameters
        if "weight" in params and "bias" in params:
            return self._conv_forward(input, params["weight"], params["bias"])
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        n = len(self.kernel_size)
        s = f"{self.in_channels}, {self.out_channels}"
        s += f", kernel_size={self.kernel_size}, stride={self.stride}"
        none = (0,) * n
        s += changed(self, padding=none, dilation=(1,) * n, output_padding=none, groups=1)
        if self.bias is None:
            s += ", bias=False"
        return s + changed(self, padding_mode="zeros")


class _Conv(_ConvNd):
    """A convolution over the last `_dims` dimensions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        each = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size),
            each(stride),
            padding if isinstance(padding, str) else each(padding),
            each(dilation),
            False,
            each(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )


class Conv1d(_Conv):
    """Cross-correlation over signals.

    Weight and bias start in U(-k, k), k = sqrt(groups / (in_channels * kernel_size)).

    Args:
        in_channels: C of the input.
        out_channels: C of the output.
        kernel_size: length of the kernel.
        stride: step between windows.
        padding: zeros added on both sides, or "valid" (none) or "same" (as many as keep L).
        dilation: step between the elements of a window.
        groups: blocks of channels that do not see each other.
        bias: whether a bias is added.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        [N, C, L] or [C, L] -> [N, out_channels, L'] or [out_channels, L'],
        L' = (L + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1.

    Attributes:
        weight: Parameter [out_channels, in_channels / groups, kernel_size].
        bias: Parameter [out_channels] or None.

    Raises:
        ValueError: `groups` does not divide the channels, "same" with a stride, or another padding_mode.
        RuntimeError: at the call, if the channels do not fit or the kernel is longer than the input.

    Example:
        >>> tuple(nn.Conv1d(16, 33, 3, stride=2)(gradlib.randn(20, 16, 50)).shape)
        (20, 33, 24)
    """

    _dims = 1


class Conv2d(_Conv):
    """Cross-correlation over images; arguments and errors as in `Conv1d`.

    kernel_size, stride, padding and dilation are one number, or one for each of H and W.

    Shape:
        [N, C, H, W] or [C, H, W] -> [N, out_channels, H', W'] or without N, each as L' in `Conv1d`.

    Attributes:
        weight: Parameter [out_channels, in_channels / groups, kH, kW].
        bias: Parameter [out_channels] or None.

    Example:
        >>> tuple(nn.Conv2d(3, 8, 3, padding=1)(gradlib.randn(2, 3, 5, 5)).shape)
        (2, 8, 5, 5)
    """

    _dims = 2


class Conv3d(_Conv):
    """Cross-correlation over volumes; arguments and errors as in `Conv1d`.

    kernel_size, stride, padding and dilation are one number, or one for each of D, H and W.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form with out_channels, sizes as L' in `Conv1d`.

    Attributes:
        weight: Parameter [out_channels, in_channels / groups, kD, kH, kW].
        bias: Parameter [out_channels] or None.

    Example:
        >>> tuple(nn.Conv3d(1, 2, 2)(gradlib.randn(1, 1, 3, 3, 3)).shape)
        (1, 2, 2, 2, 2)
    """

    _dims = 3


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution over the last `_dims` dimensions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        each = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size),
            each(stride),
            each(padding),
            each(dilation),
            True,
            each(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """input: [N, in_channels, *L] or [in_channels, *L] -> the same form, out_channels.

        L_out = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1)
        + output_padding + 1. `output_size` gives L_out directly where a stride leaves a choice.
        """
        output_padding = self._output_padding(input, output_size)
        return _CONV_TRANSPOSE[self._dims](
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> Any:
        """The output padding that leads to `output_size`."""
        if output_size is None:
            return self.output_padding
        dims = self._dims
        wanted = list(output_size)
        lead = input.dim() - dims
        if len(wanted) == lead + dims:
            wanted = wanted[lead:]
        if len(wanted) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} "
                f"or {lead + dims} elements (got {len(wanted)})"
            )
        smallest = [
            (input.size(lead + i) - 1) * self.stride[i]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(dims)
        ]
        largest = [low + self.stride[i] - 1 for i, low in enumerate(smallest)]
        if any(not low <= n <= high for n, low, high in zip(wanted, smallest, largest)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {smallest} to "
                f"{largest} (for an input of {input.size()[2:]})"
            )
        return [n - low for n, low in zip(wanted, smallest)]


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of `Conv1d` with respect to its input, as a layer.

    Args:
        in_channels: C of the input.
        out_channels: C of the output.
        kernel_size: length of the kernel.
        stride: step between windows of the output.
        padding: dilation * (kernel_size - 1) - padding zeros are added on both sides.
        output_padding: added to one side of the output's shape; less than stride or dilation.
        groups: blocks of channels that do not see each other.
        bias: whether a bias is added.
        dilation: step between the elements of a window.
        padding_mode: only "zeros".
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        [N, C, L] or [C, L] -> [N, out_channels, L'] or [out_channels, L'], L' = (L - 1) stride
        - 2 padding + dilation (kernel_size - 1) + output_padding + 1, or the call's `output_size`.

    Attributes:
        weight: Parameter [in_channels, out_channels / groups, kernel_size].
        bias: Parameter [out_channels] or None.

    Raises:
        ValueError: another padding_mode, `groups` does not divide the channels; or, at the call, no
            output_padding gives that `output_size`.

    Example:
        >>> layer = nn.ConvTranspose1d(4, 2, 3, stride=2)
        >>> x = gradlib.randn(1, 4, 5)
        >>> tuple(layer(x).shape), tuple(layer(x, output_size=[12]).shape)
        ((1, 2, 11), (1, 2, 12))
    """

    _dims = 1


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of `Conv2d` with respect to its input; arguments as in `ConvTranspose1d`.

    Shape:
        [N, C, H, W] or [C, H, W] -> the same form with out_channels, sizes as in `ConvTranspose1d`.

    Attributes:
        weight: Parameter [in_channels, out_channels / groups, kH, kW].
        bias: Parameter [out_channels] or None.

    Example:
        >>> tuple(nn.ConvTranspose2d(4, 2, 2, stride=2)(gradlib.randn(1, 4, 3, 3)).shape)
        (1, 2, 6, 6)
    """

    _dims = 2


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of `Conv3d` with respect to its input; arguments as in `ConvTranspose1d`.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form with out_channels.

    Attributes:
        weight: Parameter [in_channels, out_channels / groups, kD, kH, kW].
        bias: Parameter [out_channels] or None.

    Example:
        >>> tuple(nn.ConvTranspose3d(4, 2, 2)(gradlib.randn(1, 4, 3, 3, 3)).shape)
        (1, 2, 4, 4, 4)
    """

    _dims = 3


def _late(name: str) -> Any:
    """The function of `nn.functional` with this name, found when it is called."""
    return lambda *args: getattr(F, name)(*args)


_CONV = {n: _late(f"conv{n}d") for n in (1, 2, 3)}
_CONV_TRANSPOSE = {n: _late(f"conv_transpose{n}d") for n in (1, 2, 3)}
