"""What weights-only files may contain: the classes and functions that the user allows, and what a file asks for."""

from __future__ import annotations

import os
import pickletools
import zipfile
from collections.abc import Iterable
from typing import IO, Any

from . import _unpickler as unpickler
from ._archive import Reader, opened


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

    Example:
        >>> with safe_globals([Config]):
        ...     clear_safe_globals()
        ...     get_safe_globals()
        []
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

    Example:
        >>> gradlib.save({"config": Config()}, "config.pt")
        >>> [name.rpartition(".")[2] for name in get_unsafe_globals_in_checkpoint("config.pt")]
        ['Config']
    """
    with opened(f) as (file, name):
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{name}: names are listed for files in the zip format only")
        file.seek(0)
        data = Reader(file, name, None).pickle()
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
