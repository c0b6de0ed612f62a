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

from .._refused import refuse
from ._archive import CheckpointError
from ._copies import attributes_of, copy_memory, deepcopy_tensor, reduce_tensor
from ._loading import MapLocation as MapLocation
from ._loading import load
from ._safety import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from ._saving import save

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
__getattr__ = refuse(__name__)
