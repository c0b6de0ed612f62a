"""The Kullback-Leibler divergence of two distributions, by the types of both."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..tape.tensor import Tensor
from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}  # what is registered
_KL_MEMOIZE: dict[tuple[type, type], Callable[..., Any]] = {}  # what was found for two types


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function that computes the divergence of a distribution of one type from one of another.

    It serves subclasses, too. Of several functions that fit two types the closest one is used: closest in both types,
    or else in the first, with a warning.

    Args:
        type_p, type_q: subclasses of Distribution.

    Raises:
        TypeError: something else.

    Example:
        >>> class Exact(gradlib.distributions.Normal):
        ...     pass
        >>> @gradlib.distributions.register_kl(Exact, Exact)
        ... def same(p, q):
        ...     return gradlib.zeros(())
        >>> gradlib.distributions.kl_divergence(Exact(0.0, 1.0), Exact(1.0, 1.0))
        tensor(0.)
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type) or not issubclass(given, Distribution):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return enter


def _closest(p: type, q: type) -> Callable[..., Any]:
    """The registered function that fits two types best; NotImplemented if none does."""

    def distance(types: tuple[type, type]) -> tuple[int, int]:
        return p.__mro__.index(types[0]), q.__mro__.index(types[1])

    fitting = [t for t in _KL_REGISTRY if issubclass(p, t[0]) and issubclass(q, t[1])]
    if not fitting:
        return NotImplemented
    left = min(fitting, key=distance)
    right = min(fitting, key=lambda types: distance(types)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        names = [t.__name__ for t in (p, q, *left, *right)]
        warnings.warn(
            "Ambiguous kl_divergence({}, {}). Please register_kl({}, {})".format(
                *names[:2], names[2], names[5]
            ),
            RuntimeWarning,
            stacklevel=4,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The Kullback-Leibler divergence of `q` from `p`: the expectation of log p(x) - log q(x) for x from `p`, in nats.

    Args:
        p, q: distributions whose batches broadcast.

    Returns:
        A tensor of the shape of the batch.

    Raises:
        NotImplementedError: no formula is registered for these types: see `register_kl`.

    Example:
        >>> d = gradlib.distributions
        >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(2.0, 1.0))
        tensor(2.)
    """
    types = type(p), type(q)
    function = _KL_MEMOIZE.get(types)
    if function is None:
        function = _KL_MEMOIZE[types] = _closest(*types)
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {types[0].__name__} and q type {types[1].__name__}"
        )
    return function(p, q)
