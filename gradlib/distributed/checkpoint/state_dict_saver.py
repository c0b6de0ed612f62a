"""Saving: at once, or beside the training."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from inspect import signature
from typing import Any

from ... import distributed as dist
from ...autograd.grad_mode import no_grad
from ...optim.optimizer import Optimizer
from ._fresh_state import filled_in
from ._ranks import Ranks
from .api import CheckpointException
from .default_planner import DefaultSavePlanner, check_whole
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import STATE_DICT_TYPE, Metadata
from .planner import SavePlan, SavePlanner
from .staging import AsyncStager, BlockingAsyncStager
from .stateful import Stateful
from .storage import StorageReader, StorageWriter

__all__ = [
    "AsyncCheckpointerType",
    "AsyncSaveResponse",
    "async_save",
    "save",
    "save_state_dict",
]


class AsyncCheckpointerType(Enum):
    """Where `async_save` writes: in a thread of this process, in both cases.

    PyTorch has a process of its own for `PROCESS`, so that writing does not take turns with the training. Here both
    are a thread: it waits for the disk and copies memory, for which the interpreter is not needed.

    Example:
        >>> AsyncCheckpointerType.THREAD.value
        'thread'
    """

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What `async_save` gives if the copy, too, is made beside the training.

    Args:
        staging_completion: done when the copy is made: from then on the tensors may change.
        upload_completion: done when the checkpoint is written; its result is the table of contents.
    """

    staging_completion: Future[None]
    upload_completion: Future[Any]


def save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Save a state dict; every process writes the pieces of tensors that it holds, and copies are written once.

    All processes of the group call it, with the same names. Without a process group one process saves all it has. A
    process that is killed at any moment leaves the checkpoint that was in the folder before, or the new one.

    Args:
        state_dict: tensors, DTensors, numbers, text, dicts and lists of them by name; and objects with `state_dict`
            and `load_state_dict`, such as models and optimizers, of which the former is called. What is no tensor is
            taken from the first process.
        checkpoint_id: the folder. All processes must see the same one.
        storage_writer: where to write instead; by default a `FileSystemWriter` of that folder.
        planner: who decides what is written; by default a `DefaultSavePlanner`.
        process_group: the processes that save; all of them by default.
        no_dist: save what this process has, whatever others do.
        use_collectives: False lets each process write what it has, with an index of its own, without waiting for
            others. Nothing is written once only, and a kill may leave parts of two saves.

    Returns:
        The table of contents.

    Raises:
        RuntimeError: neither folder nor writer.
        CheckpointException: on every process, if it failed on one: with its rank and error.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> optimizer = gradlib.optim.Adam(model.parameters())
        >>> state = {"model": model, "optimizer": optimizer, "epoch": 3}
        >>> _ = checkpoint.save(state, checkpoint_id="epoch-3")
        >>> state["epoch"] = 0
        >>> checkpoint.load(state, checkpoint_id="epoch-3")
        >>> state["epoch"]
        3
    """
    alone = _alone(no_dist)
    writer = storage_for(storage_writer, checkpoint_id, FileSystemWriter)
    return _save(
        stateful_to_dict(state_dict), writer, Ranks(process_group, alone), planner, use_collectives
    )


def save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The old name of `save`.

    Args:
        state_dict: as for `save`, but of values alone: objects with a `state_dict` are pickled.
        storage_writer: where to write.
        process_group: the processes that save.
        coordinator_rank: the rank, within the group, of the process that puts the plans together.
        no_dist: save what this process has.
        planner: who decides what is written.

    Returns:
        The table of contents.
    """
    warnings.warn(
        "'save_state_dict' is deprecated and will be removed in future versions."
        "Please use 'save' instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_writer.reset()
    ranks = Ranks(process_group, no_dist, coordinator_rank)
    return _save(state_dict, storage_writer, ranks, planner)


def _save(
    state_dict: STATE_DICT_TYPE,
    writer: StorageWriter,
    ranks: Ranks,
    planner: SavePlanner | None,
    use_collectives: bool = True,
) -> Metadata:
    planner = planner or DefaultSavePlanner()
    contents: list[Metadata] = []

    def local_plan() -> SavePlan:
        planner.set_up_planner(state_dict, writer.storage_meta(), ranks.is_coordinator)
        told = {"rank": ranks.rank, "world_size": ranks.size, "use_collectives": use_collectives}
        takes = any(
            p.kind is p.VAR_KEYWORD
            for p in signature(writer.set_up_storage_writer).parameters.values()
        )
        writer.set_up_storage_writer(ranks.is_coordinator, **(told if takes else {}))
        return writer.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = planner.create_global_plan(plans)
        if use_collectives:
            check_whole(metadata)
        contents.append(metadata)
        return writer.prepare_global_plan(plans)

    def write() -> Any:
        return writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results: list[Any]) -> Metadata:
        writer.finish(contents[0], results)
        return contents[0]

    if not use_collectives:
        ranks = _Single(ranks)
    with no_grad():
        plan = ranks.plan("planning the save", local_plan, global_plan)
        try:
            return ranks.conclude("writing", write, finish)
        except CheckpointException:
            if isinstance(writer, FileSystemWriter):
                writer.discard()
            raise


