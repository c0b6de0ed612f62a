"""Where kernels come from: NumPy for CPU tensors, CuPy for CUDA tensors.

`backend_of(array)` is the only place that asks what kind an array is; nothing outside this package imports CuPy.
PyTorch's switches are here too: ``backends.cuda.matmul.allow_tf32``, ``backends.cudnn.benchmark``...
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ..core.device import stored
from . import _switches
from .numpy import backend as numpy_backend

globals().update(_switches.register(__name__))  # cudnn, mkldnn, mps, ...
_BY_TYPE: dict = {np.ndarray: numpy_backend}


def backend_of(array):
    """The backend of a raw array, making its arrays on the device of that array."""
    found = _BY_TYPE.get(array.__class__) or _find(array)
    if found is numpy_backend:
        return found
    return found.on(stored(array).device.id)


def kernels_of(array):
    """The backend of a raw array whose device is current (a lookup of its type): for kernels of ops."""
    return _BY_TYPE.get(array.__class__) or _find(array)


def _find(array):
    values = stored(array)
    if (
        values is not array
    ):  # an entry of a batch; what it is combined with lies where the batch does
        return kernels_of(values)
    if isinstance(array, (np.ndarray, np.generic, bool, int, float, complex)):
        return numpy_backend
    backend = backend_for("cuda")
    _BY_TYPE[array.__class__] = backend
    return backend


def backend_for(device_type: str):
    """The backend of a device type; for "cuda" RuntimeError when CuPy or a device is missing."""
    if device_type == "cpu":
        return numpy_backend
    from . import cupy

    return cupy.get_backend()


def backend_on(device):
    """The backend of a device, making its arrays there; RuntimeError that says what is missing."""
    if device.type == "cpu":
        return numpy_backend
    return backend_for("cuda").on(device.index)


def __getattr__(name: str) -> Any:
    if name == "cuda":
        return importlib.import_module(f"{__name__}.cuda")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = ["backend_for", "backend_on", "backend_of", "numpy_backend"]
