"""What the driver tells of a device: use, temperature, power, clocks and memory, through pynvml.

pynvml is the module of the nvidia-ml-py package (``pip install 'gradlib[profile]'``). The figures are averages over the
driver's last sample period (1/6 to 1 s), of all processes on the device.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..tape.device import device as Device
from ..utils._packages import find
from . import devices

__all__ = [
    "clock_rate",
    "device_memory_used",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
]

_started: Any = weakref.WeakSet()  # the modules that were initialized


def _library() -> Any:
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


def _open(device: Any) -> tuple[Any, Any]:
    """pynvml and its handle of a device, which it finds by bus address: the driver and CUDA may count differently."""
    library = _library()
    if devices.is_available():
        address = devices.library().runtime.deviceGetPCIBusId(devices.index_of(device))
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


def utilization(device: Any = None) -> int:
    """Percent of the time that at least one kernel ran.

    device: a device, its number or text ("cuda:1"); None for the current one. RuntimeError without pynvml or a driver.
    """
    library, handle = _open(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: Any = None) -> int:
    """Percent of the time that the device's memory was read or written.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = _open(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def device_memory_used(device: Any = None) -> int:
    """Bytes of the device's memory that are taken, by all processes.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = _open(device)
    return library.nvmlDeviceGetMemoryInfo(handle).used


def temperature(device: Any = None) -> int:
    """The temperature of the device in degrees Celsius.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = _open(device)
    return library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)


def power_draw(device: Any = None) -> int:
    """The power that the device draws, in milliwatts.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = _open(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: Any = None) -> int:
    """The clock of the multiprocessors, in MHz.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = _open(device)
    return library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)
