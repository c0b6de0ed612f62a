"""What is known of a checkpoint without reading its tensors: names, shapes, dtypes, and the pieces they lie in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...tape import dtypes
from ...tape import layout as layouts
from ...tape.sizes import Size
from .stateful import StatefulT

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]

STATE_DICT_TYPE = dict[str, StatefulT | Any]


@dataclass
class ChunkStorageMetadata:
    """A rectangular piece of a tensor.

    Args:
        offsets: where it begins in the whole tensor, in elements, for each dimension.
        sizes: its shape.

    Example:
        >>> ChunkStorageMetadata(gradlib.Size([2, 0]), gradlib.Size([2, 3]))
        ChunkStorageMetadata(offsets=torch.Size([2, 0]), sizes=torch.Size([2, 3]))
    """

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """What a tensor is besides its shape.

    Args:
        dtype: of its elements.
        layout: ``gradlib.strided``.
        requires_grad: whether it was a leaf that gradients are computed for.
        memory_format: ``gradlib.contiguous_format``; the order of strides is not kept.
        pin_memory: whether it lay in pinned memory.
    """

    dtype: dtypes.dtype = dtypes.float32
    layout: layouts.layout = layouts.strided
    requires_grad: bool = False
    memory_format: layouts.memory_format = layouts.contiguous_format
    pin_memory: bool = False

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """The properties of a tensor.

        Args:
            tensor: Tensor [...] or a DTensor.

        Returns:
            Its dtype, and whether it requires grad.
        """
        return TensorProperties(dtype=tensor.dtype, requires_grad=bool(tensor.requires_grad))


@dataclass
class TensorStorageMetadata:
    """A saved tensor: its properties, its whole shape and the pieces that were saved.

    Args:
        properties: dtype and the like.
        size: shape of the whole tensor.
        chunks: its pieces, which do not overlap.
    """

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A saved Python object: nothing is known of it but that it is there.

    Example:
        >>> BytesStorageMetadata()
        BytesStorageMetadata()
    """


@dataclass
class StorageMeta:
    """Which checkpoint this is.

    Args:
        checkpoint_id: the folder, or the key in a store.
        save_id: unique for each save.
        load_id: unique for each load.
        modules: names of modules that the reader needs.
    """

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The table of contents of a checkpoint.

    Args:
        state_dict_metadata: what is saved under each name.
        planner_data: of the planner; the default one keeps the path of keys that each name was made from.
        storage_data: of the storage; files keep in which of them each piece lies.
        storage_meta: which checkpoint it is.
        version: of the format.

    Example:
        >>> metadata = gradlib.distributed.checkpoint.save({"w": gradlib.ones(2)}, checkpoint_id="step-1")
        >>> metadata.state_dict_metadata["w"].size
        torch.Size([2])
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of a piece: that of its tensor, and where it begins in it.

    Two with one name and one offset are equal: `index` only says where to look first.

    Args:
        fqn: name of the tensor or object.
        offset: where the piece begins; None for objects and whole tensors.
        index: its place in the list of pieces, if it is known.

    Example:
        >>> MetadataIndex("w", [0, 2]) == MetadataIndex("w", (0, 2), index=1)
        True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None):
        # the dataclass is frozen, so that it can be a key of dicts
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))
        object.__setattr__(self, "index", index)
