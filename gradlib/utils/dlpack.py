"""Tensors from and to other libraries without a copy, by the DLPack protocol."""

from __future__ import annotations

from ..operators.public import from_dlpack, to_dlpack
from ..tape.interop import DLDeviceType

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
