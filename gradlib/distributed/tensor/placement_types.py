"""``distributed.tensor.placement_types``: what the ranks along one dimension of a mesh hold of a tensor.

`Replicate`: each all of it. `Shard(d)`: each a part of dimension d, as `chunk` cuts it, so that the last may be shorter
or empty. `Partial`: each a tensor of the whole shape, and the sum of theirs is the value.
"""

from __future__ import annotations

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """What the ranks along one dimension of a mesh hold of a tensor: `Shard`, `Replicate` or `Partial`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank holds a part, of dimension `dim` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank holds the whole value."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each rank holds one term of a reduction, that by `reduce_op` if it is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def _key(self) -> tuple:
        return (type(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Replicate(Placement):
    """Each rank holds the whole tensor.

    Example::

        Replicate().is_replicate()
        # True
    """

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Shard(Placement):
    """Each rank holds a part of one dimension.

    Args:
        dim: the dimension; negative ones count from the end.

    Example::

        Shard(0).is_shard(1)
        # False
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def _key(self) -> tuple:
        return Shard, self.dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Shard):
    """A shard of a dimension that a later dimension of the mesh cuts first.

    That is what fully_shard makes of a parameter that tensor parallelism has cut: the mesh is ("dp", "tp"), and each
    part of "tp" is cut along "dp".

    Args:
        dim: the dimension of the tensor.
        split_factor: into how many parts the later dimensions cut it before.
    """

    def __init__(self, dim: int, *, split_factor: int) -> None:
        super().__init__(dim)
        self.split_factor = split_factor

    def _key(self) -> tuple:
        return _StridedShard, self.dim, self.split_factor

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Partial(Placement):
    """Each rank holds a term: the value is their reduction.

    Args:
        reduce_op: "sum", "avg", "max", "min" or "product".

    Example::

        Partial().is_partial("sum")
        # True
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def _key(self) -> tuple:
        return Partial, self.reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


class _NormPartial(Partial):
    """Each rank holds the norm of its part: the value is the norm of their norms.

    Args:
        norm_type: the p of the norm; may be inf.
    """

    def __init__(self, norm_type: float = 2.0) -> None:
        super().__init__("norm")
        self.norm_type = float(norm_type)

    def _key(self) -> tuple:
        return _NormPartial, self.norm_type

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type:g})"
