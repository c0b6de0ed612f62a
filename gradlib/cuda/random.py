"""The random number generators of CUDA devices: seeds and states, one default generator for each device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..devices.cuda.generators import (
    CudaGenerator,
    default_generator,
    get_rng_state,
    manual_seed_all,
    set_rng_state,
)
from ..devices.cuda.library import device_count, is_available
from ..tape.generator import Generator, check_seed

__all__ = [
    "CudaGenerator",
    "default_generator",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device; kept for later where there is no CUDA device.

    ``gradlib.manual_seed`` seeds those of all devices.

    Args:
        seed: an int, from -2**63 to 2**64 - 1.

    Raises:
        ValueError: it is outside of that.
    """
    if is_available():
        default_generator().manual_seed(check_seed(seed, exact=False))
    else:
        manual_seed_all(seed)


def seed() -> None:
    """Seed the generator of the current device from the operating system.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    default_generator().seed()


def seed_all() -> None:
    """Seed the generators of all devices with one number from the operating system.

    Those that are used first later included.
    """
    manual_seed_all(Generator().seed())


def initial_seed() -> int:
    """The seed that the generator of the current device was started with.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    return default_generator().initial_seed()


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all devices, as a list; empty without CUDA.

    Example:
        >>> len(gradlib.cuda.get_rng_state_all()) == gradlib.cuda.device_count()
        True
    """
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Put states from `get_rng_state_all` back, the first on device 0.

    Args:
        new_states: an iterable of states.
    """
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
