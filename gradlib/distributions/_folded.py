"""Positive distributions made of those on the line: HalfNormal, HalfCauchy, LogNormal."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor
from . import constraints
from ._line import Cauchy, Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform, ExpTransform

__all__ = ["HalfCauchy", "HalfNormal", "LogNormal"]


class _Folded(TransformedDistribution):
    """|X|, where the distribution of X is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]
    _base: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = self._base(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the distribution that is folded.

        Example:
            >>> gradlib.distributions.HalfNormal(2.0).scale
            tensor(2.)
        """
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        twice = self.base_dist.log_prob(value) + math.log(2)
        return ops.where(value >= 0, twice, -math.inf)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """The distribution of |X|, where X is normal with the mean 0.

    Args:
        scale: the standard deviation of X, above 0; a number or a tensor.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: `scale` is not above 0.

    Example:
        >>> gradlib.distributions.HalfNormal(1.0).mean
        tensor(0.7979)
    """

    _base = Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.erf(value / self.scale * math.sqrt(0.5))

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * math.sqrt(2) * ops.erfinv(prob)


class HalfCauchy(_Folded):
    """The distribution of |X|, where X has a Cauchy distribution around 0.

    Args:
        scale: the scale of X, above 0; a number or a tensor.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: `scale` is not above 0.

    Example:
        >>> gradlib.distributions.HalfCauchy(1.0).cdf(gradlib.tensor(1.0))
        tensor(0.5000)
    """

    _base = Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * (prob * (math.pi / 2)).tan()


class LogNormal(TransformedDistribution):
    """The distribution of exp(X), where X is normal.

    Args:
        loc: the mean of X; a number or a tensor.
        scale: the standard deviation of X, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.LogNormal(0.0, 1.0).mean
        tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm.

        Example:
            >>> gradlib.distributions.LogNormal(1.0, 2.0).loc
            tensor(1.)
        """
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm.

        Example:
            >>> gradlib.distributions.LogNormal(1.0, 2.0).scale
            tensor(2.)
        """
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
