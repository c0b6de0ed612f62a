"""Smaller parts of DistributedDataParallel."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from ...autograd.grad_mode import no_grad
from ...distributed import _world as world
from ...distributed import collectives
from ...distributed._buckets import GradBucket
from ...distributed._reducer import Reducer
from ...distributed.algorithms.ddp_comm_hooks import default_hooks
from ...futures import Future
from ...operators import public as ops
from ...tape import engine, pytree
from ...tape.source import user_level
from ...tape.tensor import Tensor
from ..modules.module import Module
from ..modules.sparse import Embedding, EmbeddingBag
from .scatter_gather import device_of

__all__ = [
    "BuiltinCommHookType",
    "DelayedReduction",
    "builtin_hook",
    "cast_floating",
    "check_hook",
    "devices_of",
    "group_of",
    "logging_data",
    "reduction_limits",
    "sparse_weights",
    "tensors_in",
    "warn_of_deprecated",
]

MIB = 1024 * 1024


@dataclasses.dataclass
class _MixedPrecision:
    """Dtypes of a DistributedDataParallel; None leaves them as they are.

    Args:
        param_dtype: of parameters and inputs in forward and backward.
        reduce_dtype: of gradients while they are averaged.
        buffer_dtype: of buffers, for good.

    Example:
        >>> _MixedPrecision(param_dtype=gradlib.bfloat16).reduce_dtype is None
        True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


class BuiltinCommHookType(Enum):
    """Hooks that ``_register_builtin_comm_hook`` knows."""

    ALLREDUCE = 1
    FP16_COMPRESS = 2


def builtin_hook(kind: Any) -> Callable[..., Any]:
    """The hook of this kind; it is known by its name."""
    hooks = {
        "ALLREDUCE": default_hooks.allreduce_hook,
        "FP16_COMPRESS": default_hooks.fp16_compress_hook,
    }
    return hooks[kind.name]


def check_hook(hook: Any) -> None:
    """The errors for what cannot be a communication hook."""
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    given = inspect.Parameter.empty if bucket is None else bucket.annotation
    if given not in (inspect.Parameter.empty, GradBucket) and "GradBucket" not in str(given):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    result = signature.return_annotation
    if result is not inspect.Signature.empty and not (
        getattr(result, "__origin__", result) is Future or "Future" in str(result)
    ):
        raise ValueError(
            "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
        )


def group_of(process_group: Any, device_mesh: Any) -> Any:
    """The group to average over.

    Raises:
        RuntimeError: both are given, or a mesh of several dimensions.
    """
    if process_group is not None and device_mesh is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh is not None:
        if device_mesh.ndim != 1:
            raise RuntimeError(
                f"Only 1D device mesh is supported, but got {device_mesh}: slice one of its dimensions out of it."
            )
        return device_mesh.get_group(mesh_dim=0)
    return world._get_default_group() if process_group is None else process_group


def warn_of_deprecated(
    broadcast_buffers: bool | None, check_reduction: bool, forward_sync_buffers: bool | None
) -> None:
    """The warnings for arguments that have newer names or no use."""
    level = user_level()
    if broadcast_buffers is not None and forward_sync_buffers is not None:
        warnings.warn(
            "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and "
            "its value is ignored when `forward_sync_buffers` is provided.",
            FutureWarning,
            stacklevel=level,
        )
    elif broadcast_buffers is not None:
        warnings.warn(
            "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead; but where buffers must stay as "
            "they are at construction, too, keep `broadcast_buffers=False`.",
            FutureWarning,
            stacklevel=level,
        )
    if check_reduction:
        warnings.warn(
            "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.",
            FutureWarning,
            stacklevel=level,
        )


def devices_of(
    module: Module, device_ids: Sequence[Any] | None, output_device: Any
) -> tuple[Any, list[Any] | None, Any]:
    """The device of a module's parameters, and the arguments that name it, checked.

    Raises:
        ValueError: they do not fit each other.
    """
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    places = {p.device for p in module.parameters()}
    kinds = {p.type for p in places}
    if len(kinds) != 1:
        raise ValueError(
            "DistributedDataParallel's input module must be on the same type of devices, but input module parameters "
            f"locate in {kinds}."
        )
    first = next(p.device for p in module.parameters())
    if not device_ids or kinds == {"cpu"} or len(places) > 1:
        if device_ids or (output_device is not None and device_ids):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
                f"multiple-device GPU modules or CPU modules, but got device_ids {list(device_ids)}, output_device "
                f"{output_device}, and module parameters {places}."
            )
        return first, None, None
    place = device_of(device_ids[0])
    out = place if output_device is None else device_of(output_device)
    return place, [place.index], out.index


