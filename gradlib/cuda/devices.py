"""CUDA devices: which there are, which is current, what they can do."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ..devices.cuda.library import (
    current_device,
    index_of,
    is_available,
    library,
)


def init() -> None:
    """Get the CUDA library ready now instead of on first use.

    Raises:
        RuntimeError: it says what is missing without a device.
    """
    library()


def set_device(device: Any) -> None:
    """Make a device current in this thread; a ``with cuda.device(...)`` block is safer.

    Args:
        device: a device, "cuda:1" or an index; a negative one changes nothing.

    Raises:
        RuntimeError: there is no such device.
        ValueError: it is no CUDA device.
    """
    if not isinstance(device, int) or device >= 0:
        library().Device(index_of(device)).use()


class device:
    """Make a device current for a block; the one before comes back.

    Args:
        device: a device, "cuda:1" or an index; None or a negative one changes nothing.

    Raises:
        RuntimeError: there is no such device.
        ValueError: it is no CUDA device.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     with gradlib.cuda.device(0):
        ...         x = gradlib.ones(2, device="cuda")  # cuda:0
    """

    def __init__(self, device: Any):
        nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if nothing else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *exc: Any) -> bool:
        if self.idx >= 0:
            set_device(self.prev_idx)
        return False


class device_of(device):
    """Make the device of a tensor current for a block.

    Args:
        obj: a Tensor; nothing changes for one on the CPU.

    Example:
        >>> with gradlib.cuda.device_of(gradlib.ones(2)):
        ...     pass
    """

    def __init__(self, obj: Any):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """What a device is: sizes in bytes, clocks in kHz; what `get_device_properties` returns.

    Attributes:
        name: for example "NVIDIA H200".
        major, minor: the compute capability.
        total_memory: of the device.
        multi_processor_count: how many multiprocessors it has; the other names say which limit they are.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    is_integrated: int
    L2_cache_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    warp_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, compute capability, memory, multiprocessors... of a device.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no such device.
    """
    p = library().runtime.getDeviceProperties(index_of(device))

    def get(name: str) -> int:
        return int(p.get(name, 0))

    return DeviceProperties(
        p["name"].decode(), get("major"), get("minor"), get("totalGlobalMem"), get("multiProcessorCount"),
        get("integrated"), get("l2CacheSize"), get("maxThreadsPerMultiProcessor"), get("maxThreadsPerBlock"),
        get("regsPerMultiprocessor"), get("sharedMemPerBlock"), get("sharedMemPerBlockOptin"), get("warpSize"),
        get("clockRate"), get("memoryClockRate"), get("memoryBusWidth"), get("pciBusID"), get("pciDeviceID"),
        get("pciDomainID"),
    )  # fmt: skip


def get_device_name(device: Any = None) -> str:
    """The name of a device, for example "NVIDIA H200".

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no such device.
    """
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device: (major, minor), for example (9, 0).

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no such device.
    """
    p = get_device_properties(device)
    return p.major, p.minor


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether kernels on `device` can read the memory of `peer_device`.

    Args:
        device: a device, "cuda:1" or an index.
        peer_device: another one.

    Raises:
        RuntimeError: there is no such device.
    """
    return bool(library().runtime.deviceCanAccessPeer(index_of(device), index_of(peer_device)))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16; False without one.

    Args:
        including_emulation: False asks for hardware that does: compute capability 8.0 and newer.

    Example:
        >>> gradlib.cuda.is_bf16_supported() == gradlib.cuda.is_available()
        True
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_launch_blocking() -> bool:
    """Whether CUDA_LAUNCH_BLOCKING is 1, so that every launch waits and errors appear where they happen.

    It is set in the environment before the program starts.
    """
    return os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
