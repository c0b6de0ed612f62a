"""The factor `alpha` of add and sub: ``input + alpha * other``.

The product is an op of its own with the factor as an attribute. So it saves no tensor, and a graph of sums can be run
backward again although it was freed, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op.declare import declare
from ...op.interpret import common_dtype
from ...op.plain_numbers import SMALL, plain_number, python_number
from ...tape import dtypes
from ...tape.tensor import Tensor


def _scaled(xp: Any, self: Any, *, alpha: Any) -> Any:
    dtype = self.dtype
    if dtype in dtypes.HALVES:  # the factor is not rounded
        return xp.multiply(self, xp.number(alpha, dtypes.float32.np)).astype(dtype)
    return xp.multiply(self, xp.number(alpha, dtype))


def _back(F: Any, g: Any, alpha: Any) -> Any:
    return F.times_alpha(g, alpha.conjugate() if isinstance(alpha, complex) else alpha)


times_alpha_op = declare(
    "times_alpha",
    _scaled,
    args="self",
    public="mul",
    elementwise=True,
    promote="same",
    complex=True,
    jvp="linear",
    node="MulBackward0",
    self=_back,
    samples=lambda t: [(t(3, 4), 2.5), (t(), -1.0), (t(2, 0), 3.0)],
)


def factor(name: str, alpha: Any) -> Any:
    """`alpha` as a number.

    Args:
        name: of the function that it was given to.
        alpha: a number, or a tensor without dimensions that requires no grad.

    Raises:
        TypeError: any other tensor.
    """
    if not isinstance(alpha, Tensor):
        return int(alpha) if isinstance(alpha, np.bool_) else python_number(alpha)
    if alpha.ndim or alpha._rg:
        raise TypeError(f"{name}(): argument 'alpha' must be Number, not Tensor")
    return alpha.item()


def times_alpha(name: str, input: Any, other: Any, alpha: Any) -> Any:
    """``alpha * other`` in the dtype of the sum with `input`; RuntimeError for an alpha of a higher kind."""
    alpha = factor(name, alpha)
    if alpha.__class__ is int and alpha == 1:
        return other
    common = common_dtype((input, other))
    if isinstance(alpha, bool) and common is not dtypes.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and common.category < dtypes.FLOATING:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, complex) and common.category < dtypes.COMPLEX:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if common is dtypes.bool_:
        return other if alpha else other ^ other
    small = isinstance(alpha, int) and -SMALL <= alpha <= SMALL
    if not (small and common.category >= dtypes.FLOATING):
        alpha = plain_number(alpha, common)
    if not isinstance(other, Tensor):
        return other * alpha
    return times_alpha_op.call(other.to(common), alpha)
