"""Devices: the array functions of each, and the kernels that take the place of formulas there."""

import numpy as np

from ..tape import arrays, handed
from .numpy.namespace import backend


def _cuda():
    """CUDA's array functions; CuPy is imported when they are first asked for."""
    from .cuda import namespace

    return namespace.get_backend()


def _why_not_cuda():
    from .cuda import namespace

    return namespace.why_not()


arrays.enter("cpu", lambda: backend, lambda: None, np.ndarray)
arrays.enter("cuda", _cuda, _why_not_cuda)
handed.later(
    "gradlib.devices.cuda.pinned",
    "is_pinned",
    pinned_copy="copy",
    pinned_empty="empty",
    pinned_move="move",
)
