"""Apple's GPUs, which gradlib does not drive: programs that ask are told that there are none."""

from __future__ import annotations

from ._refused import refuse

__all__ = ["device_count", "is_available"]

_ABSENT = """
    Event compile_shader current_allocated_memory driver_allocated_memory empty_cache get_rng_state
    load_metallib manual_seed recommended_max_memory seed set_per_process_memory_fraction
    set_rng_state synchronize
"""
__getattr__ = refuse(
    "mps",
    _ABSENT,
    "There are no kernels for Apple's GPUs: use the CPU, or CUDA on NVIDIA's; mps.is_available() is False.",
)


def is_available() -> bool:
    """Whether such a device can be used: False, since gradlib has kernels for CPUs and CUDA only.

    Example::

        >>> import gradlib as torch
        >>> torch.mps.is_available()
        False
    """
    return False


def device_count() -> int:
    """How many such devices there are: 0, as gradlib has no kernels for them.

    Example::

        >>> import gradlib as torch
        >>> torch.mps.device_count()
        0
    """
    return 0
