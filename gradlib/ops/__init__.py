"""Ops by name: PyTorch's (``gradlib.ops.aten.mm.default``), and those that programs define with `gradlib.library`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from . import aten
from ._custom import REFUSED, OpNamespace

__all__ = ["aten"]


class LibraryError(OSError, NotImplementedError):
    """A compiled library was to be loaded; packages that can do without one catch OSError."""


def load_library(path: Any) -> None:
    """Ops of gradlib in the place of torchvision's library; any other is written for PyTorch's own code, and refused.

    Args:
        path: of the compiled library.

    Raises:
        LibraryError: there is nothing in its place. It is an OSError, as PyTorch's for a file that it cannot load, so
            that packages go on without it.
    """
    where = Path(str(path))
    if where.parent.name == "torchvision" and where.stem.partition(".")[0] == "_C":
        importlib.import_module(f"{__name__}._torchvision")
        return
    REFUSED.append(str(path))
    raise LibraryError(
        f"gradlib.ops.load_library cannot load {path}: it needs PyTorch's compiled code. Define the ops in Python with "
        "gradlib.library.custom_op."
    )


def __getattr__(name: str) -> Any:
    """A namespace of ops that programs define; there may be nothing in it yet."""
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = OpNamespace(name)
    return found
