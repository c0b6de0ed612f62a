"""Finding the tensor, or the piece of one, that an item of a plan means."""

from __future__ import annotations

from typing import Any

from ...tape.tensor import Tensor
from ._shards import is_tensor, local_part
from .metadata import STATE_DICT_TYPE, MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Tensor:
    """The part of a tensor that lies in this process.

    Args:
        tensor: Tensor [...], or a DTensor.
        index: the name and offsets of the part.

    Returns:
        A tensor with the memory of that part: writing to it changes `tensor`.

    Raises:
        ValueError: a whole tensor has no part that begins elsewhere than at its beginning.

    Example:
        >>> w = gradlib.zeros(2)
        >>> find_tensor_shard(w, MetadataIndex("w", [0])).fill_(1)
        tensor([1., 1.])
        >>> w
        tensor([1., 1.])
    """
    if isinstance(tensor, Tensor) and index.offset is not None and any(index.offset):
        sharded = hasattr(tensor, "placements") or hasattr(tensor, "__get_tensor_shard__")
        if not sharded:
            raise ValueError(
                f"FQN: '{index.fqn}' is not a DTensor or ShardedTensor, so it has no part that begins at {index.offset}"
            )
    return local_part(tensor, index)


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """The value that an index means.

    Args:
        state_dict: values by name.
        index: a name, with offsets for a part of a tensor.

    Returns:
        The part of a tensor that lies in this process, or the object itself.

    Raises:
        ValueError: there is no such name, or offsets are given of what is no tensor.

    Example:
        >>> find_state_dict_object({"step": 3}, MetadataIndex("step"))
        3
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if is_tensor(value):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(
            f"FQN: '{index.fqn}' is a {type(value).__name__}, but offsets {index.offset} of a tensor were asked for"
        )
    return value
