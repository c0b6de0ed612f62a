"""CUDA devices: which there are, which is current, what they can do."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from ..devices.cuda import namespace as _backend
from ..tape.device import device as _Device


def library() -> Any:
    """``cupy.cuda``.

    Raises:
        RuntimeError: it says what is missing without CUDA.
    """
    return _backend.get_backend().xp.cuda


def is_available() -> bool:
    """Whether CuPy and a CUDA device can be used; everything in `gradlib.cuda` may be imported without.

    Example:
        >>> device = "cuda" if gradlib.cuda.is_available() else "cpu"
        >>> y = gradlib.ones(2, device=device)
    """
    return _backend.why_not() is None


def device_count() -> int:
    """The number of CUDA devices; 0 when CUDA is not available.

    Example:
        >>> gradlib.cuda.device_count() > 0 or not gradlib.cuda.is_available()
        True
    """
    return int(library().runtime.getDeviceCount()) if is_available() else 0


def current_device() -> int:
    """The index of the current device: where ``device="cuda"`` puts tensors.

    Raises:
        RuntimeError: it says what is missing without a device.
    """
    return int(library().runtime.getDevice())


def init() -> None:
    """Get the CUDA library ready now instead of on first use.

    Raises:
        RuntimeError: it says what is missing without a device.
    """
    library()


def is_initialized() -> bool:
    """Whether the CUDA library is in use by this process.

    It is not before the first tensor, stream or question about a device.
    """
    return _backend._backend is not None


def index_of(device: Any = None, optional: bool = False) -> int:
    """The index that `device` stands for: an int, "cuda:1", a device; None is the current device.

    Raises ValueError for a device that is no CUDA device, or an index that does not exist.
    """
    if isinstance(device, (str, _Device)):
        device = _Device(device)
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        device = device.index
    elif device is not None and not isinstance(device, int):
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    if device is None or (device < 0 and optional):
        return current_device()
    if not 0 <= device < device_count():
        raise RuntimeError(
            f"CUDA error: invalid device ordinal {device}; this machine has {device_count()} CUDA device(s)"
        )
    return device


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


def synchronize(device: Any = None) -> None:
    """Wait on the host for all work on all streams of a device.

    Needed before the clock is read; results of tensors are waited for without it.

    Args:
        device: a device, "cuda:1" or an index; None for the current one.

    Raises:
        RuntimeError: there is no CUDA device, or some of the work failed.
    """
    with library().Device(index_of(device)):
        library().runtime.deviceSynchronize()


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
