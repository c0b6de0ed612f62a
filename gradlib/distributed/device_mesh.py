"""``distributed.device_mesh``: the ranks of a job as an array with named dimensions, and a process group for each line.

A mesh of shape (2, 4) with the dimensions ``("dp", "tp")`` has 8 ranks; along ``"tp"`` it has two groups of 4, and each
rank is in one of them. Slices by name, ``mesh["tp"]``, share the groups of the mesh they were cut from.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..operators import public as ops
from ..tape.dtypes import int32
from ..tape.tensor import Tensor
from . import distributed_c10d as c10d

__all__ = ["DeviceMesh", "init_device_mesh"]

_entered: list[DeviceMesh] = []  # the meshes of the `with` blocks around


class DeviceMesh:
    """Ranks in an array: who works with whom along each of its dimensions.

    All processes make the same meshes in the same order: each new line of ranks becomes a process group.

    Args:
        device_type: "cpu" or "cuda".
        mesh: the ranks, as a tensor or nested lists of integers; each at most once.
        mesh_dim_names: a name for each dimension, for slices.

    Raises:
        RuntimeError: a device type with an index, ranks that the job does not have, or names that do not fit.

    Example::

        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        mesh["tp"].size()
        # 2
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        _init_backend: bool = True,
    ) -> None:
        _check_device_type(device_type)
        ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, dtype=np.int64)
        _check_names(ranks.shape, mesh_dim_names)
        if not c10d.is_initialized():
            c10d.init_process_group()
        if ranks.size > c10d.get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {c10d.get_world_size()}, "
                f"but found {ranks.size} ranks!"
            )
        if len(np.unique(ranks)) != ranks.size:
            raise RuntimeError(
                f"each rank stands in a mesh at most once, got {ranks.tolist()}: remove the repeated ones"
            )
        groups = _groups_of(ranks) if _init_backend else [None] * ranks.ndim
        self._set(device_type, ranks, mesh_dim_names, groups, None)

    def _set(
        self,
        device_type: str,
        ranks: np.ndarray,
        names: Sequence[str] | None,
        groups: list[Any],
        root: DeviceMesh | None,
    ) -> None:
        self._device_type, self._ranks, self._groups = device_type, ranks, groups
        self._names = None if names is None else tuple(names)
        self._root = root
        self._flat: dict[str, DeviceMesh] = {}
        here = np.argwhere(ranks == c10d.get_rank())
        self._coordinate = tuple(here[0].tolist()) if len(here) else None
        self._key = (device_type, ranks.shape, tuple(ranks.ravel().tolist()), self._names)
        if any(group is not None for group in groups):
            _known[self._key] = self

    @classmethod
    def _of(cls, *args: Any) -> DeviceMesh:
        mesh = cls.__new__(cls)
        mesh._set(*args)
        return mesh

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """A mesh on process groups that there are already.

        Args:
            group: a process group, or a list with one for each dimension of `mesh`.
            device_type: "cpu" or "cuda".
            mesh: the ranks; needed with a list of more than one group.
            mesh_dim_names: a name for each dimension.

        Raises:
            ValueError: several groups without `mesh`, or a number of groups that is not its number of dimensions.
        """
        groups = list(group) if isinstance(group, list | tuple) else [group]
        if mesh is None:
            if len(groups) != 1:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = c10d.get_process_group_ranks(groups[0])
        ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, dtype=np.int64)
        if ranks.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got mesh "
                f"{ranks.tolist()} and {len(groups)} ProcessGroups"
            )
        _check_device_type(device_type)
        _check_names(ranks.shape, mesh_dim_names)
        return DeviceMesh._of(device_type, ranks, mesh_dim_names, groups, None)

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def mesh(self) -> Tensor:
        """The ranks, as a tensor of int32 on the CPU."""
        return ops.tensor(self._ranks.tolist(), dtype=int32, device="cpu")

    @property
    def device_type(self) -> str:
        """Where tensors of this mesh are: "cpu" or "cuda"."""
        return self._device_type

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions; None if they have none."""
        return self._names

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions."""
        return self._ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of ranks, or that along one dimension."""
        return self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's rank in the job."""
        return c10d.get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process stands in the mesh; None if it does not."""
        return self._coordinate

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this process along a dimension.

        Args:
            mesh_dim: its index or name; may be left out for a mesh of one dimension.

        Raises:
            RuntimeError: it was left out with more dimensions, or this process is not in the mesh.
            KeyError: there is no dimension of this name.
        """
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        if self._coordinate is None:
            raise RuntimeError(
                f"rank {self.get_rank()} is not in {self}, so that it has no place along a dimension of it"
            )
        return self._coordinate[self._index(mesh_dim or 0)]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The process group of this process along a dimension.

        Args:
            mesh_dim: its index or name; may be left out for a mesh of one dimension.

        Raises:
            RuntimeError: it was left out with more dimensions.
            KeyError: there is no dimension of this name.
        """
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                "please use `get_all_groups()` instead.",
            )
        return self._groups[self._index(mesh_dim or 0)]

    def get_all_groups(self) -> list[Any]:
        """The process groups of this process, one for each dimension."""
        return [self.get_group(i) for i in range(self.ndim)]

    def _index(self, mesh_dim: int | str) -> int:
        if not isinstance(mesh_dim, str):
            return mesh_dim
        if self._names is None or mesh_dim not in self._names:
            raise KeyError(
                f"Mesh dimension '{mesh_dim}' does not exist.",
                f"Available mesh dimensions are: mesh_dim_names={self._names}",
            )
        return self._names.index(mesh_dim)

    # -- parts -------------------------------------------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh along some of the dimensions, through this process.

        Args:
            mesh_dim_names: a name or several, in the order of the mesh; also of a flattened dimension.

        Raises:
            RuntimeError: the dimensions have no names.
            KeyError: there is no such name, or the order is another.
        """
        if self._names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if wanted == self._names:
            return self
        flat = (self._root or self)._flat
        if len(wanted) == 1 and wanted[0] in flat:
            return flat[wanted[0]]
        if not all(name in self._names for name in wanted):
            raise KeyError(
                f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {list(self._names)}."
            )
        dims = [self._names.index(name) for name in wanted]
        if dims != sorted(dims):
            raise KeyError(
                f"Invalid mesh_dim_names {wanted} specified. Mesh dim indices should be in ascending order."
            )
        groups = [self._groups[d] for d in dims]
        return DeviceMesh._of(
            self._device_type, self._through_here(dims), wanted, groups, self._root or self
        )

    def _through_here(self, dims: list[int]) -> np.ndarray:
        """The ranks that differ from this process in these dimensions alone; those of the first, if it is outside."""
        at = self._coordinate or (0,) * self.ndim
        return self._ranks[tuple(slice(None) if d in dims else at[d] for d in range(self.ndim))]

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All dimensions as one, with a group of its own; all processes of the job call it.

        Args:
            mesh_dim_name: the name of the dimension; by default the names with "_" between them.
        """
        name = mesh_dim_name or "_".join(self._names or ("flat",))
        root = self._root or self
        if name in root._flat:
            return root._flat[name]
        if self.ndim == 1:
            group = self._groups[0]
        else:
            dims = [root._index(n) for n in self._names or ()] or list(range(root.ndim))
            lines = np.moveaxis(root._ranks, dims, range(-len(dims), 0)).reshape(-1, self.size())
            group = _group_of_lines(lines)
        flat = DeviceMesh._of(self._device_type, self._ranks.reshape(-1), (name,), [group], root)
        root._flat[name] = flat
        return flat

    # -- as an object ------------------------------------------------------------------------------------------------

    def __enter__(self) -> DeviceMesh:
        _entered.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _entered.pop()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __getstate__(self) -> dict[str, Any]:
        return {"key": self._key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickled in a process of the same job: on the groups of the mesh that is equal; else without groups."""
        device_type, shape, ranks, names = state["key"]
        known = _known.get(state["key"])
        if known is not None:
            self.__dict__.update(known.__dict__)
        else:
            array = np.array(ranks).reshape(shape)
            self._set(device_type, array, names, [None] * len(shape), None)

    def __repr__(self) -> str:
        lengths = self.shape
        names = self._names
        parts = [f"{name}={n}" for name, n in zip(names, lengths)] if names else map(str, lengths)
        inside = ", ".join(parts)
        strides = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
        comma = "," if len(lengths) == 1 else ""
        shape = f"({inside}{'' if names else comma})"
        return f"DeviceMesh({shape}, '{self._device_type}', stride=({', '.join(map(str, strides))}{comma}))"


