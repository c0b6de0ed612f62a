"""`parallelize_module`: share the modules of a model over the ranks, each in the style that a plan names."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import Any

from ....nn.modules.module import Module
from ...device_mesh import DeviceMesh, current_mesh
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Share a model over the ranks of a mesh of one dimension; all of them call it.

    Args:
        module: changed in place.
        device_mesh: the mesh; by default that of the `with` block around.
        parallelize_plan: a style for the module, or by names of submodules, in which ``*`` stands for any one.
        src_data_rank: whose parameters count, by its place in the mesh; None if all ranks have the same.

    Returns:
        The module.

    Raises:
        ValueError: a mesh of more dimensions.
        TypeError: a plan that is neither a style nor a dict of styles.

    Example::

        plan = {"layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel()}
        parallelize_module(model, mesh["tp"], plan)
    """
    mesh = device_mesh or current_mesh()
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module expects a mesh of one dimension, got {mesh}: take a slice of it by name"
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this "
            "parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        found = _at(module, path.split(".")) if path else [module]
        if not found:
            warnings.warn(f"no submodule is named {path!r}: its style is not applied", stacklevel=2)
        for below in found:
            parallelize_module(below, mesh, style, src_data_rank=src_data_rank)
    return module


def _at(module: Module, names: list[str]) -> list[Any]:
    """The submodules at a path, in which names may have wildcards."""
    first, *rest = names
    found = [child for name, child in module.named_children() if fnmatch(name, first)]
    return [m for child in found for m in _at(child, rest)] if rest else found
