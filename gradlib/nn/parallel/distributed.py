"""DistributedDataParallel: one process for each part of a batch, gradients averaged while backward runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from ..._refused import refuse
from ...autograd.grad_mode import no_grad
from ...distributed import _world as world
from ...distributed import collectives
from ...distributed._agreement import broadcast_together, check_parameters, verify_parameters
from ...distributed._buckets import FIRST_BUCKET_BYTES
from ...distributed._reducer import Reducer
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...operators import public as ops
from ...profiler import record_function
from ...tape import pytree
from ...tape.modes import is_grad_enabled
from ...tape.tensor import Tensor
from ..modules.module import Module
from ..parameter import is_lazy
from ..utils.stateless import functional_call
from ._ddp_parts import (
    BuiltinCommHookType,
    DelayedReduction,
    _MixedPrecision,
    builtin_hook,
    cast_floating,
    check_hook,
    devices_of,
    group_of,
    logging_data,
    reduction_limits,
    sparse_weights,
    tensors_in,
    warn_of_deprecated,
)

__all__ = ["DistributedDataParallel"]
__getattr__ = refuse(__name__)


class _DDPJoinHook(JoinHook):
    """What a rank without inputs does for a DistributedDataParallel."""

    def __init__(self, ddp: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        self.ddp = ddp
        ddp._divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self) -> None:
        """The collectives of one forward and backward, with gradients of zero."""
        ddp = self.ddp
        if ddp.will_sync_module_buffers():
            ddp._sync_buffers(with_inputs=False)
        averages = ddp._anyone_averages(with_inputs=False)
        ddp.require_forward_param_sync = averages
        if averages:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over the model of a rank that had inputs to the end."""
        self.ddp._sync_final_model(is_last_joiner)


