"""Tensors from and to other libraries without a copy, by the DLPack protocol."""

from __future__ import annotations

from typing import Any

from .. import from_dlpack
from ..core.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule for another library's `from_dlpack`, which takes the tensor itself, too.

    Example:
        >>> import numpy
        >>> type(to_dlpack(gradlib.ones(2))).__name__
        'PyCapsule'
    """
    return tensor.__dlpack__()
