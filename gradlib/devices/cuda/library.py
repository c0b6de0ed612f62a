"""CUDA devices as the library reports them: whether there are any, how many, which is current."""

from __future__ import annotations

from typing import Any

from ...tape.device import device as _Device
from . import namespace as _backend


def library() -> Any:
    """``cupy.cuda``.

    Raises:
        RuntimeError: it says what is missing without CUDA.
    """
    return _backend.get_backend().xp.cuda


def is_available() -> bool:
    """Whether CuPy and a CUDA device can be used; everything in `gradlib.cuda` may be imported without.

    Example:
        >>> device = "cuda" if gradlib.cuda.is_available() else "cpu"
        >>> y = gradlib.ones(2, device=device)
    """
    return _backend.why_not() is None


def device_count() -> int:
    """The number of CUDA devices; 0 when CUDA is not available.

    Example:
        >>> gradlib.cuda.device_count() > 0 or not gradlib.cuda.is_available()
        True
    """
    return int(library().runtime.getDeviceCount()) if is_available() else 0


def current_device() -> int:
    """The index of the current device: where ``device="cuda"`` puts tensors.

    Raises:
        RuntimeError: it says what is missing without a device.
    """
    return int(library().runtime.getDevice())


def is_initialized() -> bool:
    """Whether the CUDA library is in use by this process.

    It is not before the first tensor, stream or question about a device.
    """
    return isinstance(_backend._backend, _backend.CupyBackend)


def index_of(device: Any = None, optional: bool = False) -> int:
    """The index that `device` stands for: an int, "cuda:1", a device; None is the current device.

    Raises ValueError for a device that is no CUDA device, or an index that does not exist.
    """
    if isinstance(device, (str, _Device)):
        device = _Device(device)
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        device = device.index
    elif device is not None and not isinstance(device, int):
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    if device is None or (device < 0 and optional):
        return current_device()
    if not 0 <= device < device_count():
        raise RuntimeError(
            f"CUDA error: invalid device ordinal {device}; this machine has {device_count()} CUDA device(s)"
        )
    return device


def synchronize(device: Any = None) -> None:
    """Wait on the host for all work on all streams of a device.

    Needed before the clock is read; results of tensors are waited for without it.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device, or some of the work failed.
    """
    wait_for(index_of(device))


def wait_for(index: int) -> None:
    """`synchronize` for the index of a device: where the sanitizer listens, whoever asked."""
    with library().Device(index):
        library().runtime.deviceSynchronize()
