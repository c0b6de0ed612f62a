"""The safetensors format: named tensors in a file that holds nothing but numbers.

A file is the length of a header (8 bytes, little-endian), the header (JSON: type, shape and place of
each tensor, and text of the user's own), and the values one after the other. No package is needed.

Example:
    >>> save_file({"weight": gradlib.ones(2)}, "model.safetensors", metadata={"epoch": "3"})
    >>> load_file("model.safetensors")["weight"]
    tensor([1., 1.])
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from .serialization._archive import CheckpointError
from .tape import dtypes
from .tape.tensor import Tensor, to_host

__all__ = ["load", "load_file", "load_metadata", "save", "save_file"]

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
_DTYPES = {code: dtypes.by_name(name) for name, code in _NAMES.items()}
_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file.

    Args:
        tensors: Tensors [...] by name, for example a state_dict. Every one is written in full, also
            where some share memory; class, strides, device and requires_grad are not written.
        filename: path of the file.
        metadata: text by name, kept in the header.

    Raises:
        ValueError: not a dict of Tensors by text, or a dtype that the format does not have.
        TypeError: metadata that is not text.

    Example:
        >>> save_file(model.state_dict(), "model.safetensors", {"made by": "an example"})
        >>> load_metadata("model.safetensors")
        {'made by': 'an example'}
    """
    pieces = list(_pieces(tensors, metadata))
    with open(filename, "wb") as file:
        file.writelines(pieces)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """What `save_file` writes, as bytes; arguments and errors are the same.

    Example:
        >>> load(save({"w": gradlib.ones(2)}))["w"].tolist()
        [1.0, 1.0]
    """
    return b"".join(_pieces(tensors, metadata))


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """Read the tensors of a file.

    Args:
        filename: path of the file.
        device: where the tensors go.

    Returns:
        Tensors by name, contiguous, that do not require grad.

    Raises:
        FileNotFoundError: there is no such file.
        gradlib.serialization.CheckpointError: the file is damaged or of another format; names it.

    Example:
        >>> save_file({"a": gradlib.ones(2)}, "a.safetensors")
        >>> load_file("a.safetensors")
        {'a': tensor([1., 1.])}
    """
    with open(filename, "rb") as file:
        return _read(file, os.fspath(filename), device)


def load(data: bytes, device: Any = "cpu") -> dict[str, Tensor]:
    """Read the tensors out of bytes that `save` has made, or the content of a file.

    Args:
        data: the bytes.
        device: where the tensors go.

    Returns:
        Tensors by name, contiguous, that do not require grad.

    Raises:
        gradlib.serialization.CheckpointError: the bytes are damaged or of another format.

    Example:
        >>> load(save({"w": gradlib.ones(2)}))
        {'w': tensor([1., 1.])}
    """
    return _read(io.BytesIO(data), "<bytes>", device)


