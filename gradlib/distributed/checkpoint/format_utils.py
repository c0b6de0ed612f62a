"""Between checkpoints in folders and single files of `gradlib.save`."""

from __future__ import annotations

import io
import os
from typing import Any

from ...futures import Future
from ...serialization import load as load_file
from ...serialization import save as save_file
from ...tape.sizes import Size
from ._file_reader import put
from ._nested import flatten
from ._ranks import Ranks
from ._shards import is_tensor
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    STATE_DICT_TYPE,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from .state_dict_loader import _load
from .state_dict_saver import _save
from .storage import StorageReader

__all__ = [
    "BroadcastingTorchSaveReader",
    "DynamicMetaLoadPlanner",
    "dcp_to_torch_save",
    "torch_save_to_dcp",
]

Path = str | os.PathLike[str]


def dcp_to_torch_save(dcp_checkpoint_dir: Path, torch_save_path: Path) -> None:
    """Make one file of `gradlib.save`, which PyTorch's ``torch.load`` reads, too, of a checkpoint.

    Call it in one process; all tensors have to fit into its memory.

    Args:
        dcp_checkpoint_dir: folder of the checkpoint.
        torch_save_path: the file that is made.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> _ = checkpoint.save({"w": gradlib.ones(2)}, checkpoint_id="step-1")
        >>> dcp_to_torch_save("step-1", "step-1.pt")
        >>> gradlib.load("step-1.pt")
        {'w': tensor([1., 1.])}
    """
    state: dict[str, Any] = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load(state, reader, Ranks(alone=True), _EmptyStateDictLoadPlanner())
    save_file(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: Path, dcp_checkpoint_dir: Path) -> None:
    """Make a checkpoint of one file of `gradlib.save` or PyTorch's ``torch.save``.

    Call it in one process; any number of processes loads what it makes.

    Args:
        torch_save_path: the file: a dict, as `state_dict` gives it.
        dcp_checkpoint_dir: folder of the checkpoint that is made.

    Example:
        >>> gradlib.save({"w": gradlib.ones(2)}, "model.pt")
        >>> torch_save_to_dcp("model.pt", "model")
        >>> state = {"w": gradlib.zeros(2)}
        >>> gradlib.distributed.checkpoint.load(state, checkpoint_id="model")
        >>> state
        {'w': tensor([1., 1.])}
    """
    state = load_file(torch_save_path, map_location="cpu")
    _save(state, FileSystemWriter(dcp_checkpoint_dir), Ranks(alone=True), None)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes the table of contents from the state dict that is loaded, for storages that have none.

    It goes with `BroadcastingTorchSaveReader`.
    """

    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict, and make a table of contents of whole tensors."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        contents: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
        for name, value in self.state_dict.items():
            if not is_tensor(value):
                contents[name] = BytesStorageMetadata()
                continue
            size = Size(value.shape)
            whole = ChunkStorageMetadata(Size([0] * len(size)), size)
            contents[name] = TensorStorageMetadata(
                TensorProperties.create_from_tensor(value), size, [whole]
            )
        self.metadata = Metadata(contents)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads one file of `gradlib.save` in the first process, and sends its tensors to the others one by one.

    Args:
        checkpoint_id: the file.
        coordinator_rank: the rank of the process that reads.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> gradlib.save({"w": gradlib.ones(2)}, "model.pt")
        >>> state = {"w": gradlib.zeros(2)}
        >>> reader = BroadcastingTorchSaveReader("model.pt")
        >>> checkpoint.load(state, storage_reader=reader, planner=DynamicMetaLoadPlanner())
        >>> state
        {'w': tensor([1., 1.])}
    """

    def __init__(self, checkpoint_id: Path | None = None, coordinator_rank: int = 0) -> None:
        self.checkpoint_id: Any = checkpoint_id
        self.coordinator_rank = coordinator_rank
        self.ranks = Ranks(alone=True)

    def reset(self, checkpoint_id: Path | None = None) -> None:
        """Begin with another file; None keeps the one that was given before."""
        if checkpoint_id is not None:
            self.checkpoint_id = checkpoint_id

    def read_metadata(self) -> Metadata:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nothing: a file has no table of contents, so `DynamicMetaLoadPlanner` makes one."""
        return Metadata({})

    def set_up_storage_reader(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, metadata: Metadata, is_coordinator: bool
    ) -> None:
        """Find the other processes."""
        self.ranks = Ranks(coordinator=self.coordinator_rank)
        if self.checkpoint_id is None:
            raise ValueError("BroadcastingTorchSaveReader needs the path of a file: checkpoint_id")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Leave the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Leave the plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Send and take the values, name by name."""
        wanted: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            wanted.setdefault(item.storage_index.fqn, []).append(item)
        names = sorted({name for part in self.ranks.all_gather(list(wanted)) for name in part})
        content: dict[str, Any] = {}
        if self.ranks.is_coordinator:
            content, _ = flatten(load_file(self.checkpoint_id, map_location="cpu"))
        missing = self.ranks.broadcast([n for n in names if n not in content])
        if missing:
            raise RuntimeError(f"{self.checkpoint_id} does not have {', '.join(missing)}")
        for name in names:
            value = self.ranks.broadcast(content.get(name))
            for item in wanted.get(name, ()):
                _give(planner, item, value)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        """Whether there is such a file.

        Args:
            checkpoint_id: its path.
        """
        return os.path.isfile(checkpoint_id)


def _give(planner: LoadPlanner, item: ReadItem, value: Any) -> None:
    """The part of a value that an item wants, to the planner."""
    name = item.storage_index.fqn
    if item.type is LoadItemType.BYTE_IO:
        data = io.BytesIO()
        save_file(value, data)
        data.seek(0)
        planner.load_bytes(item, data)
        return
    ends = [o + n for o, n in zip(item.storage_offsets, item.lengths)]
    if (
        not is_tensor(value)
        or len(value.shape) != len(ends)
        or any(e > n for e, n in zip(ends, value.shape))
    ):
        what = f"of shape {tuple(value.shape)}" if is_tensor(value) else f"a {type(value).__name__}"
        raise ValueError(f"'{name}' of the file is {what}, which does not fit the tensor here")
    for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
        value = value.narrow(dim, start, length)
    put(planner, item, value)
