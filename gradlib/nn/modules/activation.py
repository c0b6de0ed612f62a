"""Activation functions as modules."""

from __future__ import annotations

import warnings
from typing import Any

from gradlib.autograd.grad_mode import no_grad
from gradlib.nn import functional as F
from gradlib.nn.modules.attention import MultiheadAttention
from gradlib.nn.modules.module import Module
from gradlib.nn.modules.softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from gradlib.nn.parameter import Parameter
from gradlib.operators import public as ops
from gradlib.tape.tensor import Tensor

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Inplace(Module):
    """An activation whose only setting is whether it overwrites its input."""

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The setting, unless it is the default."""
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """x where x > threshold, else `value`.

    Example:
        >>> nn.Threshold(0.1, 20)(gradlib.tensor([0.0, 1.0])).tolist()
        [20.0, 1.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{inplace}"


class ReLU(_Inplace):
    """max(0, x).

    Example:
        >>> nn.ReLU()(gradlib.tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.relu(input, inplace=True) if self.inplace else F.relu(input)


class RReLU(Module):
    """Leaky ReLU whose slope is drawn from U(lower, upper) in training, the mean in evaluation.

    Source: B. Xu et al., Empirical evaluation of rectified activations in convolutional
    network, arXiv:1505.00853.
    """

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{inplace}"


class Hardtanh(Module):
    """x clamped to [min_val, max_val].

    Example:
        >>> nn.Hardtanh(-2, 2)(gradlib.tensor([-3.0, 1.0])).tolist()
        [-2.0, 1.0]
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            warnings.warn(
                "keyword argument `min_value` is deprecated and rename to `min_val`",
                FutureWarning,
                stacklevel=2,
            )
            min_val = min_value
        if max_value is not None:
            warnings.warn(
                "keyword argument `max_value` is deprecated and rename to `max_val`",
                FutureWarning,
                stacklevel=2,
            )
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace}"


class ReLU6(Hardtanh):
    """min(max(0, x), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """The setting, unless it is the default."""
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return input.sigmoid()


class Hardsigmoid(Module):
    """min(max(0, x + 3), 6) / 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return input.tanh()


class SiLU(_Inplace):
    """x * sigmoid(x).

    Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, arXiv:1606.08415.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.silu(input, inplace=self.inplace)


class Mish(_Inplace):
    """x * tanh(softplus(x)).

    Source: D. Misra, Mish: a self regularized non-monotonic activation function,
    arXiv:1908.08681.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.mish(input, inplace=self.inplace)


class Hardswish(Module):
    """x * min(max(0, x + 3), 6) / 6.

    Source: A. Howard et al., Searching for MobileNetV3, ICCV 2019.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardswish(input, self.inplace)


class _Alpha(Module):
    """An activation with a scale alpha for its negative part."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The settings."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha):
    """x where x > 0, else alpha * (exp(x) - 1).

    Source: D.-A. Clevert et al., Fast and accurate deep network learning by exponential linear
    units, ICLR 2016.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Source: J. T. Barron, Continuously differentiable exponential linear units,
    arXiv:1704.07483.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_Inplace):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), constants of the paper.

    Source: G. Klambauer et al., Self-normalizing neural networks, NIPS 2017.
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.selu(input, self.inplace)


class GLU(Module):
    """a * sigmoid(b), a and b the two halves of x along `dim`.

    Example:
        >>> tuple(nn.GLU()(gradlib.randn(4, 2)).shape)
        (4, 1)
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., 2 n, ...] -> [..., n, ...]."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The setting."""
        return f"dim={self.dim}"


class GELU(Module):
    """x * Phi(x), Phi the normal distribution function; or its "tanh" approximation.

    Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, arXiv:1606.08415.

    Example:
        >>> nn.GELU()(gradlib.zeros(1)).tolist()
        [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The setting."""
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """x where |x| > lambd, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The setting."""
        return f"{self.lambd}"


class LeakyReLU(Module):
    """x where x > 0, else negative_slope * x.

    Example:
        >>> nn.LeakyReLU(0.5)(gradlib.tensor([-2.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"negative_slope={self.negative_slope}{inplace}"


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x)))."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The setting."""
        return str(self.lambd)


class PReLU(Module):
    """max(0, x) + a * min(0, x), with a learned slope per channel or for all.

    Source: K. He et al., Delving deep into rectifiers, ICCV 2015.

    Attributes:
        weight: Parameter [num_parameters], starts at `init`.
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All slopes `init`."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """input: [N, num_parameters, *L], or [...] with one parameter -> the same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The setting."""
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.tanhshrink(input)
