"""Meta's accelerators, which gradlib does not drive: programs that ask are told that there are none."""

from __future__ import annotations

from ._refused import refuse

__all__ = ["device_count", "is_available", "is_initialized"]

_ABSENT = """
    MTIAGraph attach_out_of_memory_observer current_device current_stream default_stream device
    empty_cache get_device_capability get_device_properties get_rng_state get_rng_state_all graph
    graph_pool_handle init initial_seed is_bf16_supported manual_seed manual_seed_all
    max_memory_allocated memory_allocated memory_stats record_memory_history reset_peak_memory_stats
    seed seed_all set_device set_rng_state set_rng_state_all set_stream snapshot stream synchronize
"""
__getattr__ = refuse(
    "mtia",
    _ABSENT,
    "There are no kernels for Meta's accelerators: use the CPU, or CUDA on NVIDIA's; mtia.is_available() is False.",
)


def is_available() -> bool:
    """Whether such a device can be used: False, since gradlib has kernels for CPUs and CUDA only.

    Example::

        >>> import gradlib as torch
        >>> torch.mtia.is_available()
        False
    """
    return False


def device_count() -> int:
    """How many such devices there are: 0, as gradlib has no kernels for them.

    Example::

        >>> import gradlib as torch
        >>> torch.mtia.device_count()
        0
    """
    return 0


def is_initialized() -> bool:
    """Whether such a device is in use: False, since there is none.

    Example::

        >>> import gradlib as torch
        >>> torch.mtia.is_initialized()
        False
    """
    return False
