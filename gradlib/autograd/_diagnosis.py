"""What is wrong with a gradient: gradcheck's guess, from the numerical and the analytical Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np


def diagnose(
    numerical: np.ndarray,
    analytical: np.ndarray,
    in_values: np.ndarray,
    out_values: np.ndarray,
    close: Callable[[np.ndarray, np.ndarray], bool],
) -> str:
    """A sentence on how the Jacobians (elements of the input times elements of the output) differ, or ''."""
    if not numerical.size:
        return ""
    if np.isnan(analytical).any():
        return "The analytical gradient has nan."
    if not analytical.any():
        return "The analytical gradient is zero: backward returns None or zeros for this input."
    for text, guess in _guesses(numerical, in_values, out_values):
        if close(analytical, guess):
            return text
    factor = _factor(numerical, analytical)
    if factor is not None and close(analytical, numerical * factor):
        return f"The analytical gradient is off by a factor of {factor:.6g}."
    if not close(numerical, np.zeros_like(numerical)) and close(
        np.where(analytical == 0, 0, numerical), analytical
    ):
        part = np.count_nonzero((analytical == 0) & (np.abs(numerical) > 1e-4))
        return f"The analytical gradient lacks {part} of {numerical.size} entries and has the others right."
    return ""


def _guesses(
    numerical: np.ndarray, x: np.ndarray, y: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Jacobians that typical mistakes lead to, with what to say about them."""
    yield "The analytical gradient has the wrong sign.", -numerical
    if np.iscomplexobj(numerical):
        yield (
            "The analytical gradient is the complex conjugate of the right one: multiply grad_output by the conjugate "
            "of the derivative.",
            numerical.conj(),
        )
    if x.ndim >= 2 and x.shape[-1] == x.shape[-2]:
        swapped = numerical.reshape(*x.shape, -1).swapaxes(x.ndim - 1, x.ndim - 2)
        yield "The analytical gradient is transposed.", swapped.reshape(numerical.shape)
    for order in permutations(range(y.ndim)):
        if order != tuple(range(y.ndim)) and tuple(y.shape[i] for i in order) == y.shape:
            moved = numerical.reshape(-1, *y.shape).transpose(0, *(i + 1 for i in order))
            yield (
                "The analytical gradient treats the axes of grad_output in the order "
                f"{order}: a sum over the wrong axis, or a missing transpose.",
                moved.reshape(numerical.shape),
            )
    if x.size == y.size:
        for name, factor in (("the input", x), ("the output", y)):
            yield (
                f"The analytical gradient has a factor too much: {name}.",
                numerical * factor.reshape(1, -1),
            )
            if factor.all():
                yield (
                    f"The analytical gradient lacks a factor: {name}.",
                    numerical / factor.reshape(1, -1),
                )


def _factor(numerical: np.ndarray, analytical: np.ndarray):
    """The number by which `analytical` differs from `numerical`, taken where it is largest."""
    where = np.unravel_index(np.abs(numerical).argmax(), numerical.shape)
    return analytical[where] / numerical[where] if numerical[where] else None
