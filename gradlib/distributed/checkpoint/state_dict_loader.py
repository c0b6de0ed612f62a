"""Loading into the tensors of a state dict, whatever number of processes has saved it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from inspect import signature
from typing import Any

from ...autograd.grad_mode import no_grad
from ...optim.optimizer import Optimizer
from ._ranks import Ranks
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .metadata import STATE_DICT_TYPE, Metadata
from .planner import LoadPlan, LoadPlanner
from .state_dict_saver import _alone, check_dict, stateful_to_dict, storage_for
from .stateful import Stateful
from .storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Load a checkpoint into a state dict: into the memory of its tensors, and in place of its other values.

    Each process reads only what its own pieces of tensors need. So the number of processes, and the way in which
    tensors are cut, may be others than those of the save.

    Args:
        state_dict: what is to be loaded, as it was saved: tensors of the right shape and numbers, text and so on by
            name. Of objects with `state_dict` and `load_state_dict` both are called.
        checkpoint_id: the folder.
        storage_reader: where to read instead; by default a `FileSystemReader` of that folder.
        planner: who decides what is read; by default a `DefaultLoadPlanner`.
        process_group: the processes that load; all of them by default.
        no_dist: load without waiting for other processes.

    Raises:
        RuntimeError: neither folder nor reader.
        CheckpointException: on every process, if it failed on one, with its rank and error: a name that the checkpoint
            does not have, another shape, a dtype that would lose values, a file that is missing or damaged.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> _ = checkpoint.save({"w": gradlib.arange(3.0), "step": 7}, checkpoint_id="step-7")
        >>> state = {"w": gradlib.zeros(3), "step": 0}
        >>> checkpoint.load(state, checkpoint_id="step-7")
        >>> state
        {'w': tensor([0., 1., 2.]), 'step': 7}
    """
    check_dict(state_dict)
    ranks = Ranks(process_group, _alone(no_dist))
    reader = storage_for(storage_reader, checkpoint_id, FileSystemReader)
    # objects may talk to other processes, so all ask them for their states in one order
    names = ranks.all("comparing names", lambda: [str(n) for n in state_dict])
    order = sorted({name for of_rank in names for name in of_rank})
    values = stateful_to_dict({n: state_dict[n] for n in order if n in state_dict})
    unready = [
        n for n, v in values.items() if isinstance(state_dict[n], Optimizer) and not v["state"]
    ]
    _load(values, reader, ranks, planner, unready)
    for name in order:
        target = state_dict.get(name)
        if isinstance(target, Stateful):
            target.load_state_dict(values[name])
        elif name in state_dict:
            state_dict[name] = values[name]


def load_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The old name of `load`.

    Args:
        state_dict: as for `load`, but of values alone.
        storage_reader: where to read.
        process_group: the processes that load.
        coordinator_rank: the rank, within the group, of the process that puts the plans together.
        no_dist: load without waiting for other processes.
        planner: who decides what is read.
    """
    warnings.warn(
        "'load_state_dict' is deprecated and will be removed in future versions. "
        "Please use 'load' instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_reader.reset()
    _load(state_dict, storage_reader, Ranks(process_group, no_dist, coordinator_rank), planner)


def _load(
    state_dict: dict[str, Any],
    reader: StorageReader,
    ranks: Ranks,
    planner: LoadPlanner | None,
    unready: Sequence[str] = (),
) -> None:
    planner = planner or DefaultLoadPlanner()

    def local_plan() -> LoadPlan:
        metadata: Metadata = reader.read_metadata()
        _check_optimizers(unready, metadata)
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        takes = any(
            p.kind is p.VAR_KEYWORD
            for p in signature(reader.set_up_storage_reader).parameters.values()
        )
        told = {"rank": ranks.rank, "use_collectives": True} if takes else {}
        reader.set_up_storage_reader(metadata, ranks.is_coordinator, **told)
        return reader.prepare_local_plan(planner.create_local_plan())

    def global_plan(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    def read() -> None:
        reader.read_data(planner.finish_plan(plan), planner).wait()

    with no_grad():
        plan = ranks.plan("planning the load", local_plan, global_plan)
        ranks.all("reading", read)


def _check_optimizers(names: Sequence[str], metadata: Metadata) -> None:
    """RuntimeError if an optimizer has nothing to load into, but the checkpoint has something for it."""
    for name in names:
        if any(key.startswith(f"{name}.state.") for key in metadata.state_dict_metadata):
            raise RuntimeError(
                f"the checkpoint has the state of the optimizer '{name}', which has none here to load into: what it "
                "keeps is only known after its first step, so make a step before the load"
            )


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """A new state dict of what a checkpoint has: all of it, or some names and what is below them.

    Every process reads all of it.
    """
    keys = {keys} if isinstance(keys, str) else keys
    state: dict[str, Any] = {}
    reader = storage_for(storage_reader, checkpoint_id, FileSystemReader)
    ranks = Ranks(process_group, _alone(False))
    _load(state, reader, ranks, _EmptyStateDictLoadPlanner(keys))
    return state