def reduction_limits(
    cap: int | None, caps: list[int] | None, first: int
) -> tuple[list[int], list[int]]:
    """Bytes of buckets before and after the order of gradients is known."""
    if caps:
        limits = [int(mib * MIB) for mib in caps]
    elif cap is None:
        limits = [first, 25 * MIB]
    else:
        limits = [cap]
    return limits, limits


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists, sets, dicts and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from tensors_in(entry)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for entry in value:
            yield from tensors_in(entry)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors_in(getattr(value, field.name, None))


def sparse_weights(module: Module) -> set[int]:
    """The ids of the parameters in a module with sparse gradients: weights of embeddings that were asked for it."""
    found = [m for m in module.modules() if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse]
    return {id(m.weight) for m in found}


def cast_floating(value: Any, dtype: Any) -> Any:
    """A nested value whose floating point tensors have another dtype."""

    def cast(leaf: Any) -> Any:
        floating = isinstance(leaf, Tensor) and leaf.is_floating_point()
        return leaf.to(dtype) if floating else leaf

    return pytree.tree_map(cast, value)


class DelayedReduction:
    """Averages the gradients of some parameters together, once that of another one is known.

    Args:
        params: whose gradients are averaged.
        trigger: the parameter that says when.
        group: over whose ranks.
        reducer: of all other parameters; it knows whether this backward pass averages.
    """

    def __init__(
        self, params: Sequence[Tensor], trigger: Tensor, group: Any, reducer: Reducer
    ) -> None:
        self.params, self.group, self.reducer = list(params), group, reducer
        self.averaging = False
        ref = weakref.ref(self)

        def triggered(_: Tensor) -> None:
            delayed = ref()
            if delayed is not None and (reducer.current is not None or reducer.expected):
                delayed.start()

        trigger.register_post_accumulate_grad_hook(triggered)

    def start(self) -> None:
        """Send the gradients; they are written when the backward pass is over."""
        with no_grad():
            grads = [ops.zeros_like(p) if p._grad is None else p._grad for p in self.params]
            flat = ops.cat([g.reshape(-1) for g in grads]).div_(self.reducer.divisor)
        work = collectives.all_reduce(flat, group=self.group, async_op=True)
        assert work is not None

        def finish() -> None:
            work.wait()
            with no_grad():
                for param, part in zip(self.params, flat.split([g.numel() for g in grads])):
                    if param._grad is None:
                        param.grad = part.view(param.shape).clone()
                    else:
                        param._grad.copy_(part.view(param.shape))

        engine.queue_callback(finish)


def logging_data(ddp: Any) -> dict[str, Any]:
    """Facts on the buckets and the hook of a DistributedDataParallel, by PyTorch's names."""
    reducer: Reducer = ddp.reducer
    sizes = ", ".join(str(b.flat.numel() * b.flat.element_size()) for b in reducer.buckets)
    hook = reducer.hook
    data = {
        "bucket_cap_bytes": ddp.bucket_bytes_cap,
        "bucket_sizes": sizes,
        "broadcast_buffers": int(ddp.broadcast_buffers),
        "comm_hook": "" if hook is None else getattr(hook, "__qualname__", type(hook).__name__),
        "find_unused_parameters": int(ddp.find_unused_parameters),
        "gradient_as_bucket_view": int(ddp.gradient_as_bucket_view),
        "has_rebuilt_buckets": int(reducer.rebuild and reducer.arrivals is None),
        "iteration": reducer.passes,
        "module_name": type(ddp.module).__name__,
        "num_parameter_tensors": len(reducer.params),
        "rank": ddp.process_group.rank(),
        "static_graph": int(ddp.static_graph),
        "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in reducer.params),
        "unused_parameter_size": sum(reducer.params[i].numel() for i in reducer.unused),
        "world_size": ddp.process_group.size(),
    }
    return data
