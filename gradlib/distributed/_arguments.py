"""Checks of what collectives are given, with PyTorch's texts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..tape.tensor import Tensor
from ._process_group import ProcessGroup
from ._world import get_group_rank, is_member, the_group, world

__all__ = [
    "check_count",
    "check_list",
    "check_same_dtype",
    "check_sizes",
    "check_tensor",
    "members",
    "rank_in",
]


def check_tensor(given: Any, name: str) -> None:
    """TypeError if an argument is no tensor."""
    if not isinstance(given, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(given)} instead."
        )


def check_list(given: Any, name: str) -> None:
    """TypeError if an argument is no list of tensors."""
    if not isinstance(given, list):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(given)} instead."
        )
    if not all(isinstance(tensor, Tensor) for tensor in given):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(given)} with elements of type {[type(tensor) for tensor in given]}."
        )


def check_same_dtype(*tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(
                "Invalid usage of tensors with different dtypes"
                f"Found {tensors[0].dtype} and  {tensor.dtype}"
            )


def members(group: Any, name: str) -> ProcessGroup | None:
    """The group, if this process is in it; else None, after a warning."""
    if is_member(group):
        return the_group(group)
    warnings.warn(
        f"Running {name} on global rank {world.rank} which does not belong to the given group.",
        stacklevel=3,
    )
    return None


def rank_in(
    group: ProcessGroup, global_rank: int | None, group_rank: int | None, name: str
) -> int | None:
    """The rank in the group of a peer that was given by its global rank or by that; None if by neither.

    Raises:
        ValueError: it was given by both, or is not in the group.
    """
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        if not 0 <= group_rank < group.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {group}")
        return group_rank
    return None if global_rank is None else get_group_rank(group, global_rank)


def check_count(name: str, tensors: Sequence[Tensor], pg: ProcessGroup) -> None:
    if len(tensors) != pg.size():
        raise RuntimeError(
            f"{name}: the list must have a tensor for each of the {pg.size()} ranks of the group, but has "
            f"{len(tensors)}"
        )


def check_sizes(name: str, tensors: Sequence[Tensor], like: Tensor) -> None:
    for i, tensor in enumerate(tensors):
        if tensor._array.shape != like._array.shape:
            raise RuntimeError(
                f"{name}: tensor {i} of the list has shape {list(tensor.shape)}, but {list(like.shape)} was expected"
            )