# meshes with groups, by what makes them equal
_known: weakref.WeakValueDictionary[tuple, DeviceMesh] = weakref.WeakValueDictionary()


def current_mesh() -> DeviceMesh:
    """The mesh of the innermost `with` block; RuntimeError outside of one."""
    if not _entered:
        raise RuntimeError(
            "No device mesh is currently active! Give `device_mesh`, or enter one: with mesh: ..."
        )
    return _entered[-1]


def _check_device_type(device_type: str) -> None:
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )


def _check_names(shape: tuple[int, ...], names: Sequence[str] | None) -> None:
    if names is None:
        return
    if len(set(names)) != len(names):
        raise RuntimeError(
            "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in "
            f"mesh_dim_names {tuple(names)}"
        )
    if len(shape) != len(names):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found "
            f"len(mesh_dim_names): {len(names)} and len(mesh_shape):{len(shape)}."
        )


def _groups_of(ranks: np.ndarray) -> list[Any]:
    """A process group for each dimension: that of the line through this process."""
    return [
        _group_of_lines(np.moveaxis(ranks, dim, -1).reshape(-1, ranks.shape[dim]))
        for dim in range(ranks.ndim)
    ]


def _group_of_lines(lines: np.ndarray) -> Any:
    """Make a group of each line of ranks, in every process; the one that this process is in, else None."""
    world = c10d.get_world_size()
    if lines.tolist() == [list(range(world))]:
        return c10d.GroupMember.WORLD
    mine = None
    for line in lines.tolist():
        group = c10d.new_group(line)
        if c10d.get_rank() in line:
            mine = group
    return mine


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: dict[Any, Any] | None = None,
) -> DeviceMesh:
    """A mesh of the ranks 0, 1, 2... in row-major order; `init_process_group` is called if nobody did.

    Args:
        device_type: "cpu" or "cuda".
        mesh_shape: the lengths of the dimensions.
        mesh_dim_names: a name for each dimension.
        backend_override: not supported: all groups have the backend of the job.

    Returns:
        The DeviceMesh.

    Raises:
        RuntimeError: repeated names, another number of names than dimensions, or more ranks than the job has.

    Example::

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        mesh["tp"].get_local_rank()
        # 0
    """
    if backend_override:
        raise NotImplementedError(
            "init_device_mesh: backend_override is not supported, all groups of a mesh have the backend of the job: "
            "leave it out"
        )
    _check_names(tuple(mesh_shape), mesh_dim_names)
    _check_device_type(device_type)
    ranks = np.arange(math.prod(mesh_shape)).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
