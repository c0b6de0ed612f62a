"""What the driver tells of a device: use, temperature, power, clocks and memory, through pynvml.

pynvml is the module of the nvidia-ml-py package (``pip install 'gradlib[profile]'``). The figures are averages over the
driver's last sample period (1/6 to 1 s), of all processes on the device.
"""

from __future__ import annotations

from typing import Any

from ..devices.cuda.driver import open_device

__all__ = [
    "clock_rate",
    "device_memory_used",
    "memory_usage",
    "power_draw",
    "temperature",
    "utilization",
]


def utilization(device: Any = None) -> int:
    """Percent of the time that at least one kernel ran.

    device: a device, its number or text ("cuda:1"); None for the current one. RuntimeError without pynvml or a driver.
    """
    library, handle = open_device(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: Any = None) -> int:
    """Percent of the time that the device's memory was read or written.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = open_device(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def device_memory_used(device: Any = None) -> int:
    """Bytes of the device's memory that are taken, by all processes.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = open_device(device)
    return library.nvmlDeviceGetMemoryInfo(handle).used


def temperature(device: Any = None) -> int:
    """The temperature of the device in degrees Celsius.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = open_device(device)
    return library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)


def power_draw(device: Any = None) -> int:
    """The power that the device draws, in milliwatts.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = open_device(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: Any = None) -> int:
    """The clock of the multiprocessors, in MHz.

    Args:
        device: as in `utilization`.

    Raises:
        RuntimeError: pynvml or an NVIDIA driver is missing.
    """
    library, handle = open_device(device)
    return library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)
