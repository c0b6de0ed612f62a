"""Short-time Fourier transforms: stft and its inverse, istft.

Source: D. W. Griffin, J. S. Lim, Signal Estimation from Modified Short-Time Fourier Transform, IEEE Trans. ASSP 32
(1984), for the inverse by weighted overlap-add.
"""

from __future__ import annotations

import warnings
from typing import NoReturn

from ...op.expose import PUBLIC, function
from ...op.vmap import all_entries
from ...tape import dtypes
from ...tape.errors import size
from ...tape.interop import values_of
from ...tape.tensor import Tensor
from ..elementwise.complex import view_as_real
from ..shape.pad import pad
from ..shape.slicing import unfold, unfold_backward_op
from .transforms import FFT

_NEEDS_CHOICE = (
    "stft requires the return_complex parameter be given for real inputs, and will further require that "
    "return_complex=True in a future PyTorch release."
)
_NO_ONESIDED = "Cannot have onesided output if window or input is complex"


def _fail(name: str, first: str, given: dict, text: str) -> NoReturn:
    """RuntimeError that shows the call and then says what was expected."""
    parts = []
    for key, value in given.items():
        if isinstance(value, Tensor):
            value = f"torch.{value.dtype.tensor_type}{{{size(value._array.shape)}}}"
        parts.append(f"{key}={int(value) if isinstance(value, bool) else value}")
    raise RuntimeError(f"{name}({first}, {', '.join(parts)}) {text}")


