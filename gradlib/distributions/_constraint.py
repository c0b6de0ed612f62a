"""Constraint, and the constraints that depend on an object or are made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..operators import public as ops
from ..tape.tensor import Tensor


class Constraint:
    """A region of tensors.

    Attributes:
        is_discrete: whether it holds isolated points only.
        event_dim: how many of the last dimensions make one point: 0 for numbers, 1 for vectors, 2 for matrices.

    Example:
        >>> constraint = gradlib.distributions.constraints.simplex
        >>> constraint.is_discrete, constraint.event_dim
        (False, 1)
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether points lie in the region.

        Args:
            value: a tensor whose last `event_dim` dimensions make a point.

        Returns:
            A bool tensor without those dimensions.

        Raises:
            ValueError: the region depends on what is not known here, or `value` has too few dimensions.

        Example:
            >>> gradlib.distributions.constraints.positive.check(gradlib.tensor([-1.0, 1.0]))
            tensor([False,  True])
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}()"


# -- what depends on other parameters ------------------------------------------------------------------------------


class _Dependent(Constraint):
    """A region that depends on the parameters of a distribution.

    Args:
        is_discrete, event_dim: what is known of it all the same.
    """

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        """The same with more that is known of it."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint can only be checked on an object, whose parameters it depends on.

    Args:
        constraint: a constraint.

    Example:
        >>> is_dependent(gradlib.distributions.Uniform.support)
        True
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):  # type: ignore[misc]
    """A property that gives a constraint; as an attribute of the class it is one, which cannot be checked.

    Args:
        fn: the function of the object; without it the result decorates one.
        is_discrete, event_dim: what is known without an object.

    Example:
        >>> class Above:
        ...     def __init__(self, low):
        ...         self.low = low
        ...     @dependent_property(is_discrete=False, event_dim=0)
        ...     def support(self):
        ...         return greater_than(self.low)
        >>> Above.support.event_dim, Above(2.0).support
        (0, GreaterThan(lower_bound=2.0))
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """The property of a function."""
        return type(self)(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# -- made of others ------------------------------------------------------------------------------------------------


def _all_of_last(valid: Tensor, n: int) -> Tensor:
    """Whether all elements of the last `n` dimensions are True."""
    return valid.reshape(valid.shape[: valid.dim() - n] + (-1,)).all(-1)


class _IndependentConstraint(Constraint):
    """A region in which the last batch dimensions of another make one point: all its parts must lie in that.

    Args:
        base_constraint: the other one.
        reinterpreted_batch_ndims: how many dimensions.
    """

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        valid = self.base_constraint.check(value)
        if valid.dim() < self.reinterpreted_batch_ndims:
            wanted = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {wanted} but got {value.dim()}")
        return _all_of_last(valid, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"
        )


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: that of its components, without the dimension that counts them.

    Args:
        base_constraint: the support of the components, whose batch ends with that dimension.

    Example:
        >>> MixtureSameFamilyConstraint(real)
        MixtureSameFamilyConstraint(Real())
    """

    def __init__(self, base_constraint: Any) -> None:
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether it holds isolated points only.

        Example:
            >>> MixtureSameFamilyConstraint(real).is_discrete
            False
        """
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many dimensions make one point.

        Example:
            >>> MixtureSameFamilyConstraint(simplex).event_dim
            1
        """
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        one_more = value.unsqueeze(-1 - self.event_dim)  # for the components
        valid = self.base_constraint.check(one_more)
        if valid.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_of_last(valid, valid.dim() - (value.dim() - self.event_dim))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Cat(Constraint):
    """Regions side by side along a dimension.

    Args:
        cseq: the constraints.
        dim: the dimension.
        lengths: how long each is there; 1 by default.
    """

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        assert all(isinstance(c, Constraint) for c in cseq)
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.cseq)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        assert -value.dim() <= self.dim < value.dim()
        parts = value.split(self.lengths, self.dim)
        return ops.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(Constraint):
    """Regions stacked along a dimension.

    Args:
        cseq: the constraints.
        dim: the dimension.
    """

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        assert all(isinstance(c, Constraint) for c in cseq)
        self.cseq = list(cseq)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        assert -value.dim() <= self.dim < value.dim()
        parts = value.unbind(self.dim)
        return ops.stack([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)
