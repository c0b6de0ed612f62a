"""Plans: which pieces of which tensors a process writes or reads, and who decides that.

Before a save, each process plans what it has (`SavePlanner.create_local_plan`), the first process puts the plans
together (`create_global_plan`), and each then writes its part. A load goes the same way.
"""

from __future__ import annotations

import abc
import io
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...tape.sizes import Size
from ...tape.tensor import Tensor
from .metadata import (
    STATE_DICT_TYPE,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """What is written: a whole tensor, a piece of a tensor, or a Python object.

    Example:
        >>> WriteItemType.SHARD.value
        2
    """

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: elements of a tensor, or a Python object.

    Example:
        >>> LoadItemType.BYTE_IO.value
        2
    """

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of an object that is written.

    Args:
        nbytes: bytes of its pickle, where they are known.
    """

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """The piece of a tensor that is written.

    Args:
        chunk: where it lies in the whole tensor.
        properties: dtype and the like.
        size: shape of the whole tensor.
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One thing that a process writes.

    Args:
        index: its name.
        type: tensor, piece or object.
        bytes_io_data: the size of an object.
        tensor_data: the place of a tensor or piece.
    """

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of the tensor or piece.

        Returns:
            Elements times bytes of one; None for an object.
        """
        if self.tensor_data is None:
            return None
        return self.tensor_data.chunk.sizes.numel() * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One thing that a process reads: the part of a saved piece that lies in a tensor of this process.

    Args:
        type: tensor or object.
        dest_index: the tensor, or the piece of it, that the values go to.
        dest_offsets: where in it.
        storage_index: the saved piece.
        storage_offsets: where in it.
        lengths: shape of the part.
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """All that a process writes.

    Args:
        items: the things.
        storage_data: of the storage, for example the name of the file.
        planner_data: of the planner.
        usable: False stands for "as last time", where plans are kept from one save to the next.
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """All that a process reads.

    Args:
        items: the things.
        storage_data: of the storage.
        planner_data: of the planner.
    """

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each process writes; derive from `DefaultSavePlanner` to change a part.

    The methods are called in this order: `set_up_planner` and `create_local_plan` on every process,
    `create_global_plan` on the first, `finish_plan` on every process, `resolve_data` for each thing written.

    Example:
        >>> class Halves(gradlib.distributed.checkpoint.DefaultSavePlanner):
        ...     def create_local_plan(self):
        ...         plan = super().create_local_plan()
        ...         for item in plan.items:
        ...             if item.tensor_data is not None:
        ...                 item.tensor_data.properties.dtype = gradlib.float16
        ...         return plan
        ...
        ...     def resolve_data(self, write_item):
        ...         data = super().resolve_data(write_item)
        ...         return data.half() if isinstance(data, gradlib.Tensor) else data
        >>> saved = gradlib.distributed.checkpoint.save(
        ...     {"w": gradlib.ones(2)}, checkpoint_id="halves", planner=Halves()
        ... )
        >>> saved.state_dict_metadata["w"].properties.dtype
        torch.float16
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Begin a save.

        Args:
            state_dict: what this process saves.
            storage_meta: which checkpoint it is.
            is_coordinator: whether this process puts the plans together.
        """

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process could write.

        Returns:
            A plan, which is sent to the first process.
        """

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Put the plans together; called on the first process.

        Args:
            all_plans: one of each process, by rank.

        Returns:
            What each process shall write, and the table of contents.
        """

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the plan that came back.

        Args:
            new_plan: what `create_global_plan` made for this process.

        Returns:
            The plan that is carried out.
        """

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The data of one thing that is written.

        Args:
            write_item: out of the plan.

        Returns:
            A tensor of the planned shape and dtype, or the bytes of an object.
        """


class LoadPlanner:
    """Decides what each process reads; derive from `DefaultLoadPlanner` to change a part.

    The methods are called in this order: `set_up_planner` and `create_local_plan` on every process,
    `create_global_plan` on the first, `finish_plan` on every process; then `load_bytes` for each object, and
    `resolve_tensor` and `commit_tensor` for each part of a tensor.
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Begin a load.

        Args:
            state_dict: what is read into.
            metadata: the table of contents.
            is_coordinator: whether this process puts the plans together.
        """

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process reads.

        Returns:
            A plan, which is sent to the first process.
        """

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Put the plans together; called on the first process.

        Args:
            global_plan: one of each process, by rank.

        Returns:
            What each process shall read.
        """

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the plan that came back.

        Args:
            central_plan: what `create_global_plan` made for this process.

        Returns:
            The plan that is carried out.
        """

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take an object.

        Args:
            read_item: out of the plan.
            value: the bytes that `gradlib.save` has made of it.
        """

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the bytes of an object go, for storages that write into one.

        Args:
            read_item: out of the plan.

        Raises:
            NotImplementedError: the planner has no such place; `load_bytes` is what is used.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no resolve_bytes: give it that method"
        )

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Where the values of a part go.

        Args:
            read_item: out of the plan.

        Returns:
            A tensor of the shape `read_item.lengths`, which is written to.
        """

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Called when the values are in the tensor.

        Args:
            read_item: out of the plan.
            tensor: what `resolve_tensor` gave.
        """
