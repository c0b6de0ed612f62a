"""The items of plans: what is written of a value, and which saved pieces a value is read from."""

from __future__ import annotations

from typing import Any

from ...tape import dtypes
from ...tape.sizes import Size
from ._shards import chunks, is_tensor, overlap
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, ReadItem, TensorWriteData, WriteItem, WriteItemType

__all__ = ["create_read_items_for_chunk_list"]


def create_write_items(fqn: str, value: Any) -> list[WriteItem]:
    """What this process could write of a value: the pieces it holds, or an object."""
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(fqn, value)
    if not is_tensor(value):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    properties, size = TensorProperties.create_from_tensor(value), Size(value.shape)
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets),
            WriteItemType.TENSOR if chunk.sizes == size else WriteItemType.SHARD,
            tensor_data=TensorWriteData(chunk, properties, size),
        )
        for chunk in chunks(fqn, value)
        if chunk.sizes.numel() or not size.numel()  # of empty tensors the shape is kept
    ]


def create_read_items(
    fqn: str, saved: TensorStorageMetadata | BytesStorageMetadata, value: Any
) -> list[ReadItem]:
    """What this process reads into a value.

    ValueError if one is a tensor and the other an object, or the shapes are different, or the dtypes are so that
    values would be lost, or a part was never saved.
    """
    if isinstance(saved, BytesStorageMetadata):
        if is_tensor(value):
            raise ValueError(
                f"'{fqn}' is a Python object in the checkpoint, but a tensor of shape {tuple(value.shape)} here"
            )
        return [
            ReadItem(
                LoadItemType.BYTE_IO, MetadataIndex(fqn), Size([0]), MetadataIndex(fqn), Size([0]), Size([0])
            )
        ]  # fmt: skip
    if not is_tensor(value):
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(saved)}: it is a "
            f"tensor of shape {tuple(saved.size)} in the checkpoint, but a {type(value).__name__} here"
        )
    if tuple(saved.size) != tuple(value.shape):
        raise ValueError(
            f"Size mismatch between saved {saved.size} and current: {Size(value.shape)} for {fqn}"
        )
    if not fits(saved.properties.dtype, value.dtype):
        raise ValueError(
            f"dtype mismatch between saved {saved.properties.dtype} and current: {value.dtype} for {fqn}: values "
            f"would be lost. Load it into a tensor of {saved.properties.dtype} and convert that."
        )
    return create_read_items_for_chunk_list(fqn, saved, chunks(fqn, value))


def fits(saved: dtypes.dtype, wanted: dtypes.dtype) -> bool:
    """Whether values may go from one dtype to the other: within floating and within complex ones they are rounded,
    otherwise no value may change."""
    if saved == wanted or (saved.is_floating_point and wanted.is_floating_point):
        return True
    if saved.is_complex or wanted.is_complex:
        return wanted.is_complex and (saved.is_complex or saved.is_floating_point)
    if saved.is_floating_point or wanted.is_floating_point or wanted.name == "bool":
        return False
    if saved.name == "bool":
        return True
    low, high = (2 ** (8 * d.itemsize - d.is_signed) for d in (saved, wanted))
    return low <= high and (wanted.is_signed or not saved.is_signed)


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """What must be read to fill pieces of a tensor from the pieces that were saved.

    Args:
        fqn: name of the tensor.
        checkpoint_md: the saved pieces.
        local_chunks: the pieces that are wanted.

    Returns:
        An item for each part that a saved piece and a wanted one share.

    Raises:
        ValueError: a part of a wanted piece is in none of the saved ones.

    Example:
        >>> from gradlib.distributed.checkpoint.metadata import TensorProperties
        >>> halves = [ChunkStorageMetadata(gradlib.Size([i]), gradlib.Size([2])) for i in (0, 2)]
        >>> saved = TensorStorageMetadata(TensorProperties(), gradlib.Size([4]), halves)
        >>> middle = ChunkStorageMetadata(gradlib.Size([1]), gradlib.Size([2]))
        >>> [item.storage_offsets for item in create_read_items_for_chunk_list("w", saved, [middle])]
        [torch.Size([1]), torch.Size([0])]
    """
    items = []
    for i, wanted in enumerate(local_chunks):
        found = 0
        for j, there in enumerate(checkpoint_md.chunks):
            shared = overlap(wanted, there)
            if shared is None:
                continue
            to, start, lengths = (Size(numbers) for numbers in shared)
            found += lengths.numel()
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, wanted.offsets, i), to,
                    MetadataIndex(fqn, there.offsets, j), start, lengths,
                )
            )  # fmt: skip
        if found != wanted.sizes.numel():
            raise ValueError(
                f"'{fqn}': of the part {tuple(wanted.sizes)} at {tuple(wanted.offsets)}, {wanted.sizes.numel()} "
                f"elements, the checkpoint has {found}; a process did not save its piece"
            )
    return items
