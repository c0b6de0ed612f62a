"""The piece of a tensor that this process holds: where it begins, its shape, its values.

A DTensor is known by what it offers (`to_local`, `placements`, `device_mesh`), as is any class that has the three
methods that PyTorch's tensors of this kind have: ``__create_chunk_list__``, ``__create_write_items__`` and
``__get_tensor_shard__``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tape.sizes import Size
from ...tape.tensor import Tensor
from .metadata import ChunkStorageMetadata, MetadataIndex

__all__ = ["chunks", "coordinate", "is_sharded", "is_tensor", "local_part", "overlap", "place"]


def is_sharded(value: Any) -> bool:
    """Whether this is a tensor of which each process holds a piece."""
    return hasattr(value, "placements") and hasattr(value, "to_local")


def is_tensor(value: Any) -> bool:
    """Whether this is a tensor, in one piece or in several."""
    return isinstance(value, Tensor) or is_sharded(value)


def local(value: Any) -> Tensor:
    """What this process holds, with the memory of the tensor and without its history."""
    part = getattr(value, "_local_tensor", None)
    if part is None:
        part = value.to_local()
    return part.detach()


def coordinate(value: Any) -> Sequence[int] | None:
    """Where this process stands in the mesh of a DTensor; None if it is not in it."""
    return value.device_mesh.get_coordinate()


def place(name: str, value: Any) -> ChunkStorageMetadata:
    """The piece of a DTensor that lies here.

    Each dimension of the mesh that shards cuts what the ones before it have left, in pieces of one size, as
    ``chunk`` does: the last ones may be smaller, or empty.

    NotImplementedError for values that are not whole numbers of pieces: sums that are still to be made, other cuts.
    """
    here = coordinate(value)
    if here is None:
        raise ValueError(f"'{name}': this process is not in the mesh of the tensor")
    offsets, sizes = [0] * len(value.shape), list(value.shape)
    for axis, (index, how) in enumerate(zip(here, value.placements)):
        if how.is_partial():
            raise NotImplementedError(
                f"'{name}' is {how} on dimension {axis} of its mesh: each process holds a summand, not a piece. "
                "Redistribute it to Replicate() or Shard(dim) first."
            )
        if how.is_replicate():
            continue
        if not how.is_shard() or hasattr(how, "split_factor"):
            raise NotImplementedError(f"'{name}': a checkpoint of {how} is not supported")
        dim, parts = how.dim % len(sizes), mesh_size(value.device_mesh, axis)
        each = -(-sizes[dim] // parts)
        start = min(index * each, sizes[dim])
        offsets[dim], sizes[dim] = offsets[dim] + start, min(each, sizes[dim] - start)
    return ChunkStorageMetadata(Size(offsets), Size(sizes))


def mesh_size(mesh: Any, axis: int) -> int:
    """How many processes a dimension of a mesh has."""
    return mesh.size(axis) if hasattr(mesh, "size") else mesh.shape[axis]


def chunks(name: str, value: Any) -> list[ChunkStorageMetadata]:
    """The pieces of a tensor that lie here; none if this process is not in its mesh."""
    if hasattr(value, "__create_chunk_list__"):
        return value.__create_chunk_list__()
    if is_sharded(value):
        return [] if coordinate(value) is None else [place(name, value)]
    return [ChunkStorageMetadata(Size([0] * value.ndim), Size(value.shape))]


def local_part(value: Any, index: MetadataIndex) -> Tensor:
    """The values of a piece of a tensor that lies here, which can be written to."""
    if hasattr(value, "__get_tensor_shard__"):
        return value.__get_tensor_shard__(index).detach()
    if not is_sharded(value):
        return value.detach()
    part, here = local(value), place(index.fqn, value)
    if tuple(part.shape) != tuple(here.sizes):
        raise ValueError(
            f"'{index.fqn}' is {tuple(value.shape)} with {value.placements}, so this process should hold "
            f"{tuple(here.sizes)} of it, but it holds {tuple(part.shape)}"
        )
    return part


def overlap(
    a: ChunkStorageMetadata, b: ChunkStorageMetadata
) -> tuple[list[int], list[int], list[int]] | None:
    """What two pieces of a tensor share: its offsets in the one, in the other, and its shape; None if nothing."""
    in_a, in_b, lengths = [], [], []
    for start_a, size_a, start_b, size_b in zip(a.offsets, a.sizes, b.offsets, b.sizes):
        start, end = max(start_a, start_b), min(start_a + size_a, start_b + size_b)
        if end <= start:
            return None
        in_a.append(start - start_a)
        in_b.append(start - start_b)
        lengths.append(end - start)
    return in_a, in_b, lengths
