"""Where the functions on raw arrays come from: NumPy for CPU tensors, CuPy for CUDA tensors.

A device is a namespace of array functions (`gradlib/devices`), entered here for the type of its arrays. `backend_of` is
the only place that asks what kind an array is; nothing outside `gradlib/devices` imports CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .device import stored

ndarray = np.ndarray

_BY_TYPE: dict[type, Any] = {}
_OPENERS: dict[str, Callable[[], Any]] = {}
_MISSING: dict[str, Callable[[], str | None]] = {}


def enter(
    device_type: str, open: Callable[[], Any], missing: Callable[[], str | None], *types: type
) -> None:
    """Enter a device: `open` gives its namespace, `missing` what it has not; `types` are its arrays."""
    _OPENERS[device_type], _MISSING[device_type] = open, missing
    for t in types:
        _BY_TYPE[t] = open()


def replace(before: Any, after: Any) -> None:
    """Let the arrays of one namespace have another one from now on."""
    for t, found in _BY_TYPE.items():
        if found is before:
            _BY_TYPE[t] = after


def backend_of(array: Any) -> Any:
    """The backend of a raw array, making its arrays on the device of that array."""
    found = _BY_TYPE.get(array.__class__) or _find(array)
    if found.name == "numpy":
        return found
    return found.on(stored(array).device.id)


def kernels_of(array: Any) -> Any:
    """The backend of a raw array whose device is current (a lookup of its type): for kernels of ops."""
    return _BY_TYPE.get(array.__class__) or _find(array)


def _find(array: Any) -> Any:
    values = stored(array)
    if (
        values is not array
    ):  # an entry of a batch; what it is combined with lies where the batch does
        return kernels_of(values)
    if isinstance(array, (np.ndarray, np.generic, bool, int, float, complex)):
        return backend_for("cpu")
    backend = backend_for("cuda")
    _BY_TYPE[array.__class__] = backend
    return backend


def backend_for(device_type: str) -> Any:
    """The backend of a device type; for "cuda" RuntimeError when CuPy or a device is missing."""
    if device_type not in _OPENERS:
        raise NotImplementedError(
            f"gradlib has no {device_type!r} device; use device='cpu' or device='cuda'"
        )
    return _OPENERS[device_type]()


def backend_on(device: Any) -> Any:
    """The backend of a device, making its arrays there; RuntimeError that says what is missing."""
    found = backend_for(device.type)
    return found if device.type == "cpu" else found.on(device.index)


def why_not(device_type: str) -> str | None:
    """What is missing for a device, as a sentence that says what to do; None if it can be used."""
    return _MISSING[device_type]()


def to_host(array: Any) -> np.ndarray:
    """A NumPy array with the values of a raw array (copied from the device if need be)."""
    return array if array.__class__ is ndarray else array.get()
