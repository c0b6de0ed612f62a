"""Padding layers."""

from __future__ import annotations

from typing import Any

from gradlib.nn import functional as F
from gradlib.nn.modules.module import Module
from gradlib.nn.modules.utils import _ntuple
from gradlib.tape.tensor import Tensor

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

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] or [C, *L] -> the same form, each L plus its two widths."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads with one value."""

    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., *L] -> the same form, each L plus its two widths."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


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
    """Pads [..., W] with `value`; padding is one width or (left, right).

    Example:
        >>> nn.ConstantPad1d((1, 0), 3.5)(gradlib.zeros(1, 1)).tolist()
        [[3.5, 0.0]]
    """

    _dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads [..., H, W] with `value`; padding is one width or (left, right, top, bottom)."""

    _dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads [..., D, H, W] with `value`; padding is one width or six, last dimension first."""

    _dims = 3


class ZeroPad1d(_ZeroPad):
    """Pads [..., W] with zeros; padding is one width or (left, right)."""

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads [..., H, W] with zeros; padding is one width or (left, right, top, bottom)."""

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads [..., D, H, W] with zeros; padding is one width or six, last dimension first."""

    _dims = 3


class ReflectionPad1d(_Pad):
    """Pads [N, C, W] or [C, W] with its mirror image, without repeating the edge.

    Example:
        >>> nn.ReflectionPad1d(1)(gradlib.tensor([[0.0, 1.0, 2.0]])).tolist()
        [[1.0, 0.0, 1.0, 2.0, 1.0]]
    """

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pads [N, C, H, W] or [C, H, W] with its mirror image, without repeating the edge."""

    _dims = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """Pads [N, C, D, H, W] or [C, D, H, W] with its mirror image."""

    _dims = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """Pads [N, C, W] or [C, W] by repeating the edge."""

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pads [N, C, H, W] or [C, H, W] by repeating the edge."""

    _dims = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """Pads [N, C, D, H, W] or [C, D, H, W] by repeating the edge."""

    _dims = 3
    _mode = "replicate"


class CircularPad1d(_CircularPad):
    """Pads [N, C, W] or [C, W] with the elements from the other end."""

    _dims = 1


class CircularPad2d(_CircularPad):
    """Pads [N, C, H, W] or [C, H, W] with the elements from the other end."""

    _dims = 2


class CircularPad3d(_CircularPad):
    """Pads [N, C, D, H, W] or [C, D, H, W] with the elements from the other end."""

    _dims = 3
