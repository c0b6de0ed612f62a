"""Registries of transforms from free numbers to constraints: `biject_to` for bijections, `transform_to` for any.

Both give for ``positive`` the same map; for ``simplex`` `biject_to` breaks a stick, whose Jacobian is known, and
`transform_to` is a softmax, which suits optimisers.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], transforms.Transform]


class ConstraintRegistry:
    """A table of functions from constraints to transforms, by the type of the constraint.

    Called with a constraint it gives a transform whose codomain that is.

    Example:
        >>> registry = ConstraintRegistry()
        >>> @registry.register(gradlib.distributions.constraints.positive)
        ... def exp(constraint):
        ...     return gradlib.distributions.ExpTransform()
        >>> registry(gradlib.distributions.constraints.positive)
        ExpTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Enter a function for all constraints of a type.

        Args:
            constraint: a constraint, or a class of constraints.
            factory: a function of a constraint that gives a transform; without it the result decorates one.

        Returns:
            `factory`.

        Raises:
            TypeError: `constraint` is no constraint.

        Example:
            >>> identity = gradlib.distributions.identity_transform
            >>> ConstraintRegistry().register(gradlib.distributions.constraints.real, lambda c: identity) is not None
            True
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """A transform to a constraint; NotImplementedError if none is known for its type."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*wanted: Any) -> Callable[[Factory], Factory]:
    """Enter a function in both registries."""

    def enter(factory: Factory) -> Factory:
        for constraint in wanted:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory

    return enter


@_both(constraints.real)
def _to_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater_than(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_both(constraints.less_than)
def _to_less_than(constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, Number) and value == number


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Any:
    low: Any = constraint.lower_bound
    high: Any = constraint.upper_bound
    if _is_number(low, 0) and _is_number(high, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(
    constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform()
)
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda constraint: transforms.PositiveDefiniteTransform())


def _of_parts(registry: ConstraintRegistry) -> None:
    """Enter what is made of other constraints, with the transforms of these."""

    @registry.register(constraints.independent)
    def _to_independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def _to_cat(constraint: Any) -> Any:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _to_stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


_of_parts(biject_to)
_of_parts(transform_to)
