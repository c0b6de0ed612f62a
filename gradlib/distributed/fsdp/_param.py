"""A parameter of which each rank keeps a part, and the whole while a module computes with it.

The whole is one Parameter object for all of training: nodes save it by identity, so that taking its memory away between
forward and backward takes nothing else to be told. `FreedArray` stands in its place meanwhile: whoever asks it for
values gets an error. What was saved of it in another way, as a view, keeps its memory, and is right as well. The
version of the whole rises when the part was written since the last time, so that backward after an optimizer's step
raises as always.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...nn.parameter import Parameter
from ...operators import public as ops
from ...tape.storage import bump, version_of
from ...tape.tensor import Tensor
from ...tape.valueless import Valueless, stand_in
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import DTensor, wrap
from ..tensor._layout import Layout, part
from ..tensor._part import plain
from ..tensor.placement_types import Placement, Replicate, Shard, _StridedShard


class FreedArray(Valueless):
    """Stands for the values of a whole parameter while there is only its part."""

    refusal = (
        "{} needs the values of a parameter that fully_shard has resharded: call the module, which gathers it, and not "
        "its submodules' functions; or call module.unshard() before"
    )

    @classmethod
    def like(cls, array: Any, physical: Tensor) -> FreedArray:
        """Of the shape and dtype of `array`; `physical` says on which device."""
        made = stand_in(array).view(cls)
        made.physical = physical
        return made


class ShardedParam:
    """A parameter that is sharded.

    Args:
        param: the whole one, the same on all ranks; a DTensor if tensor parallelism has cut it.
        sites: (module, name) for each place where a module has it.
        mesh: the ranks that share it: the last dimension shards, one before it replicates.
        dim: the dimension that is cut.
    """

    def __init__(
        self, param: Any, sites: list[tuple[Any, str]], mesh: DeviceMesh, dim: int
    ) -> None:
        self.sites, self.mesh, self.dim = sites, mesh, dim
        self.group = mesh.get_group(mesh.ndim - 1)
        self.ranks, self.rank = mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
        whole = plain(param).detach() if isinstance(param, DTensor) else param.detach()
        self.shape, self.length = tuple(whole.shape), whole.shape[dim]
        self.step = -(-self.length // self.ranks)
        # of a part, the cut dimension first
        self.padded = (self.step, *self.shape[:dim], *self.shape[dim + 1 :])
        self.size = int(np.prod(self.padded, dtype=np.int64))
        self.layout = self._layout(param)
        self.whole_layout = param._spec if isinstance(param, DTensor) else None
        begin, end = part(self.length, self.ranks, self.rank)
        local = whole.narrow(dim, begin, end - begin)
        self.sharded: Any = Parameter(wrap(local.clone(), self.layout), param.requires_grad)
        for name, value in getattr(param, "__dict__", {}).items():  # what users put on it
            if not name.startswith("_"):
                setattr(self.sharded, name, value)
        self.whole: Any = None
        # the version of the part whose values the whole has, and its array
        self.gathered_at: Any = None
        self.put(self.sharded)

    def _layout(self, param: Any) -> Layout:
        """Where the parts are, on the mesh of these ranks and of those that had cut the parameter before."""
        here: list[Placement] = [*[Replicate()] * (self.mesh.ndim - 1), Shard(self.dim)]
        if not isinstance(param, DTensor):
            return Layout(self.mesh, tuple(here), param.shape)
        inner = param.device_mesh
        names = (*(self.mesh.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
        root = self.mesh._root
        if root is None or root is not inner._root or len(names) != self.mesh.ndim + inner.ndim:
            raise ValueError(
                "fully_shard of a DTensor needs meshes that are slices of one by name, as mesh['dp'] and mesh['tp'] of "
                f"init_device_mesh(..., mesh_dim_names=('dp', 'tp')), got {self.mesh} and {inner}"
            )
        if any(p.is_partial() for p in param.placements):
            raise ValueError(
                f"fully_shard of a DTensor placed as {param.placements}: redistribute it first"
            )
        cut = [i for i, p in enumerate(param.placements) if p.is_shard(self.dim)]
        if cut:
            times = int(np.prod([inner.size(i) for i in cut]))
            here[-1] = _StridedShard(self.dim, split_factor=times)
        return Layout(root[names], (*here, *param.placements), param.shape)

    @property
    def requires_grad(self) -> bool:
        """Whether the parameter wants gradients: the part says so."""
        return self.sharded._rg

    # -- which of the two the modules have -----------------------------------------------------------------------------

    def put(self, param: Any) -> None:
        """Let the modules have this one."""
        for module, name in self.sites:
            module._parameters[name] = param

    def refresh(self) -> None:
        """Take the part from the module, where a program may have put another: by ``to_empty``, or by loading."""
        module, name = self.sites[0]
        now = module._parameters[name]
        if now is self.sharded or now is self.whole:
            return
        if not isinstance(now, DTensor) or now._spec != self.layout:
            raise RuntimeError(
                f"the parameter {name!r} of a module that is fully sharded was replaced by a {type(now).__name__} that "
                f"is not its part: distribute it on {self.layout.mesh} with {self.layout.placements}, or set it before "
                "fully_shard"
            )
        self.sharded = now
        self.gathered_at = None
        self.put(now)

    # -- the whole -----------------------------------------------------------------------------------------------------

    def stale(self) -> bool:
        """Whether the part was written since the whole was gathered."""
        at = self.gathered_at
        return at is None or at[0] != version_of(self.sharded) or at[1] is not self.sharded._array

    def flat_part(self, dtype: Any, device: Any) -> Tensor:
        """The part, its cut dimension first, with zeros up to the length of all: [size]."""
        local = Tensor._alias(self.sharded).to(device=device, dtype=dtype, non_blocking=True)
        local = local.movedim(self.dim, 0).reshape(-1)
        missing = self.size - local.numel()
        if missing:
            local = ops.cat([local, ops.zeros(missing, dtype=dtype, device=device)])
        return local

    def take(self, gathered: Tensor) -> None:
        """Put the whole together.

        Args:
            gathered: the parts of all ranks, [ranks, size].
        """
        values = gathered.reshape(self.ranks * self.step, *self.padded[1:])
        values = values.narrow(0, 0, self.length).movedim(0, self.dim).contiguous()
        array = values._array
        if array.base is not None:  # memory of its own: what is gathered is of many parameters
            array = values.clone()._array
        if self.whole is None:
            made = Tensor._make(array)
            layout = self.whole_layout
            self.whole = Parameter(
                made if layout is None else wrap(made, layout), self.requires_grad
            )
        else:
            self._set_array(array)
            if self.stale():
                bump(self.whole)
        self.gathered_at = version_of(self.sharded), self.sharded._array
        if self.whole._rg != self.requires_grad:
            self.whole.requires_grad_(self.requires_grad)

    def free(self) -> None:
        """Let the memory of the whole go."""
        if self.whole is not None and not isinstance(self.whole._array, FreedArray):
            self._set_array(FreedArray.like(self.whole._array, Tensor._alias(self.sharded)))

    def _set_array(self, array: Any) -> None:
        self.whole._array = array

    # -- gradients -----------------------------------------------------------------------------------------------------

    def flat_grad(self, dtype: Any) -> Tensor:
        """The gradient of the whole as the parts of all ranks: [ranks, size]; it is gone afterwards."""
        grad = self.whole._grad
        self.whole._grad = None
        values = Tensor._make(grad._array).to(dtype).movedim(self.dim, 0)
        missing = self.step * self.ranks - self.length
        if missing:
            zeros = ops.zeros((missing, *values.shape[1:]), dtype=dtype, device=values.device)
            values = ops.cat([values, zeros])
        return values.reshape(self.ranks, self.size)

    def add_grad(self, flat: Tensor, device: Any) -> None:
        """Add this rank's part of the summed gradient, [size], to that of the part; hooks that wait for it run."""
        begin, end = part(self.length, self.ranks, self.rank)
        values = flat.reshape(self.padded).narrow(0, 0, end - begin).movedim(0, self.dim)
        values = values.to(device=device, dtype=self.sharded.dtype).contiguous()
        if values._array.base is not None:
            values = values.clone()
        have = self.sharded._grad
        if have is None:
            self.sharded._grad = wrap(values, self.layout)
        else:
            Tensor._alias(have).add_(values)
        for hook in tuple((self.sharded._post_accumulate_grad_hooks or {}).values()):
            hook(self.sharded)
