"""`save` and `load`: objects with tensors to files and back; pickling and copying of tensors.

The files are zip archives in PyTorch's format: either library reads what the other has written.
`load` reads tensors, containers and numbers only, unless `weights_only=False` is asked for, which
lets a file run any code and is for files from a source you trust.

Example:
    >>> gradlib.save({"weight": gradlib.ones(2)}, "checkpoint.pt")
    >>> gradlib.load("checkpoint.pt")["weight"]
    tensor([1., 1.])
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from gradlib import cuda
from gradlib.serialization import _archive as archive
from gradlib.serialization import _legacy as legacy
from gradlib.serialization import _names as names
from gradlib.serialization import _pickler as pickler
from gradlib.serialization import _unpickler as unpickler
from gradlib.serialization._archive import CheckpointError
from gradlib.serialization._copies import attributes_of, copy_memory, deepcopy_tensor, reduce_tensor
from gradlib.storage import TypedStorage
from gradlib.tape.device import device
from gradlib.tape.untyped import UntypedStorage, storage_in, storage_of

__all__ = [
    "CheckpointError",
    "add_safe_globals",
    "attributes_of",
    "clear_safe_globals",
    "copy_memory",
    "deepcopy_tensor",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "reduce_tensor",
    "safe_globals",
    "save",
]

MapLocation = Callable[[UntypedStorage, str], Any] | device | str | dict[str, Any] | None


# --------------------------------------------------------------------------------------------
# Saving


def save(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file, tensors with their values, dtype, strides and device.

    Tensors that share memory share it again when they are loaded; of memory that no tensor in `obj`
    uses nothing is written. Gradients and graphs are not saved.

    Args:
        obj: any object that pickles, with tensors anywhere in it; best a state_dict.
        f: path, or file object open for writing in binary mode.
        pickle_module: pickle, or a module such as dill that extends it.
        pickle_protocol: version of the pickle protocol.
        _use_new_zipfile_serialization: False: write the format before PyTorch 1.6.

    Raises:
        RuntimeError: the directory of the path does not exist.
        AttributeError: `f` is no path and has no `write`.
        TypeError, pickle.PicklingError: something in `obj` cannot be pickled. The file that was
            at `f` before is then still there.

    Example:
        >>> gradlib.save(model.state_dict(), "model.pt")
    """
    is_path = isinstance(f, (str, os.PathLike))
    if not is_path and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    old = not _use_new_zipfile_serialization
    data_pkl, entries = pickler.dump(obj, pickle_module, pickle_protocol, old)
    if is_path:
        parent = Path(f).parent  # type: ignore[arg-type]
        if not parent.is_dir():
            raise RuntimeError(f"Parent directory {parent} does not exist.")
    if old:
        with open(f, "wb") if is_path else contextlib.nullcontext(f) as file:  # type: ignore
            legacy.write(file, pickle_module, data_pkl, entries)  # type: ignore[arg-type]
        return
    archive.write(f, data_pkl, ((entry.key, entry.data()) for entry in entries))


# --------------------------------------------------------------------------------------------
# Loading


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
    restore = _restorer(map_location)
    with _opened(f) as (file, name):
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


@contextlib.contextmanager
def _opened(f: Any) -> Iterator[tuple[IO[bytes], str]]:
    """The file object to read from, and its name for messages."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file, os.fspath(f)
        return
    missing = [method for method in ("read", "seek", "tell") if not hasattr(f, method)]
    if missing:
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute '{missing[0]}'. You can only torch.load "
            "from a file that is seekable. Please pre-load the data into a buffer like io.BytesIO "
            "and try to load from it instead."
        )
    yield f, str(getattr(f, "name", f"<{type(f).__name__}>"))


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


def _restorer(map_location: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
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
        raise RuntimeError(
            f"don't know how to restore data location of a storage (tagged with {location}); "
            "pass map_location='cpu' to put it on the CPU"
        ) from None
    if target.type == "cpu":
        return storage

    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if target.index is not None and target.index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {target.index} but "
            f"torch.cuda.device_count() is {cuda.device_count()}. Please use torch.load with "
            "map_location to map your storages to an existing device."
        )
    return storage.to(target)


# --------------------------------------------------------------------------------------------
# What weights-only files may contain


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let weights-only files mention, call and make these classes and functions.

    Args:
        safe_globals: classes and functions, or pairs (object, "module.name") for one that files
            know under another name.

    Raises:
        ValueError: an entry is neither.

    Example:
        >>> gradlib.serialization.add_safe_globals([Config])
        >>> gradlib.serialization.clear_safe_globals()
    """
    new = list(safe_globals)
    old = unpickler.get_allowed()
    unpickler.set_allowed(old + [entry for entry in new if entry not in old])


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has allowed ``load`` to make, as a list.

    Example:
        >>> gradlib.serialization.get_safe_globals()
        []
    """
    return unpickler.get_allowed()


def clear_safe_globals() -> None:
    """Take back all that `add_safe_globals` has allowed.

    ``load`` with `weights_only` refuses these classes and functions again.
    """
    unpickler.set_allowed([])


class safe_globals:
    """`add_safe_globals` for the duration of a with block.

    Example:
        >>> with gradlib.serialization.safe_globals([Config]):
        ...     checkpoint = gradlib.load("checkpoint.pt")
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self.entries = list(safe_globals)

    def __enter__(self) -> None:
        self.before = unpickler.get_allowed()
        add_safe_globals(self.entries)

    def __exit__(self, *exc: object) -> None:
        unpickler.set_allowed(self.before)


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """The names in a checkpoint that a weights-only load refuses. Nothing in the file is run.

    Args:
        f: as for `load`; a file in the zip format.

    Returns:
        Names such as "__main__.Config", in the order in which they come.
    """
    import pickletools
    import zipfile

    with _opened(f) as (file, name):
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{name}: names are listed for files in the zip format only")
        file.seek(0)
        data = archive.Reader(file, name, None).pickle()
    found: dict[str, None] = {}
    strings: list[str] = []
    for opcode, arg, _ in pickletools.genops(data):
        if isinstance(arg, str) and opcode.name not in ("GLOBAL", "INST"):
            strings.append(arg)
            continue
        if opcode.name in ("GLOBAL", "INST"):
            module, _, attribute = str(arg).partition(" ")
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            module, attribute = strings[-2:]
        else:
            continue
        if not unpickler.is_known(module, attribute):
            found[f"{module}.{attribute}"] = None
    return list(found)
