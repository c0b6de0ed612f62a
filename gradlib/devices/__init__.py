"""Devices: the array functions of each, and the kernels that take the place of formulas there."""

from typing import Any

import numpy as np

from ..op import overlays
from ..tape import arrays, handed
from . import numpy
from .numpy.namespace import backend


def _cuda():
    """CUDA's array functions; CuPy is imported when they are first asked for."""
    from .cuda import namespace

    return namespace.get_backend()


def _why_not_cuda():
    from .cuda import namespace

    return namespace.why_not()


def _cuda_overlays() -> None:
    from .cuda import fused

    fused.load()


def _cuda_generated(what: str, op: Any) -> Any:
    from .cuda.fused import pointwise

    return pointwise.overlay(what, op)


arrays.enter("cpu", lambda: backend, lambda: None, np.ndarray)
arrays.enter("cuda", _cuda, _why_not_cuda)
overlays.on("numpy").come_from(numpy.load)
overlays.on("cuda").come_from(_cuda_overlays, _cuda_generated)
handed.later(
    "gradlib.devices.cuda.pinned",
    "is_pinned",
    pinned_copy="copy",
    pinned_empty="empty",
    pinned_move="move",
)
