"""The format before PyTorch 1.6: a row of pickles, then the storages one after the other."""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

import numpy as np

from ..storage import NAMES, TypedStorage
from ..tape.untyped import UntypedStorage, storage_of
from ._archive import CheckpointError
from ._names import storage_dtype, typed
from ._pickler import Entry

MAGIC = 0x1950A86A20F9469CFC6C
PREFIX = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M"
"""How such a file begins: the pickle of the magic number, then that of the protocol version."""

Load = Callable[[IO[bytes], Callable[[Any], Any]], Any]


def read(
    file: IO[bytes], name: str, load: Load, restore: Callable[[UntypedStorage, str], UntypedStorage]
) -> Any:
    """Read such a file.

    Args:
        file: at its beginning.
        name: the file in words, for messages.
        load: unpickles one object, given what makes a storage of a persistent id.
        restore: moves a storage from the location it was saved at to where it shall be.

    Raises:
        CheckpointError: the file is damaged.
    """
    magic, version, system = (load(file, _no_storage) for _ in range(3))
    known = magic == MAGIC and version == 1001 and isinstance(system, dict)
    if not known or not system.get("little_endian", True):
        raise CheckpointError(f"{name}: not a checkpoint in the format before PyTorch 1.6")
    start = file.tell()
    kinds: dict[str, tuple[Any, str, int]] = {}  # dtype, location and bytes by key
    load(file, lambda pid: _blank(pid, kinds))  # the storages come after what refers to them
    storages: dict[str, UntypedStorage] = {}
    keys = load(file, _no_storage)
    if not isinstance(keys, list) or set(keys) != set(kinds):
        raise CheckpointError(f"{name}: the list of storages is damaged")
    for key in keys:
        dtype, location, nbytes = kinds[key]
        length = file.read(8)
        if length != struct.pack("<q", nbytes // dtype.itemsize) or nbytes > _left(file):
            raise CheckpointError(f"{name}: storage {key} is damaged or incomplete")
        data = np.frombuffer(bytearray(file.read(nbytes)), np.uint8)
        storages[key] = restore(storage_of(data), location)
    file.seek(start)
    return load(file, lambda pid: typed(storages[pid[2]], kinds[pid[2]][0]))


def write(file: IO[bytes], pickle_module: Any, data_pkl: bytes, entries: Iterable[Entry]) -> None:
    """Write such a file.

    Args:
        file: open for writing.
        pickle_module: pickles the head and the list of storages.
        data_pkl: the pickle of the object.
        entries: the storages that it refers to.
    """
    entries = list(entries)
    system = {
        "protocol_version": 1001,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for head in (MAGIC, 1001, system):
        pickle_module.dump(head, file, protocol=2)
    file.write(data_pkl)
    pickle_module.dump([entry.key for entry in entries], file, protocol=2)
    for entry in entries:
        data: Any = entry.data()
        named = entry.dtype.itemsize if entry.dtype.name in NAMES else 1
        file.write(struct.pack("<q", data.nbytes // named))
        file.write(memoryview(data))


def _left(file: IO[bytes]) -> int:
    """Bytes from here to the end of the file."""
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return end - here


def _blank(pid: Any, kinds: dict[str, tuple[Any, str, int]]) -> TypedStorage:
    """A storage of zeros for a reference; notes what it refers to."""
    if not (isinstance(pid, tuple) and len(pid) == 6 and pid[0] == "storage"):
        raise pickle.UnpicklingError(f"unknown reference {pid!r}")
    _, _, key, location, count, view = pid
    dtype = storage_dtype(pid)
    if view is not None:
        raise pickle.UnpicklingError(f"unknown kind of storage in {pid!r}")
    kinds[key] = dtype, location, count * dtype.itemsize
    return typed(UntypedStorage(count * dtype.itemsize), dtype)


def _no_storage(pid: Any) -> Any:
    raise pickle.UnpicklingError(f"reference {pid!r} where there is none")
