"""Making DTensors: from a whole tensor, or from nothing; and the parameters of a module into DTensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ...operators import public as ops
from ...tape.device import device as device_class
from ...tape.sizes import Size
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from ..device_mesh import DeviceMesh, current_mesh
from ._dtensor import DTensor, wrap
from ._layout import Layout, checked
from ._redistribute import redistribute
from ._special import filled
from ._split import REPLICATE
from .placement_types import Placement

__all__ = [
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A DTensor of a whole tensor: each rank keeps its part; all ranks of the mesh call it.

    Args:
        tensor: the same shape on all ranks; a leaf.
        device_mesh: the mesh; by default that of the `with` block around.
        placements: what each rank gets, for each dimension of the mesh; by default all the whole.
        src_data_rank: whose values count, by its place along each dimension of the mesh; None if all ranks have the
            same, which saves the exchange.

    Returns:
        A DTensor with its part in memory of its own. It requires grad if `tensor` does.

    Raises:
        RuntimeError: `tensor` is the result of an op that is recorded.
        ValueError: not as many placements as the mesh has dimensions.

    Example::

        mesh = init_device_mesh("cpu", (2,))
        distribute_tensor(torch.arange(4.0), mesh, [Shard(0)]).to_local()
        # tensor([0., 1.])
    """
    mesh = device_mesh or current_mesh()
    placed = checked(placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh or tensor.placements != placed:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} on {tensor.device_mesh} to "
                f"{placed} on {mesh}: use redistribute"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!"
        )
    if any(p.is_partial() for p in placed):
        raise RuntimeError("distribute_tensor makes shards and replicas, got Partial")
    local = tensor.detach()
    if mesh.get_coordinate() is not None and not tensor.is_meta:
        local = _part_of(local.to(mesh.device_type), mesh, placed, src_data_rank)
    elif tensor.is_meta:
        shape = Layout(mesh, placed, tensor.shape).local_shape()
        local = ops.empty(shape, dtype=tensor.dtype, device="meta")
    made = wrap(local, Layout(mesh, placed, tensor.shape))
    made.requires_grad_(tensor.requires_grad)
    return made


def _part_of(whole: Tensor, mesh: DeviceMesh, placed: tuple, source: int | None) -> Tensor:
    whole = whole.contiguous().clone()
    for i in range(mesh.ndim):
        if source is not None and mesh.size(i) > 1:
            group = mesh.get_group(i)
            c10d.broadcast(whole, c10d.get_global_rank(group, source), group=group)
    everywhere = Layout(mesh, (REPLICATE,) * mesh.ndim, whole.shape)
    return redistribute(whole, everywhere, placed)


# -- from nothing ------------------------------------------------------------------------------------------------------


def _layout(size: tuple, mesh: DeviceMesh | None, placements: Any) -> Layout:
    mesh = mesh or current_mesh()
    shape = Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    placed = checked(placements, mesh, len(shape))
    if any(p.is_partial() for p in placed):
        raise ValueError("a new DTensor has shards and replicas, got Partial")
    return Layout(mesh, placed, shape)


def _made(
    make: Callable[..., Tensor],
    size: tuple,
    mesh: DeviceMesh | None,
    placements: Any,
    requires_grad: bool,
    **kwargs: Any,
) -> DTensor:
    layout = _layout(size, mesh, placements)
    device = layout.mesh.device_type
    made = wrap(make(layout.local_shape(), device=device, **kwargs), layout)
    made.requires_grad_(requires_grad)
    return made


def _drawn(
    make: Callable[..., Tensor],
    size: tuple,
    mesh: DeviceMesh | None,
    placements: Any,
    requires_grad: bool,
    **kwargs: Any,
) -> DTensor:
    layout = _layout(size, mesh, placements)
    device = device_class(layout.mesh.device_type)
    made = filled(layout, device, lambda: make(layout.shape, device=device, **kwargs))
    made.requires_grad_(requires_grad)
    return made


_ARGS = """

    Args:
        size: the shape of the whole: integers, or one sequence of them.{more}
        dtype: by default the default dtype.
        layout: accepted: all tensors are strided.
        requires_grad: whether gradients are accumulated into `.grad`.
        device_mesh: the mesh; by default that of the `with` block around.
        placements: what each rank has, for each dimension of the mesh; by default all the whole.

    Returns:
        A DTensor.

    Example::

        torch.distributed.tensor.{call}, device_mesh=mesh, placements=[Shard(0)]).to_local().shape
        # torch.Size([2, 3])
    """


def _factory(name: str, make: Callable[..., Tensor], says: str, how: Callable[..., DTensor]) -> Any:
    def factory(
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        return how(make, size, device_mesh, placements, requires_grad, dtype=dtype)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = says + _ARGS.format(more="", call=f"{name}(4, 3")
    return factory


_SAME = (
    " The numbers are those that one process draws, cut: they do not depend on the number of ranks."
)
zeros = _factory("zeros", ops.zeros, "A DTensor of zeros.", _made)
ones = _factory("ones", ops.ones, "A DTensor of ones.", _made)
empty = _factory("empty", ops.empty, "A DTensor whose values are not set.", _made)
rand = _factory("rand", ops.rand, f"A DTensor of numbers from [0, 1).{_SAME}", _drawn)
randn = _factory("randn", ops.randn, f"A DTensor of standard normal numbers.{_SAME}", _drawn)


def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of one value."""

    def make(shape: Any, **kwargs: Any) -> Tensor:
        return ops.full(shape, fill_value, **kwargs)

    return _made(make, (size,), device_mesh, placements, requires_grad, dtype=dtype)


full.__doc__ = "A DTensor of one value." + _ARGS.format(
    more="\n        fill_value: the value.", call="full((4, 3), 1.0"
)


# -- modules -----------------------------------------------------------------------------------------------------------


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Make the parameters and buffers of a module DTensors.

    Args:
        module: changed in place.
        device_mesh: the mesh; by default that of the `with` block around.
        partition_fn: ``partition_fn(name, submodule, mesh)`` for the module and all below it: it replaces parameters by
            DTensors; what it leaves is replicated.
        input_fn: ``input_fn(module, inputs, mesh)`` gives what forward is called with.
        output_fn: ``output_fn(module, outputs, mesh)`` gives what the call returns.

    Returns:
        The module.

    Raises:
        RuntimeError: it was distributed before.

    Example::

        distribute_module(nn.Linear(2, 2), mesh).weight.placements
        # (Replicate(),)
    """
    mesh = device_mesh or current_mesh()
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        replicate(submodule, mesh)
    if input_fn is not None:
        if len(inspect.signature(input_fn).parameters) == 2:
            module.register_forward_pre_hook(lambda _, inputs: input_fn(inputs, mesh))
        else:
            module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        if len(inspect.signature(output_fn).parameters) == 2:
            module.register_forward_hook(lambda _, inputs, outputs: output_fn(outputs, mesh))
        else:
            module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    module._distribute_module_applied = True  # pyright: ignore[reportArgumentType]
    return module


def replicate(module: Module, mesh: DeviceMesh) -> None:
    """Make the plain parameters and buffers of a module itself, not of those below it, replicated DTensors."""
    everywhere = [REPLICATE] * mesh.ndim
    for name, param in list(module._parameters.items()):
        if param is not None and not isinstance(param, DTensor):
            made = distribute_tensor(param.data, mesh, everywhere)
            module.register_parameter(name, Parameter(made, param.requires_grad))
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, everywhere)