def load_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The text that was given to `save_file` as metadata, without reading tensors.

    Args:
        filename: path of the file.

    Returns:
        Text by name; empty if there is none.

    Raises:
        FileNotFoundError: there is no such file.
        gradlib.serialization.CheckpointError: the file is damaged or of another format.

    Example:
        >>> save_file({"w": gradlib.ones(2)}, "w.safetensors", metadata={"epoch": "3"})
        >>> load_metadata("w.safetensors")
        {'epoch': '3'}
    """
    with open(filename, "rb") as file:
        header, _ = _read_header(file, os.fspath(filename))
    return header.get("__metadata__") or {}


# --------------------------------------------------------------------------------------------
# Writing


def _pieces(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> Iterable[bytes | memoryview]:
    """The parts of a file in order."""
    if not isinstance(tensors, Mapping):
        raise ValueError(
            f"Expected a dict of [str, torch.Tensor] but received {type(tensors).__name__}"
        )
    header: dict[str, Any] = {}
    if metadata is not None:
        for key, value in metadata.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError(f"metadata must be text by text, but got {key!r}: {value!r}")
        header["__metadata__"] = dict(metadata)
    for name, tensor in tensors.items():
        _check(name, tensor)
    # wide types first: so every tensor is aligned to its type
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.dtype.itemsize
        header[name] = {
            "dtype": _NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield _LENGTH.pack(len(text))
    yield text
    for name in order:
        array: Any = np.ascontiguousarray(to_host(tensors[name]._array))
        if array.size:
            yield memoryview(_little_endian(array).reshape(-1).view(np.uint8))


def _check(name: Any, tensor: Any) -> None:
    """ValueError unless the format can hold this entry."""
    if not isinstance(name, str) or name == "__metadata__":
        raise ValueError(f"Key `{name}` is invalid, expected text other than __metadata__")
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
        )
    if tuple(tensor.shape) != tensor._array.shape:
        raise ValueError(
            f"`{name}` is a part of a tensor on several ranks, of class {type(tensor).__name__}: save its "
            "full_tensor(), or the parts with distributed.checkpoint"
        )
    if tensor.dtype.name not in _NAMES:
        raise ValueError(
            f"`{name}` has dtype {tensor.dtype}, which the safetensors format does not have; "
            "use gradlib.save, or view_as_real"
        )


def _little_endian(array: Any) -> Any:
    """The array with its bytes in the order of the format; also the way back."""
    return array if sys.byteorder == "little" else array.byteswap()


# --------------------------------------------------------------------------------------------
# Reading


def _read(file: IO[bytes], name: str, device: Any) -> dict[str, Tensor]:
    """The tensors of an open file."""
    header, start = _read_header(file, name)
    size = file.seek(0, os.SEEK_END) - start
    header.pop("__metadata__", None)
    tensors: dict[str, Tensor] = {}
    expected = 0
    for key, entry in sorted(header.items(), key=lambda item: _offsets(item, name)):
        first, end = _offsets((key, entry), name)
        dtype, shape = _DTYPES.get(entry.get("dtype")), entry.get("shape")
        if dtype is None:
            raise CheckpointError(f"{name}: tensor {key!r} has unknown dtype {entry.get('dtype')}")
        if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
            raise CheckpointError(f"{name}: tensor {key!r} has invalid shape {shape}")
        nbytes = math.prod(shape) * dtype.itemsize
        if first != expected or end - first != nbytes or end > size:
            raise CheckpointError(
                f"{name}: tensor {key!r} at bytes {first} to {end} does not fit the file"
            )
        expected = end
        data = np.empty(nbytes, np.uint8)
        file.seek(start + first)
        if file.readinto(data) != nbytes:  # type: ignore[attr-defined]
            raise CheckpointError(f"{name}: the file ends inside of tensor {key!r}")
        array = _little_endian(data.view(dtype.np)).reshape(shape)
        tensor = Tensor._make(array)
        tensors[key] = tensor if str(device) == "cpu" else tensor.to(device)
    if expected != size:
        raise CheckpointError(f"{name}: the file is longer than its tensors")
    return {key: tensors[key] for key in header}


def _read_header(file: IO[bytes], name: str) -> tuple[dict[str, Any], int]:
    """The header and the position behind it."""
    prefix = file.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        raise CheckpointError(f"{name}: too short for a safetensors file")
    (length,) = _LENGTH.unpack(prefix)
    if length > _LONGEST_HEADER:
        raise CheckpointError(f"{name}: not a safetensors file")
    text = file.read(length)
    try:
        if len(text) < length:
            raise ValueError("the file ends inside of it")
        header = json.loads(text, object_pairs_hook=_without_repeats)
        if not isinstance(header, dict) or not all(isinstance(v, dict) for v in header.values()):
            raise ValueError("it is not a table")
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: the header of this file is damaged: {error}") from error
    return header, _LENGTH.size + length


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _offsets(item: tuple[str, Any], name: str) -> tuple[int, int]:
    """First byte and end of a tensor, relative to the end of the header."""
    offsets = item[1].get("data_offsets")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or any(type(n) is not int for n in offsets)
        or not 0 <= offsets[0] <= offsets[1]
    ):
        raise CheckpointError(f"{name}: tensor {item[0]!r} has invalid offsets {offsets}")
    return offsets[0], offsets[1]
