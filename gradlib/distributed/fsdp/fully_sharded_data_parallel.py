"""`FullyShardedDataParallel`: the older name of `fully_shard`, as a module around a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ...nn.utils.clip_grad import clip_grad_norm_
from ...tape.device import device as device_class
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import DTensor
from ..tensor._layout import part
from ._fully_shard import fully_shard
from ._optim_state import full_or_parts, optimizer_state, optimizer_state_to_load
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy
from ._state import ShardState
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import wrap_below

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

INNER = "_fsdp_wrapped_module"
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_STAYS = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(Module):
    """A module of which each rank keeps a part of the parameters; new programs use `fully_shard`.

    Args:
        module: it is sharded in place, its submodules as `auto_wrap_policy` says.
        process_group: the ranks that share; by default all. For hybrid strategies give `device_mesh`.
        sharding_strategy: by default FULL_SHARD.
        cpu_offload: whether parts are kept in the host's memory.
        auto_wrap_policy: which submodules are wrapped, too; see ``distributed.fsdp.wrap``.
        backward_prefetch, forward_prefetch, limit_all_gathers: accepted; see `BackwardPrefetch`.
        mixed_precision: in which dtypes it computes.
        ignored_modules, ignored_states: modules and parameters that stay as they are.
        param_init_fn: called with each submodule that has parameters on the meta device: it is to make them.
        device_id: where the module goes before.
        sync_module_states: begin with the values of rank 0.
        use_orig_params: accepted: parameters always are the module's own, as DTensors.
        device_mesh: the ranks as a mesh, of two dimensions for hybrid strategies.

    Raises:
        NotImplementedError: ShardingStrategy.NO_SHARD; gradients of low precision.

    Example::

        model = FullyShardedDataParallel(model, auto_wrap_policy={Block})
        optimizer = torch.optim.Adam(model.parameters())
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if strategy is ShardingStrategy.NO_SHARD:
            raise NotImplementedError(
                "FullyShardedDataParallel: ShardingStrategy.NO_SHARD is not supported, use DistributedDataParallel"
            )
        precision = mixed_precision or MixedPrecision()
        if precision.keep_low_precision_grads:
            raise NotImplementedError(
                "FullyShardedDataParallel: keep_low_precision_grads is not supported, gradients have the dtype of the "
                "parameters"
            )
        mesh = _mesh(process_group, device_mesh, strategy, module)
        ignored = _ignored(ignored_modules, ignored_states)
        _make_ready(module, mesh, param_init_fn, device_id, sync_module_states)
        shared: dict[str, Any] = {
            "sharding_strategy": strategy, "cpu_offload": cpu_offload, "mixed_precision": mixed_precision,
            "ignored_states": ignored, "device_mesh": mesh,
        }  # fmt: skip
        if auto_wrap_policy is not None:
            skipped = {id(m) for m in ignored_modules or ()}
            wrap_below(
                module,
                auto_wrap_policy,
                lambda child, **k: type(self)(child, **{**shared, **k}),
                skipped,
            )
        if precision.buffer_dtype is not None:
            _cast_buffers(module, precision.buffer_dtype)
        fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=False if strategy in _STAYS else None,
            mp_policy=MixedPrecisionPolicy(
                precision.param_dtype,
                precision.reduce_dtype or precision.param_dtype,
                cast_forward_inputs=precision.cast_forward_inputs
                or precision.cast_root_forward_inputs,
            ),
            offload_policy=CPUOffloadPolicy()
            if cpu_offload and cpu_offload.offload_params
            else None,
            ignored_params=ignored,
        )
        self.sharding_strategy, self.mixed_precision, self.cpu_offload = (
            strategy,
            precision,
            cpu_offload,
        )
        self._settings = StateDictSettings()
        self._summoned = False
        self._modules[INNER] = module
        self.register_load_state_dict_pre_hook(_entering)

    # -- as the module -------------------------------------------------------------------------------------------------

    @property
    def module(self) -> Module:
        """The wrapped module."""
        return self._modules[INNER]  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get(INNER)
            if inner is None:
                raise
            return getattr(inner, name)

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the wrapped module gives."""
        return self.module(*args, **kwargs)

    def _states(self) -> list[ShardState]:
        found = [m.__dict__.get("_fsdp_state") for m in self.modules()]
        return list(dict.fromkeys([state for state in found if state is not None]))

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrapped modules in a module, itself among them.

        Args:
            module: any module.
            root_only: leave out those inside others.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inside = {id(below) for m in found for below in m.module.modules()}
        return [m for m in found if not (root_only and id(m) in inside)]

    def check_is_root(self) -> bool:
        """Whether no other one is around it, as forward has found."""
        state = self.module.__dict__["_fsdp_state"]
        state._begin()
        return state.is_root

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names and parameters; within `summon_full_params` the names are those of the module alone."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield (clean(name) if self._summoned else name), param

    # -- training ------------------------------------------------------------------------------------------------------

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose backwards keep gradients whole, and do not sum them over the ranks.

        Example::

            with model.no_sync():
                loss(model(x)).backward()
            loss(model(y)).backward()  # sums both
        """
        groups = [state.group for state in self._states() if state.group is not None]
        before = [group.sync for group in groups]
        for group in groups:
            group.sync = False
        try:
            yield
        finally:
            for group, sync in zip(groups, before):
                group.sync = sync

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients in place so that their norm, over all ranks, is at most `max_norm`; the norm before.

        Args:
            max_norm: largest norm that is left alone.
            norm_type: the p of the norm; may be inf.
        """
        total = clip_grad_norm_(list(self.parameters()), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    def register_comm_hook(self, state: object, hook: Callable) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "FullyShardedDataParallel has no communication hooks: mixed_precision=MixedPrecision(reduce_dtype=...) "
            "sums gradients in another dtype"
        )

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A block in which parameters are whole; all ranks enter it.

        Args:
            module: with wrapped modules in it.
            recurse: also those inside others.
            writeback: keep what the block writes.
            rank0_only: accepted without `writeback`: all ranks have them.
            offload_to_cpu, with_grads: not supported.
        """
        if with_grads or offload_to_cpu:
            raise NotImplementedError(
                "summon_full_params: with_grads and offload_to_cpu are not supported"
            )
        if rank0_only and writeback:
            raise NotImplementedError("summon_full_params: rank0_only needs writeback=False")
        wrapped = FullyShardedDataParallel.fsdp_modules(module, root_only=not recurse)
        groups = [m.module.__dict__["_fsdp_state"].group for m in wrapped]
        groups = [group for group in groups if group is not None]
        for group in groups:
            group.unshard()
            group.wait()
        for m in wrapped:
            m._summoned = True
        try:
            yield
        finally:
            for m in wrapped:
                m._summoned = False
            for group in groups:
                if writeback:
                    _write_back(group)
                group.reshard()

    # -- state ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Say what ``state_dict()`` of all wrapped modules in a module gives.

        Args:
            module: with wrapped modules in it.
            state_dict_type: whole tensors or parts.
            state_dict_config: how they are made.
            optim_state_dict_config: the same for optimizers.

        Returns:
            What was said before.

        Raises:
            NotImplementedError: StateDictType.LOCAL_STATE_DICT.
        """
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("LOCAL_STATE_DICT is not supported, use SHARDED_STATE_DICT")
        new = StateDictSettings(
            state_dict_type,
            state_dict_config or FullStateDictConfig(),
            optim_state_dict_config or FullOptimStateDictConfig(),
        )
        before = StateDictSettings()
        for m in FullyShardedDataParallel.fsdp_modules(module):
            before, m._settings = m._settings, new
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What ``state_dict()`` of the wrapped modules in a module gives."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else StateDictSettings()

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """`set_state_dict_type` for a block."""
        change = FullyShardedDataParallel.set_state_dict_type
        before = change(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            change(
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The tensors of the module by its own names, as `set_state_dict_type` says; all ranks call it."""
        found = self.module.state_dict(*args, **kwargs)
        config = self._settings.state_dict_config
        prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
        full = self._settings.state_dict_type is StateDictType.FULL_STATE_DICT
        drop = full and getattr(config, "rank0_only", False) and c10d.get_rank() != 0
        for name in [name for name in found if name.startswith(prefix)]:
            value = full_or_parts(found[name], full, config.offload_to_cpu)
            if drop:
                del found[name]
            else:
                found[name] = value
        return found

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The state of an optimizer by the names of parameters: whole or parts; all ranks call it.

        Args:
            model: the wrapped model.
            optim: its optimizer.
            optim_state_dict: that of `optim`, if not its present one.
            group: accepted.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        config = settings.optim_state_dict_config
        names = {id(p): clean(name) for name, p in model.named_parameters()}
        found = optimizer_state(
            optim, optim_state_dict or optim.state_dict(), names, full, config.offload_to_cpu
        )
        return {} if full and getattr(config, "rank0_only", False) and c10d.get_rank() else found

    full_optim_state_dict = optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
        load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What `optim_state_dict` gave, as ``optim.load_state_dict`` takes it.

        Args:
            model: the wrapped model.
            optim: its optimizer.
            optim_state_dict: by names, whole or parts.
            is_named_optimizer, group: accepted.
            load_directly: load it, too.
        """
        names = {id(p): clean(name) for name, p in model.named_parameters()}
        found = optimizer_state_to_load(optim, optim_state_dict, names)
        if load_directly:
            optim.load_state_dict(found)
        return found


class OptimStateKeyType:
    """How the state of an optimizer is keyed; only by names here."""

    PARAM_NAME, PARAM_ID = 1, 2


def clean(name: str) -> str:
    """The name of a parameter without those of wrappers."""
    return name.replace(f"{INNER}.", "")


def _mesh(
    group: Any, mesh: DeviceMesh | None, strategy: ShardingStrategy, module: Module
) -> DeviceMesh | None:
    if strategy in _HYBRID and (mesh is None or mesh.ndim != 2):
        raise ValueError(
            f"{strategy} needs device_mesh with two dimensions, (replicas, shards): init_device_mesh(device, (n, m))"
        )
    if mesh is not None or group is None:
        return mesh
    kind = "cuda" if "nccl" in c10d.get_backend(group) else "cpu"
    return DeviceMesh.from_group(group, kind)


def _ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> set[Any]:
    found = {p for m in modules or () for p in m.parameters()}
    for state in states or ():
        found |= set(state.parameters()) if isinstance(state, Module) else {state}
    return found


@no_grad()
def _make_ready(
    module: Module, mesh: DeviceMesh | None, make: Any, device_id: Any, sync: bool
) -> None:
    """Make parameters that are on the meta device, move the module, and begin with the values of rank 0."""
    if make is not None:
        for below in list(module.modules()):
            if any(p is not None and p.is_meta for p in below._parameters.values()):
                make(below)
    if device_id is not None:
        module.to(
            device_class("cuda", device_id)
            if isinstance(device_id, int)
            else device_class(device_id)
        )
    if sync:
        groups = [None] if mesh is None else mesh.get_all_groups()
        for tensor in (*module.parameters(), *module.buffers()):
            if isinstance(tensor, DTensor):
                continue  # of a module that was wrapped before
            for group in groups:
                source = 0 if group is None else c10d.get_global_rank(group, 0)
                c10d.broadcast(tensor.detach(), source, group=group)


def _cast_buffers(module: Module, dtype: Any) -> None:
    for below in module.modules():
        for name, buffer in below._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                below._buffers[name] = buffer.to(dtype)


@no_grad()
def _write_back(group: Any) -> None:
    for p in group.params:
        begin, end = part(p.length, p.ranks, p.rank)
        whole = Tensor._alias(p.whole)
        Tensor._alias(p.sharded).copy_(whole.narrow(p.dim, begin, end - begin))


def _entering(module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before it loads: names of the wrapped module become those below it, and whole tensors parts."""
    module.module.reshard()
    inner = f"{prefix}{INNER}."
    for name in [n for n in state_dict if n.startswith(prefix) and not n.startswith(inner)]:
        state_dict[inner + name[len(prefix) :]] = state_dict.pop(name)
    names = {id(m): name for name, m in module.module.named_modules()}
    group = module.module.__dict__["_fsdp_state"].group
    for p in () if group is None else group.params:
        for site, name in p.sites:
            path = names.get(id(site), "")
            key = f"{inner}{clean(f'{path}.') if path else ''}{name}"
            value = state_dict.get(key)
            if value is not None and not isinstance(value, DTensor):
                state_dict[key] = full_or_parts(value, False, False, p.sharded)
