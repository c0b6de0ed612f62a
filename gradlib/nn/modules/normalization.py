"""Normalisation over features."""

from __future__ import annotations

import numbers
from typing import Any

from ...tape.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import add_parameter
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """y = x / (k + alpha * mean of x**2 over `size` neighbouring channels) ** beta.

    Args:
        size: how many channels are averaged, around each one; those beyond the first and last are 0.
        alpha: factor of the mean.
        beta: exponent.
        k: what is there without neighbours.

    Shape:
        [N, C, *L] -> the same.

    Raises:
        ValueError: at the call, if the input has less than 3 dimensions.

    Source: A. Krizhevsky et al., ImageNet classification with deep convolutional neural
    networks, NIPS 2012.

    Example:
        >>> tuple(nn.LocalResponseNorm(2)(gradlib.randn(4, 5, 7)).shape)
        (4, 5, 7)
    """

    _shown = "{0.size}, alpha={0.alpha}, beta={0.beta}, k={0.k}"

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` on images, under its old name; arguments are the same.

    Shape:
        [N, C, H, W] -> the same.

    Example:
        >>> x = gradlib.randn(1, 4, 2, 2)
        >>> gradlib.equal(nn.CrossMapLRN2d(3)(x), nn.LocalResponseNorm(3)(x))
        True
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


def _as_shape(normalized_shape: Any) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions.

    Args:
        normalized_shape: sizes of the dimensions that statistics are taken over.
        eps: added to the variance, which is without Bessel's correction.
        elementwise_affine: whether there is a weight, and a bias if `bias`.
        bias: False leaves the bias out.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        [..., *normalized_shape] -> the same.

    Attributes:
        weight: Parameter [*normalized_shape], starts at 1; None without elementwise_affine.
        bias: Parameter [*normalized_shape], starts at 0; or None.

    Raises:
        RuntimeError: at the call, if the input does not end in normalized_shape.

    Source: J. L. Ba et al., Layer normalization, arXiv:1607.06450 (2016).

    Example:
        >>> x = gradlib.tensor([[1.0, 3.0]])
        >>> [round(v, 4) for v in nn.LayerNorm(2)(x)[0].tolist()]
        [-1.0, 1.0]
    """

    weight: Any
    bias: Any

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        add_parameter(self, "weight", self.normalized_shape, elementwise_affine, **place)
        wanted = elementwise_affine and bias
        add_parameter(self, "bias", self.normalized_shape, wanted, **place)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, in place.

        Nothing happens without elementwise_affine.
        """
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., *normalized_shape] -> the same shape."""
        params = self._parameters
        if "weight" in params and "bias" in params:
            weight, bias = params["weight"], params["bias"]
        else:
            weight, bias = self.weight, self.bias
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias over groups of channels of each sample.

    Args:
        num_groups: groups of neighbouring channels; must divide num_channels.
        num_channels: C.
        eps: added to the variance, which is without Bessel's correction.
        affine: whether there are weight and bias.
        device: of the parameters.
        dtype: of the parameters.
        bias: False leaves the bias out.

    Shape:
        [N, C, *L] -> the same.

    Attributes:
        weight: Parameter [C], starts at 1; None without affine.
        bias: Parameter [C], starts at 0; or None.

    Raises:
        ValueError: `num_channels` is no multiple of `num_groups`.
        RuntimeError: at the call, if the input has another number of channels.

    Source: Y. Wu, K. He, Group normalization, ECCV 2018.

    Example:
        >>> tuple(nn.GroupNorm(3, 6)(gradlib.randn(20, 6, 10, 10)).shape)
        (20, 6, 10, 10)
    """

    weight: Any
    bias: Any

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        add_parameter(self, "weight", num_channels, affine, **place)
        add_parameter(self, "bias", num_channels, affine and bias, **place)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, in place.

        Nothing happens without affine.
        """
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, C, *L] -> the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """y = x / sqrt(mean of x**2 + eps) * weight over the last dimensions.

    Args:
        normalized_shape: sizes of the dimensions that the mean is taken over.
        eps: None is the machine epsilon of the input's dtype.
        elementwise_affine: whether there is a weight.
        device: of the parameter.
        dtype: of the parameter.

    Shape:
        [..., *normalized_shape] -> the same.

    Attributes:
        weight: Parameter [*normalized_shape], starts at 1; None without elementwise_affine.

    Raises:
        RuntimeError: at the call, if the input does not end in normalized_shape.

    Source: B. Zhang, R. Sennrich, Root mean square layer normalization, NeurIPS 2019.

    Example:
        >>> [round(v, 4) for v in nn.RMSNorm(2)(gradlib.tensor([1.0, 7.0])).tolist()]
        [0.2, 1.4]
    """

    weight: Any
    _shown = "{0.normalized_shape}, eps={0.eps}, elementwise_affine={0.elementwise_affine}"

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        add_parameter(self, "weight", self.normalized_shape, elementwise_affine, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1, in place.

        Nothing happens without elementwise_affine.
        """
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., *normalized_shape] -> the same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
