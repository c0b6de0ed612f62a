"""Padding layers."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Pads the last `_dims` dimensions; widths are given last dimension first."""

    _dims: int
    _mode: str
    padding: tuple[int, ...]
    _shown = "{0.padding}"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same form, each L plus its two widths."""
        return F.pad(input, self.padding, self._mode)


class _ConstantPad(_Pad):
    """Pads with one value."""

    value: float
    _shown = "padding={0.padding}, value={0.value}"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., *L] -> the same form, each L plus its two widths."""
        return F.pad(input, self.padding, "constant", self.value)


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    _shown = "{0.padding}"

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)


class _CircularPad(_Pad):
    """Pads with the elements from the other end."""

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same form, each L plus its two widths."""
        n = self._dims
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with `value`.

    Args:
        padding: one width, or (left, right); a negative one cuts off.
        value: what the new elements are.

    Shape:
        [..., W] -> [..., left + W + right].

    Example:
        >>> nn.ConstantPad1d((1, 0), 3.5)(gradlib.zeros(1, 1)).tolist()
        [[3.5, 0.0]]
    """

    _dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with `value`.

    Args:
        padding: one width, or (left, right, top, bottom); a negative one cuts off.
        value: what the new elements are.

    Shape:
        [..., H, W] -> [..., top + H + bottom, left + W + right].

    Example:
        >>> nn.ConstantPad2d((1, 0, 0, 1), 2.0)(gradlib.zeros(1, 1)).tolist()
        [[2.0, 0.0], [2.0, 2.0]]
    """

    _dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with `value`.

    Args:
        padding: one width, or (left, right, top, bottom, front, back); a negative one cuts off.
        value: what the new elements are.

    Shape:
        [..., D, H, W] -> [..., front + D + back, top + H + bottom, left + W + right].

    Example:
        >>> tuple(nn.ConstantPad3d((1, 0, 2, 0, 3, 0), 1.0)(gradlib.zeros(1, 1, 1)).shape)
        (4, 3, 2)
    """

    _dims = 3


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros.

    Args:
        padding: one width, or (left, right); a negative one cuts off.

    Shape:
        [..., W] -> [..., left + W + right].

    Example:
        >>> nn.ZeroPad1d(1)(gradlib.ones(1, 1)).tolist()
        [[0.0, 1.0, 0.0]]
    """

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros.

    Args:
        padding: one width, or (left, right, top, bottom); a negative one cuts off.

    Shape:
        [..., H, W] -> [..., top + H + bottom, left + W + right].

    Example:
        >>> nn.ZeroPad2d((1, -1, 0, 0))(gradlib.tensor([[1.0, 2.0]])).tolist()
        [[0.0, 1.0]]
    """

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros.

    Args:
        padding: one width, or (left, right, top, bottom, front, back); a negative one cuts off.

    Shape:
        [..., D, H, W] -> [..., front + D + back, top + H + bottom, left + W + right].

    Example:
        >>> tuple(nn.ZeroPad3d(1)(gradlib.ones(2, 3, 4)).shape)
        (4, 5, 6)
    """

    _dims = 3


class ReflectionPad1d(_Pad):
    """Pads a signal with its mirror image, without repeating the edge.

    Args:
        padding: one width, or (left, right); each less than W.

    Shape:
        [N, C, W] or [C, W] -> the same form with left + W + right.

    Raises:
        RuntimeError: at the call, if a width is W or more.

    Example:
        >>> nn.ReflectionPad1d(1)(gradlib.tensor([[0.0, 1.0, 2.0]])).tolist()
        [[1.0, 0.0, 1.0, 2.0, 1.0]]
    """

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pads an image with its mirror image, without repeating the edge.

    Args:
        padding: one width, or (left, right, top, bottom); each less than W or H.

    Shape:
        [N, C, H, W] or [C, H, W] -> the same form with top + H + bottom, left + W + right.

    Raises:
        RuntimeError: at the call, if a width is as large as its dimension or larger.

    Example:
        >>> nn.ReflectionPad2d((1, 0, 0, 1))(gradlib.arange(4.0).reshape(1, 2, 2)).tolist()
        [[[1.0, 0.0, 1.0], [3.0, 2.0, 3.0], [1.0, 0.0, 1.0]]]
    """

    _dims = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """Pads a volume with its mirror image, without repeating the edge.

    Args:
        padding: one width, or (left, right, top, bottom, front, back); each less than its dimension.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form, each size plus its two widths.

    Raises:
        RuntimeError: at the call, if a width is as large as its dimension or larger.

    Example:
        >>> tuple(nn.ReflectionPad3d(1)(gradlib.randn(1, 2, 3, 4)).shape)
        (1, 4, 5, 6)
    """

    _dims = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """Pads a signal by repeating its first and last element.

    Args:
        padding: one width, or (left, right).

    Shape:
        [N, C, W] or [C, W] -> the same form with left + W + right.

    Example:
        >>> nn.ReplicationPad1d((2, 1))(gradlib.tensor([[0.0, 1.0]])).tolist()
        [[0.0, 0.0, 0.0, 1.0, 1.0]]
    """

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pads an image by repeating its edge.

    Args:
        padding: one width, or (left, right, top, bottom).

    Shape:
        [N, C, H, W] or [C, H, W] -> the same form with top + H + bottom, left + W + right.

    Example:
        >>> nn.ReplicationPad2d((1, 0, 0, 1))(gradlib.arange(4.0).reshape(1, 2, 2)).tolist()
        [[[0.0, 0.0, 1.0], [2.0, 2.0, 3.0], [2.0, 2.0, 3.0]]]
    """

    _dims = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """Pads a volume by repeating its edge.

    Args:
        padding: one width, or (left, right, top, bottom, front, back).

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form, each size plus its two widths.

    Example:
        >>> tuple(nn.ReplicationPad3d(1)(gradlib.randn(1, 2, 3, 4)).shape)
        (1, 4, 5, 6)
    """

    _dims = 3
    _mode = "replicate"


class CircularPad1d(_CircularPad):
    """Pads a signal with the elements from its other end, as if it went on for ever.

    Args:
        padding: one width, or (left, right); each at most W.

    Shape:
        [N, C, W] or [C, W] -> the same form with left + W + right.

    Raises:
        ValueError: at the call, if the input has neither 2 nor 3 dimensions.
        RuntimeError: at the call, if a width is more than W.

    Example:
        >>> nn.CircularPad1d(1)(gradlib.tensor([[0.0, 1.0, 2.0]])).tolist()
        [[2.0, 0.0, 1.0, 2.0, 0.0]]
    """

    _dims = 1


class CircularPad2d(_CircularPad):
    """Pads an image with the elements from its other ends, as if it were one tile of many.

    Args:
        padding: one width, or (left, right, top, bottom); each at most W or H.

    Shape:
        [N, C, H, W] or [C, H, W] -> the same form with top + H + bottom, left + W + right.

    Raises:
        ValueError: at the call, if the input has neither 3 nor 4 dimensions.
        RuntimeError: at the call, if a width is more than its dimension.

    Example:
        >>> nn.CircularPad2d((1, 0, 0, 1))(gradlib.arange(4.0).reshape(1, 2, 2)).tolist()
        [[[1.0, 0.0, 1.0], [3.0, 2.0, 3.0], [1.0, 0.0, 1.0]]]
    """

    _dims = 2


class CircularPad3d(_CircularPad):
    """Pads a volume with the elements from its other ends.

    Args:
        padding: one width, or (left, right, top, bottom, front, back); each at most its dimension.

    Shape:
        [N, C, D, H, W] or [C, D, H, W] -> the same form, each size plus its two widths.

    Raises:
        ValueError: at the call, if the input has neither 4 nor 5 dimensions.
        RuntimeError: at the call, if a width is more than its dimension.

    Example:
        >>> tuple(nn.CircularPad3d(1)(gradlib.randn(1, 2, 3, 4)).shape)
        (1, 4, 5, 6)
    """

    _dims = 3
