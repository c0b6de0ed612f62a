"""Discrete Fourier transforms with PyTorch's names: ``gradlib.fft.rfft`` and the others."""

from typing import TYPE_CHECKING, Any

from .op.expose import overridable as _overridable
from .operators.fft.transforms import FFT as _FFT

if TYPE_CHECKING:  # the functions come from the declarations in gradlib/operators

    def __getattr__(name: str) -> Any: ...


globals().update(_FFT)
__all__ = sorted(_FFT)  # pyright: ignore[reportUnsupportedDunderAll]
_overridable(globals())
