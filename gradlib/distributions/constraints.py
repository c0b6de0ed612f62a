"""Constraints: the regions that parameters and draws of distributions lie in, each with a test of membership.

``positive.check(x)`` says of each element whether it is positive, ``simplex.check(x)`` of each vector. A
`constraint_registry` gives transforms from free numbers to such regions.
"""

from __future__ import annotations

from typing import Any

from ..linalg import cholesky_ex, eigvalsh
from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from ._constraint import (
    Constraint,
    MixtureSameFamilyConstraint,
    _all_of_last,
    _Cat,
    _Dependent,
    _DependentProperty,
    _IndependentConstraint,
    _Stack,
    is_dependent,
)

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "independent",
    "integer_interval",
    "interval",
    "half_open_interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "MixtureSameFamilyConstraint",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_semidefinite",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


# -- numbers ---------------------------------------------------------------------------------------------------------


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    """All numbers but nan."""

    def check(self, value: Tensor) -> Tensor:
        return value == value  # False for nan alone


class _Bounded(Constraint):
    """Numbers between bounds, which are shown with their names."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__[1:]}({shown})"


class _Above(_Bounded):
    """Numbers beyond a lower bound, which is a number or a tensor that broadcasts with what is checked."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _Below(_Bounded):
    """Numbers below an upper bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _Between(_Bounded):
    """Numbers between two bounds."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()


class _GreaterThan(_Above):
    """Numbers above `lower_bound`.

    Args:
        lower_bound: a number, or a tensor that broadcasts with what is checked.

    Example:
        >>> greater_than(1.0).check(gradlib.tensor([1.0, 2.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    """Numbers of `lower_bound` or more.

    Args:
        lower_bound: a number, or a tensor that broadcasts with what is checked.

    Example:
        >>> greater_than_eq(1.0).check(gradlib.tensor([0.0, 1.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Below):
    """Numbers below `upper_bound`.

    Args:
        upper_bound: a number, or a tensor that broadcasts with what is checked.

    Example:
        >>> less_than(1.0).check(gradlib.tensor([1.0, 0.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers from `lower_bound` to `upper_bound`, both included.

    Args:
        lower_bound, upper_bound: numbers, or tensors that broadcast with what is checked.

    Example:
        >>> interval(0.0, 1.0).check(gradlib.tensor([2.0, 1.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers from `lower_bound`, which is included, to `upper_bound`, which is not.

    Args:
        lower_bound, upper_bound: numbers, or tensors that broadcast with what is checked.

    Example:
        >>> half_open_interval(0.0, 1.0).check(gradlib.tensor([1.0, 0.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    """Whole numbers from `lower_bound` to `upper_bound`, both included.

    Args:
        lower_bound, upper_bound: numbers, or tensors that broadcast with what is checked.

    Example:
        >>> integer_interval(0, 3).check(gradlib.tensor([0.5, 3.0]))
        tensor([False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    """Whole numbers of `lower_bound` or more."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_Below):
    """Whole numbers of `upper_bound` or less."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


# -- vectors -----------------------------------------------------------------------------------------------------------


class _OneHot(Constraint):
    """Vectors of a single 1 among zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors of numbers of 0 or more whose sum is 1, up to 1e-6."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of numbers of 0 or more whose sum is at most `upper_bound`, as draws of a multinomial distribution are.

    Args:
        upper_bound: a number, or a tensor that broadcasts with what is checked.

    Example:
        >>> multinomial(3).check(gradlib.tensor([[2.0, 2.0], [2.0, 1.0]]))
        tensor([False,  True])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# -- matrices ----------------------------------------------------------------------------------------------------------


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return ops.full(
            value.shape[:-2],
            value.shape[-2] == value.shape[-1],
            dtype=dtypes.bool_,
            device=value.device,
        )


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(Constraint):
    """Lower triangular matrices with a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        positive_diagonal = (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)
        return _all_of_last(value.tril() == value, 2) & positive_diagonal


class _CorrCholesky(Constraint):
    """Cholesky factors of matrices of correlations: lower triangular, rows of length 1, a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        # what rounding does to the norm of a row grows with its length
        tolerance = dtypes.finfo(value.dtype).eps * value.shape[-1] * 10
        unit_rows = ((value * value).sum(-1).sqrt() - 1).abs() < tolerance
        return _LowerCholesky().check(value) & unit_rows.all(-1)


class _Symmetric(_Square):
    """Symmetric matrices, up to 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return _all_of_last(ops.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (cholesky_ex(value).info == 0)


# -- public names ------------------------------------------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack

for _thing in (Constraint, MixtureSameFamilyConstraint, _DependentProperty, is_dependent):
    _thing.__module__ = __name__  # where PyTorch has them
