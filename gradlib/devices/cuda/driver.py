"""NVIDIA's driver as pynvml knows it: the library, and its handle of a device.

pynvml is the module of the nvidia-ml-py package (``pip install 'gradlib[profile]'``).
"""

from __future__ import annotations

import weakref
from typing import Any

from ...tape.device import device as Device
from ..packages import find
from .library import index_of, is_available
from .library import library as library_of_cuda

_started: Any = weakref.WeakSet()  # the modules that were initialized


def open_library() -> Any:
    """pynvml, initialized; RuntimeError that says what is missing."""
    library = find("pynvml")
    if library is None:
        raise RuntimeError(
            "device facts need pynvml, which is not installed. Install it with pip install 'gradlib[profile]'."
        )
    if library not in _started:
        try:
            library.nvmlInit()
        except library.NVMLError as exc:
            raise RuntimeError(
                f"the NVIDIA driver's management library cannot be used ({exc}): device facts need a machine "
                "with an NVIDIA driver"
            ) from None
        _started.add(library)
    return library


def open_device(device: Any) -> tuple[Any, Any]:
    """pynvml and its handle of a device, which it finds by bus address: the driver and CUDA may count differently."""
    library = open_library()
    if is_available():
        address = library_of_cuda().runtime.deviceGetPCIBusId(index_of(device))
        return library, library.nvmlDeviceGetHandleByPciBusId(address)
    return library, library.nvmlDeviceGetHandleByIndex(_driver_index(device))


def _driver_index(device: Any) -> int:
    """The number of a device on a machine where CUDA cannot be used (without CuPy, say): its place in the machine."""
    if device is None or isinstance(device, (str, Device)):
        device = Device("cuda" if device is None else device)
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        return device.index or 0
    return int(device)
