"""`save`: an object to a file, in either of PyTorch's formats."""

from __future__ import annotations

import contextlib
import os
import pickle
from pathlib import Path
from typing import IO, Any

from . import _archive as archive
from . import _legacy as legacy
from . import _pickler as pickler


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