class _Single(Ranks):
    """A process of several that does not wait for the others."""

    def __init__(self, ranks: Ranks):
        self.rank, self.size, self.together = ranks.rank, ranks.size, False
        self.group, self.coordinator, self.is_coordinator = ranks.group, ranks.rank, True


# -- beside the training -------------------------------------------------------------------------------------------


class _Background:
    """The thread that writes, one save after the other, and the process group of its own that it talks through."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._group: Any = None
        self._made_for: Any = None

    def group(self) -> Any:
        """A group of all processes besides the one of the training, whose collectives come in another order."""
        world = dist.group.WORLD
        if self._made_for is not world:
            self._group, self._made_for = dist.new_group(backend="gloo"), world
        return self._group

    def submit(self, step: Any) -> Future[Any]:
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "checkpoint")
            return self._thread.submit(step)


_background = _Background()


def async_save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Any] | AsyncSaveResponse:
    """Copy a state dict to host memory, and save the copy in a thread while training goes on.

    Saves are written one after the other, in the order of the calls. The processes talk through a group of their own,
    which the first call makes, so that the collectives of the training are not held up; the end of the program waits
    for what is still being written.

    Args:
        state_dict: as for `save`; tensors may be changed as soon as this returns.
        checkpoint_id: the folder.
        storage_writer: where to write instead.
        planner: who decides what is written.
        process_group: the processes that save, in place of that group. Nothing else may use it meanwhile.
        async_checkpointer_type: both are a thread.
        async_stager: who makes the copy.
        no_dist: save what this process has, whatever others do.
        use_collectives: as for `save`.

    Returns:
        A future of the table of contents: `result` waits until the checkpoint is written, and raises what went wrong.
        An `AsyncSaveResponse`, if `async_stager` makes the copy later.

    Raises:
        RuntimeError: neither folder nor writer.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> w = gradlib.ones(2)
        >>> future = checkpoint.async_save({"w": w}, checkpoint_id="step-1")
        >>> _ = w.zero_()
        >>> metadata = future.result()
        >>> checkpoint.load({"w": w}, checkpoint_id="step-1")
        >>> w
        tensor([1., 1.])
    """
    alone = _alone(no_dist)
    writer = storage_for(storage_writer, checkpoint_id, FileSystemWriter)
    state = stateful_to_dict(state_dict)
    if process_group is None and not alone and use_collectives:
        process_group = _background.group()
    ranks = Ranks(process_group, alone)
    copies = isinstance(writer, AsyncStager)
    stager: AsyncStager = async_stager or (writer if copies else BlockingAsyncStager())  # type: ignore[assignment]
    staged = stager.stage(state)

    def write() -> Metadata:
        copy = staged.result() if isinstance(staged, Future) else staged
        return _save(copy, writer, ranks, planner, use_collectives)

    written = _background.submit(write)
    if isinstance(staged, Future):
        copied: Future[None] = Future()
        staged.add_done_callback(lambda done: _pass_on(done, copied))
        return AsyncSaveResponse(copied, written)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return written


def _pass_on(done: Future[Any], to: Future[None]) -> None:
    error = done.exception()
    if error is None:
        to.set_result(None)
    else:
        to.set_exception(error)


# -- what is saved, and where ----------------------------------------------------------------------------------------


def check_dict(state_dict: Any) -> None:
    """TypeError for what is no dict."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"a checkpoint is saved from, and loaded into, a dict of values by name, but got "
            f"{type(state_dict).__name__}"
        )


def stateful_to_dict(state_dict: STATE_DICT_TYPE) -> dict[str, Any]:
    """The state dict with objects in it replaced by their states.

    An optimizer that has made no step yet has no tensors to load into: it gives those that it will begin with.
    """
    check_dict(state_dict)
    return {name: _state_of(value) for name, value in state_dict.items()}


def _state_of(value: Any) -> Any:
    if isinstance(value, Optimizer):
        with filled_in(value):
            return value.state_dict()
    return value.state_dict() if isinstance(value, Stateful) else value


def storage_for(
    storage: Any, checkpoint_id: Any, default: type[FileSystemWriter | FileSystemReader]
) -> Any:
    """The storage that was given, told the folder; or that of the folder."""
    if storage is None:
        if checkpoint_id is None:
            raise RuntimeError(
                "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
            )
        if not default.validate_checkpoint_id(checkpoint_id):
            raise RuntimeError(
                f"Cannot detect which StorageReader or StorageWriter to use. Please specify the storage_reader/"
                f"storage_writer: {checkpoint_id} is no path"
            )
        return default(checkpoint_id)
    wanted = StorageWriter if default is FileSystemWriter else StorageReader
    if not isinstance(storage, wanted):
        raise TypeError(f"expected a {wanted.__name__}, but got {type(storage).__name__}")
    storage.reset(checkpoint_id)
    return storage


def _alone(no_dist: bool) -> bool:
    """Whether this process saves or loads without others."""
    return no_dist or not (dist.is_available() and dist.is_initialized())
