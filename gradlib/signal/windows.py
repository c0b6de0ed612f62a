"""Window functions with PyTorch's names.

Every function takes the number of points `M` and the keywords `sym` (True: the last point is an end of the window,
for filters; False: one period, for spectra), dtype (float32 or float64), device and requires_grad, and returns a
tensor (M). ValueError for a negative M or another dtype.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from .._refused import refuse
from ..operators.create.base import finish, place
from ..operators.fft.window_functions import cosines, positions, triangle
from ..operators.fft.window_functions import kaiser as _kaiser_values
from ..tape import dtypes
from ..tape.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
    "hann", "kaiser", "nuttall",
]  # fmt: skip
__getattr__ = refuse(__name__)


def _make(name: str, M: int, formula: Callable[..., Any], options: dict[str, Any]) -> Tensor:
    """``formula(backend, M)`` as a tensor, after the checks that all windows share."""
    dtype, layout = options.pop("dtype", None), options.pop("layout", None)
    device, requires_grad = options.pop("device", None), options.pop("requires_grad", False)
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout not in (None, "torch.strided"):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    xp, np_type, _ = place(kind, device)
    values = xp.call(lambda: formula(xp, operator.index(M)).astype(np_type))
    return finish(values, requires_grad)


def _intervals(M: int, sym: bool) -> int:
    """How many distances of points the window is long."""
    return M - 1 if sym or M <= 1 else M


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The triangular window: 1 in the middle, 0 at the ends.

    Args:
        M: the number of points, 0 or more.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _make("bartlett", M, lambda xp, n: _single(xp, n, sym, triangle), options)


def _single(xp: Any, n: int, sym: bool, formula: Callable[..., Any], *parameters: Any) -> Any:
    """A formula of positions; a window of one point is 1."""
    if n == 1:
        return xp.ones(1)
    return formula(xp, positions(xp, n, _intervals(n, sym)), *parameters)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """``0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)`` for x from 0 to 1.

    Args:
        M: the number of points, 0 or more.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.blackman(5)[1:4]
        tensor([0.3400, 1.0000, 0.3400])
    """
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, options)


def _cosines(name: str, M: int, a: tuple, sym: bool, options: dict[str, Any]) -> Tensor:
    return _make(name, M, lambda xp, n: _single(xp, n, sym, cosines, a), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a wave of the sine, sampled in the middle of M equal parts.

    Args:
        M: the number of points, 0 or more.
        sym: whether the last part counts; else the points are the first M of M + 1.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.cosine(3)
        tensor([0.5000, 1.0000, 0.5000])
    """

    def values(xp, n):
        return xp.sin(
            math.pi / (max(n, 1) if sym or n <= 1 else n + 1) * (xp.arange(n, dtype="f8") + 0.5)
        )

    return _make("cosine", M, values, options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """``exp(-|k - center| / tau)``; `center` (the middle by default) only with ``sym=False``.

    ValueError for a `tau` of 0 or less, or a center with ``sym=True``.

    Example:
        >>> gradlib.signal.windows.exponential(3)
        tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def values(xp, n):
        middle = _intervals(n, sym) / 2.0 if center is None else center
        return xp.exp(-xp.abs(xp.arange(n, dtype="f8") - middle) / tau)

    return _make("exponential", M, values, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """``exp(-(k - middle)^2 / (2 std^2))`` for k = 0, 1, ..., M - 1.

    Args:
        M: the number of points, 0 or more.
        std: the width, in points.
        sym: whether the middle is that of M points, for filters; else that of M + 1, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: an `std` of 0 or less, a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.gaussian(3)
        tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def values(xp, n):
        return xp.exp(-0.5 * ((xp.arange(n, dtype="f8") - _intervals(n, sym) / 2.0) / std) ** 2)

    return _make("gaussian", M, values, options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """``a[0] - a[1] cos(2 pi x) + a[2] cos(4 pi x) - ...``

    TypeError if `a` is not iterable, ValueError if it is empty.

    Example:
        >>> gradlib.signal.windows.general_cosine(3, a=[0.5, 0.5])
        tensor([0., 1., 0.])
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    coefficients = tuple(a)
    if not coefficients:
        raise ValueError("Coefficients cannot be empty")
    return _cosines("general_cosine", M, tuple(math.fsum((c,)) for c in coefficients), sym, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """``alpha - (1 - alpha) cos(2 pi x)`` for x from 0 to 1.

    Args:
        M: the number of points, 0 or more.
        alpha: a number.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.general_hamming(3, alpha=0.75)
        tensor([0.5000, 1.0000, 0.5000])
    """
    return general_cosine(M, a=(alpha, 1.0 - alpha), sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """``0.54 - 0.46 cos(2 pi x)`` for x from 0 to 1.

    Args:
        M: the number of points, 0 or more.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.hamming(3)
        tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """``0.5 - 0.5 cos(2 pi x)`` for x from 0 to 1.

    Args:
        M: the number of points, 0 or more.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.hann(3)
        tensor([0., 1., 0.])
    """
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """The Kaiser window, ``I0(beta * sqrt(1 - x^2)) / I0(beta)`` for x from -1 to 1, with the Bessel function I0.

    Args:
        M: the number of points, 0 or more.
        beta: 0 or more: the larger, the narrower.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative `beta` or M, or another dtype.

    Example:
        >>> gradlib.signal.windows.kaiser(3, beta=2.0)
        tensor([0.4387, 1.0000, 0.4387])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _make("kaiser", M, lambda xp, n: _single(xp, n, sym, _kaiser_values, beta), options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A window of four cosines, with the lowest side lobes that a continuous first derivative allows.

    Args:
        M: the number of points, 0 or more.
        sym: whether both ends are points, for filters; else the points are those of one period, for spectra.
        options: dtype (float32 or float64), layout, device, requires_grad.

    Returns:
        A vector.

    Raises:
        ValueError: a negative M, or another dtype.

    Example:
        >>> gradlib.signal.windows.nuttall(3)
        tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    return general_cosine(M, a=(0.3635819, 0.4891775, 0.1365995, 0.0106411), sym=sym, **options)
