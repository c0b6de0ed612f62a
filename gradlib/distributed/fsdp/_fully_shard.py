"""`fully_shard`: each rank keeps a part of each parameter, its gradient and its optimizer state.

    fully_shard(block) for each block, then fully_shard(model)

A module's parameters are gathered before its forward and freed after it, gathered again before its backward, and their
gradients are summed over the ranks, each keeping its part. What is in `model.parameters()` between steps are
DTensors, so that optimizers, `clip_grad_norm_` and `state_dict` see parts. In the order of reading: `_param`,
`_group`, `_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...nn.modules.module import Module
from ...tape.device import device as device_class
from .. import distributed_c10d as c10d
from ..device_mesh import DeviceMesh, init_device_mesh
from ._group import ParamGroup
from ._param import ShardedParam
from ._policies import MixedPrecisionPolicy, OffloadPolicy
from ._state import ShardState

__all__ = [
    "FSDPModule",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]

_classes: dict[type, type] = {}


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Let each rank keep only a part of a module's parameters; all ranks of the mesh call it.

    Call it for the submodules first, each a group that is gathered together, and for the whole model last: a call takes
    the parameters that no call before took. Make the optimizer afterwards.

    Args:
        module: a module, or a list of modules whose parameters are gathered together. Changed in place: its class
            becomes one that derives from `FSDPModule`, too.
        mesh: the ranks that share the parameters; with two dimensions the first replicates and the second shards. By
            default all ranks of the job.
        reshard_after_forward: whether the whole parameters are freed between forward and backward. None: for all but
            the root of the model, which backward needs first.
        shard_placement_fn: ``shard_placement_fn(param)`` gives the `Shard` of a parameter, None for ``Shard(0)``.
        mp_policy: in which dtypes it computes.
        offload_policy: `CPUOffloadPolicy` keeps the parts in the host's memory.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: not supported: give the mesh of the ranks that share parameters.

    Returns:
        `module`.

    Raises:
        ValueError: a list or dict of modules, which have no forward; a mesh of more than two dimensions.

    Example::

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters())
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError(
            "fully_shard: dp_mesh_dims is not supported, give mesh=mesh['dp']"
        )
    if not (reshard_after_forward is None or isinstance(reshard_after_forward, bool)):
        raise NotImplementedError(
            f"fully_shard: reshard_after_forward={reshard_after_forward!r} to fewer ranks is not supported: give True, "
            "False or None"
        )
    modules = list(module) if isinstance(module, list | tuple) else [module]
    _check(modules)
    mesh = mesh or _whole_world()
    if mesh.ndim > 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    policy, offload = mp_policy or MixedPrecisionPolicy(), offload_policy or OffloadPolicy()
    device = device_class(mesh.device_type)
    if device.type == "cuda":
        device = device_class("cuda", _current_device())
    ignored = {id(p) for p in ignored_params or ()}
    sites = _sites(modules, ignored)
    params = [_sharded(of, mesh, shard_placement_fn) for of in sites]
    group = ParamGroup(params, mesh, device, policy, offload) if params else None
    if group is not None and group.kept_on == "cpu":
        _keep_on_host(group)
    state = ShardState(modules, group, device, policy, reshard_after_forward)
    for one in modules:
        one.__dict__["_fsdp_state"] = state
        one.__class__ = _class_of(type(one))
    return module


def _current_device() -> int:
    return device_class("cuda").index or 0


def _check(modules: list[Any]) -> None:
    for one in modules:
        if type(one).forward is Module.forward:
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {one}"
            )
        if isinstance(one, FSDPModule):
            raise ValueError(f"fully_shard was called on this module before: {type(one).__name__}")


def _whole_world() -> DeviceMesh:
    if not c10d.is_initialized():
        c10d.init_process_group()
    kind = "cuda" if "nccl" in c10d.get_backend() else "cpu"
    return init_device_mesh(kind, (c10d.get_world_size(),))


def _sites(modules: list[Any], ignored: set[int]) -> list[tuple[Any, list[tuple[Any, str]]]]:
    """(parameter, places where it stands) of what no call before took."""
    found: dict[int, tuple[Any, list[tuple[Any, str]]]] = {}
    seen: set[int] = set()

    def visit(module: Any, top: bool) -> None:
        if id(module) in seen or (not top and isinstance(module, FSDPModule)):
            return
        seen.add(id(module))
        for name, param in module._parameters.items():
            if param is not None and id(param) not in ignored:
                if getattr(param, "_taken_by_fully_shard", False):
                    raise ValueError(
                        f"{type(module).__name__} shares its {name} with a module that is fully sharded already: give "
                        "both in one call, fully_shard([a, b]), or shard the module that has both"
                    )
                found.setdefault(id(param), (param, []))[1].append((module, name))
        for child in module.children():
            visit(child, False)

    for module in modules:
        visit(module, True)
    return list(found.values())


def _sharded(
    of: tuple[Any, list[tuple[Any, str]]], mesh: DeviceMesh, placement_of: Callable | None
) -> ShardedParam:
    param, sites = of
    placement = None if placement_of is None else placement_of(param)
    dim = 0 if placement is None else placement.dim
    if param.ndim == 0:
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {sites[0][1]} to a 1D tensor with numel equal to 1."
        )
    made = ShardedParam(param, sites, mesh, dim + param.ndim if dim < 0 else dim)
    param._taken_by_fully_shard = True  # other modules that share it would part from it unseen
    return made


def _keep_on_host(group: ParamGroup) -> None:
    for p in group.params:
        if not p.sharded.is_meta:
            p.sharded.data = p.sharded.data.cpu()


def _class_of(cls: type) -> type:
    if cls not in _classes:
        _classes[cls] = type(
            f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__}
        )
    return _classes[cls]


class FSDPModule:
    """What a module has more after `fully_shard`: when it gathers, frees and reduces can be told.

    Example::

        isinstance(fully_shard(model), FSDPModule)
        # True
    """

    _fsdp_state: ShardState

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new module of the class before: that of the object is not sharded."""
        original = cls.__mro__[2]
        made = original.__new__(original, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    def _states(self, recurse: bool = True) -> list[ShardState]:
        modules: Iterable[Any] = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        found = [m._fsdp_state for m in modules if isinstance(m, FSDPModule)]
        return list(dict.fromkeys(found))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        for state in self._states():
            state.reshard()
        return super()._apply(fn, recurse)  # type: ignore[misc]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the module's own parameters, as its forward does.

        Args:
            async_op: only begin to; the handle's ``wait()`` has them.
        """
        self._fsdp_state._begin()
        group = self._fsdp_state.group
        if group is not None:
            group.unshard()
        handle = UnshardHandle(group)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Free the module's own whole parameters: `parameters()` gives the parts."""
        self._fsdp_state.reshard()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward sums gradients over the ranks; without it they stay whole and add up.

        Args:
            requires_gradient_sync: False for all but the last of several backwards that one step takes together.
            recurse: also of the modules below.
        """
        for state in self._states(recurse):
            if state.group is not None:
                state.group.sync = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether backward sums gradients over replicas, on a mesh of two dimensions; without it only over shards.

        Args:
            requires_all_reduce: False for all but the last of several backwards.
            recurse: also of the modules below.
        """
        for state in self._states(recurse):
            if state.group is not None:
                state.group.sync_replicas = requires_all_reduce

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: each backward waits for its own sums when it ends."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether the whole parameters are freed between forward and backward.

        Args:
            reshard_after_forward: as for `fully_shard`.
            recurse: also of the modules below.
        """
        for state in self._states(recurse):
            state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether the whole parameters are freed after backward.

        Args:
            reshard_after_backward: False saves gathering them for the next forward, where the optimizer does not step.
            recurse: also of the modules below.
        """
        for state in self._states(recurse):
            state.reshard_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: backward gathers parameters where they are not whole."""
        self._fsdp_state.unshard_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """The modules whose parameters begin to be gathered when this one's are there in forward.

        Args:
            modules: that forward runs next, in their order.
        """
        self._fsdp_state.forward_prefetch = [m._fsdp_state for m in modules]

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """The same for backward; by default it is the module that ran before this one.

        Args:
            modules: that backward runs next, in their order.
        """
        self._fsdp_state.backward_prefetch = [m._fsdp_state for m in modules]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what the sum of gradients is divided, instead of the number of ranks.

        Args:
            factor: 1.0 for the sum.
        """
        if self._fsdp_state.group is not None:
            self._fsdp_state.group.divide_by = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: gradients are always summed, and divided afterwards."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: the engine's memory is used."""


class UnshardHandle:
    """Of parameters that ``unshard(async_op=True)`` began to gather.

    Example::

        handle = model.unshard(async_op=True)
        handle.wait()
    """

    def __init__(self, group: ParamGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Wait until the parameters are whole."""
        if self._group is not None:
            self._group.wait()
            self._group = None


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let a method gather and free parameters as forward does.

    Args:
        module: a module that is fully sharded; others are left as they are.
        method_name: such as "generate".

    Raises:
        ValueError: the module has no such method.

    Example::

        register_fsdp_forward_method(model, "encode")
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(type(module), method_name)
    state = module._fsdp_state

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found = state._before_forward(module, args, kwargs)
        args, kwargs = found or (args, kwargs)
        return state._after_forward(module, args, method(module, *args, **kwargs))

    module.__dict__[method_name] = wrapped


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Accepted: all modules of a job use the streams of their device.

    Args:
        modules: them.
    """
