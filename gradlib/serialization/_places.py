"""Where the storages of a file go: what `map_location` means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..devices.cuda.library import device_count, is_available
from ..tape.device import device
from ..tape.untyped import UntypedStorage, storage_in

MapLocation = Callable[[UntypedStorage, str], Any] | device | str | dict[str, Any] | None


def restorer(map_location: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
    """The function that moves a storage from where it was saved to where it shall be."""
    if map_location is None:
        return _at_location
    if isinstance(map_location, (str, device)):
        return lambda storage, location: _at_location(storage, str(map_location))
    if isinstance(map_location, dict):
        return lambda storage, location: _at_location(
            storage, str(map_location.get(location, location))
        )
    if not callable(map_location):
        raise TypeError(
            "map_location must be a device, a string, a dict or a function, but got "
            f"{type(map_location).__name__}"
        )

    def restore(storage: UntypedStorage, location: str) -> UntypedStorage:
        moved = map_location(storage, location)
        if moved is None:
            return _at_location(storage, location)
        found = storage_in(moved)
        if found is None:
            raise TypeError(f"map_location must return a storage or None, but got {moved!r}")
        return found

    return restore


def _at_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """The storage on the device that `location` names."""
    try:
        target = device(location)
    except (RuntimeError, NotImplementedError):
        target = None
    if target is None or target.type not in ("cpu", "cuda", "meta"):
        raise RuntimeError(
            f"don't know how to restore data location of a storage (tagged with {location}); "
            "pass map_location='cpu' to put it on the CPU"
        )
    if target.type == "cpu":
        return storage
    if target.type == "meta":
        return storage.to(target)

    if not is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if target.index is not None and target.index >= device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {target.index} but "
            f"torch.cuda.device_count() is {device_count()}. Please use torch.load with "
            "map_location to map your storages to an existing device."
        )
    return storage.to(target)
