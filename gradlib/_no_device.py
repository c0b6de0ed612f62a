"""What the modules of devices that gradlib does not drive answer: ``xpu``, ``mps``, ``mtia``.

A seed is kept by no device here, and what counts a device's memory counts none, as in a PyTorch without it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any


def is_available() -> bool:
    """Whether such a device can be used: False, since gradlib has kernels for CPUs and CUDA only.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """Whether such a device is in use: False, since there is none.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_initialized()
        False
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether such a device computes in bfloat16: False, since there is none.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_bf16_supported()
        False
    """
    return False


def is_tf32_supported() -> bool:
    """Whether such a device multiplies in TF32: False, since there is none.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.is_tf32_supported()
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


def manual_seed(seed: int) -> None:
    """Take a seed for the random numbers of such devices, of which there are none: nothing is changed.

    PyTorch keeps it for the device's first use. `gradlib.manual_seed` sets the seed of the CPU and of CUDA.

    Args:
        seed: an integer.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.manual_seed(0)
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Take a seed for all such devices, of which there are none; see `manual_seed`.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.manual_seed_all(0)
    """
    int(seed)


def seed() -> None:
    """Draw a seed for such a device, of which there is none: nothing is changed.

    `gradlib.seed` draws one for the CPU.
    """


def seed_all() -> None:
    """Draw a seed for all such devices, of which there are none: nothing is changed.

    `gradlib.seed` draws one for the CPU.
    """


def get_rng_state_all() -> list[Any]:
    """The states of the random number generators of all such devices: an empty list.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.get_rng_state_all()
        []
    """
    return []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the states that `get_rng_state_all` gave: none.

    Raises:
        NotImplementedError: there are states: they are of other machines.
    """
    if list(new_states):
        raise NotImplementedError("gradlib has no such device, whose random state could be set")


def empty_cache() -> None:
    """Give back memory that is kept for such devices: none is.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.empty_cache()
    """


def memory_allocated(device: Any = None) -> int:
    """How many bytes tensors hold on such a device: 0.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.memory_allocated()
        0
    """
    return 0


def memory_reserved(device: Any = None) -> int:
    """How many bytes are kept for such a device: 0.

    Example::

        >>> import gradlib as torch
        >>> torch.xpu.memory_reserved()
        0
    """
    return 0


max_memory_allocated, max_memory_reserved = memory_allocated, memory_reserved


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Figures of the memory of such a device: none.

    Example::

        >>> import gradlib as torch
        >>> dict(torch.xpu.memory_stats())
        {}
    """
    return OrderedDict()
