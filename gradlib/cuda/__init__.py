"""CUDA devices. Everything here answers on a machine without one; only using a device needs CuPy."""

from __future__ import annotations

from typing import Any

from ..backends import cupy as _backend


def is_available() -> bool:
    """Whether CuPy and a CUDA device can be used."""
    return _backend.why_not() is None


def device_count() -> int:
    """The number of CUDA devices; 0 when CUDA is not available."""
    return _backend.get_backend().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device() -> int:
    """The index of the current device; RuntimeError that says what is missing without one."""
    return int(_backend.get_backend().cuda.runtime.getDevice())


def synchronize(device: Any = None) -> None:
    """Wait for all work on a device; RuntimeError without one."""
    xp = _backend.get_backend()
    index = device.index if hasattr(device, "index") else device
    with xp.cuda.Device(index):
        xp.cuda.runtime.deviceSynchronize()


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; nothing to do without one."""


manual_seed = manual_seed_all
