"""MixtureSameFamily: a mixture of the members of a batch."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..operators import public as ops
from ..tape.tensor import Tensor
from . import constraints
from ._categories import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import ONE_DRAW, Distribution, Shape
from .utils import _as_size

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of the distributions of a batch, chosen at random for each draw.

    Args:
        mixture_distribution: a Categorical, with the weights of the components.
        component_distribution: a distribution whose last batch dimension counts the components.
        validate_args: whether arguments are checked.

    Raises:
        ValueError: the first is no Categorical, the second no Distribution, or their batches do not fit.

    Example:
        >>> d = gradlib.distributions
        >>> two = d.MixtureSameFamily(d.Categorical(gradlib.ones(2)), d.Normal(gradlib.tensor([-1.0, 1.0]), 1.0))
        >>> two.batch_shape, two.mean, two.variance
        (torch.Size([]), tensor(0.), tensor(2.))
    """

    arg_constraints = {}  # type: ignore[assignment]
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution"
            )
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(weights), reversed(batch), strict=False):
            if 1 not in (a, b) and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({weights}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count = mixture_distribution.logits.shape[-1]
        there = component_distribution.batch_shape[-1]
        if count != there:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({there})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = _as_size(batch_shape)
        components = batch_shape + (self._num_component,)
        new._component_distribution = self._component_distribution.expand(components)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._finish_expanded(new, batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights of the components.

        Example:
            >>> d = gradlib.distributions
            >>> components = d.Normal(gradlib.zeros(2), 1.0)
            >>> d.MixtureSameFamily(d.Categorical(gradlib.ones(2)), components).mixture_distribution.probs
            tensor([0.5000, 0.5000])
        """
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, which the last batch dimension counts.

        Example:
            >>> d = gradlib.distributions
            >>> components = d.Normal(gradlib.zeros(2), 1.0)
            >>> d.MixtureSameFamily(d.Categorical(gradlib.ones(2)), components).component_distribution is components
            True
        """
        return self._component_distribution

    def _weights(self) -> Tensor:
        """The probabilities of the components, with dimensions of 1 for the event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        # the law of total variance: the mean of the variances and the variance of the means
        weights, dim = self._weights(), -1 - self._event_ndims
        means = self._component_distribution.mean
        within = (weights * self._component_distribution.variance).sum(dim)
        off = means - (weights * means).sum(dim, keepdim=True)
        return within + (weights * off * off).sum(dim)

    def _for_components(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1 - self._event_ndims)

    def cdf(self, x: Tensor) -> Tensor:
        each = self._component_distribution.cdf(self._for_components(x))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        each = self._component_distribution.log_prob(self._for_components(x))
        weights = ops.log_softmax(self._mixture_distribution.logits, -1)
        return ops.logsumexp(each + weights, -1)

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        with no_grad():
            sample_shape = _as_size(sample_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            each = self._component_distribution.sample(sample_shape)
            dim = each.dim() - 1 - self._event_ndims
            chosen = chosen.expand(each.shape[:dim] + (1,) + self._event_shape)
            return each.gather(dim, chosen).squeeze(dim)

    def __repr__(self) -> str:
        parts = f"{self._mixture_distribution},\n  {self._component_distribution}"
        return f"MixtureSameFamily(\n  {parts})"
