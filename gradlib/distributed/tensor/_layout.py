"""Layout: where the parts of a tensor are, on which mesh, and how large the part of this process is."""

from __future__ import annotations

from collections.abc import Sequence

from ...tape.sizes import Size
from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

Placements = tuple[Placement, ...]


class Layout:
    """The mesh, one placement for each dimension of it, and the shape of the whole tensor."""

    __slots__ = ("mesh", "placements", "shape")

    def __init__(self, mesh: DeviceMesh, placements: Placements, shape: Sequence[int]) -> None:
        self.mesh, self.placements, self.shape = mesh, placements, Size(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (
            (self.mesh, self.placements, self.shape) == (other.mesh, other.placements, other.shape)
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.placements, self.shape))

    def placed(self, placements: Placements) -> Layout:
        """The same tensor, placed otherwise."""
        return Layout(self.mesh, placements, self.shape)

    @property
    def gradient(self) -> Placements:
        """How the gradient of such a tensor is placed: each term of a sum has the gradient of the sum."""
        return tuple([Replicate() if p.is_partial() else p for p in self.placements])

    def local_shape(self, placements: Placements | None = None) -> Size:
        """The shape of this process's part."""
        return local_shape_and_offset(self.shape, self.mesh, placements or self.placements)[0]


def sharding_order(placements: Placements) -> list[int]:
    """The dimensions of the mesh in the order in which they cut: strided shards are cut last."""
    return sorted(range(len(placements)), key=lambda i: isinstance(placements[i], _StridedShard))


def local_shape_and_offset(
    shape: Sequence[int], mesh: DeviceMesh, placements: Placements
) -> tuple[Size, tuple[int, ...]]:
    """The shape of this process's part of a tensor, and where in the whole it begins.

    A process outside the mesh has an empty part.
    """
    lengths, offset = list(shape), [0] * len(shape)
    at = mesh.get_coordinate()
    if at is None:
        return Size([0]), (0,) * len(shape)
    for i in sharding_order(placements):
        placement = placements[i]
        if isinstance(placement, Shard):
            begin, end = part(lengths[placement.dim], mesh.size(i), at[i])
            lengths[placement.dim] = end - begin
            offset[placement.dim] += begin
    return Size(lengths), tuple(offset)


def part(length: int, parts: int, index: int) -> tuple[int, int]:
    """From where to where the part `index` of a dimension goes, as `chunk` cuts it.

    Example::

        [part(5, 4, i) for i in range(4)]
        # [(0, 2), (2, 4), (4, 5), (5, 5)]
    """
    step = -(-length // parts)
    return min(step * index, length), min(step * (index + 1), length)


def checked(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int) -> Placements:
    """Placements with dimensions that count from the start; all `Replicate` for None.

    Raises:
        ValueError: their number is not that of the mesh's dimensions.
        RuntimeError: a shard of a dimension that the tensor lacks.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    found = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(
                f"placements are Shard, Replicate or Partial, got {type(placement).__name__}"
            )
        if isinstance(placement, Shard):
            dim = placement.dim + ndim if placement.dim < 0 else placement.dim
            if not 0 <= dim < ndim:
                raise AssertionError(
                    f"Sharding dim {placement.dim} greater than tensor ndim {ndim}"
                )
            if dim != placement.dim:
                placement = Shard(dim)
        found.append(placement)
    return tuple(found)


def is_shard(placement: Placement) -> bool:
    return isinstance(placement, Shard)


def is_partial(placement: Placement) -> bool:
    return isinstance(placement, Partial)
