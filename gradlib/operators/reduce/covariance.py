"""Covariance and correlation matrices."""

from __future__ import annotations

import warnings

from ...op.expose import function
from ...op.vmap import all_entries
from ...tape import dtypes
from ...tape.tensor import Tensor


def _check_weights(name: str, weights: Tensor, n: int, integral: bool) -> None:
    """RuntimeError unless these are n weights of the right kind, none of them negative."""
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
        )
    category = dtypes.INTEGER if integral else dtypes.FLOATING
    if weights.dtype.category != category:
        raise RuntimeError(
            f"cov(): expected {name} to have {'integral' if integral else 'floating point'} dtype but got {name} with "
            f"{weights.dtype.scalar_type} dtype"
        )
    if weights.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {n}"
        )
    if n and bool((all_entries(weights.detach()) < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@function("cov", method=True)
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariance matrix of variables.

    Args:
        input: a matrix with a row for each variable and a column for each observation; a vector is one variable.
        correction: the divisor is the number of observations less this.
        fweights: a vector of integers: how often each observation counts.
        aweights: a floating vector: their importance.

    Returns:
        A square matrix, for one variable a tensor without dimensions: its variance.

    Raises:
        RuntimeError: more than two dimensions, or weights that do not fit.

    Example:
        >>> gradlib.cov(gradlib.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape((1, -1)) if input.ndim < 2 else input
    n = x.shape[1]
    weights = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None:
            _check_weights(name, w, n, name == "fweights")
            weights = w if weights is None else weights * w
    if weights is None:
        total, mean = n, x.sum(1, True) / n
    else:
        total = weights.sum()
        if n and not bool((all_entries(total.detach()) != 0).all()):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = (x * weights).sum(1, True) / total
    if weights is not None and aweights is not None and correction:
        free = total - correction * (weights * aweights).sum() / total
    else:
        free = total - correction
    if float(free) <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            stacklevel=2,
        )
        free = free.clamp_min(0) if isinstance(free, Tensor) else 0
    d = x - mean
    result = d @ (d if weights is None else d * weights).mT.conjugate()
    return (result / (free if isinstance(free, Tensor) else result.new_full((), free))).squeeze()


@function("corrcoef", method=True)
def corrcoef(input):
    """The matrix of correlations of variables: covariances divided by both standard deviations.

    Args:
        input: a matrix with a row for each variable and a column for each observation; a vector is one variable.

    Returns:
        A square matrix with entries in [-1, 1], for one variable a tensor without dimensions.

    Raises:
        RuntimeError: more than two dimensions.

    Example:
        >>> gradlib.corrcoef(gradlib.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c = cov(input)
    if c.ndim == 0:
        return c / c
    d = c.diagonal()
    d = (d.real if c.is_complex() else d).sqrt()
    return c / d.unsqueeze(1) / d.unsqueeze(0)
