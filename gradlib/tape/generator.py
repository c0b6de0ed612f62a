"""Random number generators: seeding, and a state that can be saved and put back exactly.

The CPU generator draws through `numpy.random.Generator` over SFC64, the quickest of NumPy's bit
generators for normal and uniform draws, whose whole state is 40 bytes. CUDA generators register
their class with `register_generator`, so that `Generator("cuda")` makes one.
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
from typing import Any, Protocol

import numpy as np

from .arrays import backend_for, why_not
from .device import device as Device
from .tensor import Tensor

__all__ = ["DEFAULT_SEED", "Generator", "default_generator", "register_generator"]

DEFAULT_SEED = 67280421310721
"""Seed of a new Generator, as in PyTorch."""

_STATE = struct.Struct("<5QII")  # seed, four words of SFC64, whether half a word is left, that half
_kinds: dict[str, type[Generator]] = {}
_alive: weakref.WeakSet[Generator] = weakref.WeakSet()
_making = threading.Lock()


def check_seed(seed: Any, *, exact: bool = True) -> int:
    """The seed as an unsigned 64-bit number; a negative one counts from 2**64 down.

    Raises:
        RuntimeError: not an integer (with `exact`).
        ValueError: outside [-2**63, 2**64 - 1].
    """
    if exact and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise ValueError("Overflow when unpacking long long")
    return seed % 2**64


def register_generator(device_type: str, kind: type[Generator]) -> None:
    """Make `Generator(device_type)` return an instance of `kind`, a subclass of Generator."""
    _kinds[device_type] = kind


def _kind_of(device_type: str) -> type[Generator] | None:
    """The generator of a device that has not been used yet: its backend registers it."""
    if device_type == "cuda" and why_not(device_type) is None:
        backend_for(device_type)
    return _kinds.get(device_type)


def _why_not(device_type: str) -> str:
    """What is missing for a generator of that device."""
    reason = why_not(device_type) if device_type == "cuda" else None
    return reason or f"Devices of type {device_type} have none here. Use device='cpu'."


class Generator:
    """A source of random numbers with its own seed and state; any thread may call it.

    Args:
        device: "cpu", or the device type of a registered generator, for example "cuda:0".

    Attributes:
        device: the device that numbers are drawn on.
        rng: the `numpy.random.Generator` that CPU operations draw from.

    Raises:
        RuntimeError: the device type has no generator here.

    Example:
        >>> g = gradlib.Generator().manual_seed(0)
        >>> state = g.get_state()
        >>> a = gradlib.rand(3, generator=g)
        >>> bool((gradlib.rand(3, generator=g.set_state(state)) == a).all())
        True
    """

    __slots__ = ("__weakref__", "_seed", "device", "rng")

    device: Device
    rng: np.random.Generator
    _seed: int

    def __new__(cls, device: Any = "cpu") -> Generator:
        where = Device(device)
        if cls is Generator and where.type != "cpu":
            kind = _kinds.get(where.type) or _kind_of(where.type)
            if kind is None:
                raise RuntimeError(
                    f"Cannot get {where.type.upper()} generator. {_why_not(where.type)}"
                )
            return object.__new__(kind)
        return object.__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        self._start()

    def _start(self) -> None:
        """Set up the state of a new generator; other devices override this."""
        self._seed = DEFAULT_SEED
        _alive.add(self)

    def __getattr__(self, name: str) -> Any:
        """`rng`, made when it is first asked for: importing numpy.random takes long."""
        if name != "rng":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        with _making:  # two threads must not draw from two of them
            if self._made() is None:
                self.rng = np.random.Generator(np.random.SFC64(self._seed))
            return self.rng

    def _made(self) -> np.random.Generator | None:
        """`rng`, if there is one yet."""
        try:
            return object.__getattribute__(self, "rng")
        except AttributeError:
            return None

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence that belongs to `seed`.

        Args:
            seed: integer in [-2**63, 2**64 - 1]; a negative one counts from 2**64 down.

        Returns:
            This generator.

        Raises:
            RuntimeError: `seed` is not an integer.
            ValueError: `seed` is out of range.
        """
        number = check_seed(seed)
        if self._made() is None:
            with _making:
                if self._made() is None:  # it will start from there
                    self._seed = number
                    return self
        fresh = np.random.SFC64(number).state
        bits = self.rng.bit_generator
        with bits.lock:
            bits.state = fresh
            self._seed = number
        return self

    def seed(self) -> int:
        """Start from a seed taken from the operating system.

        Returns:
            The seed.
        """
        number = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed that this generator was started with.

        Example:
            >>> gradlib.Generator().manual_seed(7).initial_seed()
            7
        """
        return self._seed

    def get_state(self) -> Any:
        """The state, for `set_state`.

        Returns:
            Tensor [n], uint8, on the CPU.

        Example:
            >>> g = gradlib.Generator()
            >>> state = g.get_state()
            >>> a = gradlib.rand(2, generator=g)
            >>> gradlib.equal(gradlib.rand(2, generator=g.set_state(state)), a)
            True
        """
        return _to_tensor(self._pack())

    def set_state(self, new_state: Any) -> Generator:
        """Go on exactly where `get_state` was called.

        Args:
            new_state: uint8 Tensor from `get_state`.

        Raises:
            TypeError: not a uint8 Tensor.
            RuntimeError: the Tensor has the wrong size, so it comes from another kind of generator.
        """
        self._unpack(_from_tensor(new_state))
        return self

    def clone_state(self) -> Generator:
        """A new generator in the same state as this one: both draw the same numbers from now on.

        Example:
            >>> g = gradlib.Generator()
            >>> h = g.clone_state()
            >>> gradlib.equal(gradlib.rand(2, generator=g), gradlib.rand(2, generator=h))
            True
        """
        copy = type(self)(self.device)
        copy._unpack(self._pack())
        return copy

    def graphsafe_get_state(self) -> Generator:
        """Refuse: only generators of a device that captures graphs have this.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Refuse: only generators of a device that captures graphs have this.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def get_offset(self) -> int:
        """How far a counter-based generator (CUDA) is in its sequence; refused on the CPU.

        Raises:
            RuntimeError: on the CPU.
        """
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Go to a place in the sequence of a counter-based generator (CUDA); refused on the CPU.

        Args:
            offset: what `get_offset` gave.

        Raises:
            RuntimeError: on the CPU.
        """
        raise RuntimeError("CPU Generator does not use offset")

    def _pack(self) -> bytes:
        """The state as bytes."""
        bits = self.rng.bit_generator
        with bits.lock:
            state = bits.state
            words = state["state"]["state"]
            return _STATE.pack(self._seed, *words, state["has_uint32"], state["uinteger"])

    def _unpack(self, data: bytes) -> None:
        """Take over a state made by `_pack`."""
        if len(data) != _STATE.size:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE.size} but found the input RNG "
                f"state size to be {len(data)}"
            )
        seed, *words, has_half, half = _STATE.unpack(data)
        if has_half > 1:
            raise RuntimeError("Invalid SFC64 state")
        state = {
            "bit_generator": "SFC64",
            "state": {"state": np.array(words, dtype=np.uint64)},
            "has_uint32": has_half,
            "uinteger": half,
        }
        bits = self.rng.bit_generator
        with bits.lock:
            bits.state = state
            self._seed = seed

    def _renew_lock(self) -> None:
        """Replace the lock, which a thread that does not exist in a forked child may hold."""
        made = self._made()
        if made is None:
            return
        fresh: Any = np.random.SFC64(0)
        fresh.state = made.bit_generator.state
        self.rng = np.random.Generator(fresh)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (str(self.device), self._pack())


def _rebuild(device: str, state: bytes) -> Generator:
    """Make the generator that was pickled."""
    made = Generator(device)
    made._unpack(state)
    return made


def _to_tensor(data: bytes) -> Any:
    """Bytes as a uint8 Tensor [n]."""

    return Tensor._make(np.frombuffer(data, dtype=np.uint8).copy())


def _from_tensor(state: Any) -> bytes:
    """The bytes of a uint8 Tensor, refused with PyTorch's messages when it is something else."""

    if not isinstance(state, Tensor):
        raise TypeError(f"expected a torch.ByteTensor, but got {type(state).__name__}")
    if state.dtype.name != "uint8" or state.device.type != "cpu":
        raise TypeError("RNG state must be a torch.ByteTensor")
    return state._array.tobytes()