class DistributedDataParallel(Module, Joinable):
    """Runs a module in each process on its own part of the batch, and averages the gradients of all.

    At construction the processes compare their parameters and take over those of rank 0. From then on every backward
    pass averages gradients, in buckets: a bucket goes out as soon as its gradients are known, while others are still
    computed. After the same optimizer steps all processes have the same bits.

    The engine knows before it runs which parameters a backward pass reaches: `find_unused_parameters` is not needed.
    The gradient of an embedding with ``sparse=True`` stays sparse: each rank gives the rows that it has.
    A parameter that gets no gradient on this rank counts as zero where another rank has one, and a warning says where
    its path is cut, once; where no rank has one, its ``.grad`` stays as it is.

    Args:
        module: what runs; its parameters have the same names, shapes and dtypes on all ranks.
        device_ids: one CUDA device, to which inputs are moved; None for modules on the CPU or on several devices.
        output_device: kept; outputs are where the module leaves them.
        dim: kept.
        broadcast_buffers: older name of `forward_sync_buffers`; False also leaves buffers as they are at construction.
        init_sync: compare parameters, and take over those of rank 0, at construction.
        process_group: whose ranks; all if None.
        bucket_cap_mb: size of a bucket in MiB, 25 if None; the first one is 1 MiB unless a size is given.
        find_unused_parameters: say that parameters without gradient are meant: no warning; buckets stay as they are.
        check_reduction: not used any more.
        gradient_as_bucket_view: let ``.grad`` be parts of the buckets: saves memory, and a copy.
        static_graph: say that the graph never changes: no warning on parameters without gradient.
        delay_all_reduce_named_params: (name, parameter) pairs that are averaged together, once the gradient of
            `param_to_hook_all_reduce` is known.
        param_to_hook_all_reduce: see there.
        mixed_precision: dtypes of parameters in forward, of gradients when they are reduced, and of buffers.
        device_mesh: a mesh of one dimension, in place of `process_group`.
        skip_all_reduce_unused_params: leave out for good what gets no gradient in the first pass.
        bucket_cap_mb_list: sizes in MiB of the first bucket, the second...; the last one holds for all others.
        batched_grad_copy: accepted; copies are made as gradients arrive.
        forward_sync_buffers: take over the buffers of rank 0 before each forward; True if None.
        check_every: compare hashes of all parameters every so many steps, and name the first that differs; 0 never
            does. See `gradlib.distributed.check_parameters`.

    Attributes:
        module: the module.

    Raises:
        RuntimeError: no parameter requires grad; or parameters differ between ranks: all ranks say which.
        ValueError: devices that do not fit.

    Example::

        distributed.init_process_group("gloo")
        model = DistributedDataParallel(net)
        for x, y in batches:  # of this rank: see DistributedSampler
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Sequence[tuple[str, Tensor]] | None = None,
        param_to_hook_all_reduce: Tensor | None = None,
        mixed_precision: _MixedPrecision | None = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
        check_every: int = 0,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        self.process_group = group_of(process_group, device_mesh)
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError(
                "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time."
            )
        warn_of_deprecated(broadcast_buffers, check_reduction, forward_sync_buffers)
        self.module, self.dim = module, dim
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._delayed_names = [name for name, _ in delay_all_reduce_named_params or ()]
        ignored = self.parameters_to_ignore | set(self._delayed_names)
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        if any(is_lazy(p) for _, p in module.named_parameters()):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy "
                "forward pass to correctly initialize the modules"
            )
        self.device, self.device_ids, self.output_device = devices_of(
            module, device_ids, output_device
        )
        self._named = [(n, p) for n, p in named if n not in ignored]
        init_buffers = broadcast_buffers is not False or forward_sync_buffers is not None
        if forward_sync_buffers is None:
            forward_sync_buffers = broadcast_buffers is not False
        self.forward_sync_buffers = self.broadcast_buffers = forward_sync_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.skip_all_reduce_unused_params = skip_all_reduce_unused_params
        self.mixed_precision = mixed_precision
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.bucket_bytes_cap_default = bucket_cap_mb is None
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * 1024 * 1024)
        self.bucket_cap_mb_list = bucket_cap_mb_list
        if check_every < 0:
            raise ValueError(f"check_every must be 0 or more steps, but got {check_every}")
        self.check_every, self._steps = check_every, 0
        self._divide_by_initial_world_size = True
        self._buffers_to_sync = [
            b for n, b in module.named_buffers() if n not in self.parameters_to_ignore
        ]
        if init_sync:
            verify_parameters([p for _, p in named], [n for n, _ in named], self.process_group)
            self._sync_module_states(buffers=init_buffers)
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            for buffer in self._buffers_to_sync:
                if buffer.is_floating_point():
                    buffer.data = buffer.data.to(mixed_precision.buffer_dtype)
        self._build_reducer()
        self._delayed = None
        if delay_all_reduce_named_params and param_to_hook_all_reduce is not None:
            delayed = [param for _, param in delay_all_reduce_named_params]
            self._delayed = DelayedReduction(
                delayed, param_to_hook_all_reduce, self.process_group, self.reducer
            )

    def _build_reducer(self) -> None:
        if not self._named:
            raise NotImplementedError(
                "DistributedDataParallel: all parameters are ignored or delayed: leave one of them to its buckets"
            )
        first, later = reduction_limits(
            None if self.bucket_bytes_cap_default else self.bucket_bytes_cap,
            self.bucket_cap_mb_list,
            FIRST_BUCKET_BYTES,
        )
        whole = self.bucket_cap_mb_list is None and (
            self.static_graph or not self.find_unused_parameters
        )
        thin = sparse_weights(self.module)
        self.reducer = Reducer(
            [p for _, p in self._named],
            [n for n, _ in self._named],
            self.process_group,
            limits=later,
            first_limits=[sys.maxsize] if whole else first,
            rebuild=self.static_graph or not self.find_unused_parameters,
            views=self.gradient_as_bucket_view,
            dtype=None if self.mixed_precision is None else self.mixed_precision.reduce_dtype,
            skip_unused=self.skip_all_reduce_unused_params,
            sparse=[i for i, (_, p) in enumerate(self._named) if id(p) in thin],
        )
        self.reducer.explain = not (self.find_unused_parameters or self.static_graph)

    # -- forward -------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """inputs: what the module takes, of this rank -> what it returns."""
        with record_function("DistributedDataParallel.forward"):
            inputs, kwargs = self._pre_forward(*inputs, **kwargs)
            return self._post_forward(self._run_ddp_forward(*inputs, **kwargs))

    def _pre_forward(self, *inputs: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        averaging = is_grad_enabled() and self.require_backward_grad_sync
        if averaging:
            self.reducer.prepare()
        work = Join.notify_join_context(self)
        self.reducer.divisor = self.process_group.size()
        if work is not None and not self._divide_by_initial_world_size:
            work.wait()
            self.reducer.divisor = float(work.result()[0].item())
        elif work is not None:
            work.wait()
        if averaging and self.check_every:
            if self._steps and self._steps % self.check_every == 0 and work is None:
                check_parameters(self.module, self._steps, self.process_group)
            self._steps += 1
        if self.will_sync_module_buffers():
            self._sync_buffers()
        if self._join_config.enable:
            self._anyone_averages(averaging)
        if self.device_ids:
            inputs, kwargs = pytree.tree_map(self._moved, (inputs, kwargs))
        if self.mixed_precision is not None and self.mixed_precision.param_dtype is not None:
            inputs, kwargs = cast_floating((inputs, kwargs), self.mixed_precision.param_dtype)
        return inputs, kwargs

    def _run_ddp_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        dtype = None if self.mixed_precision is None else self.mixed_precision.param_dtype
        if dtype is None:
            return self.module(*inputs, **kwargs)
        # casts are recorded: gradients arrive at the parameters themselves, in their dtype
        low = {n: p.to(dtype) for n, p in self.module.named_parameters() if p.is_floating_point()}
        return functional_call(self.module, low, inputs, kwargs)

    def _post_forward(self, output: Any) -> Any:
        self.require_forward_param_sync = is_grad_enabled() and self.require_backward_grad_sync
        if self.require_forward_param_sync:
            self.reducer.listen(tensors_in(output))
        return output

    def _moved(self, value: Any) -> Any:
        return value.to(self.device) if isinstance(value, Tensor) else value

    @contextmanager
    def no_sync(self) -> Generator[None]:
        """A context without averages: gradients of forwards in it add up, on each rank its own.

        The next backward pass of a forward outside of it averages the sums.

        Example::

            with model.no_sync():
                for x, y in batches[:-1]:
                    loss(model(x), y).backward()
            loss(model(*batches[-1])).backward()  # averages all
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # -- the same on all ranks -----------------------------------------------------------------------------------

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward takes over the buffers of rank 0.

        Returns:
            False without buffers, with ``forward_sync_buffers=False``, and after a forward that averages nothing.
        """
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and len(self._current_buffers()) > 0
        )

    def _current_buffers(self) -> list[Tensor]:
        """The buffers, of which a module may have made new ones since."""
        if not self._buffers_to_sync:
            return []
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def _sync_buffers(self, with_inputs: bool = True) -> None:
        root = self._find_common_rank(with_inputs) if self._join_config.enable else 0
        broadcast_together(self._current_buffers(), self.process_group, root)

    def _sync_module_states(self, root: int = 0, buffers: bool = True) -> None:
        params = [
            p for n, p in self.module.named_parameters() if n not in self.parameters_to_ignore
        ]
        found = [*params, *(self._current_buffers() if buffers else ())]
        broadcast_together(found, self.process_group, root)

    def _find_common_rank(self, candidate: bool) -> int:
        """The highest rank among those that stand for it."""
        rank = ops.tensor([self.process_group.rank() if candidate else -1], device=self.join_device)
        collectives.all_reduce(rank, op=collectives.ReduceOp.MAX, group=self.process_group)
        root = int(rank.item())
        if root < 0:
            raise RuntimeError("BUG! Expected rank_cond to be true for at least one process.")
        return root

    # -- uneven inputs -------------------------------------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context in which ranks may have different numbers of inputs.

        Args:
            divide_by_initial_world_size: divide sums of gradients by the number of all ranks; False divides by that of
                the ranks that still have inputs.
            enable: False for a context that does nothing.
            throw_on_early_termination: raise on all ranks as soon as one has no more inputs.

        Raises:
            RuntimeError: a rank has no more inputs, with `throw_on_early_termination`.

        Example::

            with model.join():
                for x, y in batches:
                    optimizer.zero_grad()
                    loss(model(x), y).backward()
                    optimizer.step()
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this rank does while others have inputs and it has not.

        Args:
            kwargs: ``divide_by_initial_world_size``, see `join`.
        """
        return _DDPJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """The device of the parameters.

        Returns:
            A device: tensors that `Join` reduces are there.
        """
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group whose ranks average.

        Returns:
            A ProcessGroup.
        """
        return self.process_group

    def _anyone_averages(self, with_inputs: bool) -> bool:
        """Whether the backward pass of this iteration averages gradients, on the ranks that have one."""
        flag = ops.tensor([float(with_inputs)], device=self.join_device)
        collectives.all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    def _sync_final_model(self, is_last_joiner: bool) -> None:
        self._sync_module_states(root=self._find_common_rank(is_last_joiner))

    # -- how gradients are averaged ------------------------------------------------------------------------------

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let a function reduce the buckets, in place of the average.

        Args:
            state: given to each call.
            hook: ``hook(state, bucket)`` gets a ``GradBucket`` and returns a Future of a tensor like its buffer, which
                becomes the gradients: it divides by the number of ranks itself.

        Raises:
            TypeError: the hook cannot be called.
            ValueError: it is annotated for something else.
            RuntimeError: there is one already.
            NotImplementedError: the module has embeddings with sparse gradients.

        Example::

            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        """
        check_hook(hook)
        if self.reducer.sparse:
            raise NotImplementedError(
                "communication hooks are given dense buckets, but the module has embeddings with sparse=True: make "
                "them with sparse=False"
            )
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        """Reduce by one of the two hooks that PyTorch has written in C++."""
        self.register_comm_hook(self.process_group, builtin_hook(comm_hook_type))

    def _set_static_graph(self) -> None:
        """Say that the graph never changes, as the argument does."""
        self.static_graph = True
        self.reducer.explain = False

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        """Leave parameters and buffers of these names alone, in a module that is not wrapped yet."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)  # pyright: ignore[reportAttributeAccessIssue]

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Facts on the buckets and the hook, by PyTorch's names."""
        return logging_data(self)

    # -- copies --------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.process_group is not world.group.WORLD:
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, "
                "when you have called init_process_group and have not passed process_group argument to DDP constructor"
            )
        state: dict[str, Any] = dict(vars(self))
        for name in ("process_group", "reducer", "_delayed"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The copy belongs to the group of all ranks of the process that makes it."""
        super().__setstate__(state)
        self.process_group = world._get_default_group()
        named = dict(self.module.named_parameters())
        self._named = [(n, named[n]) for n, _ in self._named]
        self._delayed = None
        with no_grad():
            self._build_reducer()
