"""Running an op on DTensors: find its rule, choose how it is split, exchange what is needed, run it on the parts."""

from __future__ import annotations

from typing import Any

from ...tape import override
from ...tape.modes import is_grad_enabled
from ...tape.node import edge
from ...tape.pytree import flatten, tree_map, unflatten
from ...tape.tensor import Tensor
from ._layout import Layout
from ._part import plain, wrap
from ._redistribute import Used, redistribute
from ._split import Arg, Split, choose
from ._tables import OF_THE_PART, RULES, SPECIAL
from .placement_types import Replicate

_property_names: dict[Any, str] = {}


def run(cls: type, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What `func` gives for arguments among which are DTensors.

    Args:
        cls: DTensor.
        func: the function, method, or getter or setter of a property that was called.
        args, kwargs: what it was called with.

    Raises:
        NotImplementedError: nobody wrote how it is split.
        RuntimeError: plain tensors among the arguments, or DTensors of several meshes.
    """
    name = getattr(func, "__name__", repr(func))
    if name in ("__get__", "__set__", "__delete__"):
        if not _property_names:
            _find_properties(cls)
        name = _property_names.get(func, name)
    if name in OF_THE_PART:
        with override.Off(override.SUBCLASSES):
            return func(*args, **kwargs)
    instead = SPECIAL.get(name)
    if instead is not None:
        return instead(func, *args, **kwargs)
    return by_rule(cls, func, name, args, kwargs)


def by_rule(cls: type, func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """`run` for an op in `_tables.RULES`; `name` is that of its rule."""
    in_place = name[-1] == "_" and name[-2:] != "__"
    write = RULES.get(name) or (RULES.get(name[:-1]) if in_place else None)
    if write is None or kwargs.get("out") is not None:
        raise NotImplementedError(
            refusal(name if kwargs.get("out") is None else f"{name}(out=...)")
        )
    leaves, tree = flatten((args, kwargs))
    mesh, where = _checked(cls, name, leaves)
    known = [Arg(leaves[i]._spec, leaves[i].dtype, leaves[i]._rg) for i in where]
    seen = list(leaves)
    for i, arg in zip(where, known):
        seen[i] = arg
    args, kwargs = unflatten(seen, tree)
    split = write(*args, **kwargs)
    choices, cut = choose(known, split, mesh, in_place)
    parts = {}
    for k, (i, arg) in enumerate(zip(where, known)):
        parts[id(arg)] = _part(leaves[i], arg, [c.inputs[k] for c in choices], choices)
    if split.local is not None:
        args, kwargs = split.local(args, kwargs, cut)
    args, kwargs = tree_map(lambda v: parts.get(id(v), v), (args, kwargs))
    if not in_place:
        return _wrapped(cls, (split.calls or func)(*args, **kwargs), split, choices, mesh)
    return _in_place(func, leaves[where[0]], parts[id(known[0])], args, kwargs)


def refusal(name: str) -> str:
    """The text for an op without a rule."""
    return (
        f"{name} is not split over the ranks of a DTensor: call it on x.full_tensor() and distribute the result with "
        "distribute_tensor, or on x.to_local() if it means the same of this rank's part"
    )


def _find_properties(cls: type) -> None:
    for name in dir(Tensor):
        value = getattr(Tensor, name, None)
        if isinstance(value, property):
            for accessor in ("__get__", "__set__", "__delete__"):
                _property_names[getattr(value, accessor)] = name


def _checked(cls: type, name: str, leaves: list[Any]) -> tuple[Any, list[int]]:
    """The mesh of the DTensors among the arguments, and where they are; a number in a tensor becomes one of them."""
    where = [i for i, v in enumerate(leaves) if isinstance(v, cls)]
    mesh = leaves[where[0]]._spec.mesh
    for i, value in enumerate(leaves):
        if isinstance(value, cls):
            if value._spec.mesh != mesh:  # type: ignore[attr-defined]
                raise RuntimeError(
                    f"{name} got DTensors of several meshes, {mesh} and {value._spec.mesh}: "  # type: ignore[attr-defined]
                    "take to_local() or full_tensor() of one, and distribute it on the other's mesh"
                )
        elif isinstance(value, Tensor):
            if value.numel() != 1 or value._rg:
                raise RuntimeError(
                    f"{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                    "calling distributed operators!"
                )
            layout = Layout(mesh, (Replicate(),) * mesh.ndim, value.shape)
            leaves[i] = wrap(Tensor._alias(value), layout, cls)
            where = sorted([*where, i])
    return mesh, where


def _part(tensor: Any, arg: Arg, placements: list[Any], choices: list[Any]) -> Tensor:
    """This rank's part of an argument, placed as was chosen."""
    local = redistribute(plain(tensor), arg.layout, tuple(placements))
    if local.requires_grad and is_grad_enabled():
        used = [
            i for i, choice in enumerate(choices) if choice.shared and placements[i].is_replicate()
        ]
        used = tuple([i for i in used if arg.layout.mesh.size(i) > 1])
        if used:
            return Used.apply(local, arg.layout.mesh, used)
    return local


def _wrapped(cls: type, result: Any, split: Split, choices: list[Any], mesh: Any) -> Any:
    several = isinstance(result, tuple | list)
    outputs = []
    for k, (value, (_, shape)) in enumerate(zip(result if several else [result], split.outputs)):
        placements = tuple([choice.outputs[k] for choice in choices])
        outputs.append(wrap(value, Layout(mesh, placements, shape), cls))
    if not several:
        return outputs[0]
    kind = type(result)
    return kind(*outputs) if hasattr(result, "_fields") else kind(outputs)


def _in_place(func: Any, tensor: Any, part: Tensor, args: Any, kwargs: dict[str, Any]) -> Any:
    """Write into the part, and let the DTensor have the history that it got."""
    if tensor._view is not None and is_grad_enabled() and (tensor._rg or _any_needs(args)):
        raise NotImplementedError(
            f"{func.__name__} on a view of a DTensor, with gradients: use the op that is not in place"
        )
    func(*args, **kwargs)
    if part._rg and part._fn is not None:
        tensor._fn, tensor._nr = edge(part)
        tensor._rg = True
    tensor._array = part._array
    return tensor


def _any_needs(args: Any) -> bool:
    return any(isinstance(v, Tensor) and v._rg for v in flatten(args)[0])
