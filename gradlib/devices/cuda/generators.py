"""The random number generators of CUDA devices, one default generator for each."""

from __future__ import annotations

import struct
import sys
from typing import Any, cast

from ...tape.arrays import backend_for
from ...tape.device import device as Device
from ...tape.generator import (
    DEFAULT_SEED,
    Generator,
    check_seed,
    register_device,
    register_generator,
)
from ...tape.modes import shared
from .philox import DeviceRng

_STATE = struct.Struct("<QQ")  # seed, counter
_defaults: dict[int, CudaGenerator] = {}
_latest: int | None = None  # the seed for default generators that are made later


class CudaGenerator(Generator):
    """A source of random numbers on a CUDA device. Its state is in device memory; see `philox`.

    Args:
        device: "cuda" (the current device) or "cuda:1".

    Raises:
        RuntimeError: there is no CUDA device.
    """

    __slots__ = ()

    rng: Any

    def _start(self) -> None:
        xp = backend_for("cuda")
        index = _index(self.device)
        self.device = Device("cuda", index)
        self.rng = DeviceRng(xp, index)
        self._seed = 0
        self.manual_seed(_defaults_seed())

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence that belongs to `seed`; returns the generator.

        Args:
            seed: an int; a negative one counts from 2**64.

        Raises:
            RuntimeError: it is no integer.
            ValueError: it is outside of [-2**63, 2**64 - 1].
        """
        self._seed = check_seed(seed)
        self._write(self._seed, 0)
        return self

    def _write(self, seed: int, counter: int) -> None:
        with self.rng.xp.cuda.Device(self.device.index):
            self.rng.set(seed, counter)

    def _read(self) -> tuple[int, int]:
        with self.rng.xp.cuda.Device(self.device.index):
            return self.rng.get()

    def get_offset(self) -> int:
        """How many numbers were drawn since the seed, in units of four words of 32 bits; waits for the device.

        With `set_offset`, the same numbers can be drawn again.
        """
        return self._read()[1]

    def set_offset(self, offset: int) -> Generator:
        """Go on as if `offset` units of four words had been drawn since the seed; returns the generator.

        Args:
            offset: not negative.
        """
        self._write(self._seed, offset)
        return self

    def _pack(self) -> bytes:
        return _STATE.pack(*self._read())

    def _unpack(self, data: bytes) -> None:
        if len(data) != _STATE.size:
            raise RuntimeError("RNG state is wrong size")
        self._seed, counter = _STATE.unpack(data)
        self._write(self._seed, counter)

    def _renew_lock(self) -> None:
        """There is no lock."""


def _defaults_seed() -> int:

    return DEFAULT_SEED if _latest is None else _latest


def default_generator(device: Any = "cuda") -> CudaGenerator:
    """The generator of every random operation on a device that is given none.

    Args:
        device: "cuda" (the current one), "cuda:1" or an index.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    index = _index(device)
    found = _defaults.get(index)
    if found is None:
        found = _defaults[index] = cast(CudaGenerator, CudaGenerator(Device("cuda", index)))
    return found


def _runtime() -> Any:
    """CUDA's functions; RuntimeError that says what is missing without a device."""
    return backend_for("cuda").xp.cuda.runtime


def device_count() -> int:
    """The number of CUDA devices; asked only once the library is in use."""
    return int(_runtime().getDeviceCount())


def _index(device: Any) -> int:
    if isinstance(device, int):
        return device
    index = Device(device).index
    return int(_runtime().getDevice()) if index is None else index


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices, those that are used first later included.

    Args:
        seed: an int, from -2**63 to 2**64 - 1.

    Raises:
        ValueError: it is outside of that.
    """
    global _latest
    _latest = check_seed(seed, exact=False)
    if _defaults and shared.cuda is not None:
        for index in list(_defaults):
            default_generator(index).manual_seed(_latest)


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a device's generator; waits for the device.

    Args:
        device: "cuda" (the current one), "cuda:1" or an index.

    Returns:
        Tensor [16], uint8, on the CPU.

    Raises:
        RuntimeError: there is no CUDA device.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     state = gradlib.cuda.get_rng_state()
        ...     a = gradlib.rand(3, device="cuda")
        ...     gradlib.cuda.set_rng_state(state)
        ...     assert gradlib.equal(gradlib.rand(3, device="cuda"), a)
    """
    return default_generator(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Put a state from `get_rng_state` back.

    Args:
        new_state: Tensor [16], uint8.
        device: "cuda" (the current one), "cuda:1" or an index.

    Raises:
        RuntimeError: another size, or there is no CUDA device.
    """
    default_generator(device).set_state(new_state)


def register() -> None:
    """Let `Generator("cuda")`, `manual_seed` and `fork_rng` know of CUDA; called when the backend is made."""
    _defaults.clear()
    register_generator("cuda", CudaGenerator)
    register_device("cuda", sys.modules[__name__])  # pyright: ignore[reportArgumentType]
