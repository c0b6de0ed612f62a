"""Window functions: gradlib.hann_window and its kind, and the formulas of gradlib.signal.windows.

All are computed in double precision and rounded once.

Source: F. J. Harris, On the Use of Windows for Harmonic Analysis with the Discrete Fourier Transform, Proc. IEEE 66
(1978); J. F. Kaiser, Nonrecursive Digital Filter Design Using the I0-sinh Window Function, ISCAS (1974).
"""

from __future__ import annotations

import math
import operator

from ...op.expose import function
from ...tape import dtypes
from ...tape.errors import check_room
from ...tape.layout import check_layout
from ..create.base import finish, place
from ..kinds import unsupported

# Each takes the backend, the positions 0 ... 1 of the points between the ends of the window, and its parameters.


def triangle(xp, x):
    """1 in the middle and 0 at the ends, with straight lines between."""
    return 1.0 - xp.abs(2.0 * x - 1.0)


def cosines(xp, x, a):
    """``a[0] - a[1] cos(2 pi x) + a[2] cos(4 pi x) - ...``"""
    terms = [(-1) ** i * a_i * xp.cos(2.0 * math.pi * i * x) for i, a_i in enumerate(a)]
    return sum(terms[1:], terms[0])


def kaiser(xp, x, beta):
    """The zeroth modified Bessel function over an arch of width `beta`, 1 in the middle."""
    arch = xp.sqrt(xp.maximum(1.0 - (2.0 * x - 1.0) ** 2, 0.0))
    return xp.i0(beta * arch) / xp.i0(xp.asarray(float(beta)))


def positions(xp, n: int, intervals: float):
    """The positions of `n` points in a window that is `intervals` long: 0, 1 / intervals, ..."""
    return xp.arange(n, dtype="f8") / (intervals or 1)


# -- gradlib.<name>_window ---------------------------------------------------------------------------------------


def _window(name: str, length, periodic, options: dict, formula, *parameters):
    """The window of `length` points; periodic: as if one more followed, which is the first one again."""
    try:
        if isinstance(length, bool):
            raise TypeError
        n = operator.index(length)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not {type(length).__name__}"
        ) from None
    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    xp, kind, _ = place(options.pop("dtype", None), options.pop("device", None))
    found = dtypes.from_np(kind)
    if found.category < dtypes.FLOATING:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {found}")
    if found.is_complex:
        raise unsupported("arange_cpu", found)
    requires_grad = options.pop("requires_grad", False)
    options.pop("pin_memory", None)  # accepted, and without effect
    if (layout := options.pop("layout", None)) is not None:
        check_layout(layout)
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")

    check_room(xp, (n,), kind.itemsize)

    def values():
        x = positions(xp, n, n if periodic else n - 1)
        return (xp.ones(1) if n == 1 else formula(xp, x, *parameters)).astype(kind)

    return finish(xp.call(values), requires_grad)


@function("bartlett_window")
def bartlett_window(window_length, periodic=True, **options):
    """The triangular window, 1 in the middle and 0 at the ends.

    Args:
        window_length: the number of points, 0 or more.
        periodic: whether the points are those of one period, for spectra; else both ends are points, for filters.
        options: dtype (a floating one), device, requires_grad.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative length, or another dtype.

    Example:
        >>> gradlib.bartlett_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("bartlett_window", window_length, periodic, options, triangle)


@function("blackman_window")
def blackman_window(window_length, periodic=True, **options):
    """``0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)`` for x from 0 to 1.

    Args:
        window_length: the number of points, 0 or more.
        periodic: whether the points are those of one period, for spectra; else both ends are points, for filters.
        options: dtype (a floating one), device, requires_grad.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative length, or another dtype.

    Example:
        >>> gradlib.blackman_window(4)[1:]
        tensor([0.3400, 1.0000, 0.3400])
    """
    return _window("blackman_window", window_length, periodic, options, cosines, (0.42, 0.5, 0.08))


@function("hamming_window")
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, **options):
    """``alpha - beta cos(2 pi x)`` for x from 0 to 1.

    Args:
        window_length: the number of points, 0 or more.
        periodic: whether the points are those of one period, for spectra; else both ends are points, for filters.
        alpha, beta: numbers.
        options: dtype (a floating one), device, requires_grad.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative length, or another dtype.

    Example:
        >>> gradlib.hamming_window(4)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window("hamming_window", window_length, periodic, options, cosines, (alpha, beta))


@function("hann_window")
def hann_window(window_length, periodic=True, **options):
    """``0.5 - 0.5 cos(2 pi x)`` for x from 0 to 1.

    Args:
        window_length: the number of points, 0 or more.
        periodic: whether the points are those of one period, for spectra; else both ends are points, for filters.
        options: dtype (a floating one), device, requires_grad.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative length, or another dtype.

    Example:
        >>> gradlib.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, options, cosines, (0.5, 0.5))


@function("kaiser_window")
def kaiser_window(window_length, periodic=True, beta=12.0, **options):
    """The Kaiser window, ``I0(beta * sqrt(1 - x^2)) / I0(beta)`` for x from -1 to 1, with the Bessel function I0.

    Args:
        window_length: the number of points, 0 or more.
        periodic: whether the points are those of one period, for spectra; else both ends are points, for filters.
        beta: the larger, the narrower.
        options: dtype (a floating one), device, requires_grad.

    Returns:
        A vector.

    Raises:
        RuntimeError: a negative length, or another dtype.

    Example:
        >>> gradlib.kaiser_window(4, beta=2.0)
        tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    return _window("kaiser_window", window_length, periodic, options, kaiser, beta)
