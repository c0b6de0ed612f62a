"""What the second run of a checkpointed part finds as the first one did: random states and autocast."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from ..random import fork_rng, get_rng_state, set_rng_state
from ..tape.generator import DEVICES
from ..tape.modes import AUTOCAST, set_bits, state
from ..tape.tensor import Tensor


class DefaultDeviceType:
    """The type of the devices whose random states are kept when no argument tells: "cuda", if it is in use.

    Two static methods; nothing is made of it.

    Example:
        >>> gradlib.utils.checkpoint.DefaultDeviceType.get_device_type() in ("cpu", "cuda")
        True
    """

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose the type.

        Args:
            device: "cuda" or "cpu".
        """
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The type that was set last; "cuda" if nothing was and it is in use, else "cpu".

        Example:
            >>> DefaultDeviceType.get_device_type() in ("cpu", "cuda")
            True
        """
        return DefaultDeviceType._default_device_type or ("cuda" if "cuda" in DEVICES else "cpu")


def get_device_states(*args) -> tuple[list[Any], list[Tensor]]:
    """Devices of the tensors among `args` other than the CPU, and the states of their random generators.

    Args:
        args: tensors and anything else.

    Returns:
        (indices of devices, states as uint8 Tensors), for `set_device_states`.

    Example:
        >>> get_device_states(gradlib.ones(2), 3)
        ([], [])
    """
    devices: list[Any] = []
    for a in args:
        if isinstance(a, Tensor) and a.is_cuda and a.get_device() not in devices:
            devices.append(a.get_device())
    rng = DEVICES.get("cuda")
    return devices, [rng.get_rng_state(d) for d in devices] if rng is not None else []


def set_device_states(devices, states, *, device_type: str | None = None) -> None:
    """Put back the random states that :func:`get_device_states` gave.

    Args:
        devices: its first result.
        states: its second one.
        device_type: "cuda", if None.

    Example:
        >>> set_device_states([], [])
    """
    rng = DEVICES.get(device_type or "cuda")
    for device, saved in zip(devices, states, strict=True):
        assert rng is not None
        rng.set_rng_state(saved, device)


class Surroundings:
    """Random state and autocast of the first run, for the second."""

    def __init__(self, preserve_rng: bool, args: Iterable[Any]):
        self.preserve_rng = preserve_rng
        if preserve_rng:
            self.cpu = get_rng_state()
            self.devices, self.states = get_device_states(*args)
        self.autocast = state.bits & AUTOCAST
        self.interposers = tuple(i for i in state.interposers if i.for_recomputation)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        bits, interposers = state.bits, state.interposers
        others = tuple(i for i in interposers if not i.for_recomputation)
        state.interposers = (*self.interposers, *others)
        set_bits(bits & ~AUTOCAST | self.autocast)
        try:
            with fork_rng(
                devices=self.devices if self.preserve_rng else None, enabled=self.preserve_rng
            ):
                if self.preserve_rng:
                    set_rng_state(self.cpu)
                    set_device_states(self.devices, self.states)
                yield
        finally:
            state.interposers = interposers
            set_bits(state.bits & ~AUTOCAST | bits & AUTOCAST)
