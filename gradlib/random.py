"""Seeds and states of the random number generators of all devices.

`manual_seed` reaches every device: one that is set up later takes the latest seed over when it
registers with `register_device`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from .tape.generator import (
    DEVICES,
    DeviceRandom,
    Generator,
    check_seed,
    default_generator,
    packed_state,
    register_device,
    seed_devices,
    seeding,
    thread_safe_generator,
    unpack_state,
)
from .tape.modes import is_captured, unrecorded
from .tape.tensor import Tensor

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "register_device",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices.

    Args:
        seed: integer in [-2**63, 2**64 - 1]; a negative one counts from 2**64 down.

    Returns:
        The default generator of the CPU.

    Raises:
        ValueError: `seed` is out of range.

    Example:
        >>> _ = gradlib.manual_seed(0)
        >>> a = gradlib.rand(2)
        >>> _ = gradlib.manual_seed(0)
        >>> bool((gradlib.rand(2) == a).all())
        True
    """
    number = check_seed(seed, exact=False)
    with seeding:
        seed_devices(number)
        return default_generator.manual_seed(number)


def seed() -> int:
    """Seed the default generators of all devices from the operating system.

    Returns:
        The seed, for `manual_seed`.

    Example:
        >>> number = gradlib.seed()
        >>> gradlib.initial_seed() == number
        True
    """
    with seeding:
        number = default_generator.seed()
        seed_devices(number)
        return number


def initial_seed() -> int:
    """The seed that the default generator of the CPU was started with.

    Example:
        >>> _ = gradlib.manual_seed(7)
        >>> gradlib.initial_seed()
        7
    """
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator of the CPU.

    Returns:
        Tensor [n], uint8, for `set_rng_state`.

    Example:
        >>> state = gradlib.get_rng_state()
        >>> a = gradlib.rand(2)
        >>> gradlib.set_rng_state(state)
        >>> gradlib.equal(gradlib.rand(2), a)
        True
    """
    if is_captured():
        return Tensor._make(unrecorded(packed_state))
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Put back a state of the default generator of the CPU.

    Args:
        new_state: uint8 Tensor from `get_rng_state`.
    """
    if is_captured() and isinstance(new_state, Tensor):
        unrecorded(unpack_state, new_state._array)
    else:
        default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Run a block whose random draws leave the generators as they were before it.

    Args:
        devices: ids of the devices of `device_type` to fork, besides the CPU; None means all.
        enabled: False makes this do nothing, so that a with statement need not be taken out.
        device_type: "cuda" when left out.

    Raises:
        RuntimeError: `devices` names devices of a type that is not available.

    Example:
        >>> before = gradlib.get_rng_state()
        >>> with gradlib.random.fork_rng():
        ...     _ = gradlib.rand(5)
        >>> bool((gradlib.get_rng_state() == before).all())
        True
    """
    if not enabled:
        yield
        return
    kind = device_type or "cuda"
    rng = DEVICES.get(kind)
    chosen = _forked_devices(rng, kind, devices, _caller, _devices_kw)
    cpu_state = get_rng_state()
    states = [rng.get_rng_state(device) for device in chosen] if rng is not None else []
    try:
        yield
    finally:
        set_rng_state(cpu_state)
        for device, state in zip(chosen, states, strict=True):
            assert rng is not None
            rng.set_rng_state(state, device)


def _forked_devices(
    rng: DeviceRandom | None, kind: str, devices: Iterable[Any] | None, caller: str, keyword: str
) -> list[Any]:
    """The devices whose state `fork_rng` saves, besides the CPU."""
    if devices is not None:
        chosen = list(devices)
        if chosen and rng is None:
            raise RuntimeError(
                f"{caller} was given {keyword}={chosen!r}, but no {kind} device is available"
            )
        return chosen
    count = 0 if rng is None else rng.device_count()
    if count > 1:
        warnings.warn(
            f"{caller} saves the random state of all {count} {kind} devices, which may be slow. "
            f"Name those that you use: {caller}({keyword}=[...])",
            stacklevel=4,
        )
    return list(range(count))
