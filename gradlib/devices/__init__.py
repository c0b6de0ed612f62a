"""Devices: the array functions of each, and the kernels that take the place of formulas there."""

import numpy as np

from ..op import overlays
from ..tape import arrays, handed
from . import numpy
from .cuda import fused
from .numpy.namespace import backend


def _cuda():
    """CUDA's array functions; CuPy is imported when they are first asked for."""
    from .cuda import namespace

    return namespace.get_backend()


def _meta():
    """The functions of arrays without values; imported when they are first asked for."""
    from .meta import namespace

    return namespace.backend


def _why_not_cuda():
    from .cuda import namespace

    return namespace.why_not()


arrays.enter("cpu", lambda: backend, lambda: None, np.ndarray)
arrays.enter("cuda", _cuda, _why_not_cuda)
arrays.enter("meta", _meta, lambda: None)
overlays.on("numpy").come_from(numpy.load)
overlays.on("cuda").come_from(fused.load, fused.generate)
handed.later(
    "gradlib.devices.cuda.pinned",
    "is_pinned",
    pinned_copy="copy",
    pinned_empty="empty",
    pinned_move="move",
)
