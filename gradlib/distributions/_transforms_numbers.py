"""Transforms of each number by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from . import constraints
from ._transform import Transform
from .utils import _softplus, _sum_rightmost, lazy_property

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]

Shape = Sequence[int]


class _Elementwise(Transform):
    """A bijection of numbers that has no parameters: two of a class are equal."""

    bijective = True
    sign: Any = 1  # type: ignore[assignment]
    domain = constraints.real

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)


class ExpTransform(_Elementwise):
    """``y = exp(x)``.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.ExpTransform()(gradlib.zeros(1))
        tensor([1.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """``y = x**exponent`` of positive numbers.

    Args:
        exponent: a number or a tensor that broadcasts with `x`.
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.PowerTransform(gradlib.tensor(2.0))(gradlib.tensor(3.0))
        tensor(9.)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else ops.tensor(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        return ops.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return ops.broadcast_shapes(shape, self.exponent.shape)


class SigmoidTransform(_Elementwise):
    """``y = 1 / (1 + exp(-x))``, kept a rounding error away from 0 and 1.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.SigmoidTransform()(gradlib.zeros(1))
        tensor([0.5000])
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = dtypes.finfo(x.dtype)
        return ops.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = dtypes.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -_softplus(-x) - _softplus(x)


class SoftplusTransform(_Elementwise):
    """``y = log(1 + exp(x))``: close to `x` where that is large.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.SoftplusTransform()(gradlib.zeros(1))
        tensor([0.6931])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return _softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -_softplus(-x)


class TanhTransform(_Elementwise):
    """``y = tanh(x)``.

    With a cache, since the inverse is imprecise near -1 and 1; the Jacobian is computed from `x`, and precise.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.TanhTransform()(gradlib.zeros(1))
        tensor([0.])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.atanh(y)  # not clamped: whoever wants that has a cache

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2) = 2 log(2 / (exp(x) + exp(-x))), without the cancellation
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class AbsTransform(Transform):
    """``y = |x|``, whose inverse is taken to be the positive number.

    Args:
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.AbsTransform()(gradlib.tensor([-2.0]))
        tensor([2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """``y = loc + scale * x``.

    Args:
        loc, scale: numbers, or tensors that broadcast with `x`.
        event_dim: how many of the last dimensions make one point, over which the Jacobian is summed.
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> gradlib.distributions.AffineTransform(1.0, 2.0)(gradlib.ones(1))
        tensor([3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def _region(self) -> Any:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._region()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._region()

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)  # type: ignore[operator]
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        if isinstance(scale, Number):
            result = ops.full_like(x, math.log(abs(scale)))  # type: ignore[arg-type]
        else:
            result = scale.abs().log()
        result = _sum_rightmost(result, self.event_dim)
        return result.expand(x.shape[: x.dim() - self.event_dim])

    def _with_parameters(self, shape: Shape) -> Shape:
        return ops.broadcast_shapes(
            shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ())
        )

    def forward_shape(self, shape: Shape) -> Shape:
        return self._with_parameters(shape)

    def inverse_shape(self, shape: Shape) -> Shape:
        return self._with_parameters(shape)


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters, numbers or tensors, are equal."""
    equal = a == b
    return bool(equal.all()) if isinstance(equal, Tensor) else bool(equal)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution of numbers: its draws become uniform in [0, 1].

    Args:
        distribution: one with ``cdf`` and ``log_prob``, and ``icdf`` for the inverse.
        cache_size: 0 or 1, see `Transform`.

    Example:
        >>> d = gradlib.distributions
        >>> d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(gradlib.zeros(1))
        tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = 1  # type: ignore[assignment]

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The support of the distribution.

        Example:
            >>> d = gradlib.distributions
            >>> d.CumulativeDistributionTransform(d.Normal(0.0, 1.0)).domain
            Real()
        """
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
