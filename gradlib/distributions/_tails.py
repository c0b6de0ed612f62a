"""Distributions made of an exponential number, with long or short tails: Weibull, Pareto, GeneralizedPareto."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor
from . import constraints
from ._half_line import Exponential
from .distribution import ONE_DRAW, Distribution, Shape
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .utils import _as_size, broadcast_all, euler_constant

__all__ = ["GeneralizedPareto", "Pareto", "Weibull"]


class Weibull(TransformedDistribution):
    """The Weibull distribution: a power of an exponential number.

    Args:
        scale: what it is multiplied by, above 0; a number or a tensor.
        concentration: the shape, 1 / power, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Weibull(2.0, 1.0).mean
        tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(self.concentration_reciprocal),
            AffineTransform(0, self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.concentration = self.concentration.expand(batch_shape)
        new.concentration_reciprocal = self.concentration_reciprocal.expand(batch_shape)
        return self._expand_base(new, _as_size(batch_shape))

    def _moment(self, n: int) -> Tensor:
        """The expectation of the n-th power, for the scale 1."""
        return ops.lgamma(1 + n * self.concentration_reciprocal).exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        a = self.concentration
        return self.scale * ((a - 1).clamp(min=0) / a) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(TransformedDistribution):
    """The Pareto distribution: a density that falls like a power from the least value on.

    Args:
        scale: the least value, above 0; a number or a tensor.
        alpha: the exponent of the tail, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Pareto(1.0, 2.0).mean
        tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # type: ignore[assignment]

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return self._expand_base(new, _as_size(batch_shape))

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite from there on down
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """The generalised Pareto distribution: what exceeds a high threshold.

    Args:
        loc: the threshold; a number or a tensor.
        scale: above 0.
        concentration: the shape: 0 an exponential tail, above 0 that of a power, below 0 a greatest value.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Source: J. Pickands, Statistical inference using extreme order statistics, Annals of Statistics 3 (1975).

    Example:
        >>> gradlib.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
        tensor(2.)
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameters = ("loc", "scale", "concentration")
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self._set_scalars(validate_args, loc=loc, scale=scale, concentration=concentration)

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the shape is 0, and the shape with 1 there, for quotients that are not used."""
        zero = self.concentration == 0
        return zero, self.concentration.masked_fill(zero, 1.0)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a draw above `value`.

        Args:
            value: a tensor that broadcasts with the batch.

        Returns:
            A tensor of the shape that both broadcast to.

        Example:
            >>> gradlib.distributions.GeneralizedPareto(0.0, 1.0, 0.0).log_survival_function(gradlib.tensor(2.0))
            tensor(-2.)
        """
        zero, shape = self._shape()
        z = (value - self.loc) / self.scale
        base = (shape * z).clamp(min=-1.0)  # beyond the greatest value nothing is left
        return ops.where(zero, -z, -base.log1p() / shape).clamp(max=0.0)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of a draw that is at most `value`.

        Args:
            value: a tensor that broadcasts with the batch.

        Returns:
            A tensor of the shape that both broadcast to.

        Example:
            >>> gradlib.distributions.GeneralizedPareto(0.0, 1.0, 0.0).log_cdf(gradlib.tensor(0.0))
            tensor(-inf)
        """
        return (-self.log_survival_function(value).expm1()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        zero, shape = self._shape()
        z = (value - self.loc) / self.scale
        power = ops.where(zero, -z, -(1 + 1 / shape) * (shape * z).log1p())
        return power - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        zero, shape = self._shape()
        left = (-value).log1p()
        return self.loc + self.scale * ops.where(zero, -left, (-shape * left).expm1() / shape)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    @property
    def mean(self) -> Tensor:
        shape = self.concentration
        return (self.loc + self.scale / (1 - shape)).masked_fill(shape >= 1, math.inf)

    @property
    def mode(self) -> Tensor:
        # the density falls, unless the shape is below -1: then it is infinite at the greatest value
        rises = self.concentration < -1
        top = self.loc - self.scale / self.concentration.masked_fill(~rises, -1.0)
        return ops.where(rises, top, self.loc)

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        finite = self.scale.pow(2) / ((1 - shape).pow(2) * (1 - 2 * shape))
        return finite.masked_fill(shape >= 0.5, math.inf)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        bounded = self.concentration < 0
        top = self.loc - self.scale / self.concentration.masked_fill(~bounded, -1.0)
        return constraints.interval(self.loc, ops.where(bounded, top, math.inf))
