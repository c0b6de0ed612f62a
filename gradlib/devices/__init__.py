"""Devices: the array functions of each, and the kernels that take the place of formulas there."""

import numpy as np

from ..op import overlays
from ..tape import arrays
from . import numpy
from .cuda import fused
from .numpy.namespace import backend


def _cuda():
    """CUDA's array functions; CuPy is imported when they are first asked for."""
    from .cuda import namespace

    return namespace.get_backend()


def _enter() -> None:
    overlays.on("numpy").come_from(numpy.load)
    overlays.on("cuda").come_from(fused.load, fused.generate)
    arrays.enter("cpu", lambda: backend, np.ndarray)
    arrays.enter("cuda", _cuda)


_enter()
