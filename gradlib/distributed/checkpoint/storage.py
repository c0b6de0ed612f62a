"""What a place for checkpoints has to offer: a writer and a reader."""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from ...futures import Future
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """Where something was written.

    Args:
        index: its name.
        size_in_bytes: its size.
        storage_data: what the reader needs to find it.
    """

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes checkpoints somewhere; `FileSystemWriter` is the one for folders.

    The methods are called in this order: `reset` on every process; `set_up_storage_writer` and `prepare_local_plan`
    on every process; `prepare_global_plan` on the first; `write_data` on every process; `finish` on the first.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin another checkpoint.

        Args:
            checkpoint_id: the folder, or the key in a store; None keeps the one that was given before.
        """

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Get ready.

        Args:
            is_coordinator: whether this process calls `prepare_global_plan` and `finish`.
            *args: nothing.
            **kwargs: ``rank`` and ``use_collectives``, for writers that take them.
        """

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Add what the storage wants to the plan of this process.

        Args:
            plan: of the planner.

        Returns:
            The plan that goes to the first process.
        """

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Add what the storage wants to the plans of all, for example names of files.

        Args:
            plans: by rank.

        Returns:
            The plans that go back to the processes.
        """

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write what the plan of this process says.

        Args:
            plan: of this process.
            planner: its `resolve_data` gives the data.

        Returns:
            A future of where each item went.
        """

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Make the checkpoint valid: until then readers see the one before it, or none.

        Args:
            metadata: the table of contents, to which the storage adds where things lie.
            results: of all processes, by rank.
        """

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage could hold a checkpoint of that name.

        Args:
            checkpoint_id: such as a path.
        """

    def storage_meta(self) -> StorageMeta | None:
        """Which checkpoint is being written.

        Returns:
            Its name and the identity of the save; None if the storage has none.
        """
        return None


class StorageReader(abc.ABC):
    """Reads checkpoints from somewhere; `FileSystemReader` is the one for folders.

    The methods are called in this order: `reset`, `read_metadata`, `set_up_storage_reader` and `prepare_local_plan` on
    every process; `prepare_global_plan` on the first; `read_data` on every process.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin with another checkpoint.

        Args:
            checkpoint_id: the folder, or the key in a store; None keeps the one that was given before.
        """

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The table of contents.

        Args:
            *args: nothing.
            **kwargs: nothing that readers must know.

        Returns:
            What `StorageWriter.finish` was given.
        """

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Get ready.

        Args:
            metadata: the table of contents.
            is_coordinator: whether this process calls `prepare_global_plan`.
            *args: nothing.
            **kwargs: ``rank`` and ``use_collectives``, for readers that take them.
        """

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Add what the storage wants to the plan of this process.

        Args:
            plan: of the planner.

        Returns:
            The plan that goes to the first process.
        """

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Add what the storage wants to the plans of all.

        Args:
            plans: by rank.

        Returns:
            The plans that go back to the processes.
        """

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read what the plan of this process says.

        Args:
            plan: of this process.
            planner: its `resolve_tensor` and `load_bytes` take the data.

        Returns:
            A future that is done when everything is read.
        """

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage could hold a checkpoint of that name.

        Args:
            checkpoint_id: such as a path.
        """
