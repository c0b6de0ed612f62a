"""Devices: the array functions of each, and the kernels that take the place of formulas there."""

from ..tape import arrays
from .numpy.namespace import backend


def _cuda():
    """CUDA's array functions; CuPy is imported when they are first asked for."""
    from .cuda import namespace

    return namespace.get_backend()


def _enter() -> None:
    import numpy as np

    arrays.enter("cpu", lambda: backend, np.ndarray)
    arrays.enter("cuda", _cuda)


_enter()
