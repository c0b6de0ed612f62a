"""Distributions on the positive half line: Exponential, and Gamma and its relatives."""

from __future__ import annotations

import math
from typing import Any

from ..operators import public as ops
from ..operators.random.implicit import standard_gamma
from ..tape import dtypes
from ..tape.tensor import Tensor
from . import constraints
from .distribution import ONE_DRAW, Distribution, Shape
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = [
    "Chi2",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "InverseGamma",
]


class Exponential(ExponentialFamily):
    """The time to the next event where events have a constant rate.

    Args:
        rate: events in a unit of time, above 0; a number or a tensor.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a rate that is not above 0.

    Example:
        >>> gradlib.distributions.Exponential(2.0).mean
        tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("rate",)
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        noise = self.rate.detach().new_empty(self._extended_shape(sample_shape)).exponential_()
        return noise / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0


class Gamma(ExponentialFamily):
    """The gamma distribution: the time to the `concentration`-th event of a constant rate.

    Its draws are differentiable in both parameters: see `gradlib.operators.random.implicit`.

    Args:
        concentration: the shape, above 0; a number or a tensor.
        rate: the rate, 1 / scale, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Gamma(3.0, 2.0).mean
        tensor(1.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("concentration", "rate")
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=dtypes.finfo(value.dtype).tiny)  # 0 has no logarithm
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        if not isinstance(value, Tensor):  # numbers, too, as in PyTorch: here alone
            value = ops.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return ops.xlogy(a, rate) + ops.xlogy(a - 1, value) - rate * value - ops.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + ops.lgamma(a) + (1.0 - a) * ops.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return ops.lgamma(x + 1) - (x + 1) * (-y).log()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0


class Chi2(Gamma):
    """The chi-squared distribution: the sum of `df` squares of standard normal numbers.

    Args:
        df: degrees of freedom, above 0; a number or a tensor.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: `df` is not above 0.

    Example:
        >>> gradlib.distributions.Chi2(3.0).mean
        tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}  # type: ignore[assignment]
    _parameters = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom.

        Example:
            >>> gradlib.distributions.Chi2(3.0).df
            tensor(3.)
        """
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """The distribution of 1 / X, where X has a gamma distribution.

    Args:
        concentration: the shape of that, above 0; a number or a tensor.
        rate: the rate of that, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.InverseGamma(3.0, 2.0).mean
        tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma distribution.

        Example:
            >>> gradlib.distributions.InverseGamma(3.0, 2.0).concentration
            tensor(3.)
        """
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution.

        Example:
            >>> gradlib.distributions.InverseGamma(3.0, 2.0).rate
            tensor(2.)
        """
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return (self.rate / (a - 1)).masked_fill(a <= 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return (self.rate.pow(2) / ((a - 1).pow(2) * (a - 2))).masked_fill(a <= 2, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + ops.lgamma(a) - (1 + a) * ops.digamma(a)


class FisherSnedecor(Distribution):
    """The F distribution: the quotient of two chi-squared numbers, each divided by its degrees of freedom.

    Args:
        df1, df2: the degrees of freedom of the numerator and of the denominator, above 0; numbers or tensors.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.FisherSnedecor(1.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # type: ignore[assignment]
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("df1", "df2")
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        return (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, math.nan)

    @property
    def mode(self) -> Tensor:
        inner = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return inner.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        finite = 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))
        return finite.masked_fill(b <= 4, math.nan)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        over = Gamma(0.5 * self.df1, 0.5 * self.df1, validate_args=False).rsample(sample_shape)
        under = Gamma(0.5 * self.df2, 0.5 * self.df2, validate_args=False).rsample(sample_shape)
        value = over / under
        value.detach().clamp_(min=dtypes.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1 / self.df2
        normaliser = ops.lgamma(a + b) - ops.lgamma(a) - ops.lgamma(b)
        power = a * ratio.log() + (a - 1) * value.log()
        return normaliser + power - (a + b) * (ratio * value).log1p()
