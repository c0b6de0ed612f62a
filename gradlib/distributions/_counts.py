"""Distributions of counts and of yes and no: Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..op.vmap import all_entries
from ..operators import public as ops
from ..operators.elementwise.activation import logsigmoid
from ..tape import dtypes
from ..tape.tensor import Tensor
from . import constraints
from ._half_line import Gamma
from ._probabilities import ProbsOrLogits
from .distribution import ONE_DRAW, Distribution, Shape
from .exp_family import ExponentialFamily
from .utils import _all_true, _softplus, broadcast_all, lazy_property

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def _surprise(logits: Tensor, value: Tensor) -> Tensor:
    """-log p at 1 and -log(1 - p) at 0, and what lies between: the cross entropy of an event with these log-odds."""
    return (1 - value) * logits + _softplus(-logits)


class Bernoulli(ProbsOrLogits, ExponentialFamily):
    """1 with the probability `probs`, else 0.

    Args:
        probs: the probability of 1; a number or a tensor.
        logits: its log-odds; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Example:
        >>> gradlib.distributions.Bernoulli(gradlib.tensor([0.25])).log_prob(gradlib.ones(1)).exp()
        tensor([0.2500])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.boolean  # type: ignore[assignment]
    has_enumerate_support = True
    _parameters = ("probs", "logits")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._choose(probs, logits)
        Distribution.__init__(self, self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -_surprise(logits, value)

    def entropy(self) -> Tensor:
        return _surprise(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        p = self._param
        return self._enumerated(ops.arange(2, dtype=p.dtype, device=p.device), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return _softplus(natural_params[0])

    @property
    def _mean_carrier_measure(self) -> float:
        return 0.0


class Binomial(ProbsOrLogits):
    """The number of successes in `total_count` independent trials.

    Args:
        total_count: the number of trials, an int or a tensor.
        probs: the probability of success; a number or a tensor.
        logits: its log-odds; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Example:
        >>> gradlib.distributions.Binomial(2, gradlib.tensor(0.5)).log_prob(gradlib.tensor(1.0)).exp()
        tensor(0.5000)
    """

    arg_constraints = {  # type: ignore[assignment]
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _parameters = ("total_count", "probs", "logits")

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._choose(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        return ways - value * _softplus(-logits) - (n - value) * _softplus(logits)

    def _one_count(self, what: str) -> int:
        """The number of trials, where it is the same everywhere."""
        count = int(all_entries(self.total_count).max())
        if not _all_true(self.total_count == count):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return count

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        p, count = self._param, self._one_count("enumerate_support")
        return self._enumerated(ops.arange(1 + count, dtype=p.dtype, device=p.device), expand)


class Geometric(ProbsOrLogits):
    """The number of failures before the first success: ``(1 - p)**k * p``.

    Args:
        probs: the probability of success, in (0, 1]; a number or a tensor.
        logits: its log-odds; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Example:
        >>> gradlib.distributions.Geometric(gradlib.tensor(0.5)).log_prob(gradlib.tensor(1.0)).exp()
        tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.nonnegative_integer  # type: ignore[assignment]
    _parameters = ("probs", "logits")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._choose(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None:
            positive = self.probs > 0  # at 0 there would never be a success
            if not _all_true(positive):
                bad = all_entries(self.probs.detach())[all_entries(~positive)]
                raise ValueError(
                    f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                    f"distribution {self!r} to be positive but found invalid values:\n{bad}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        # the quantile of a uniform number: how often (1 - p) goes into it
        p = self.probs
        with no_grad():
            u = ops.rand(self._extended_shape(sample_shape), dtype=p.dtype, device=p.device)
            u = u.clamp(min=dtypes.finfo(p.dtype).tiny)
            return (u.log() / (-p).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        fails = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 log 0 is 0
        return value * (-fails).log1p() + probs.log()

    def entropy(self) -> Tensor:
        return _surprise(self.logits, self.probs) / self.probs


class NegativeBinomial(ProbsOrLogits):
    """The number of successes before `total_count` failures; also a Poisson distribution with a Gamma as its rate.

    Args:
        total_count: the number of failures, 0 or more, not always whole; a number or a tensor.
        probs: the probability of success, in [0, 1); a number or a tensor.
        logits: its log-odds; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Example:
        >>> gradlib.distributions.NegativeBinomial(2.0, gradlib.tensor(0.5)).mean
        tensor(2.)
    """

    arg_constraints = {  # type: ignore[assignment]
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer  # type: ignore[assignment]
    _parameters = ("total_count", "probs", "logits")

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._choose(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        """The distribution of the rate."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        kernel = n * logsigmoid(-logits) + value * logsigmoid(logits)
        ways = ops.lgamma(n + value) - ops.lgamma(1.0 + value) - ops.lgamma(n)
        return kernel + ways.masked_fill(
            n + value == 0.0, 0.0
        )  # no failure wanted, no success seen


class Poisson(ExponentialFamily):
    """The number of events of a constant rate: ``rate**k * exp(-rate) / k!``.

    Args:
        rate: the expected number, 0 or more; a number or a tensor.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a negative rate.

    Example:
        >>> gradlib.distributions.Poisson(2.0).log_prob(gradlib.tensor(0.0))
        tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}  # type: ignore[assignment]
    support = constraints.nonnegative_integer  # type: ignore[assignment]
    _parameters = ("rate",)
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set_scalars(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return ops.xlogy(value, rate) - rate - ops.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()
