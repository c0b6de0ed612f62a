"""Linear maps."""

from __future__ import annotations

import math
from typing import Any

from ..._refused import refuse
from ...tape.tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import add_parameter
from .module import Module

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]
__getattr__ = refuse(__name__)


class Identity(Module):
    """Returns its input, the same object; takes and ignores any constructor arguments.

    For a place in a model where there is nothing to do.

    Example:
        >>> x = gradlib.ones(1)
        >>> nn.Identity(54, unused=True)(x) is x
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """input: anything -> the same object."""
        return input


class Linear(Module):
    """y = x A^T + b.

    Weight and bias start in U(-k, k), k = 1 / sqrt(in_features).

    Args:
        in_features: size of each input vector.
        out_features: size of each output vector.
        bias: whether there is b.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        [..., in_features] -> [..., out_features].

    Attributes:
        weight: Parameter [out_features, in_features].
        bias: Parameter [out_features] or None.

    Raises:
        RuntimeError: at the call, if size or dtype of the input do not fit the weight.

    Example:
        >>> tuple(nn.Linear(20, 30)(gradlib.randn(128, 20)).shape)
        (128, 30)
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        add_parameter(self, "weight", (out_features, in_features), True, device, dtype)
        add_parameter(self, "bias", out_features, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, in place.

        Both come from U(-k, k), k = 1 / sqrt(in_features).
        """
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., in_features] -> [..., out_features]."""
        params = self._parameters  # reading attributes of a module costs more than the call
        if "weight" in params and "bias" in params:
            return F.linear(input, params["weight"], params["bias"])
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that PyTorch gives to the output projection of attention.

    Example:
        >>> type(nn.MultiheadAttention(4, 2).out_proj).__name__
        'NonDynamicallyQuantizableLinear'
    """


class Bilinear(Module):
    """y_k = x1^T A_k x2 + b_k.

    Weight and bias start in U(-k, k), k = 1 / sqrt(in1_features).

    Args:
        in1_features: size of each first input vector.
        in2_features: size of each second input vector.
        out_features: size of each output vector.
        bias: whether there is b.
        device: of the parameters.
        dtype: of the parameters.

    Shape:
        [..., in1_features] and [..., in2_features] -> [..., out_features].

    Attributes:
        weight: Parameter [out_features, in1_features, in2_features].
        bias: Parameter [out_features] or None.

    Raises:
        ValueError: `in1_features` is not positive.
        RuntimeError: at the call, if a size does not fit.

    Example:
        >>> tuple(nn.Bilinear(2, 3, 4)(gradlib.ones(5, 2), gradlib.ones(5, 3)).shape)
        (5, 4)
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        add_parameter(self, "weight", shape, True, device, dtype)
        add_parameter(self, "bias", out_features, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, in place.

        Both come from U(-k, k), k = 1 / sqrt(in1_features).
        """
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """input1: [..., in1_features], input2: [..., in2_features] -> [..., out_features]."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
