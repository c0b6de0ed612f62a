"""A tensor of which each process holds a piece, with no more than a checkpoint needs of a DTensor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import gradlib as torch
from gradlib.distributed.checkpoint import CheckpointException


class Shard(NamedTuple):
    dim: int

    def is_shard(self) -> bool:
        return True

    def is_replicate(self) -> bool:
        return False

    def is_partial(self) -> bool:
        return False


class Replicate(NamedTuple):
    kind: str = "replicate"

    def is_shard(self) -> bool:
        return False

    def is_replicate(self) -> bool:
        return True

    def is_partial(self) -> bool:
        return False


class Partial(Replicate):
    def is_replicate(self) -> bool:
        return False

    def is_partial(self) -> bool:
        return True


class Mesh(NamedTuple):
    shape: tuple[int, ...]
    here: tuple[int, ...] | None

    def size(self, axis: int) -> int:
        return self.shape[axis]

    def get_coordinate(self) -> tuple[int, ...] | None:
        return self.here


class Pieces:
    """The piece of a whole tensor at a place of a mesh; `fill` gives it other values than those of the whole."""

    def __init__(self, whole: torch.Tensor, mesh: Mesh, placements: Any, fill: float | None = None):
        self.shape, self.dtype, self.requires_grad = whole.shape, whole.dtype, False
        self.device_mesh, self.placements = mesh, placements
        part = whole
        if mesh.here is not None:
            for axis, how in enumerate(placements):
                if isinstance(how, Shard):
                    part = cut(part, how.dim, mesh.shape[axis], mesh.here[axis])
        self._part = part.clone() if fill is None else torch.full_like(part, fill)

    def to_local(self) -> torch.Tensor:
        return self._part


def cut(tensor: torch.Tensor, dim: int, parts: int, index: int) -> torch.Tensor:
    """One of the pieces that chunk cuts; an empty one if it cuts fewer."""
    pieces = tensor.chunk(parts, dim)
    return pieces[index] if index < len(pieces) else tensor.narrow(dim, tensor.shape[dim], 0)


def meshes(shape: tuple[int, ...]) -> Iterator[Mesh]:
    """The places of a mesh, by rank."""
    for here in itertools.product(*map(range, shape)):
        yield Mesh(shape, here)


def failure(action, *args, **kwargs) -> str:
    """The text of what a save or load failed of."""
    with pytest.raises(CheckpointException) as caught:
        action(*args, **kwargs)
    [error] = {type(e).__name__ + ": " + str(e) for e, _ in caught.value.failures.values()}
    return error
