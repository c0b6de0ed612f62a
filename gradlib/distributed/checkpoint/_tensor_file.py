"""A safetensors file that is written piece by piece, and of which parts of pieces are read.

Dtypes that the format does not have are kept as numbers of it: complex128 as pairs of float64, float8 as bytes. The
index of the checkpoint says what they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from ...safetensors import _LENGTH, _NAMES, _little_endian, _offsets, _read_header
from ...serialization import CheckpointError
from ...tape import dtypes
from ...tape.sizes import Size
from ...tape.tensor import Tensor, to_host

__all__ = ["Entry", "Reader", "stored_as", "write"]


@dataclass
class Entry:
    """One thing in a file. dtype None: bytes of an object."""

    name: str
    dtype: dtypes.dtype | None
    shape: Sequence[int]
    data: Callable[
        [], Tensor | io.BytesIO
    ]  # called when its turn comes, so that one copy is alive at a time
    of: str = ""  # the name that errors say


def stored_as(dtype: dtypes.dtype | None, shape: Sequence[int]) -> tuple[str, list[int]]:
    """The format's dtype, and the shape in it."""
    if dtype is None:
        return "U8", list(shape)
    if dtype.name in _NAMES:
        return _NAMES[dtype.name], list(shape)
    if dtype.name == "complex128":
        return "F64", [*shape, 2]
    return "U8", [*shape, dtype.itemsize]


def write(file: IO[bytes], entries: Iterable[Entry]) -> dict[str, int]:
    """Write a file; gives the bytes of each entry by name."""
    # wide types first: so every one is aligned to its type
    ordered = sorted(entries, key=lambda e: (-(e.dtype.itemsize if e.dtype else 1), e.name))
    header: dict[str, Any] = {}
    end = 0
    for entry in ordered:
        kind, shape = stored_as(entry.dtype, entry.shape)
        width = entry.dtype.itemsize if entry.dtype else 1
        start, end = end, end + Size(entry.shape).numel() * width
        header[entry.name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(_LENGTH.pack(len(text)))
    file.write(text)
    for entry in ordered:
        file.write(_bytes_of(entry))
    return {name: h["data_offsets"][1] - h["data_offsets"][0] for name, h in header.items()}


def _bytes_of(entry: Entry) -> Any:
    """The data of an entry as it lies in the file."""
    data = entry.data()
    if entry.dtype is None:
        assert isinstance(data, io.BytesIO)
        return data.getbuffer()
    assert isinstance(data, Tensor)
    if data.dtype != entry.dtype or tuple(data.shape) != tuple(entry.shape):
        raise ValueError(
            f"'{entry.of}' was planned as {entry.dtype} of shape {tuple(entry.shape)}, but resolve_data gave "
            f"{data.dtype} of shape {tuple(data.shape)}: change it in create_local_plan, too"
        )
    array: Any = np.ascontiguousarray(to_host(data.detach().resolve_conj().resolve_neg()._array))
    return memoryview(_little_endian(array).reshape(-1).view(np.uint8))


class Reader:
    """An open file; name is what errors call it."""

    def __init__(self, file: IO[bytes], name: str):
        self.file, self.name = file, name
        self.header, self.start = _read_header(file, name)

    def _find(self, entry: str, dtype: dtypes.dtype | None, shape: Sequence[int] | None) -> int:
        """Where an entry begins in the file; CheckpointError if it is not what the index says."""
        found = self.header.get(entry)
        if found is None:
            raise CheckpointError(
                f"{self.name}: there is no {entry!r} in it, but the index says so"
            )
        first, end = _offsets((entry, found), self.name)
        if shape is not None:
            kind, stored = stored_as(dtype, shape)
            width = dtype.itemsize if dtype else 1
            fits = end - first == Size(shape).numel() * width
            if not fits or found.get("dtype") != kind or found.get("shape") != stored:
                raise CheckpointError(
                    f"{self.name}: {entry!r} is {found.get('dtype')} {found.get('shape')}, but the index says "
                    f"{kind} {stored}"
                )
        return self.start + first

    def start_of(self, entry: str) -> int:
        """Where an entry begins, for reading in the order of the file."""
        return self._find(entry, None, None)

    def bytes(self, entry: str) -> io.BytesIO:
        """An object's bytes."""
        place = self._find(entry, None, None)
        first, end = _offsets((entry, self.header[entry]), self.name)
        return io.BytesIO(self._read(place, end - first, entry))

    def part(
        self, entry: str, dtype: dtypes.dtype, shape: Sequence[int],
        offsets: Sequence[int], lengths: Sequence[int],
    ) -> Tensor:  # fmt: skip
        """A rectangular part of a tensor. Of its first dimension no more is read than is needed."""
        place = self._find(entry, dtype, shape)
        rows = Size(shape[1:]).numel() * dtype.itemsize
        first, count = (offsets[0], lengths[0]) if len(shape) else (0, 1)
        data = self._read(place + first * rows, count * rows, entry)
        array: Any = _little_endian(data.view(dtype.np))
        array = array.reshape((count, *shape[1:]) if len(shape) else ())
        inner = tuple(slice(o, o + n) for o, n in zip(offsets[1:], lengths[1:]))
        return Tensor._make(array[(slice(None), *inner)] if len(shape) else array)

    def _read(self, place: int, size: int, entry: str) -> Any:
        data: Any = np.empty(size, np.uint8)
        self.file.seek(place)
        view, done = memoryview(data), 0
        while done < size:
            got = self.file.readinto(view[done:])  # type: ignore[attr-defined]
            if not got:
                raise CheckpointError(f"{self.name}: the file ends inside of {entry!r}")
            done += got
        return data
