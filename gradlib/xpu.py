"""Intel's GPUs, which gradlib does not drive: programs that ask are told that there are none."""

from __future__ import annotations

from ._refused import refuse

__all__ = ["device_count", "is_available", "is_bf16_supported", "is_initialized"]

_ABSENT = """
    Event MemPool Stream StreamContext XPUGraph XPUPluggableAllocator can_device_access_peer
    change_current_allocator clock_rate current_device current_stream device device_memory_used
    device_of empty_cache get_arch_list get_device_capability get_device_name get_device_properties
    get_gencode_flags get_per_process_memory_fraction get_rng_state get_rng_state_all
    get_stream_from_external graph graph_pool_handle init initial_seed is_current_stream_capturing
    is_tf32_supported make_graphed_callables manual_seed manual_seed_all max_memory_allocated
    max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot memory_stats
    memory_stats_as_nested_dict memory_usage power_draw reset_accumulated_memory_stats
    reset_peak_memory_stats seed seed_all set_device set_per_process_memory_fraction set_rng_state
    set_rng_state_all set_stream stream synchronize temperature use_mem_pool utilization
"""
__getattr__ = refuse(
    "xpu",
    _ABSENT,
    "There are no kernels for Intel's GPUs: use the CPU, or CUDA on NVIDIA's; xpu.is_available() is False.",
)


def is_available() -> bool:
    """Whether such a device can be used: False, since gradlib has kernels for CPUs and CUDA only.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_available()
        False
    """
    return False


def device_count() -> int:
    """How many such devices there are: 0, as gradlib has no kernels for them.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.device_count()
        0
    """
    return 0


def is_initialized() -> bool:
    """Whether such a device is in use: False, since there is none.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_initialized()
        False
    """
    return False


def is_bf16_supported() -> bool:
    """Whether such a device computes in bfloat16: False, since there is none.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_bf16_supported()
        False
    """
    return False
