"""What checkpoints need of a file system, and the one that Python's `open` reaches."""

from __future__ import annotations

import contextlib
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import IO

__all__ = ["FileSystem", "FileSystemBase", "Path"]

Path = str | os.PathLike[str]


class FileSystemBase(ABC):
    """What checkpoints need of a file system.

    Derive from it for one that Python's `open` does not reach, and give it to a writer and a reader as ``fs``.
    """

    @abstractmethod
    @contextlib.contextmanager
    def create_stream(self, path: Path, mode: str) -> Iterator[IO[bytes]]:
        """A file for a ``with`` block.

        Args:
            path: of the file.
            mode: "rb" or "wb".
        """
        yield io.BytesIO()

    @abstractmethod
    def concat_path(self, path: Path, suffix: str) -> Path:
        """A path below another.

        Args:
            path: of a folder.
            suffix: name of a file in it.
        """

    @abstractmethod
    def rename(self, path: Path, new_path: Path) -> None:
        """Put a file in the place of another, in one step: nobody may see neither of them.

        Args:
            path: the file.
            new_path: its new name.
        """

    @abstractmethod
    def init_path(self, path: Path) -> Path:
        """A path as the other methods want it.

        Args:
            path: as the user has given it.
        """

    @abstractmethod
    def mkdir(self, path: Path) -> None:
        """Make a folder, and those above it; nothing happens if it is there.

        Args:
            path: of the folder.
        """

    @abstractmethod
    def exists(self, path: Path) -> bool:
        """Whether a file or folder is there.

        Args:
            path: of it.
        """

    @abstractmethod
    def rm_file(self, path: Path) -> None:
        """Remove a file.

        Args:
            path: of the file.
        """

    @abstractmethod
    def ls(self, path: Path) -> list[str]:
        """The files of a folder.

        Args:
            path: of the folder.

        Returns:
            Their paths.
        """

    def sync_folder(self, path: Path) -> None:
        """Make sure that new names in a folder outlive a loss of power; nothing where that cannot be asked for.

        Args:
            path: of the folder.
        """
        return None

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Whether a path is one of this file system.

        Args:
            checkpoint_id: as the user has given it.
        """


class FileSystem(FileSystemBase):
    """Local disks, and whatever is mounted.

    Example:
        >>> FileSystem().exists("no-such-file")
        False
    """

    @contextlib.contextmanager
    def create_stream(self, path: Path, mode: str) -> Iterator[IO[bytes]]:
        with open(path, mode) as file:
            yield file

    def concat_path(self, path: Path, suffix: str) -> Path:
        return os.path.join(path, suffix)

    def rename(self, path: Path, new_path: Path) -> None:
        os.replace(path, new_path)

    def init_path(self, path: Path) -> Path:
        return os.fspath(path)

    def mkdir(self, path: Path) -> None:
        os.makedirs(path, exist_ok=True)

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def rm_file(self, path: Path) -> None:
        os.unlink(path)

    def ls(self, path: Path) -> list[str]:
        return [os.path.join(path, name) for name in os.listdir(path)]

    def sync_folder(self, path: Path) -> None:
        if os.name != "posix":
            return  # folders cannot be opened there
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return isinstance(checkpoint_id, os.PathLike) or "://" not in str(checkpoint_id)
