"""Continuous relaxations of discrete distributions, and the logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from ..operators import public as ops
from ..tape.tensor import Size, Tensor
from . import constraints
from ._categories import Categorical
from ._line import Normal
from ._probabilities import ProbsOrLogits
from .distribution import ONE_DRAW, Distribution, Shape
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform, StickBreakingTransform
from .utils import _as_size, _softplus, clamp_probs

__all__ = [
    "ExpRelaxedCategorical",
    "LogisticNormal",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The log-odds of a relaxed Bernoulli number: logistic noise around `logits`, divided by the temperature.

    Args:
        temperature: above 0; the lower, the closer the number is to 0 or 1.
        probs: the probability of 1; a number or a tensor.
        logits: its log-odds; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Source: C. J. Maddison, A. Mnih, Y. W. Teh, The concrete distribution, ICLR 2017.

    Example:
        >>> d = gradlib.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(1.0, probs=gradlib.tensor(0.5))
        >>> d.log_prob(gradlib.tensor(0.0)).exp()
        tensor(0.2500)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True
    _parameters = ("probs", "logits")

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._choose(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        new.temperature = self.temperature
        return super()._finish_expanded(new, batch_shape)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        shape, probs = self._extended_shape(sample_shape), clamp_probs(self.probs)
        u = clamp_probs(ops.rand(shape, dtype=probs.dtype, device=probs.device))
        logistic = u.log() - (-u).log1p()
        return (logistic + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        off = self.logits - value * self.temperature
        return _log(self.temperature) + off - 2 * _softplus(off)


def _log(temperature: Any) -> Any:
    return temperature.log() if isinstance(temperature, Tensor) else ops.tensor(temperature).log()


class _Relaxed(TransformedDistribution):
    """A relaxed distribution of numbers or vectors, made of that of their log-odds or logarithms."""

    has_rsample = True  # type: ignore[assignment]

    @property
    def temperature(self) -> Any:
        """The temperature.

        Example:
            >>> gradlib.distributions.RelaxedBernoulli(0.5, probs=gradlib.tensor(0.5)).temperature
            0.5
        """
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log-odds of a number, or the logarithms of the probabilities of a vector, [*batch_shape, n].

        Example:
            >>> gradlib.distributions.RelaxedOneHotCategorical(0.5, gradlib.ones(2)).logits
            tensor([-0.6931, -0.6931])
        """
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of a number, or those of a vector, [*batch_shape, n].

        Example:
            >>> gradlib.distributions.RelaxedBernoulli(0.5, probs=gradlib.tensor(0.5)).probs
            tensor(0.5000)
        """
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A number in (0, 1) close to a Bernoulli one, whose draws are differentiable in the probability.

    Args:
        temperature: above 0; the lower, the closer the number is to 0 or 1.
        probs: the probability of 1; a number or a tensor.
        logits: its log-odds; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, or a parameter outside of its constraint.

    Source: C. J. Maddison, A. Mnih, Y. W. Teh, The concrete distribution, ICLR 2017; E. Jang, S. Gu, B. Poole,
    Categorical reparameterization with Gumbel-softmax, ICLR 2017.

    Example:
        >>> gradlib.distributions.RelaxedBernoulli(gradlib.tensor(0.1), probs=gradlib.tensor(0.5)).has_rsample
        True
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.unit_interval  # type: ignore[assignment]

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a relaxed one-hot vector: Gumbel noise around `logits`, divided by the temperature, normalised.

    Args:
        temperature: above 0; the lower, the closer the vector is to a one-hot one.
        probs: [..., n] weights of 0 or more, which are divided by their sum.
        logits: [..., n] their logarithms, up to a constant; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, no dimension, or a parameter outside of its constraint.

    Source: C. J. Maddison, A. Mnih, Y. W. Teh, The concrete distribution, ICLR 2017.

    Example:
        >>> d = gradlib.distributions.relaxed_categorical.ExpRelaxedCategorical(1.0, gradlib.ones(2))
        >>> d.rsample().shape
        torch.Size([2])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        batch_shape = _as_size(batch_shape)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expanded(new, batch_shape)

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and of `logits`.

        Example:
            >>> d = gradlib.distributions.relaxed_categorical
            >>> d.ExpRelaxedCategorical(1.0, gradlib.ones(2)).param_shape
            torch.Size([2])
        """
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities, [*batch_shape, n].

        Example:
            >>> d = gradlib.distributions.relaxed_categorical
            >>> d.ExpRelaxedCategorical(1.0, gradlib.ones(2)).logits
            tensor([-0.6931, -0.6931])
        """
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities, [*batch_shape, n].

        Example:
            >>> d = gradlib.distributions.relaxed_categorical
            >>> d.ExpRelaxedCategorical(1.0, gradlib.ones(2)).probs
            tensor([0.5000, 0.5000])
        """
        return self._categorical.probs

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        logits = self.logits
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(ops.rand(shape, dtype=logits.dtype, device=logits.device))
        return ops.log_softmax((logits - (-u.log()).log()) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        logits, value = ops.broadcast_tensors(self.logits, value)
        score = ops.log_softmax(logits - value * self.temperature, -1).sum(-1)
        factorial = ops.lgamma(value.new_tensor(float(n)))
        return score + factorial + (n - 1) * _log(self.temperature)


class RelaxedOneHotCategorical(_Relaxed):
    """A point of the simplex close to a one-hot vector, whose draws are differentiable in the probabilities.

    Args:
        temperature: above 0; the lower, the closer the vector is to a one-hot one.
        probs: [..., n] weights of 0 or more, which are divided by their sum.
        logits: [..., n] their logarithms, up to a constant; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, no dimension, or a parameter outside of its constraint.

    Source: C. J. Maddison, A. Mnih, Y. W. Teh, The concrete distribution, ICLR 2017; E. Jang, S. Gu, B. Poole,
    Categorical reparameterization with Gumbel-softmax, ICLR 2017.

    Example:
        >>> gradlib.distributions.RelaxedOneHotCategorical(gradlib.tensor(0.5), gradlib.ones(2, 3)).rsample().shape
        torch.Size([2, 3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    support = constraints.simplex  # type: ignore[assignment]

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)


class LogisticNormal(TransformedDistribution):
    """A point of the simplex: a normal vector, mapped by `StickBreakingTransform`.

    Args:
        loc: [..., n] means; the points have n + 1 elements.
        scale: [..., n] standard deviations, above 0.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> gradlib.distributions.LogisticNormal(gradlib.zeros(2), gradlib.ones(2)).event_shape
        torch.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal vector.

        Example:
            >>> gradlib.distributions.LogisticNormal(gradlib.zeros(2), gradlib.ones(2)).loc
            tensor([0., 0.])
        """
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal vector.

        Example:
            >>> gradlib.distributions.LogisticNormal(gradlib.zeros(2), gradlib.ones(2)).scale
            tensor([1., 1.])
        """
        return self.base_dist.base_dist.scale