def packed_state() -> Any:
    """The state of the default generator of the CPU as a raw array."""
    return _to_tensor(default_generator._pack())._array


def unpack_state(array: Any) -> None:
    """Put back a state that `packed_state` gave."""
    default_generator._unpack(_from_tensor(Tensor._make(array)))


_local = threading.local()


def thread_safe_generator() -> Generator | None:
    """The generator of the DataLoader worker thread that calls this; None everywhere else.

    Random transforms that pass it on as `generator=` draw reproducible numbers in thread workers
    too; None stands for the default generator.
    """
    return getattr(_local, "generator", None)


def set_thread_generator(generator: Generator | None) -> None:
    """Give the calling thread the generator that `thread_safe_generator` returns."""
    _local.generator = generator


default_generator = Generator()
"""The generator of every random operation on the CPU that is given none."""
default_generator.seed()


def _after_fork_in_child() -> None:
    global _making
    _making = threading.Lock()  # as below
    for generator in list(_alive):
        generator._renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# -- the generators of devices, which are seeded with that of the CPU --------------------------------------------------


class DeviceRandom(Protocol):
    """What a device type offers so that `manual_seed` reaches it and `fork_rng` saves its state."""

    def manual_seed_all(self, seed: int) -> None:
        """Seed the default generator of every device of this type."""
        ...

    def device_count(self) -> int:
        """How many devices of this type there are."""
        ...

    def get_rng_state(self, device: Any) -> Any:
        """The state of one device's default generator, as a uint8 Tensor."""
        ...

    def set_rng_state(self, new_state: Any, device: Any) -> None:
        """Put a state from `get_rng_state` back."""
        ...


DEVICES: dict[str, DeviceRandom] = {}  # device type -> its functions, filled by `register_device`
seeding = threading.RLock()
_latest: int | None = None  # the seed of the last manual_seed, for devices that come later


def register_device(device_type: str, rng: DeviceRandom) -> None:
    """Let `manual_seed` and `fork_rng` reach a device type, for example "cuda".

    Args:
        device_type: as in `gradlib.device(...).type`.
        rng: the functions that seed it and save its state. If `manual_seed` was called before,
            it is seeded at once.
    """
    with seeding:
        DEVICES[device_type] = rng
        if _latest is not None:
            rng.manual_seed_all(_latest)


def seed_devices(seed: int) -> None:
    """Seed the default generators of all devices but the CPU, those that register later included."""
    global _latest
    with seeding:
        _latest = seed
        for rng in DEVICES.values():
            rng.manual_seed_all(seed)
