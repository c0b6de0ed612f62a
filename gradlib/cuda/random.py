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
    """Seed the generator of the current device; kept for later where there is no CUDA device."""
    if is_available():
        default_generator().manual_seed(check_seed(seed, exact=False))
    else:
        manual_seed_all(seed)


def seed() -> None:
    """Seed the generator of the current device from the operating system."""
    default_generator().seed()


def seed_all() -> None:
    """Seed the generators of all devices with one number from the operating system."""
    manual_seed_all(Generator().seed())


def initial_seed() -> int:
    """The seed that the generator of the current device was started with."""
    return default_generator().initial_seed()


def get_rng_state_all() -> list[Any]:
    """The states of the generators of all devices."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Put states from `get_rng_state_all` back."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
