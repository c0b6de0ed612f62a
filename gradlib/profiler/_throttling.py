"""Clocks, power and temperature of the devices beside a profile, read through pynvml while it runs.

A device that is hot, or at its power limit, lowers its clocks: the same program then takes longer. The samples mark
such measurements. Without pynvml (``pip install 'gradlib[profile]'``) or a driver there are none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

from ..devices.cuda.driver import open_device
from ..devices.cuda.library import device_count

INTERVAL = 0.1  # seconds; the driver's own figures change no faster
# bits of the reasons for which clocks are below what was asked for
THROTTLING = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal limit",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class ClockSample(NamedTuple):
    """What the driver said of a device at one time; None for what the device does not tell."""

    time_us: float  # as the times of events
    device: int
    clock_mhz: int | None  # of the multiprocessors
    memory_clock_mhz: int | None
    power_w: float | None
    temperature_c: int | None
    utilization: int | None  # percent of the last moments in which a kernel ran
    throttled: tuple[str, ...]  # reasons for lowered clocks


class Sampler:
    """A thread that samples all CUDA devices until it is stopped; it starts only where pynvml works."""

    def __init__(self, interval: float = INTERVAL):
        self.interval = interval
        self.samples: list[tuple] = []  # (ns, device, figures)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._handles: dict[int, Any] = {}
        self._library: Any = None

    def start(self) -> None:
        """Take the first samples, and go on in a thread."""
        try:
            for index in range(device_count()):
                self._library, self._handles[index] = open_device(index)
        except Exception:  # no pynvml, no driver, a device that it cannot find: no samples
            return
        self._sample()
        self._thread = threading.Thread(target=self._run, name="gradlib clocks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the last samples."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
            self._sample()

    def _run(self) -> None:
        while not self._over.wait(self.interval):
            self._sample()

    def _sample(self) -> None:
        for index, handle in self._handles.items():
            self.samples.append((perf_counter_ns(), index, figures(self._library, handle)))

    def since(self, origin_ns: int) -> list[ClockSample]:
        """The samples, with times since `origin_ns`."""
        return [
            ClockSample((time - origin_ns) / 1e3, index, *values)
            for time, index, values in self.samples
        ]


def figures(nvml: Any, handle: Any) -> tuple:
    """The fields of a ClockSample after the device."""

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (nvml.NVMLError, AttributeError):  # not on this device, or not in this version
            return None

    power = ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    reasons = ask(lambda: _reasons(nvml)(handle)) or 0
    return (
        ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        None if power is None else power / 1e3,
        ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        tuple(name for bit, name in THROTTLING.items() if reasons & bit),
    )


def _reasons(nvml: Any) -> Any:
    """The function that tells the reasons; drivers before 12.2 know it by another name."""
    newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return newer or nvml.nvmlDeviceGetCurrentClocksThrottleReasons


def summary(samples: list[ClockSample]) -> str:
    """A sentence if a device was throttled, else ""."""
    throttled = [s for s in samples if s.throttled]
    if not throttled:
        return ""
    reasons = ", ".join(dict.fromkeys(reason for s in throttled for reason in s.throttled))
    which = ", ".join(f"cuda:{i}" for i in sorted({s.device for s in throttled}))
    return (
        f"The clocks of {which} were lowered in {len(throttled)} of {len(samples)} samples ({reasons}): times may be "
        "longer than on an unthrottled device"
    )
