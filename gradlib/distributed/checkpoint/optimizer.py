"""The state of an optimizer out of a checkpoint, in pieces like those of the model: an old way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...autograd.grad_mode import no_grad
from ...operators import public as ops
from ._nested import insert
from ._ranks import Ranks
from ._shards import is_tensor
from .default_planner import DefaultLoadPlanner
from .metadata import STATE_DICT_TYPE, TensorStorageMetadata
from .planner import LoadPlanner
from .state_dict_loader import _load
from .storage import StorageReader

__all__ = ["load_sharded_optimizer_state_dict"]


def load_sharded_optimizer_state_dict(
    model_state_dict: STATE_DICT_TYPE,
    optimizer_key: str,
    storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> STATE_DICT_TYPE:
    """Load the state of an optimizer, by names of parameters, without an optimizer.

    Tensors that have the name and shape of a parameter, as those of Adam have, come in pieces like that parameter's.
    `get_optimizer_state_dict` and `load` do the same for an optimizer that is there.

    Args:
        model_state_dict: of the model: tensors, or DTensors, by name.
        optimizer_key: the name under which the state was saved, such as ``"optimizer"``.
        storage_reader: where to read.
        planner: who decides what is read.

    Returns:
        A dict with `optimizer_key` alone in it.

    Raises:
        ValueError: the checkpoint has nothing under that name.

    Example:
        >>> from gradlib.distributed import checkpoint
        >>> from gradlib.distributed.checkpoint.state_dict import get_state_dict
        >>> model_state, state = get_state_dict(model, gradlib.optim.Adam(model.parameters()))
        >>> _ = checkpoint.save({"model": model_state, "optimizer": state}, checkpoint_id="last")
        >>> reader = checkpoint.FileSystemReader("last")
        >>> loaded = load_sharded_optimizer_state_dict(model_state, "optimizer", reader)
        >>> loaded["optimizer"]["state"]["bias"]["exp_avg"]
        tensor([0., 0.])
    """
    storage_reader.reset()
    metadata = storage_reader.read_metadata()
    paths: Mapping[str, Any] = metadata.planner_data or {}
    state: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        path = paths.get(name, (name,))
        if path[0] != optimizer_key:
            continue
        value: Any = None
        if isinstance(entry, TensorStorageMetadata):
            like = next((model_state_dict[key] for key in path if key in model_state_dict), None)
            if is_tensor(like) and like is not None and tuple(like.shape) == tuple(entry.size):
                with no_grad():
                    value = ops.zeros_like(like.detach(), dtype=entry.properties.dtype)
            else:
                value = ops.zeros(tuple(entry.size), dtype=entry.properties.dtype)
        insert(state, path, value)
    if not state:
        names = sorted({(paths.get(name) or (name,))[0] for name in metadata.state_dict_metadata})
        raise ValueError(
            f"the checkpoint has nothing under '{optimizer_key}'; it has {', '.join(names)}"
        )
    _load(state, storage_reader, Ranks(), planner or DefaultLoadPlanner())
    return state
