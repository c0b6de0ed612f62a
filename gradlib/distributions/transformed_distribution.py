"""TransformedDistribution: draws of one distribution, mapped by transforms."""

from __future__ import annotations

from typing import Any

from ..autograd.grad_mode import no_grad
from ..tape.tensor import Size, Tensor
from . import constraints
from .distribution import ONE_DRAW, Distribution, Shape
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _as_size, _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``f(X)``, where X has another distribution and f is a bijection.

    Its density is that of X at the inverse of f, divided by the determinant of the Jacobian of f.

    Args:
        base_distribution: the distribution of X; its batch is expanded to what the transforms need, and its batch
            dimensions that they map together become dimensions of the event.
        transforms: a transform, or a list of them, of which the first is applied first.
        validate_args: whether arguments are checked.

    Raises:
        ValueError: no transform is given, or it maps more dimensions together than X has.

    Example:
        >>> d = gradlib.distributions
        >>> logistic = d.TransformedDistribution(d.Uniform(0.0, 1.0), d.SigmoidTransform().inv)
        >>> logistic.log_prob(gradlib.tensor(0.0)).exp()
        tensor(0.2500)
    """

    arg_constraints = {}  # type: ignore[assignment]
    base_dist: Any

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        whole = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims = len(base_distribution.event_shape)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got "
                f"{base_shape}."
            )
        shape = _as_size(whole.forward_shape(base_shape))
        wanted = _as_size(whole.inverse_shape(shape))
        if base_shape != wanted:  # parameters of the transforms have a batch, too
            base_distribution = base_distribution.expand(wanted[: len(wanted) - base_dims])
        together = whole.domain.event_dim - base_dims
        if together > 0:
            base_distribution = Independent(base_distribution, together)
        self.base_dist = base_distribution
        cut = len(shape) - whole.codomain.event_dim - max(-together, 0)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        new = self._get_checked_instance(self._library_class(), _instance)
        return self._expand_base(new, _as_size(batch_shape))

    def _expand_base(self, new: Any, batch_shape: Size) -> Any:
        """Fill a new object with the transforms and the expanded base."""
        shape: Any = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        own = len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(_as_size(shape[: len(shape) - own]))
        new.transforms = self.transforms
        return self._finish_expanded(new, batch_shape)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base distribution has ``rsample``.

        Example:
            >>> d = gradlib.distributions
            >>> d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()]).has_rsample
            True
        """
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ONE_DRAW) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        dims, y = len(self.event_shape), value
        log_jacobian: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            log_jacobian = log_jacobian + _sum_rightmost(term, dims - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return _sum_rightmost(base, dims - len(self.base_dist.event_shape)) - log_jacobian

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """A probability of the base seen through the transforms: 1 less it if they reverse the order."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int):
            return value if sign == 1 else 1 - value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))
