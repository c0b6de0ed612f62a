"""The Dirichlet distribution, on the simplex."""

from __future__ import annotations

from ..operators import public as ops
from ..operators.nn.embedding import one_hot
from ..operators.random.implicit import sample_dirichlet
from ..tape.tensor import Tensor
from . import constraints
from .distribution import ONE_DRAW, Shape
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution: random probabilities of n categories.

    Its draws are differentiable in the concentration: see `gradlib.operators.random.implicit`.

    Args:
        concentration: [..., n] numbers above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: `concentration` has no dimension, or is not above 0.

    Example:
        >>> gradlib.distributions.Dirichlet(gradlib.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # type: ignore[assignment]
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("concentration",)

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        return sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return ops.xlogy(a - 1.0, value).sum(-1) + ops.lgamma(a.sum(-1)) - ops.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        more = (self.concentration - 1).clamp(min=0.0)
        inner = more / more.sum(-1, True)
        # with all concentrations below 1 the corners are modes: one of those
        corner = one_hot(inner.argmax(-1), inner.shape[-1]).to(inner.dtype)
        return ops.where((self.concentration < 1).all(-1, keepdim=True), corner, inner)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, n = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return (
            ops.lgamma(a).sum(-1)
            - ops.lgamma(total)
            - (n - total) * ops.digamma(total)
            - ((a - 1.0) * ops.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return ops.lgamma(x).sum(-1) - ops.lgamma(x.sum(-1))
