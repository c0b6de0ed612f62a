"""`load`: an object from a file, in either of PyTorch's formats."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import IO, Any

from ..storage import TypedStorage
from ..tape.untyped import UntypedStorage, storage_of
from . import _archive as archive
from . import _legacy as legacy
from . import _names as names
from . import _unpickler as unpickler
from ._archive import CheckpointError, opened
from ._places import MapLocation, restorer


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` has written, or `torch.save`.

    Args:
        f: path, or file object that can seek, open for reading in binary mode.
        map_location: where tensors go: a device, for all; a dict from saved to wanted devices; a
            function (storage, saved location) -> storage, or None for the saved location; None:
            where they were.
        pickle_module: with `weights_only=False`: the module that unpickles, pickle by default.
        weights_only: True (default): tensors, containers, numbers, text and what
            `add_safe_globals` allows. False: everything, **code included**.
        mmap: map the storages from the file `f` (a path) instead of reading them; changes are not
            written back.
        pickle_load_args: passed to the unpickler with `weights_only=False`.

    Returns:
        The object.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: the file is damaged or no checkpoint. It is a RuntimeError and an
            UnpicklingError, and names the file.
        pickle.UnpicklingError: the file holds something that is not known as safe; names it, and
            says what to do.
        RuntimeError: tensors were saved on a CUDA device, there is none here, and `map_location`
            does not say where to put them.

    Example:
        >>> model.load_state_dict(gradlib.load("model.pt", map_location="cpu"))
        <All keys matched successfully>
    """
    weights_only = weights_only is not False if pickle_module is None else bool(weights_only)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    restore = restorer(map_location)
    with opened(f) as (file, name):
        load_pickle = _pickle_loader(name, weights_only, pickle_module or pickle, pickle_load_args)
        start = file.tell()
        head = file.read(len(legacy.PREFIX))
        file.seek(start)
        if head[:4] in (b"PK\3\4", b"PK\5\6"):
            if mmap and not isinstance(f, (str, os.PathLike)):
                raise ValueError("f must be a file path in order to use the mmap argument")
            reader = archive.Reader(file, name, f if mmap else None)  # type: ignore[arg-type]
            return load_pickle(io.BytesIO(reader.pickle()), _storage_loader(reader, restore))
        if head == legacy.PREFIX:
            if mmap:
                raise RuntimeError(f"{name}: only files in the zip format can be mapped (mmap)")
            return legacy.read(file, name, load_pickle, restore)
        what = "is empty" if not head else "is neither a zip archive nor an older checkpoint"
        raise CheckpointError(f"{name}: not a checkpoint: the file {what}")


def _pickle_loader(
    name: str, weights_only: bool, module: Any, options: dict[str, Any]
) -> legacy.Load:
    """The function that unpickles one object of the file `name`."""

    def load_pickle(file: IO[bytes], persistent: Callable[[Any], Any]) -> Any:
        try:
            if weights_only:
                return unpickler.WeightsUnpickler(file, persistent).load()
            trusting = unpickler.make_unpickler(module.Unpickler)
            return trusting(file, persistent, **{"encoding": "utf-8", **options}).load()
        except CheckpointError:
            raise
        except _Passed as passed:
            raise passed.error from None
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(f"{name}: {error}") from None
        except Exception as error:  # damage shows in many ways
            if not weights_only and not isinstance(error, EOFError):
                error.add_note(f"while loading {name}")  # it may come from the user's own class
                raise
            raise CheckpointError(
                f"{name}: the pickle in this checkpoint is damaged: {type(error).__name__}: {error}"
            ) from error
        finally:
            names.finish_states()

    return load_pickle


def _storage_loader(
    reader: archive.Reader, restore: Callable[[UntypedStorage, str], UntypedStorage]
) -> Callable[[Any], TypedStorage]:
    """The function that turns the references in the pickle into storages, each read once."""
    loaded: dict[str, UntypedStorage] = {}
    restore = _passing(restore)

    def persistent(pid: Any) -> TypedStorage:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"unknown reference {pid!r}")
        _, _, key, location, count = pid
        dtype = names.storage_dtype(pid)
        if key not in loaded:
            word = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            data = reader.storage(key, count * dtype.itemsize, word)
            loaded[key] = restore(storage_of(data), location)
        return names.typed(loaded[key], dtype)

    return persistent


class _Passed(Exception):
    """Carries an error that has nothing to do with the file through the unpickler."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _passing(
    restore: Callable[[UntypedStorage, str], UntypedStorage],
) -> Callable[[UntypedStorage, str], UntypedStorage]:
    """`restore`, with its errors in `_Passed`."""

    def passing(storage: UntypedStorage, location: str) -> UntypedStorage:
        try:
            return restore(storage, location)
        except Exception as error:
            raise _Passed(error) from None

    return passing