def _full_window(window, win_length: int, n_fft: int, like: Tensor):
    """The window (ones by default) with zeros at both ends up to n_fft; None if that changes nothing."""
    if window is None:
        if win_length == n_fft:
            return None
        window = PUBLIC["ones"](win_length, dtype=like.dtype.to_real(), device=like.device)
    spare = n_fft - win_length
    return pad(window, (spare // 2, spare - spare // 2)) if spare else window


def _pad_ends(input: Tensor, count: int, mode: str) -> Tensor:
    shape = input._array.shape
    padded = pad(input.reshape((1,) * (3 - len(shape)) + shape), (count, count), mode)
    return padded.reshape(padded._array.shape[3 - len(shape) :]) if len(shape) < 3 else padded


def _check_stft(input: Tensor, given: dict) -> None:
    shape = input._array.shape
    first = f"torch.{input.dtype.tensor_type}[{', '.join(map(str, shape))}]"

    def fail(text: str) -> NoReturn:
        _fail("stft", first, given, ": " + text)

    n_fft, win_length, window = given["n_fft"], given["win_length"], given["window"]
    if input._array.dtype not in dtypes.DIFFERENTIABLE:
        fail("expected a tensor of floating point or complex values")
    if len(shape) not in (1, 2):
        fail("expected a 1D or 2D tensor")
    if not 0 < n_fft <= shape[-1]:
        fail(f"expected 0 < n_fft < {shape[-1]}, but got n_fft={n_fft}")
    if given["hop_length"] <= 0:
        fail(f"expected hop_length > 0, but got hop_length={given['hop_length']}")
    if not 0 < win_length <= n_fft:
        fail(f"expected 0 < win_length <= n_fft, but got win_length={win_length}")
    if window is not None and window._array.shape != (win_length,):
        fail(
            f"expected a 1D window tensor of size equal to win_length={win_length}, but got window with size "
            f"{list(window.shape)}"
        )


@function("stft", method=True)
def stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """The Fourier transforms of overlapping windowed pieces of a signal (n) or signals (b, n): (b, bins, pieces).

    n_fft: points of each transform; hop_length: distance of the pieces (n_fft // 4); win_length: length of the window
    (n_fft; shorter ones are centred); window: (win_length), ones by default. center: the signal is padded by
    n_fft // 2 at both ends with `pad_mode`. onesided: only the n_fft // 2 + 1 bins of one half (the default for real
    signals). return_complex=False gives real and imaginary parts as a last dimension.

    Raises RuntimeError for sizes that do not fit, a complex signal with ``onesided=True``, or when `return_complex` is
    not given for a real signal.
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if window is not None and not isinstance(window, Tensor):
        raise TypeError(f"stft(): argument 'window' must be Tensor, not {type(window).__name__}")
    complex_fft = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None:
        if not complex_fft:
            raise RuntimeError(_NEEDS_CHOICE)
        return_complex = True
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    given = {
        "n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window,
        "normalized": normalized, "onesided": onesided, "return_complex": return_complex,
        "align_to_window": align_to_window,
    }  # fmt: skip
    if center:
        input = _pad_ends(input, n_fft // 2, pad_mode)
    elif align_to_window and win_length < n_fft:
        spare = n_fft - win_length
        input = pad(input, (spare // 2, spare - spare // 2))
    _check_stft(input, given)
    if onesided is None:
        onesided = not complex_fft
    elif onesided and complex_fft:
        raise RuntimeError(_NO_ONESIDED)
    return _stft(input, given, complex_fft, onesided)


def _stft(input: Tensor, given: dict, complex_fft: bool, onesided: bool) -> Tensor:
    """The pieces, windowed and transformed, after the checks."""
    frames = unfold(input, -1, given["n_fft"], given["hop_length"])
    window = _full_window(given["window"], given["win_length"], given["n_fft"], input)
    if window is not None:
        frames = frames * window
    transform = FFT["rfft" if onesided and not complex_fft else "fft"]
    spectrum = transform(frames, norm="ortho" if given["normalized"] else None).mT
    return spectrum if given["return_complex"] else view_as_real(spectrum)


def _check_istft(input: Tensor, given: dict, onesided: bool) -> None:
    shape = input._array.shape
    kind = input.dtype.scalar_type
    first = f"CPU{kind}Type[{', '.join(map(str, shape))}]"

    def fail(text: str) -> NoReturn:
        _fail("istft", first, given, ": " + text)

    n_fft, win_length, window = given["n_fft"], given["win_length"], given["window"]
    if len(shape) not in (2, 3):
        fail(f"expected a tensor with 3 or 4 dimensions, but got {len(shape) + 1}")
    if not input._array.size:
        fail("input tensor cannot be empty.")
    which = "the frequency dimension (3rd to the last) of the input tensor to match"
    if onesided and n_fft // 2 + 1 != shape[-2]:
        fail(f"expected {which} n_fft / 2 + 1 when onesided=True, but got {shape[-2]}")
    if not onesided and n_fft != shape[-2]:
        fail(f"expected {which} n_fft when onesided=False, but got {shape[-2]}")
    if not 0 < given["hop_length"] <= win_length:
        fail("expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        fail("expected 0 < win_length <= n_fft")
    if window is not None and window._array.shape != (win_length,):
        fail("Invalid window shape. window has to be 1D and length of `win_length`")


@function("istft", method=True)
def istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The signal (n) or signals (b, n) with the given short-time Fourier transform (b, bins, pieces): least squares.

    The arguments are those of ``stft``; `length` cuts the result, or fills it up with zeros. Raises RuntimeError for
    sizes that do not fit, or where the windows leave a part of the signal undetermined.
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    shape = input._array.shape
    if len(shape) < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-2, 1], but got {-3})"
        )
    given = {
        "n_fft": n_fft, "hop_length": hop_length, "win_length": win_length, "window": window, "center": center,
        "normalized": normalized, "onesided": onesided, "length": length, "return_complex": return_complex,
    }  # fmt: skip
    onesided = shape[-2] != n_fft if onesided is None else onesided
    _check_istft(input, given, onesided)
    if return_complex and onesided:
        raise RuntimeError(_NO_ONESIDED)
    if not return_complex and window is not None and window.dtype.is_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return _istft(input, given)


def _overlap_add(frames: Tensor, hop: int, total: int) -> Tensor:
    """Frames (b, pieces, n) added up at their places: (b, total)."""
    return unfold_backward_op.call(
        frames, (frames._array.shape[0], total), 1, frames._array.shape[2], hop
    )


def _istft(input: Tensor, given: dict) -> Tensor:
    """The weighted overlap-add, after the checks."""
    n_fft, hop, length = given["n_fft"], given["hop_length"], given["length"]
    batch = input if input.ndim == 3 else input.unsqueeze(0)
    norm = "ortho" if given["normalized"] else None
    if given["return_complex"]:
        frames = FFT["ifft"](batch.mT, norm=norm)
    else:
        half = batch.mT if batch._array.shape[-2] != n_fft else batch.mT[..., : n_fft // 2 + 1]
        frames = FFT["irfft"](half, n_fft, norm=norm)
    window = _full_window(given["window"], given["win_length"], n_fft, input)
    if window is None:
        window = PUBLIC["ones"](n_fft, dtype=input.dtype.to_real(), device=input.device)
    count = frames._array.shape[1]
    total = n_fft + hop * (count - 1)
    weights = (window * window).expand((1, count, n_fft))
    start = n_fft // 2 if given["center"] else 0
    end = start + length if length is not None else total - start
    signal = _overlap_add(frames * window, hop, total)[:, start:end]
    envelope = _overlap_add(weights, hop, total)[:, start:end]
    if not values_of(all_entries(envelope.detach()).abs().min()) > 1e-11:
        first = f"CPU{input.dtype.scalar_type}Type{list(input.shape)}"
        _fail("istft", first, given, "window overlap add min: 1")
    signal = signal / envelope
    if end > total:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the "
            "tail. Please check your center and hop_length settings.",
            stacklevel=3,
        )
        signal = pad(signal, (0, end - total))
    return signal if input.ndim == 3 else signal.squeeze(0)
