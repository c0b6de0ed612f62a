"""Independent: batch dimensions taken for dimensions of one draw."""

from __future__ import annotations

from typing import Any

from ..tape.tensor import Tensor
from . import constraints
from .distribution import ONE_DRAW, Distribution, Shape
from .utils import _as_size, _sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose last batch dimensions belong to one draw, so that ``log_prob`` is summed over them.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many of its batch dimensions.
        validate_args: whether arguments are checked.

    Raises:
        ValueError: the distribution has fewer batch dimensions.

    Example:
        >>> d = gradlib.distributions
        >>> normal = d.Independent(d.Normal(gradlib.zeros(2, 3), 1.0), 1)
        >>> normal.batch_shape, normal.event_shape
        (torch.Size([2]), torch.Size([3]))
    """

    arg_constraints = {}  # type: ignore[assignment]
    base_dist: Any

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = _as_size(batch_shape)
        own = self.event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(batch_shape + own)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._finish_expanded(new, batch_shape)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the distribution has ``rsample``.

        Example:
            >>> d = gradlib.distributions
            >>> d.Independent(d.Poisson(gradlib.ones(2)), 1).has_rsample
            False
        """
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether ``enumerate_support`` lists all draws: for 0 dimensions, if the distribution does.

        Example:
            >>> d = gradlib.distributions
            >>> d.Independent(d.Bernoulli(gradlib.ones(2)), 1).has_enumerate_support
            False
        """
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base = self.base_dist.support
        dims = self.reinterpreted_batch_ndims
        return constraints.independent(base, dims) if dims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
