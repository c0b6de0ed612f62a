"""Names of types for annotations, as `torch.types` has them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from .storage import TypedStorage, UntypedStorage
from .tape.device import device
from .tape.dtypes import dtype
from .tape.layout import layout
from .tape.tensor import Size, Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _int, _float, _complex = builtins.bool, builtins.int, builtins.float, builtins.complex
_str, _bytes = builtins.str, builtins.bytes
_device, _dtype, _layout = device, dtype, layout

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = Size | Sequence[int]

# sizes are plain numbers here: nothing is traced with symbols
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
py_sym_types: tuple[type, ...] = ()

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Device: TypeAlias = device | str | int | None
Storage: TypeAlias = TypedStorage | UntypedStorage
