"""The members of a checkpoint one by one, under PyTorch's name: for programs that load a part of a file."""

from __future__ import annotations

import os
from typing import IO, Any

from ..operators import public as ops
from ..tape import dtypes
from ..tape.tensor import Tensor
from ._archive import Reader

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """A file of `gradlib.save`, open for reading its members.

    Args:
        file: its path, or a binary file that can seek.

    Raises:
        RuntimeError: it is no such file.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> gradlib.save(gradlib.ones(2), file)
        >>> reader = PyTorchFileReader(file)
        >>> reader.has_record("data.pkl"), reader.get_record_size("data/0")
        (True, 8)
    """

    def __init__(self, file: str | os.PathLike[str] | IO[bytes]) -> None:
        path = isinstance(file, str | os.PathLike)
        opened: Any = open(file, "rb") if path else file  # noqa: SIM115  # open as long as the reader
        opened.seek(0)
        self._reader = Reader(opened, "PytorchStreamReader", None)

    def get_all_records(self) -> list[str]:
        """The names of all members, in the order in which they lie in the file.

        Returns:
            "data.pkl", "data/0", "data/1"...
        """
        root = self._reader.root
        names = self._reader.archive.namelist()
        return [n.removeprefix(root) for n in names if n.startswith(root)]

    def has_record(self, name: str) -> bool:
        """Whether there is a member of this name.

        Args:
            name: "data.pkl", "byteorder", "data/0"...
        """
        return self._reader.root + name in self._reader.archive.NameToInfo

    def _known(self, name: str) -> str:
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found.")
        return name

    def get_record(self, name: str) -> bytes:
        """The bytes of a member.

        Raises:
            RuntimeError: there is none of this name, or it is damaged.
        """
        return self._reader._read(self._known(name)).tobytes()

    def get_record_size(self, name: str) -> int:
        """How many bytes a member has.

        Raises:
            RuntimeError: there is none of this name.
        """
        return self._reader.archive.getinfo(self._reader.root + self._known(name)).file_size

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a member begin.

        Raises:
            RuntimeError: there is none of this name.
        """
        return self._reader._start(
            self._reader.archive.getinfo(self._reader.root + self._known(name))
        )

    def get_storage_from_record(self, name: str, numel: int, dtype: dtypes.dtype) -> Tensor:
        """An empty tensor whose storage holds the bytes of a member.

        Args:
            name: the member's.
            numel: how many numbers it holds.
            dtype: of these numbers.
        """
        word = dtype.itemsize
        self._known(name)
        key = name.removeprefix("data/")
        data = self._reader.storage(key, numel * word, word)
        return ops.frombuffer(data, dtype=dtype)[:0]

    def serialization_id(self) -> str:
        """The number that the writer gave the file.

        Returns:
            Its digits; "" if it gave none.
        """
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""
