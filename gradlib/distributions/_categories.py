"""Distributions over categories: Categorical, OneHotCategorical and its straight-through form, Multinomial."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..operators.nn.embedding import one_hot
from ..tape import dtypes
from ..tape.tensor import Size, Tensor
from . import constraints
from ._counts import Binomial
from ._probabilities import ProbsOrLogits, need_one
from .distribution import ONE_DRAW, Distribution, Shape
from .utils import _as_size, broadcast_all

__all__ = [
    "Categorical",
    "Multinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
]

_OF_VECTORS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(ProbsOrLogits):
    """An index from 0 to n - 1 with the probabilities of a vector.

    Args:
        probs: [..., n] weights of 0 or more, which are divided by their sum.
        logits: [..., n] their logarithms, up to a constant; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, no dimension, or a parameter outside of its constraint.

    Example:
        >>> gradlib.distributions.Categorical(gradlib.tensor([1.0, 3.0])).probs
        tensor([0.2500, 0.7500])
    """

    arg_constraints = _OF_VECTORS  # type: ignore[assignment]
    has_enumerate_support = True
    _parameters = ("probs", "logits")
    _is_binary = False

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        need_one(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = logits - ops.logsumexp(logits, -1, keepdim=True)
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    def _finish_expanded(self, new: Any, batch_shape: Size) -> Any:
        new._num_events = self._num_events
        return super()._finish_expanded(new, batch_shape)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    def _nans(self) -> Tensor:
        p = self.probs
        return ops.full(self._batch_shape, float("nan"), dtype=p.dtype, device=p.device)

    @property
    def mean(self) -> Tensor:
        return self._nans()  # an index is a name, not a number

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._nans()

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        sample_shape = _as_size(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            if not sample_shape.numel():
                return rows.new_empty(self._extended_shape(sample_shape), dtype=dtypes.int64)
            drawn = ops.multinomial(rows, sample_shape.numel(), True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index, logits = ops.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=dtypes.finfo(self.logits.dtype).min)  # 0 log 0 is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events, dtype=dtypes.int64, device=self._param.device)
        return self._enumerated(values, expand)


class _OfCategorical(Distribution):
    """A distribution of vectors with the parameters of a Categorical, which it keeps."""

    arg_constraints = _OF_VECTORS  # type: ignore[assignment]
    _categorical: Categorical

    def _expanded(self, cls: type, batch_shape: Shape, _instance: Any) -> Any:
        new = self._get_checked_instance(cls, _instance)
        batch_shape = _as_size(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return self._finish_expanded(new, batch_shape)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities, [*batch_shape, n].

        Example:
            >>> gradlib.distributions.OneHotCategorical(gradlib.ones(2)).probs
            tensor([0.5000, 0.5000])
        """
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities, [*batch_shape, n].

        Example:
            >>> gradlib.distributions.OneHotCategorical(gradlib.ones(2)).logits
            tensor([-0.6931, -0.6931])
        """
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and of `logits`.

        Example:
            >>> gradlib.distributions.OneHotCategorical(gradlib.ones(2, 3)).param_shape
            torch.Size([2, 3])
        """
        return self._categorical.param_shape


class OneHotCategorical(_OfCategorical):
    """A vector with a 1 at an index that is drawn from a Categorical, and zeros elsewhere.

    Args:
        probs: [..., n] weights of 0 or more, which are divided by their sum.
        logits: [..., n] their logarithms, up to a constant; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, no dimension, or a parameter outside of its constraint.

    Example:
        >>> gradlib.distributions.OneHotCategorical(gradlib.tensor([0.0, 1.0])).sample()
        tensor([0., 1.])
    """

    support = constraints.one_hot  # type: ignore[assignment]
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self.param_shape[:-1], self.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        return self._expanded(OneHotCategorical, batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        index = self._categorical.sample(sample_shape)
        return one_hot(index, self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = ops.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(n, *[1] * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A OneHotCategorical whose draws have the gradient of the probabilities: a biased estimate.

    Args:
        probs: [..., n] weights of 0 or more, which are divided by their sum.
        logits: [..., n] their logarithms, up to a constant; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Source: Y. Bengio, N. Leonard, A. Courville, Estimating or propagating gradients through stochastic neurons for
    conditional computation, arXiv 1308.3432 (2013).

    Example:
        >>> gradlib.distributions.OneHotCategoricalStraightThrough(gradlib.tensor([0.0, 1.0])).rsample()
        tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(_OfCategorical):
    """How often each of n categories is drawn in `total_count` draws.

    Args:
        total_count: the number of draws, an int.
        probs: [..., n] weights of 0 or more, which are divided by their sum.
        logits: [..., n] their logarithms, up to a constant; one of both is given.
        validate_args: whether parameters and arguments are checked.

    Raises:
        ValueError: both or none of `probs` and `logits`, no dimension, or a parameter outside of its constraint.
        NotImplementedError: `total_count` is no int.

    Example:
        >>> gradlib.distributions.Multinomial(4, gradlib.tensor([1.0, 3.0])).mean
        tensor([1., 3.])
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self.param_shape[:-1], self.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._expanded(Multinomial, batch_shape, _instance)
        new.total_count = self.total_count
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        sample_shape = _as_size(sample_shape)
        with no_grad():
            drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape)
            drawn = drawn.movedim(0, -1)
            counts = self.probs.new_zeros(self._extended_shape(sample_shape))
            return counts.scatter_add(-1, drawn, ops.ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        ways = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        # -log n! - n sum p log p + sum E log x!, where each x is binomial
        n, probs = self.total_count, self.probs
        each = Binomial(n, probs, validate_args=False)
        values = each.enumerate_support(expand=False)[1:]
        factorials = (each.log_prob(values).exp() * ops.lgamma(values + 1)).sum((0, -1))
        return n * self._categorical.entropy() - ops.lgamma(probs.new_tensor(n + 1.0)) + factorials
