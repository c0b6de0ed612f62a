"""The CUDA backend: CuPy's functions under NumPy's names. CuPy is imported here, on first use of a CUDA device."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

_backend: Any = None


def _cupy() -> Any:
    """The library; not by an import statement, which type checkers take for this module."""
    return importlib.import_module("cupy")


def why_not() -> str | None:
    """What is missing for CUDA, as a sentence that says what to do; None if CUDA can be used."""
    if importlib.util.find_spec("cupy") is None:
        return (
            "CUDA is not available: CuPy is not installed. Install it with pip install 'gradlib[cuda12]' "
            "(or gradlib[cuda13]), or use device='cpu'."
        )
    try:
        count = _cupy().cuda.runtime.getDeviceCount()
    except Exception as exc:
        return f"CUDA is not available: CuPy is installed but cannot use a CUDA device ({exc}). Use device='cpu'."
    return None if count else "CUDA is not available: no CUDA device was found. Use device='cpu'."


def get_backend():
    """The backend; RuntimeError that says what is missing."""
    global _backend
    if _backend is None:
        reason = why_not()
        if reason is not None:
            raise RuntimeError(reason)
        _backend = CupyBackend()
    return _backend


class CupyBackend:
    """CuPy as the namespace of kernels."""

    name = "cupy"

    def __init__(self) -> None:
        self.xp = _cupy()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.xp, name)
        self.__dict__[name] = value
        return value

    def device_of(self, array):
        from ..core.device import device

        return device("cuda", int(array.device.id))

    def number(self, value, dtype):
        return self.xp.asarray(value, dtype)

    def to_backend(self, array, device=None):
        index = device.index if device is not None and device.index is not None else None
        with self.xp.cuda.Device(index):
            return self.xp.asarray(array)

    def wide(self, array):
        return (
            array.astype("f4") if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else array
        )

    def as_strided(self, array, shape, strides, offset_bytes: int = 0):
        """A view of the memory of `array` with byte strides, starting `offset_bytes` after its first element."""
        memory = array.data + offset_bytes if offset_bytes else array.data
        return self.xp.ndarray(shape, array.dtype, memptr=memory, strides=strides)

    def add_at(self, out, key, values) -> None:
        """``out[key] += values`` where entries that `key` names several times are added every time."""
        self.xp.add.at(out, key, values)

    def sum_at(self, shape, positions, values):
        """Zeros of `shape` with each of `values` added at its flat position."""
        out = self.xp.zeros(shape, values.dtype)
        self.add_flat(out, positions, values)
        return out

    def add_flat(self, out, positions, values) -> None:
        """The same for integer positions in the contiguous array `out`, read as flat."""
        self.xp.add.at(out.reshape(-1), positions.reshape(-1), values.reshape(-1))
