"""Distributions of matrices: Wishart, and LKJCholesky of correlations."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from .. import linalg
from ..autograd.grad_mode import no_grad
from ..op.vmap import all_entries
from ..operators import public as ops
from ..tape.tensor import Size, Tensor
from . import constraints
from ._half_line import Chi2
from ._interval import Beta
from ._normals import ByCholesky, log_diagonal, only_matrix
from .distribution import ONE_DRAW, Distribution, Shape
from .exp_family import ExponentialFamily
from .utils import _all_true, _as_size, _standard_normal, broadcast_all

__all__ = ["LKJCholesky", "Wishart"]

linalg: Any


def _digamma_sum(half: Tensor, n: int) -> Tensor:
    """The derivative of `mvlgamma`: the sum of digamma(half - k / 2) over k < n."""
    steps = ops.arange(n, dtype=half.dtype, device=half.device) / 2
    return ops.digamma(half.unsqueeze(-1) - steps).sum(-1)


class Wishart(ByCholesky, ExponentialFamily):
    """The Wishart distribution: the sum of `df` products x x^T of normal vectors, for a whole `df`.

    Args:
        df: degrees of freedom, above n - 1; a number or a tensor.
        covariance_matrix: [..., n, n] that of the vectors, positive definite.
        precision_matrix: its inverse.
        scale_tril: its Cholesky factor, lower triangular; one of the three is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: too few degrees of freedom or dimensions, or a parameter outside of its constraint.
        AssertionError: none or several of the matrices.

    Source: M. S. Bartlett, On the theory of statistical regression, Proc. R. Soc. Edinburgh 53 (1933): how it is drawn.

    Example:
        >>> gradlib.distributions.Wishart(gradlib.tensor(3.0), gradlib.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("df", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = only_matrix(
            covariance_matrix, precision_matrix, scale_tril, error=AssertionError
        )
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        if isinstance(df, Number):
            df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = ops.broadcast_shapes(matrix.shape[:-2], df.shape)
        event = matrix.shape[-2:]
        self.df = df.expand(batch)
        if not _all_true(~(self.df <= event[-1] - 1)):
            raise ValueError(
                f"Value of df={all_entries(df)} expected to be greater than ndim - 1 = {event[-1] - 1}."
            )
        setattr(self, name, matrix.expand(batch + event))
        super().__init__(batch, event, validate_args=validate_args)
        if not _all_true(~(self.df < event[-1])):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self._set_factor(name, matrix)

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (v.pow(2) + outer)

    def rsample(
        self, sample_shape: Shape = ONE_DRAW, max_try_correction: int | None = None
    ) -> Tensor:
        # nothing is corrected: draws are of full rank but for rounding
        # L A A^T L^T: A has the roots of chi-squared numbers on its diagonal, and normal ones below
        n = self._event_shape[-1]
        shape = _as_size(sample_shape) + self._batch_shape
        steps = ops.arange(n, dtype=self.df.dtype, device=self.df.device)
        squares = Chi2(self.df.unsqueeze(-1) - steps, validate_args=False).rsample(sample_shape)
        noise = _standard_normal(shape + (n, n), self.df.dtype, self.df.device)
        product = self._unbroadcasted_scale_tril @ (noise.tril(-1) + squares.sqrt().diag_embed())
        return product @ product.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, n, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        root = linalg.cholesky(value)
        # trace(V^-1 X) is the sum of the squares of L^-1 times the root of X
        trace = linalg.solve_triangular(factor, root, upper=False).pow(2).sum((-2, -1))
        normaliser = df * (n * math.log(2) / 2 + log_diagonal(factor)) + ops.mvlgamma(df / 2, n)
        return (df - n - 1) * log_diagonal(root) - trace / 2 - normaliser

    def entropy(self) -> Tensor:
        df, n = self.df, self._event_shape[-1]
        return (
            (n + 1) * (n * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril))
            + ops.mvlgamma(df / 2, n)
            - (df - n - 1) / 2 * _digamma_sum(df / 2, n)
            + df * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        n = self._event_shape[-1]
        half = y + (n + 1) / 2  # df / 2
        return half * (n * math.log(2) - linalg.slogdet(-2 * x).logabsdet) + ops.mvlgamma(half, n)

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0


class LKJCholesky(Distribution):
    """The Cholesky factors of matrices of correlations, with a density of those like det(R)**(concentration - 1).

    With the concentration 1 all matrices of correlations are equally probable; above, those close to the identity more.

    Args:
        dim: n, 2 or more.
        concentration: above 0; a number or a tensor.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: `dim` is below 2, or a concentration is not above 0.

    Source: D. Lewandowski, D. Kurowicka, H. Joe, Generating random correlation matrices based on vines and extended
    onion method, J. Multivariate Analysis 100 (2009), section 3.2.

    Example:
        >>> gradlib.distributions.LKJCholesky(3, 0.5).sample()[0]
        tensor([1., 0., 0.])
    """

    arg_constraints = {"concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.corr_cholesky  # type: ignore[assignment]
    _parameters = ("concentration",)
    concentration: Tensor

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        new.dim = self.dim
        return super()._finish_expanded(new, batch_shape)

    def _row_lengths(self) -> Beta:
        """The squared lengths of the rows left of the diagonal, from the second on."""
        c = self.concentration
        k = ops.arange(1, self.dim, dtype=c.dtype, device=c.device)
        return Beta(k / 2, c.unsqueeze(-1) + (self.dim - 1 - k) / 2, validate_args=False)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        # each row is a random direction left of the diagonal, with a random length, and what is left to 1
        with no_grad():
            c, n = self.concentration, self.dim
            square = self._row_lengths().sample(sample_shape)
            shape = _as_size(sample_shape) + self._batch_shape
            direction = _standard_normal(shape + (n - 1, n), c.dtype, c.device).tril()
            direction = direction / direction.norm(dim=-1, keepdim=True)
            below = square.sqrt().unsqueeze(-1) * direction
            first = c.new_zeros(shape + (1, n))
            diagonal = ops.cat([c.new_ones(shape + (1,)), (1 - square).sqrt()], -1)
            return ops.cat([first, below], -2).tril(-1) + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # each row has a uniform direction and a beta-distributed squared length y, so the density
        # (1 - y)^(b - 1) gamma(k / 2 + b) / (gamma(b) pi^(k / 2)), where 1 - y is the square of the diagonal
        c, n = self.concentration, self.dim
        k = ops.arange(1, n, dtype=c.dtype, device=c.device)
        b = c.unsqueeze(-1) + (n - 1 - k) / 2
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        density = (2 * (b - 1) * diagonal.log()).sum(-1)
        normaliser = (ops.lgamma(b).sum(-1) - (n - 1) * ops.lgamma(c + (n - 1) / 2)) + n * (
            n - 1
        ) / 4 * math.log(math.pi)
        return density - normaliser
