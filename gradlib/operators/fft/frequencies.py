"""The frequencies of the bins of a Fourier transform, and their order: fftfreq, rfftfreq, fftshift, ifftshift."""

from __future__ import annotations

import math

from ...tape.device import beside
from ...tape.layout import check_layout
from ...tape.tensor import wrap_dim
from ..create.base import finish, place
from ..kinds import unsupported
from ..shape.arrange import roll
from .transforms import FFT, whole_number, whole_numbers


def fftshift(input, dim=None):
    """The entries of dimensions rolled so that the bin of frequency 0 is in the middle.

    Args:
        input: a tensor of any dtype.
        dim: a dimension or a tuple of them; all if None.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.fft.fftshift(gradlib.tensor([0, 1, 2, -2, -1]))
        tensor([-2, -1,  0,  1,  2])
    """
    return _shift(input, dim, lambda n: n // 2)


def ifftshift(input, dim=None):
    """The inverse of ``fftshift``: the bin of frequency 0 is moved from the middle to the front.

    Args:
        input: a tensor of any dtype.
        dim: a dimension or a tuple of them; all if None.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.fft.ifftshift(gradlib.tensor([-2, -1, 0, 1, 2]))
        tensor([ 0,  1,  2, -2, -1])
    """
    return _shift(input, dim, lambda n: (n + 1) // 2)


def _shift(input, dim, half):
    shape = input._array.shape
    dims = range(len(shape)) if dim is None else whole_numbers("fftshift", "dim", dim)
    dims = tuple(wrap_dim(d, len(shape)) for d in dims)
    return roll(input, [half(shape[d]) for d in dims], dims)


def _bins(name: str, n: int, count: int, d, dtype, device, out):
    """(0 ... count - 1 in double precision, distance of two frequencies, dtype of the result)."""
    xp, kind, _ = place(dtype, device, out=out)
    if kind.kind in "iub":
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if kind.kind == "c":
        raise unsupported("arange_cpu", kind)
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    step = 1.0 / (n * d) if n * d else math.inf
    return xp.arange(count, dtype="f8"), step, kind


def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of the bins of ``fft``: 0, 1, ..., -2, -1 over ``n * d``.

    Args:
        n: the number of points.
        d: their distance.
        dtype, layout, device, requires_grad: as of ``zeros``.
        out: written to instead of a new tensor.

    Returns:
        A vector of n numbers.

    Example:
        >>> gradlib.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    if layout is not None:
        check_layout(layout)
    n = whole_number("fftfreq", "n", n, "(position 1) ")
    bins, step, kind = _bins("fftfreq", n, n, d, dtype, device, out)
    with beside(bins):
        bins[(n + 1) // 2 :] -= n
        bins = (bins * step).astype(kind)
    return finish(bins, requires_grad, out)


def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of the bins of ``rfft``: 0, 1, ..., n // 2 over ``n * d``.

    Args:
        n: the number of points.
        d: their distance.
        dtype, layout, device, requires_grad: as of ``zeros``.
        out: written to instead of a new tensor.

    Returns:
        A vector of n // 2 + 1 numbers.

    Example:
        >>> gradlib.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    if layout is not None:
        check_layout(layout)
    n = whole_number("rfftfreq", "n", n, "(position 1) ")
    count = int(n / 2) + 1
    bins, step, kind = _bins("rfftfreq", n, count, d, dtype, device, out)
    with beside(bins):
        bins = (bins * step).astype(kind)
    return finish(bins, requires_grad, out)


FFT.update(fftshift=fftshift, ifftshift=ifftshift, fftfreq=fftfreq, rfftfreq=rfftfreq)
