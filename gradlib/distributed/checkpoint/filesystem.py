"""Checkpoints in folders: one safetensors file for each process, and an index.

    step-1000/
        index.json                      names, shapes, and where each piece lies
        rank-0-5f3c91d2.safetensors     what process 0 wrote
        rank-1-5f3c91d2.safetensors

Each save gives its files names of their own, and then puts its index in the place of the one before, which is one step
of the file system. So a process that is killed at any moment leaves the checkpoint that was there, or the new one,
and files that no index names are swept away by the next save.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from typing import IO, Any

from ...futures import Future
from . import _index
from ._file_reader import FileSystemReader
from ._file_system import FileSystem, FileSystemBase, Path
from ._index import INDEX, OURS, RANK_INDEX, Place
from ._tensor_file import Entry, write
from .metadata import Metadata, StorageMeta
from .planner import (
    SavePlan,
    SavePlanner,
    WriteItem,
)
from .staging import BlockingAsyncStager
from .storage import StorageWriter, WriteResult

__all__ = [
    "FileSystem",
    "FileSystemBase",
    "FileSystemReader",
    "FileSystemWriter",
    "SerializationFormat",
]


class SerializationFormat(Enum):
    """How PyTorch writes the tensors of a checkpoint. Files here are always safetensors.

    Example:
        >>> SerializationFormat.SAFETENSORS.value
        'safetensors'
    """

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclass(frozen=True)
class _Names:
    """The beginning of the names of the files that a process writes."""

    prefix: str


class FileSystemWriter(BlockingAsyncStager, StorageWriter):
    """Writes checkpoints into folders.

    Args:
        path: the folder. All processes must see the same one; it is made if it is not there.
        single_file_per_rank: False gives each tensor a file of its own.
        sync_files: whether to wait until the disk has the data. Without it a loss of power, but not a killed process,
            can leave a damaged checkpoint.
        thread_count: threads that write, each into a file of its own.
        per_thread_copy_ahead: accepted; one tensor at a time is copied from the device.
        cache_staged_state_dict: whether asynchronous saves keep their host memory for the next.
        overwrite: whether a checkpoint that is in the folder may be replaced.
        serialization_format: ``SAFETENSORS``, what files are in any case.

    Raises:
        NotImplementedError: ``SerializationFormat.TORCH_SAVE``, or extensions.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> _ = checkpoint.save({"w": gradlib.ones(2)}, storage_writer=FileSystemWriter("step-1"))
        >>> target = {"w": gradlib.zeros(2)}
        >>> checkpoint.load(target, storage_reader=FileSystemReader("step-1"))
        >>> target
        {'w': tensor([1., 1.])}
    """

    def __init__(
        self,
        path: Path,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Sequence[Any] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.SAFETENSORS,
    ) -> None:
        super().__init__(cache_staged_state_dict=cache_staged_state_dict)
        if serialization_format is not SerializationFormat.SAFETENSORS:
            raise NotImplementedError(
                "checkpoints here are safetensors files: leave out serialization_format"
            )
        if _extensions:
            raise NotImplementedError("FileSystemWriter: files are written without extensions")
        self.fs: FileSystemBase = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.overwrite = max(1, thread_count), overwrite
        self.save_id = uuid.uuid4().hex[:8]
        self.rank: int | None = None
        self.size, self.use_collectives = 1, True
        self.is_coordinator = False
        self._names: list[str] = []

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Begin another checkpoint, with names of files of its own."""
        if checkpoint_id is not None:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = uuid.uuid4().hex[:8]

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the rank."""
        self.rank, self.is_coordinator = kwargs.get("rank"), is_coordinator
        self.size = kwargs.get("world_size", 1)
        self.use_collectives = kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder.

        Args:
            plan: of the planner.

        Raises:
            RuntimeError: there is a checkpoint, and `overwrite` is False.
        """
        self.fs.mkdir(self.path)
        index = self.fs.concat_path(self.path, INDEX)
        if self.fs.exists(index):
            if not self.overwrite:
                raise RuntimeError(
                    f"Checkpoint already exists and self.overwrite=False. It is in {self.path}"
                )
            if not self.use_collectives:
                raise RuntimeError(
                    f"{self.path} has a checkpoint of all processes: save those of single processes "
                    "(use_collectives=False) into another folder"
                )
        if not self.use_collectives:
            return replace(plan, storage_data=_Names(f"rank-{self.rank or 0}-{self.save_id}"))
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Name the files."""
        if not self.use_collectives:
            return plans
        return [
            replace(plan, storage_data=_Names(f"rank-{rank}-{self.save_id}"))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the files of this process; they are no part of a checkpoint until `finish`."""
        parts = self._split(plan.items)
        prefix = plan.storage_data.prefix
        names = [
            f"{prefix}.safetensors",
            *(f"{prefix}-{i}.safetensors" for i in range(1, len(parts))),
        ]
        self._names = names
        written: list[list[WriteResult]] = []
        try:
            if len(parts) > 1:
                with ThreadPoolExecutor(min(self.thread_count, len(parts))) as threads:
                    jobs = [
                        threads.submit(self._write_file, name, items, planner)
                        for name, items in zip(names, parts)
                    ]
                written = [job.result() for job in jobs]
            else:
                written = [self._write_file(n, items, planner) for n, items in zip(names, parts)]
        except BaseException:
            self.discard()
            raise
        if self.sync_files and names:
            self.fs.sync_folder(self.path)  # the files are there before the index that names them
        done: Future[list[WriteResult]] = Future()
        done.set_result([result for results in written for result in results])
        return done

    def discard(self) -> None:
        """Remove the files of a save that failed.

        Nothing happens to the checkpoint before it, and to one that is complete.
        """
        index = self.fs.concat_path(self.path, INDEX)
        named = b""  # by the index, which may be in its place although an error came after that
        if self._names and self.fs.exists(index):
            with self.fs.create_stream(index, "rb") as file:
                named = file.read()
        for name in self._names:
            if name.encode() not in named:
                self._remove(name)
        self._names = []

    def _split(self, items: list[WriteItem]) -> list[list[WriteItem]]:
        """The items by file; those of one process are one file unless other things were asked for."""
        if not items:
            return []
        if not self.single_file_per_rank:
            return [[item] for item in items]
        parts: list[list[WriteItem]] = [[] for _ in range(min(self.thread_count, len(items)))]
        load = [0] * len(parts)
        for item in sorted(items, key=lambda i: -(i.tensor_storage_size() or 0)):
            at = load.index(min(load))
            parts[at].append(item)
            load[at] += (item.tensor_storage_size() or 0) + 1
        return parts

    def _write_file(
        self, name: str, items: list[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        entries = [_entry(item, planner) for item in items]
        taken: set[str] = set()
        for entry in entries:
            while entry.name in taken:  # the name of a piece can be that of another tensor
                entry.name += "'"
            taken.add(entry.name)
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as file:
            sizes = write(file, entries)
            self._sync(file)
        return [
            WriteResult(item.index, sizes[e.name], Place(name, e.name, sizes[e.name]))
            for item, e in zip(items, entries)
        ]

    def _sync(self, file: IO[bytes]) -> None:
        if self.sync_files:
            file.flush()
            with contextlib.suppress(io.UnsupportedOperation, AttributeError):
                os.fsync(file.fileno())

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Put the new index in the place of the one before, and remove the files that are not in it."""
        metadata.storage_data = {r.index: r.storage_data for part in results for r in part}
        metadata.storage_meta = self.storage_meta()
        metadata.version = f"{_index.VERSION}.0"
        sizes = {name: self._size(name) for name in sorted(_index.files(metadata))}
        text = _index.to_text(metadata, sizes).encode()
        final = INDEX if self.use_collectives else f"rank-{self.rank or 0}-of-{self.size}.json"
        partial = self.fs.concat_path(self.path, f"{INDEX}.{self.save_id}.partial")
        with self.fs.create_stream(partial, "wb") as file:
            file.write(text)
            self._sync(file)
        self.fs.rename(partial, self.fs.concat_path(self.path, final))
        if self.sync_files:
            self.fs.sync_folder(self.path)
        self._names = []
        self._sweep(set(sizes))

    def _size(self, name: str) -> int:
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as file:
            return file.seek(0, os.SEEK_END)

    def _sweep(self, keep: set[str]) -> None:
        """Remove what saves before this one have left, and nothing that they have not made."""
        mine = (
            re.compile(rf"rank-{self.rank or 0}-") if not self.use_collectives else re.compile("")
        )
        for path in self.fs.ls(self.path):
            name = os.path.basename(path)
            old = OURS.match(name) or (self.use_collectives and RANK_INDEX.match(name))
            if old and mine.match(name) and name not in keep:
                self._remove(name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):  # what cannot be removed is only in the way
            self.fs.rm_file(self.fs.concat_path(self.path, name))

    def storage_meta(self) -> StorageMeta | None:
        """The folder, and the name of the save."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    @property
    def checkpoint_id(self) -> Path:
        """The folder.

        Returns:
            Its path, as it was given.
        """
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Whether this is a path: everything but addresses such as ``s3://``.

        Args:
            checkpoint_id: as the user has given it.
        """
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _entry(item: WriteItem, planner: SavePlanner) -> Entry:
    """What goes into a file for an item."""
    name, data = item.index.fqn, item.tensor_data
    if data is None:
        value: Any = planner.resolve_data(item)
        return Entry(name, None, [len(value.getbuffer())], lambda: value, name)
    chunk = data.chunk
    if chunk.sizes != data.size:
        ranges = (f"{o}:{o + n}" for o, n in zip(chunk.offsets, chunk.sizes))
        name = f"{name}[{','.join(ranges)}]"
    get = lambda: planner.resolve_data(item)
    return Entry(name, data.properties.dtype, chunk.sizes, get, item.index.fqn)
