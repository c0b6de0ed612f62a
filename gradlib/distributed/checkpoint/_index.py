"""The index of a checkpoint: its table of contents and the files that things lie in, as JSON.

It is written last. A folder without it is no checkpoint, and files that it does not name are not part of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...serialization import CheckpointError
from ...tape import dtypes
from ...tape.sizes import Size
from ._nested import IntKey, Path
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

__all__ = [
    "FORMAT",
    "INDEX",
    "OURS",
    "RANK_INDEX",
    "Place",
    "files",
    "from_text",
    "merge",
    "to_text",
]

INDEX = "index.json"
# what saves put into a folder besides the index; and the index of a process that saves for itself
OURS = re.compile(r"(rank-\d+-[0-9a-f]{8}(-\d+)?\.safetensors|index\.json\.[0-9a-f]{8}\.partial)$")
RANK_INDEX = re.compile(r"rank-(\d+)-of-(\d+)\.json$")
FORMAT = "gradlib.distributed.checkpoint"
VERSION = 1


@dataclass(frozen=True)
class Place:
    """Where something lies.

    relative_path: the file, within the folder of the checkpoint.
    entry: its name in that file.
    length: its bytes.
    """

    relative_path: str
    entry: str
    length: int


def to_text(metadata: Metadata, file_sizes: Mapping[str, int]) -> str:
    """The index of a checkpoint. TypeError for data of a planner that is not paths by name."""
    paths = _paths(metadata)
    values: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        value: dict[str, Any] = {"path": [_key(k) for k in paths[name]]} if name in paths else {}
        if isinstance(entry, BytesStorageMetadata):
            value["object"] = _place(metadata.storage_data[MetadataIndex(name)])
        else:
            value["dtype"] = entry.properties.dtype.name
            value["shape"] = list(entry.size)
            value["requires_grad"] = entry.properties.requires_grad
            value["chunks"] = [
                {
                    "offsets": list(c.offsets),
                    "sizes": list(c.sizes),
                    **_place(metadata.storage_data[MetadataIndex(name, c.offsets)]),
                }
                for c in entry.chunks
            ]
        values[name] = value
    meta = metadata.storage_meta
    content = {
        "format": FORMAT,
        "version": VERSION,
        "save_id": meta.save_id if meta else None,
        "files": dict(file_sizes),
        "nested": metadata.planner_data is not None,
        "values": values,
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def _paths(metadata: Metadata) -> Mapping[str, Path]:
    data = metadata.planner_data
    if data is None:
        return {}
    if isinstance(data, Mapping) and all(isinstance(v, tuple) for v in data.values()):
        return data
    raise TypeError(
        f"the index keeps the paths that names were made from as planner_data, but the planner gave "
        f"{type(data).__name__}: give None, and save what else is needed as an object of the state dict"
    )


def _key(key: Any) -> Any:
    """A key of a path. Whole numbers are places in lists, so the key of a dict that is one is marked."""
    if isinstance(key, IntKey):
        return {"key": int(key)}
    return key if type(key) is int else str(key)


def _place(place: Place) -> dict[str, Any]:
    return {"file": place.relative_path, "entry": place.entry, "bytes": place.length}


def _parse_place(entry: dict[str, Any]) -> Place:
    return Place(entry["file"], entry["entry"], entry["bytes"])


def from_text(text: str | bytes, name: str) -> tuple[Metadata, dict[str, int]]:
    """The table of contents out of an index, and the sizes of its files; `name` is said in errors.

    CheckpointError if it is damaged, or the index of something else.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{name} is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{name} is not the index of a checkpoint")
    if content.get("version") != VERSION:
        raise CheckpointError(
            f"{name} has version {content.get('version')} of the format, but this release reads {VERSION}: "
            "a newer release of gradlib has written it"
        )
    try:
        return _parse(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{name} is damaged: {type(error).__name__} {error}") from error


def _parse(content: dict[str, Any]) -> tuple[Metadata, dict[str, int]]:
    contents: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    where: dict[MetadataIndex, Place] = {}
    paths: dict[str, Path] = {}
    for name, entry in content["values"].items():
        if "path" in entry:
            keys = entry["path"]
            paths[name] = tuple(IntKey(k["key"]) if isinstance(k, dict) else k for k in keys)
        if "object" in entry:
            contents[name] = BytesStorageMetadata()
            where[MetadataIndex(name)] = _parse_place(entry["object"])
            continue
        chunks = []
        for i, c in enumerate(entry["chunks"]):
            chunks.append(ChunkStorageMetadata(Size(c["offsets"]), Size(c["sizes"])))
            where[MetadataIndex(name, c["offsets"], i)] = _parse_place(c)
        properties = TensorProperties(
            dtypes.by_name(entry["dtype"]), requires_grad=entry["requires_grad"]
        )
        contents[name] = TensorStorageMetadata(properties, Size(entry["shape"]), chunks)
    meta = StorageMeta(save_id=content["save_id"])
    planner_data = paths if content["nested"] else None
    sizes = {str(file): int(size) for file, size in content["files"].items()}
    return Metadata(contents, planner_data, where, meta, f"{content['version']}.0"), sizes


def merge(parts: list[Metadata]) -> Metadata:
    """One table of contents of those that processes wrote each for itself; of copies the first is kept."""
    whole = Metadata({}, {}, {}, parts[0].storage_meta, parts[0].version)
    for part in parts:
        for name, entry in part.state_dict_metadata.items():
            there = whole.state_dict_metadata.setdefault(name, entry)
            if isinstance(there, TensorStorageMetadata) and isinstance(
                entry, TensorStorageMetadata
            ):
                if (there.size, there.properties.dtype) != (entry.size, entry.properties.dtype):
                    raise CheckpointError(f"'{name}' differs between the processes that saved it")
                have = {tuple(c.offsets) for c in there.chunks}
                there.chunks += [c for c in entry.chunks if tuple(c.offsets) not in have]
        for index, place in part.storage_data.items():
            whole.storage_data.setdefault(index, place)
        whole.planner_data.update(part.planner_data or {})
    return whole


def files(metadata: Metadata) -> set[str]:
    """The files that a checkpoint has besides its index."""
    return {place.relative_path for place in metadata.storage_data.values()}
