"""Reading checkpoints out of folders."""

from __future__ import annotations

import os
import uuid
from typing import Any

from ...futures import Future
from ...serialization import CheckpointError
from ...tape import dtypes
from ...tape.sizes import Size
from ...tape.tensor import Tensor
from . import _index
from ._file_system import FileSystem, FileSystemBase, Path
from ._index import INDEX, OURS, RANK_INDEX, Place
from ._tensor_file import Reader
from .metadata import Metadata, MetadataIndex
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from .storage import StorageReader

__all__ = ["FileSystemReader", "put"]


class FileSystemReader(StorageReader):
    """Reads checkpoints out of folders.

    Args:
        path: the folder.

    Raises:
        gradlib.serialization.CheckpointError: by its methods, if the folder has no checkpoint, one of another kind, or
            one of which files are missing, cut off or damaged.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> _ = checkpoint.save({"w": gradlib.ones(2, 3)}, checkpoint_id="step-1")
        >>> FileSystemReader("step-1").read_metadata().state_dict_metadata["w"].size
        torch.Size([2, 3])
    """

    def __init__(self, path: Path, _extension_registry: Any = None) -> None:
        self.fs: FileSystemBase = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data: dict[Any, Place] = {}
        self.metadata: Metadata | None = None
        self.load_id = uuid.uuid4().hex[:8]

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Begin with another checkpoint."""
        self.storage_data = {}
        if checkpoint_id is not None:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = uuid.uuid4().hex[:8]

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The table of contents, after a look at whether the files that it names are there."""
        if not self.fs.exists(self.path):
            raise CheckpointError(f"there is no checkpoint {self.path}: no such folder")
        if self.fs.exists(self.fs.concat_path(self.path, INDEX)):
            metadata = self._read_index(INDEX)
        else:
            metadata = self._of_single_processes()
        assert metadata.storage_meta is not None
        metadata.storage_meta.checkpoint_id = self.path
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def _read_index(self, name: str) -> Metadata:
        path = self.fs.concat_path(self.path, name)
        with self.fs.create_stream(path, "rb") as file:
            metadata, sizes = _index.from_text(file.read(), os.fspath(path))
        for data, size in sizes.items():
            self._check_file(data, size)
        return metadata

    def _check_file(self, name: str, size: int) -> None:
        path = self.fs.concat_path(self.path, name)
        if not self.fs.exists(path):
            raise CheckpointError(
                f"{self.path}: the file {name} of this checkpoint is missing. All processes must save into one folder "
                "that all of them see; copies of a checkpoint need all of its files"
            )
        with self.fs.create_stream(path, "rb") as file:
            there = file.seek(0, os.SEEK_END)
        if there != size:
            raise CheckpointError(
                f"{self.path}: the file {name} has {there} bytes, but {size} were written"
            )

    def _of_single_processes(self) -> Metadata:
        """The table of contents of what processes saved each for itself."""
        names = sorted(os.path.basename(p) for p in self.fs.ls(self.path))
        found = {m[0]: (int(m[1]), int(m[2])) for m in map(RANK_INDEX.match, names) if m}
        if not found:
            raise CheckpointError(f"{self.path} is no checkpoint: {_why(names)}")
        sizes = {size for _, size in found.values()}
        missing = sorted({*range(max(sizes))} - {rank for rank, _ in found.values()})
        if len(sizes) > 1 or missing:
            raise CheckpointError(
                f"{self.path}: saved by single processes of {' and '.join(map(str, sorted(sizes)))}, of which ranks "
                f"{missing} are missing"
            )
        return _index.merge([self._read_index(name) for name in found])

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take the places of things."""
        self.metadata, self.storage_data = metadata, metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Leave the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Leave the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read file by file, each from its beginning to its end."""
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in by_file.items():
            with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as file:
                self._read_file(Reader(file, os.path.join(self.path, name)), items, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read_file(self, reader: Reader, items: list[ReadItem], planner: LoadPlanner) -> None:
        places = self.storage_data
        order = lambda item: reader.start_of(places[item.storage_index].entry)
        for item in sorted(items, key=order):
            entry = places[item.storage_index].entry
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, reader.bytes(entry))
                continue
            dtype, shape = self._saved(item)
            values = reader.part(entry, dtype, shape, item.storage_offsets, item.lengths)
            put(planner, item, values)

    def _saved(self, item: ReadItem) -> tuple[dtypes.dtype, Size]:
        """The dtype and shape of the piece that an item reads from."""
        index = item.storage_index
        assert self.metadata is not None
        entry: Any = self.metadata.state_dict_metadata[index.fqn]
        hint = index.index
        if hint is not None and hint < len(entry.chunks):
            chunk = entry.chunks[hint]
            if MetadataIndex(index.fqn, chunk.offsets) == index:
                return entry.properties.dtype, chunk.sizes
        [chunk] = [c for c in entry.chunks if MetadataIndex(index.fqn, c.offsets) == index]
        return entry.properties.dtype, chunk.sizes

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


def put(planner: LoadPlanner, item: ReadItem, values: Tensor) -> None:
    """Give values to the place that a planner has for them."""
    target = planner.resolve_tensor(item).detach()
    if tuple(target.shape) != tuple(values.shape):
        raise ValueError(
            f"'{item.dest_index.fqn}': the planner gave a tensor of shape {tuple(target.shape)} for "
            f"{tuple(values.shape)} values"
        )
    target.copy_(values)
    planner.commit_tensor(item, target)


def _why(names: list[str]) -> str:
    """What a folder without an index is."""
    if ".metadata" in names or any(n.endswith(".distcp") for n in names):
        return (
            "it is one of PyTorch's own format. Convert it there with format_utils.dcp_to_torch_save, and here with "
            "torch_save_to_dcp"
        )
    if any(OURS.match(n) for n in names):
        return f"there is no {INDEX}, so the save that wrote its files did not come to its end"
    if "model.safetensors.index.json" in names or any(n.endswith(".safetensors") for n in names):
        return f"there is no {INDEX}; files of safetensors alone are read by gradlib.safetensors.load_file"
    return f"there is no {INDEX} in it" + (f", but {', '.join(names[:4])}" if names else "")
