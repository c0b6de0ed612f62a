"""What is wrong with a gradient: gradcheck's guess, from the numerical and the analytical Jacobian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np

from ..tape.printing import tensor_repr
from ..tape.tensor import Tensor, to_host
from ._jacobians import Options

SLOW_MODE = (
    "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
    "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we recompute "
    "numerical and analytical jacobians in slow mode:\n\nNumerical:\n {}\nAnalytical:\n{}\n\nThe max per-element "
    "difference (slow mode) is: {}.\n"
)
FAST_ONLY = (
    "\nFast gradcheck failed but element-wise differences are small. This means that the\ntest might've passed in "
    "slow_mode!\n"
)


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


def mismatch(have, want, i: int, o: int, tensor: Tensor, out: Tensor, unit, forward=False) -> str:
    """Both Jacobians, or what of them was compared."""
    prefix = ""
    if (tensor if forward else out).is_complex():
        part, element = "imaginary" if unit == 1j else "real", "inputs" if forward else "outputs"
        prefix = f"While considering the {part} part of complex {element} only, "
    mode = "computed with forward mode " if forward else ""
    return (
        f"{prefix}Jacobian {mode}mismatch for output {o} with respect to input {i},\n"
        f"numerical:{_show(want)}\nanalytical:{_show(have)}\n"
    )


def diagnosis(have, want, tensor: Tensor, out: Tensor, unit, options: Options) -> str:
    """What may be the matter."""
    if unit == 1j and np.iscomplexobj(want):  # so that conjugates are told from what they are not
        have, want = have * unit, want * unit
    x, y = to_host(tensor._array), to_host(out._array)
    return diagnose(want, have, x, y, options.close)


def _show(jacobian) -> str:

    return str(jacobian) if isinstance(jacobian, float) else tensor_repr(Tensor._make(jacobian))


def slowly(have: np.ndarray, want: np.ndarray, options: Options) -> str:
    """What all entries are, for the message of a comparison in fast mode."""
    return SLOW_MODE.format(_show(want), _show(have), float(np.abs(have - want).max())) + (
        FAST_ONLY if options.close(have, want) else ""
    )
