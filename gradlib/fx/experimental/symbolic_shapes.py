"""Sizes as symbols: gradlib's sizes are numbers, so that questions about them have plain answers."""

from __future__ import annotations

from typing import Any

from ..._refused import refuse

__all__ = [
    "definitely_false",
    "definitely_true",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "hint_int",
    "is_concrete_bool",
    "is_concrete_int",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]

__getattr__ = refuse(
    __name__,
    more=(
        "CallMethodKey ConstraintViolationError DimConstraints DimDynamic DivideByKey EqualityConstraint "
        "GuardOnDataDependentSymNode InnerTensorKey PropagateUnbackedSymInts RelaxedUnspecConstraint "
        "ShapeEnvSettings StrictMinMaxConstraint SymNode constrain_range constrain_unify "
        "free_unbacked_symbols"
    ),
    why="Its sizes are numbers: use them as they are.",
)


def _truth(value: Any) -> bool:
    return bool(value)


def guard_size_oblivious(expr: Any) -> bool:
    """The truth of a question about sizes, which are numbers.

    Example:
        >>> guard_size_oblivious(3 == 1)
        False
    """
    return _truth(expr)


def guard_or_false(expr: Any) -> bool:
    """The truth of a question about sizes; it is always known.

    Example:
        >>> guard_or_false(2 > 1)
        True
    """
    return _truth(expr)


guard_or_true = definitely_true = statically_known_true = guard_or_false


def statically_known_false(expr: Any) -> bool:
    """Whether a question about sizes is answered no; it is always known.

    Example:
        >>> statically_known_false(2 > 1)
        False
    """
    return not expr


definitely_false = statically_known_false


def guard_int(a: Any) -> int:
    """A size as a number.

    Example:
        >>> guard_int(3)
        3
    """
    return int(a)


def hint_int(a: Any, fallback: int | None = None) -> int:
    """A size as a number.

    Args:
        a: the size.
        fallback: accepted: the number is always known.
    """
    return int(a)


def is_concrete_int(a: Any) -> bool:
    """True: sizes are numbers.

    Args:
        a: a size.
    """
    return isinstance(a, int)


def is_concrete_bool(a: Any) -> bool:
    """True: answers about sizes are plain.

    Args:
        a: an answer.
    """
    return isinstance(a, bool)


def has_free_symbols(val: Any) -> bool:
    """False: sizes are numbers.

    Args:
        val: whatever may have sizes in it.
    """
    return False


has_free_unbacked_symbols = has_free_symbols


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two sizes, or tuples or lists of sizes, are equal.

    Example:
        >>> sym_eq((2, 3), (2, 3))
        True
    """
    return type(x) is type(y) and x == y


def sym_and(*values: Any) -> bool:
    """Whether all of several answers are yes.

    Example:
        >>> sym_and(True, 2 > 1)
        True
    """
    return all(values)


def sym_or(*values: Any) -> bool:
    """Whether one of several answers is yes.

    Example:
        >>> sym_or(False, 2 > 1)
        True
    """
    return any(values)
