"""Activations that are a polynomial on each piece of the line: ReLU and what is like it."""

from __future__ import annotations

import warnings
from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ...tape.tensor import Tensor
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = [
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Softshrink",
    "Threshold",
]


class _Inplace(Module):
    """An activation that can overwrite its input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        parts = super().extra_repr(), "inplace=True" if self.inplace else ""
        return ", ".join(filter(None, parts))


class Threshold(_Inplace):
    """x where x > threshold, else `value`; element by element.

    Args:
        threshold: what x has to exceed.
        value: stands in for every other element; no gradient passes there.
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Example:
        >>> nn.Threshold(0.1, 20)(gradlib.tensor([0.0, 1.0])).tolist()
        [20.0, 1.0]
    """

    _shown = "threshold={0.threshold}, value={0.value}"

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)


class ReLU(_Inplace):
    """max(0, x), element by element; its gradient at 0 is 0.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same; integers stay integers.

    Raises:
        RuntimeError: the input is bool; or `inplace`, and it is a leaf that requires grad.

    Source: V. Nair, G. Hinton, Rectified linear units improve restricted Boltzmann machines, ICML 2010.

    Example:
        >>> nn.ReLU()(gradlib.tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.relu(input, inplace=True) if self.inplace else F.relu(input)


class RReLU(_Inplace):
    """x where x >= 0, else a * x with a drawn from U(lower, upper) for each element.

    In evaluation mode every a is (lower + upper) / 2.

    Args:
        lower: smallest slope.
        upper: largest slope.
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Raises:
        RuntimeError: `lower` is above `upper`.

    Source: B. Xu et al., Empirical evaluation of rectified activations in convolutional
    network, arXiv:1505.00853 (2015).

    Example:
        >>> nn.RReLU(0.25, 0.75).eval()(gradlib.tensor([-2.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    _shown = "lower={0.lower}, upper={0.upper}"

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_Inplace):
    """x limited to [min_val, max_val]; its gradient is 0 outside and at the bounds.

    Args:
        min_val: smallest result.
        max_val: largest result.
        inplace: overwrite the input and return it.
        min_value: deprecated name of `min_val`.
        max_value: deprecated name of `max_val`.

    Shape:
        [...] -> the same.

    Raises:
        AssertionError: `max_val` is not above `min_val`.

    Example:
        >>> nn.Hardtanh(-2, 2)(gradlib.tensor([-3.0, 1.0])).tolist()
        [-2.0, 1.0]
    """

    _shown = "min_val={0.min_val}, max_val={0.max_val}"

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        for name, value in (("min_val", min_value), ("max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{name}ue` is deprecated and rename to `{name}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self.min_val = min_val
        self.max_val = max_val
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """min(max(0, x), 6), element by element.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: A. Krizhevsky, Convolutional deep belief networks on CIFAR-10 (2010).

    Example:
        >>> nn.ReLU6()(gradlib.tensor([-1.0, 2.0, 9.0])).tolist()
        [0.0, 2.0, 6.0]
    """

    _shown = ""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(Module):
    """min(max(0, x + 3), 6) / 6: a sigmoid of three straight pieces.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Example:
        >>> nn.Hardsigmoid()(gradlib.tensor([-4.0, 0.0, 4.0])).tolist()
        [0.0, 0.5, 1.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """x * min(max(0, x + 3), 6) / 6: `SiLU` with a sigmoid of straight pieces.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: A. Howard et al., Searching for MobileNetV3, ICCV 2019.

    Example:
        >>> nn.Hardswish()(gradlib.tensor([-1.5, 0.0, 4.0])).tolist()
        [-0.375, 0.0, 4.0]
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardswish(input, self.inplace)


class LeakyReLU(_Inplace):
    """x where x > 0, else negative_slope * x; element by element.

    Args:
        negative_slope: the slope on the left of 0.
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: A. Maas et al., Rectifier nonlinearities improve neural network acoustic models,
    ICML 2013.

    Example:
        >>> nn.LeakyReLU(0.5)(gradlib.tensor([-2.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    _shown = "negative_slope={0.negative_slope}"

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(Module):
    """max(0, x) + a * min(0, x), with a learned slope a for each channel or one for all.

    Args:
        num_parameters: the number of channels C, or 1.
        init: what every slope starts at.
        device: of the slopes.
        dtype: of the slopes.

    Shape:
        [N, C, *L] -> the same; any shape if num_parameters is 1.

    Attributes:
        weight: Parameter [num_parameters].

    Raises:
        RuntimeError: num_parameters is neither 1 nor the number of channels.

    Source: K. He et al., Delving deep into rectifiers, ICCV 2015.

    Example:
        >>> nn.PReLU(init=0.5)(gradlib.tensor([-2.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    _shown = "num_parameters={0.num_parameters}"

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all slopes to `init`, in place.

        Example:
            >>> layer = nn.PReLU(2)
            >>> layer.reset_parameters()
            >>> layer.weight.tolist()
            [0.25, 0.25]
        """
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, num_parameters, *L], or [...] with one parameter -> the same shape."""
        return F.prelu(input, self.weight)


class Hardshrink(Module):
    """x where |x| > lambd, else 0; element by element.

    Args:
        lambd: half the width of what becomes 0.

    Shape:
        [...] -> the same.

    Raises:
        NotImplementedError: the input is integer or bool.

    Example:
        >>> nn.Hardshrink()(gradlib.tensor([-1.0, 0.25, 1.0])).tolist()
        [-1.0, 0.0, 1.0]
    """

    _shown = "{0.lambd}"

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardshrink(input, self.lambd)


class Softshrink(Module):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0.

    The proximal map of lambd * |x|: what one step of a lasso solver applies.

    Args:
        lambd: by how much everything moves towards 0; not negative.

    Shape:
        [...] -> the same.

    Raises:
        RuntimeError: `lambd` is negative.

    Example:
        >>> nn.Softshrink()(gradlib.tensor([-1.0, 0.25, 1.0])).tolist()
        [-0.5, 0.0, 0.5]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)
