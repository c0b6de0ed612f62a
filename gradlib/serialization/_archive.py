"""The container of a checkpoint: a zip archive whose members are stored as they are, aligned."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

_ALIGN = 64  # bytes; members start there, so that they can be mapped into memory
_LOCAL_HEADER = 30  # bytes of a member's header in front of its name
_ZIP64_EXTRA = 20  # bytes that zipfile adds to the header of a big member
_PADDING = struct.Struct("<HH")  # id and length of an extra field that is only there to fill space
_PADDING_ID = 0x4246
_ROOT = "archive"


class CheckpointError(RuntimeError, pickle.UnpicklingError):
    """A file is no checkpoint, or it is damaged. The message names the file.

    Example:
        >>> _ = open("text.pt", "w").write("no checkpoint")
        >>> try:
        ...     gradlib.load("text.pt")
        ... except gradlib.serialization.CheckpointError as error:
        ...     "text.pt" in str(error)
        True
    """


def write(file: Any, data_pkl: bytes, members: Iterable[tuple[str, np.ndarray]]) -> None:
    """Write a checkpoint.

    Args:
        file: path, or binary file object open for writing.
        data_pkl: the pickle.
        members: key and bytes (uint8 [n]) of each storage.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _add(archive, "data.pkl", data_pkl)
        _add(archive, ".format_version", b"1")
        _add(archive, ".storage_alignment", str(_ALIGN).encode())
        _add(archive, "byteorder", sys.byteorder.encode())
        for key, data in members:
            _add(archive, f"data/{key}", data)
        _add(archive, "version", b"3\n")


def _add(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Add one member whose data starts at a multiple of the alignment."""
    member = zipfile.ZipInfo(f"{_ROOT}/{name}")
    member.file_size = len(data)
    big = member.file_size * 1.05 > zipfile.ZIP64_LIMIT
    header = _LOCAL_HEADER + len(member.filename.encode()) + (_ZIP64_EXTRA if big else 0)
    end = archive.fp.tell() + header + _PADDING.size  # type: ignore[union-attr]
    fill = -end % _ALIGN
    member.extra = _PADDING.pack(_PADDING_ID, fill) + bytes(fill)
    with archive.open(member, "w", force_zip64=big) as out:
        if len(data):
            out.write(memoryview(data))


class Reader:
    """A checkpoint open for reading.

    Args:
        file: binary file object that can seek.
        name: the file in words, for messages.
        mapped: path to map storages from, instead of reading them.

    Raises:
        CheckpointError: not such an archive, or damaged.
    """

    def __init__(self, file: IO[bytes], name: str, mapped: str | os.PathLike[str] | None) -> None:
        self.name = name
        self.file = file
        self.mapped = mapped
        try:
            self.archive = zipfile.ZipFile(file)
        except Exception as error:  # damage shows in many ways
            raise CheckpointError(
                f"{name}: failed reading zip archive: {error}. The file is damaged or incomplete; "
                "it may not have been written or copied to its end."
            ) from error
        pickles = [n for n in self.archive.namelist() if n.endswith("/data.pkl")]
        if not pickles:
            raise CheckpointError(f"{name}: this zip archive is not a checkpoint: no data.pkl")
        self.root = pickles[0].removesuffix("data.pkl")
        if self.root + "constants.pkl" in self.archive.NameToInfo:
            raise CheckpointError(
                f"{name}: this is a TorchScript program, not a checkpoint; only tensors and plain "
                "objects can be loaded"
            )
        order = self.root + "byteorder"
        self.swapped = (
            order in self.archive.NameToInfo
            and self._read("byteorder").tobytes().strip() != sys.byteorder.encode()
        )

    def pickle(self) -> bytes:
        """The pickle."""
        return self._read("data.pkl").tobytes()

    def storage(self, key: str, nbytes: int, word: int) -> np.ndarray:
        """The bytes of one storage, writable: uint8 [nbytes]; `word` is the size of its numbers."""
        data = self._read(f"data/{key}", mapped=not self.swapped)
        if data.nbytes != nbytes:
            raise CheckpointError(
                f"{self.name}: storage {key} has {data.nbytes} bytes, but {nbytes} were expected"
            )
        if self.swapped and word > 1:
            data.view(f"u{word}").byteswap(inplace=True)
        return data

    def _read(self, name: str, mapped: bool = False) -> np.ndarray:
        """One member, checked against its checksum unless it is mapped."""
        try:
            member = self.archive.getinfo(self.root + name)
            if member.compress_type != zipfile.ZIP_STORED:
                return np.frombuffer(bytearray(self.archive.read(member)), np.uint8)
            start, size = self._start(member), member.file_size
            if mapped and self.mapped is not None and size:
                return np.memmap(self.mapped, np.uint8, "c", start, (size,))
            data: Any = np.empty(size, np.uint8)
            self.file.seek(start)
            self._fill(data)
            if zlib.crc32(data) != member.CRC:
                raise zipfile.BadZipFile(f"Bad CRC-32 for file {member.filename!r}")
        except Exception as error:
            raise CheckpointError(
                f"{self.name}: failed reading {name}: {error}. The file is damaged."
            ) from error
        return data

    def _start(self, member: zipfile.ZipInfo) -> int:
        """Position of a member's first byte."""
        self.file.seek(member.header_offset)
        header = self.file.read(_LOCAL_HEADER)
        if header[:4] != b"PK\3\4":
            raise zipfile.BadZipFile("Bad magic number for file header")
        name, extra = struct.unpack("<HH", header[26:])
        return member.header_offset + _LOCAL_HEADER + name + extra

    def _fill(self, data: Any) -> None:
        """Read as many bytes as `data` has."""
        view = memoryview(data)
        while len(view):
            if hasattr(self.file, "readinto"):
                count = self.file.readinto(view)  # type: ignore[attr-defined]
            else:
                chunk = self.file.read(len(view))
                count = len(chunk)
                view[:count] = chunk
            if not count:
                raise EOFError("unexpected end of file")
            view = view[count:]


@contextlib.contextmanager
def opened(f: Any) -> Iterator[tuple[IO[bytes], str]]:
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
