"""Folders as the Hugging Face hub has them: `model.safetensors`, or several files and an index of names.

Such folders have whole tensors and nothing else. They are loaded into tensors of any sharding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...futures import Future
from ...safetensors import _DTYPES
from ...serialization import CheckpointError
from ...tape.sizes import Size
from ._file_reader import FileSystemReader
from ._file_system import Path
from ._index import Place
from ._tensor_file import Reader
from .filesystem import FileSystemWriter
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import SavePlan, SavePlanner, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

INDEX = "model.safetensors.index.json"


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the safetensors files of a folder.

    Args:
        path: the folder.
        thread_count: accepted; files are read one after the other.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> import os
        >>> os.mkdir("hub")
        >>> gradlib.safetensors.save_file({"w": gradlib.ones(2)}, "hub/model.safetensors")
        >>> state = {"w": gradlib.zeros(2)}
        >>> checkpoint.load(state, storage_reader=HuggingFaceStorageReader("hub"))
        >>> state
        {'w': tensor([1., 1.])}
    """

    def __init__(self, path: Path, thread_count: int = 1) -> None:
        super().__init__(path)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Names, shapes and dtypes out of the heads of the files."""
        if not self.fs.exists(self.path):
            raise CheckpointError(f"there is no checkpoint {self.path}: no such folder")
        contents: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        places: dict[MetadataIndex, Place] = {}
        for file, names in self._files().items():
            path = self.fs.concat_path(self.path, file)
            with self.fs.create_stream(path, "rb") as stream:
                header = Reader(stream, os.fspath(path)).header
            for name, entry in header.items():
                if name == "__metadata__" or (names is not None and name not in names):
                    continue
                dtype, size = _DTYPES.get(entry.get("dtype")), entry.get("shape")
                if dtype is None or not isinstance(size, list):
                    raise CheckpointError(f"{path}: tensor {name!r} has unknown dtype or shape")
                whole = ChunkStorageMetadata(Size([0] * len(size)), Size(size))
                contents[name] = TensorStorageMetadata(
                    TensorProperties(dtype=dtype), Size(size), [whole]
                )
                places[MetadataIndex(name, whole.offsets)] = Place(file, name, 0)
        meta = StorageMeta(checkpoint_id=self.path, load_id=self.load_id)
        return Metadata(contents, None, places, meta)

    def _files(self) -> dict[str, set[str] | None]:
        """The files of the folder; with the names that the index, if there is one, says are in each."""
        there = sorted(os.path.basename(p) for p in self.fs.ls(self.path))
        if INDEX not in there:
            found: dict[str, set[str] | None] = {
                n: None for n in there if n.endswith(".safetensors")
            }
            if not found:
                raise CheckpointError(f"{self.path} has no safetensors files")
            return found
        with self.fs.create_stream(self.fs.concat_path(self.path, INDEX), "rb") as file:
            try:
                where: Mapping[str, str] = json.load(file)["weight_map"]
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(f"{INDEX} of {self.path} is damaged: {error!r}") from error
        missing = sorted(set(where.values()) - set(there))
        if missing:
            raise CheckpointError(
                f"{self.path} has not {', '.join(missing)}, which its index names"
            )
        return {
            file: {n for n, f in where.items() if f == file} for file in sorted(set(where.values()))
        }


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes whole tensors into files that programs of the Hugging Face hub read.

    The processes share out the tensors, each writes files of its own, and the first one the index.

    Args:
        path: the folder.
        fqn_to_index_mapping: a number for each name: those with one number go into one file. All of a process go into
            one file by default.
        thread_count: threads that write.
        save_distributed: pieces of tensors in files of their own: not supported, `FileSystemWriter` does that.
        enable_consolidation: accepted; files have whole tensors in any case.
        thread_count_consolidation: accepted.

    Raises:
        NotImplementedError: `save_distributed`.
        ValueError: by `save`, if the state has pieces of tensors or objects; names the first.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> _ = checkpoint.save({"w": gradlib.ones(2)}, storage_writer=HuggingFaceStorageWriter("hub"))
        >>> gradlib.safetensors.load_file("hub/model-00001-of-00001.safetensors")
        {'w': tensor([1., 1.])}
    """

    def __init__(
        self,
        path: Path,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path, thread_count=thread_count)
        if save_distributed:
            raise NotImplementedError(
                "HuggingFaceStorageWriter(save_distributed=True): FileSystemWriter writes pieces of tensors; for whole "
                "ones use get_model_state_dict(..., options=StateDictOptions(full_state_dict=True))"
            )
        self.file_of = fqn_to_index_mapping

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder, and see that there is nothing that such files do not have."""
        for item in plan.items:
            if item.type is not WriteItemType.TENSOR:
                what = "an object" if item.type is WriteItemType.BYTE_IO else "a piece of a tensor"
                raise ValueError(
                    f"'{item.index.fqn}' is {what}, but files for the Hugging Face hub have whole tensors alone: use "
                    "get_model_state_dict(..., options=StateDictOptions(full_state_dict=True))"
                )
        return super().prepare_local_plan(plan)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Number the files of all processes."""
        parts = [sorted({self._number(item.index.fqn) for item in plan.items}) for plan in plans]
        total, done, prepared = sum(map(len, parts)), 0, []
        for plan, numbers in zip(plans, parts):
            names = {}
            for number in numbers:
                done += 1
                names[number] = f"model-{done:05d}-of-{total:05d}.safetensors"
            prepared.append(replace(plan, storage_data=names))
        return prepared

    def _number(self, name: str) -> int:
        if self.file_of is None:
            return 1
        if name not in self.file_of:
            raise ValueError(f"fqn_to_index_mapping has no number for '{name}'")
        return self.file_of[name]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the files of this process under names that the first one changes in the end."""
        results: list[WriteResult] = []
        self._names = [f"{name}.partial" for name in plan.storage_data.values()]
        try:
            for number, name in plan.storage_data.items():
                items = [i for i in plan.items if self._number(i.index.fqn) == number]
                results += self._write_file(f"{name}.partial", items, planner)
        except BaseException:
            self.discard()
            raise
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Give the files their names, and write the index of tensors."""
        written = [result for part in results for result in part]
        partial = sorted({result.storage_data.relative_path for result in written})
        where = {
            r.index.fqn: r.storage_data.relative_path.removesuffix(".partial") for r in written
        }
        content = {
            "metadata": {"total_size": sum(result.size_in_bytes for result in written)},
            "weight_map": dict(sorted(where.items())),
        }
        with self.fs.create_stream(
            self.fs.concat_path(self.path, f"{INDEX}.partial"), "wb"
        ) as file:
            file.write(json.dumps(content, indent=2).encode())
            self._sync(file)
        for name in [*partial, f"{INDEX}.partial"]:
            final = self.fs.concat_path(self.path, name.removesuffix(".partial"))
            self.fs.rename(self.fs.concat_path(self.path, name), final)
        if self.sync_files:
            self.fs.sync_folder(self.path)
        metadata.storage_meta = self.storage_meta()
        metadata.storage_data = {
            r.index: replace(r.storage_data, relative_path=where[r.index.fqn]) for r in written
        }
        self._names = []
