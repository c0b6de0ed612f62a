"""Activation functions as modules."""

from __future__ import annotations

from ...tape.tensor import Tensor
from .. import functional as F
from . import piecewise, softmax
from .attention import MultiheadAttention
from .module import Module
from .piecewise import *  # noqa: F403
from .piecewise import _Inplace
from .softmax import *  # noqa: F403

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "LogSigmoid",
    "Mish",
    "MultiheadAttention",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]
__all__ += piecewise.__all__
__all__ += softmax.__all__


class Sigmoid(Module):
    """1 / (1 + exp(-x)), element by element.

    Shape:
        [...] -> the same; integers and bool become the default dtype.

    Example:
        >>> nn.Sigmoid()(gradlib.tensor([0.0])).tolist()
        [0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return input.sigmoid()


class Tanh(Module):
    """tanh(x) = (exp(x) - exp(-x)) / (exp(x) + exp(-x)), element by element.

    Shape:
        [...] -> the same; integers and bool become the default dtype.

    Example:
        >>> nn.Tanh()(gradlib.tensor([0.0, 50.0])).tolist()
        [0.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return input.tanh()


class SiLU(_Inplace):
    """x * sigmoid(x), also called swish; element by element.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, arXiv:1606.08415 (2016).

    Example:
        >>> [round(v, 4) for v in nn.SiLU()(gradlib.tensor([-1.0, 0.0, 1.0])).tolist()]
        [-0.2689, 0.0, 0.7311]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.silu(input, inplace=self.inplace)


class Mish(_Inplace):
    """x * tanh(log(1 + exp(x))), element by element.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: D. Misra, Mish: a self regularized non-monotonic activation function,
    arXiv:1908.08681 (2019).

    Example:
        >>> [round(v, 4) for v in nn.Mish()(gradlib.tensor([-1.0, 0.0, 1.0])).tolist()]
        [-0.3034, 0.0, 0.8651]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.mish(input, inplace=self.inplace)


class _Alpha(_Inplace):
    """An activation with a factor for the negative side."""

    _shown = "alpha={0.alpha}"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class ELU(_Alpha):
    """x where x > 0, else alpha * (exp(x) - 1); element by element.

    Args:
        alpha: minus the limit far on the left.
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: D.-A. Clevert et al., Fast and accurate deep network learning by exponential linear
    units, ICLR 2016.

    Example:
        >>> [round(v, 4) for v in nn.ELU()(gradlib.tensor([-1.0, 2.0])).tolist()]
        [-0.6321, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)): an `ELU` whose slope at 0 is 1 for any alpha.

    Args:
        alpha: minus the limit far on the left.
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: J. T. Barron, Continuously differentiable exponential linear units,
    arXiv:1704.07483 (2017).

    Example:
        >>> [round(v, 4) for v in nn.CELU(2.0)(gradlib.tensor([-2.0, 2.0])).tolist()]
        [-1.2642, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.celu(input, self.alpha, self.inplace)


class SELU(_Inplace):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))), alpha 1.6733 and scale 1.0507.

    With these constants, layers of independent inputs keep mean 0 and variance 1; initialise
    their weights with `nn.init.kaiming_normal_(weight, nonlinearity="linear")` and use `AlphaDropout`.

    Args:
        inplace: overwrite the input and return it.

    Shape:
        [...] -> the same.

    Source: G. Klambauer et al., Self-normalizing neural networks, NIPS 2017.

    Example:
        >>> [round(v, 4) for v in nn.SELU()(gradlib.tensor([-1.0, 1.0])).tolist()]
        [-1.1113, 1.0507]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.selu(input, self.inplace)


class GLU(Module):
    """a * sigmoid(b), a and b the two halves of x along `dim`.

    Args:
        dim: the dimension that is halved.

    Shape:
        [..., 2 n, ...] -> [..., n, ...].

    Raises:
        RuntimeError: that dimension is of odd size.

    Source: Y. Dauphin et al., Language modeling with gated convolutional networks, ICML 2017.

    Example:
        >>> nn.GLU()(gradlib.tensor([4.0, 0.0])).tolist()
        [2.0]
    """

    _shown = "dim={0.dim}"

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """input: [..., 2 n, ...] -> [..., n, ...]."""
        return F.glu(input, self.dim)


class GELU(Module):
    """x * Phi(x), Phi the distribution function of N(0, 1); element by element.

    Args:
        approximate: "none", or "tanh" for x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3))).

    Shape:
        [...] -> the same.

    Raises:
        RuntimeError: another `approximate`.

    Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, arXiv:1606.08415 (2016).

    Example:
        >>> [round(v, 4) for v in nn.GELU()(gradlib.tensor([-1.0, 0.0, 1.0])).tolist()]
        [-0.1587, 0.0, 0.8413]
    """

    _shown = "approximate={0.approximate!r}"

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.gelu(input, approximate=self.approximate)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x))), without overflow for large -x.

    Shape:
        [...] -> the same.

    Example:
        >>> [round(v, 4) for v in nn.LogSigmoid()(gradlib.tensor([0.0, -1000.0])).tolist()]
        [-0.6931, -1000.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold.

    Args:
        beta: the larger, the closer to max(0, x).
        threshold: beyond which the exponential is left out.

    Shape:
        [...] -> the same.

    Raises:
        NotImplementedError: the input is integer or bool.

    Example:
        >>> [round(v, 4) for v in nn.Softplus()(gradlib.tensor([0.0, 30.0])).tolist()]
        [0.6931, 30.0]
    """

    _shown = "beta={0.beta}, threshold={0.threshold}"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softplus(input, self.beta, self.threshold)


class Softsign(Module):
    """x / (1 + |x|), element by element: in (-1, 1).

    Shape:
        [...] -> the same.

    Example:
        >>> nn.Softsign()(gradlib.tensor([-1.0, 3.0])).tolist()
        [-0.5, 0.75]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x), element by element.

    Shape:
        [...] -> the same.

    Example:
        >>> [round(v, 4) for v in nn.Tanhshrink()(gradlib.tensor([0.0, 1.0])).tolist()]
        [0.0, 0.2384]
    """

    def forward(self, input: Tensor) -> Tensor:
        """input: [...] -> the same shape."""
        return F.tanhshrink(input)
