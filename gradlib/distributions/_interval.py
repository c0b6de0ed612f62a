"""Distributions on an interval: Uniform, Beta, Kumaraswamy, ContinuousBernoulli."""

from __future__ import annotations

import math
from typing import Any

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Size, Tensor
from . import constraints
from ._probabilities import ProbsOrLogits
from ._simplex import Dirichlet
from .distribution import ONE_DRAW, Distribution, Shape
from .exp_family import ExponentialFamily
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import _all_true, _as_size, broadcast_all, clamp_probs, euler_constant

__all__ = ["Beta", "ContinuousBernoulli", "Kumaraswamy", "Uniform"]


class Uniform(Distribution):
    """The uniform distribution in [low, high).

    Args:
        low, high: the bounds; numbers or tensors.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: `low` is not below `high`.

    Example:
        >>> gradlib.distributions.Uniform(0.0, 4.0).log_prob(gradlib.tensor(1.0)).exp()
        tensor(0.2500)
    """

    has_rsample = True
    _parameters = ("low", "high")
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = ops.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Beta(ExponentialFamily):
    """The beta distribution, of a random probability.

    Its draws are differentiable in both parameters, as those of a `Dirichlet` of two categories, which it keeps.

    Args:
        concentration1: the first parameter (alpha), above 0; a number or a tensor.
        concentration0: the second parameter (beta), above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.Beta(1.0, 3.0).mean
        tensor(0.2500)
    """

    arg_constraints = {  # type: ignore[assignment]
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = ops.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        batch_shape = _as_size(batch_shape)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return self._finish_expanded(new, batch_shape)

    @property
    def concentration1(self) -> Tensor:
        """The first parameter.

        Example:
            >>> gradlib.distributions.Beta(1.0, 3.0).concentration1
            tensor(1.)
        """
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The second parameter.

        Example:
            >>> gradlib.distributions.Beta(1.0, 3.0).concentration0
            tensor(3.)
        """
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        normaliser = ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
        return ops.xlogy(a - 1, value) + ops.xlogy(b - 1, 1 - value) - normaliser

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution: close to a beta distribution, with a simple cumulative distribution function.

    Args:
        concentration1: the first parameter (a), above 0; a number or a tensor.
        concentration0: the second parameter (b), above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Source: P. Kumaraswamy, A generalized probability density function for double-bounded random processes, J. Hydrology
    46 (1980).

    Example:
        >>> gradlib.distributions.Kumaraswamy(1.0, 3.0).mean
        tensor(0.2500)
    """

    arg_constraints = {  # type: ignore[assignment]
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self.concentration1, self.concentration0 = a, b
        base = Uniform(ops.zeros_like(a), ops.ones_like(a), validate_args=validate_args)
        transforms = [
            PowerTransform(b.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(a.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return self._expand_base(new, _as_size(batch_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        # this and the next two not by the transforms, which lose values close to 0
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        rest = ops.xlogy(a - 1, value) + ops.xlogy(b - 1, 1 - value.pow(a))
        return a.log() + b.log() + rest

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(self.concentration0 * (-value.pow(self.concentration1)).log1p()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        left = (-value).log1p() / self.concentration0
        return (-left.expm1()).pow(1 / self.concentration1)

    def _moment(self, n: int) -> Tensor:
        """The expectation of the n-th power: b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        power = 1 + n / a
        return (ops.lgamma(power) + ops.lgamma(b + 1) - ops.lgamma(power + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** (1 / a)
        return mode.masked_fill((a < 1) | (b < 1) | ((a == 1) & (b == 1)), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ops.digamma(b + 1) + euler_constant
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


class ContinuousBernoulli(ProbsOrLogits, ExponentialFamily):
    """The continuous Bernoulli distribution: a density in [0, 1] that is proportional to ``p**x * (1 - p)**(1 - x)``.

    With the logits l it is an exponential function, exp(l x), that is cut off at 1.

    Args:
        probs: p, in (0, 1), which is not the mean; a number or a tensor.
        logits: its log-odds; one of both is given.
        lims: `probs` between these are taken for close to 1/2, where Taylor series are used.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Source: G. Loaiza-Ganem, J. P. Cunningham, The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders, NeurIPS 2019.

    Example:
        >>> gradlib.distributions.ContinuousBernoulli(gradlib.tensor(0.5)).mean
        tensor(0.5000)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("probs", "logits")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._choose(probs, logits)
        if probs is not None:
            wanted = self._validate_args if validate_args is None else validate_args
            if wanted and not _all_true(constraints.unit_interval.check(self.probs)):
                raise ValueError("The parameter probs has invalid values")
            setattr(self, "probs", clamp_probs(self.probs))  # noqa: B010  # the given one
        self._lims = lims
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        new._lims = self._lims
        return super()._finish_expanded(new, batch_shape)

    def _sides(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where p is close to 1/2, the logits, and the logits with 1 there, for quotients that are not used."""
        probs, logits = self.probs, self.logits
        close = (probs > self._lims[0]) & (probs < self._lims[1])
        return close, logits, logits.masked_fill(close, 1.0)

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of l / (exp(l) - 1), so that the density is that times exp(l x)."""
        close, odds, away = self._sides()
        size = away.abs()
        whole = size.log() - away.clamp(min=0) - (-(-size).expm1()).log()
        square = odds * odds
        return ops.where(close, -odds / 2 - square / 24 + square * square / 2880, whole)

    @property
    def mean(self) -> Tensor:
        close, odds, away = self._sides()
        whole = -1 / (-away).expm1() - 1 / away
        return ops.where(close, 0.5 + odds / 12 - odds**3 / 720, whole)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        close, odds, away = self._sides()
        half = away.abs() / 2
        ratio = 2 * (-half).exp() / -(-2 * half).expm1()  # 1 / sinh
        whole = away.pow(-2) - ratio * ratio / 4
        square = odds * odds
        return ops.where(close, 1 / 12 - square / 240 + square * square / 6048, whole)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        p, shape = self._param, self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=p.dtype, device=p.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.logits * value + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        close, odds, away = self._sides()
        size = away.abs()
        # (exp(l x) - 1) / (exp(l) - 1), where nothing overflows
        shrunk = (away.clamp(min=0) * (value - 1)).exp()
        whole = shrunk * (-size * value).expm1() / (-size).expm1()
        bend = odds * value * (value - 1)
        return ops.where(close, value + bend / 2 * (1 + odds * (2 * value - 1) / 6), whole)

    def icdf(self, value: Tensor) -> Tensor:
        close, odds, away = self._sides()
        up, size = away > 0, away.abs()
        # from the end where the density is small: log(1 - q + q exp(l)), in which exp must not overflow
        q = ops.where(up, value, 1 - value)
        most = math.log(dtypes.finfo(size.dtype).max) - 1
        fits = size < most  # beyond, exp(-l) is nothing beside q
        part = ops.where(
            fits,
            (q * size.clamp(max=most).expm1()).log1p() / size,
            1 + q.masked_fill(fits, 1.0).log() / size,
        )
        # from the other end: exact for small p, too
        small = -(value.clamp(max=0.5) * (-size).expm1()).log1p() / size
        whole = ops.where(up, part, ops.where(value > 0.5, 1 - part, small)).clamp(0, 1)
        bend = odds * value * (1 - value)
        near = value + bend / 2 * (1 + odds * (1 - 2 * value) / 3)
        return ops.where(close, near, whole)

    def entropy(self) -> Tensor:
        return -self._cont_bern_log_norm() - self.logits * self.mean

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -ContinuousBernoulli(
            logits=natural_params[0], validate_args=False
        )._cont_bern_log_norm()

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0
