"""What a DTensor does where a rule of splitting is not enough: values of the whole, random numbers, means, norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import linalg
from ...autograd.grad_mode import is_grad_enabled, no_grad, set_grad_enabled
from ...nn import init
from ...operators import public as ops
from ...tape.pytree import tree_map
from ...tape.tensor import Tensor
from ._dtensor import DTensor, plain, wrap
from ._layout import Layout
from ._random import drawing, drawing_parts
from ._redistribute import moved, redistribute
from ._rules import CLASS_LOSSES, POINTWISE_LOSSES
from ._run import by_rule
from ._split import REPLICATE
from ._tables import special
from .placement_types import Partial, Placement, _NormPartial


def whole(value: Any) -> Any:
    """A DTensor as a plain tensor of the whole; other values as they are."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def without_partial(x: DTensor) -> DTensor:
    """The tensor with sums carried out."""
    return x.redistribute(placements=x._spec.gradient)


# -- values ------------------------------------------------------------------------------------------------------------


@special(
    "item",
    "__float__",
    "__int__",
    "__index__",
    "__complex__",
    "is_nonzero",
    "__format__",
    "__contains__",
)
def _value(func: Any, x: Any, *args: Any) -> Any:
    return func(whole(x), *map(whole, args))


@special("equal", "allclose")
def _compare(func: Any, x: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
    return func(whole(x), whole(other), *args, **kwargs)


@special(
    "numpy",
    "tolist",
    "__array__",
    "__dlpack__",
    "__iter__",
    "data_ptr",
    "untyped_storage",
    "storage",
)
def _outside(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    raise RuntimeError(
        f".{name}() is not supported for tensor subclasses: call it on x.full_tensor(), or on x.to_local() for this "
        "rank's part"
    )


# -- tensors like others -----------------------------------------------------------------------------------------------


@special("zeros_like", "ones_like", "empty_like", "full_like")
def _like(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> DTensor:
    requires_grad = kwargs.pop("requires_grad", False)
    local = func(plain(x).detach(), *args, **kwargs)
    made = wrap(local, x._spec.placed(x._spec.gradient))
    made.requires_grad_(requires_grad)
    return made


@special("rand_like", "randn_like", "randint_like")
def _random_like(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> DTensor:
    layout = x._spec.placed(x._spec.gradient)
    return filled(
        layout, kwargs.get("device") or x.device, lambda: func(_empty(x), *args, **kwargs)
    )


def _empty(x: DTensor) -> Tensor:
    return ops.empty(x.shape, dtype=x.dtype, device=x.device)


@special("new_zeros", "new_ones", "new_empty", "new_full")
def _new(func: Any, x: DTensor, size: Any, *args: Any, **kwargs: Any) -> DTensor:
    mesh = x._spec.mesh
    shape = (size,) if isinstance(size, int) else tuple(size)
    local = func(Tensor._alias(x), shape, *args, **kwargs)
    return wrap(local, Layout(mesh, (REPLICATE,) * mesh.ndim, shape))


# -- random numbers ----------------------------------------------------------------------------------------------------


@no_grad()
def filled(layout: Layout, device: Any, draw: Callable[[], Tensor]) -> DTensor:
    """A DTensor of numbers that are drawn whole and cut.

    Args:
        layout: what comes out; no Partial.
        device: where it is drawn.
        draw: gives the whole.
    """
    if device == "meta" or getattr(device, "type", None) == "meta":
        return wrap(draw(), layout)
    with drawing(layout.mesh, device):
        drawn = draw()
    everywhere = layout.placed((REPLICATE,) * layout.mesh.ndim)
    return wrap(moved(drawn, everywhere, layout.placements), layout)


FILLS = "uniform_ normal_ bernoulli_ exponential_ random_ cauchy_ log_normal_ geometric_".split()


@special(*FILLS, *[name for name in init.__all__ if name[-1] == "_"])
def _fill(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> DTensor:
    if kwargs.get("generator") is not None:
        raise NotImplementedError(
            f"{func.__name__} of a DTensor draws from the generator of the mesh's first rank: leave generator out"
        )
    local = plain(x)
    if local.is_meta:
        func(local, *args, **kwargs)
        return x
    new = filled(
        x._spec.placed(x._spec.gradient), x.device, lambda: func(_empty(x), *args, **kwargs)
    )
    quiet = func.__module__ == init.__name__  # these do not record, as methods do
    with set_grad_enabled(is_grad_enabled() and not quiet):
        local.copy_(plain(new))
    return x


@special("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
def _dropout(
    func: Any, input: DTensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> DTensor:
    if inplace:
        raise NotImplementedError("dropout of a DTensor in place: use inplace=False")
    x = without_partial(input)
    if not training or p == 0:
        return x
    with drawing_parts(x._spec, x.device):
        return wrap(func(plain(x), p, training), x._spec)


# -- means and norms ---------------------------------------------------------------------------------------------------


@special("mean")
def _mean(
    func: Any, x: DTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if not (dtype or x.dtype).is_floating_point and not (dtype or x.dtype).is_complex:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype.name}"
        )
    total = x.sum(dim, keepdim, dtype=dtype)
    return total / (x.numel() / max(total.numel(), 1))


@special("vector_norm", "linalg_vector_norm")
def _vector_norm(
    func: Any,
    x: DTensor,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    p = float(ord)
    if x._spec.placements and any(isinstance(q, _NormPartial) for q in x._spec.placements):
        kinds = {q.norm_type for q in x._spec.placements if isinstance(q, _NormPartial)}
        if dim is not None or keepdim or kinds != {p}:
            x = without_partial(x)
    else:
        x = without_partial(x)
    if dim is None and not keepdim and not x.requires_grad:
        placements = tuple([_norm_of(placement, p) for placement in x._spec.placements])
        local = plain(x)
        norm = func(local, p, dtype=dtype) if local.numel() else _of_nothing(local, p, dtype)
        return wrap(norm, Layout(x._spec.mesh, placements, ()))
    if p in (math.inf, -math.inf):
        sizes = x.abs() if dtype is None else x.abs().to(dtype)
        dims = tuple(range(x.ndim)) if dim is None else dim
        return sizes.amax(dims, keepdim) if p > 0 else sizes.amin(dims, keepdim)
    if p == 2:
        powers = (x * x.conj()).real if x.is_complex() else x * x
        return powers.sum(dim, keepdim, dtype=dtype).sqrt()
    return (x.abs() ** p).sum(dim, keepdim, dtype=dtype) ** (1 / p)


def _norm_of(placement: Placement, p: float) -> Placement:
    return REPLICATE if placement.is_replicate() else _NormPartial(p)


def _of_nothing(local: Tensor, p: float, dtype: Any) -> Tensor:
    """The norm of an empty part: what changes no norm."""
    value = math.inf if p == -math.inf else 0.0
    real = ops.empty(0, dtype=local.dtype, device="meta").abs().dtype
    return ops.full((), value, dtype=dtype or real, device=local.device)


@special("norm")
def _norm(
    func: Any, x: DTensor, p: Any = 2, dim: Any = None, keepdim: bool = False, **kwargs: Any
) -> DTensor:
    if isinstance(p, str) and p != "fro":
        raise NotImplementedError(f"the norm {p!r} of a DTensor: take that of full_tensor()")
    return _vector_norm(
        linalg.vector_norm,
        x,
        2 if p in (None, "fro") else p,
        dim,
        keepdim,
        dtype=kwargs.get("dtype"),
    )


@special("stack")
def _stack(func: Any, tensors: Any, dim: int = 0) -> DTensor:
    """Norms of parts become parts of norms: so the norm of all gradients takes one exchange."""
    kinds = {
        q
        for t in tensors
        if isinstance(t, DTensor)
        for q in t._spec.placements
        if isinstance(q, _NormPartial)
    }
    if len(kinds) != 1 or not all(isinstance(t, DTensor) for t in tensors):
        return by_rule(DTensor, func, "stack", (list(map(_settled, tensors)), dim), {})
    (kind,) = kinds
    mesh = tensors[0]._spec.mesh
    if any(t._spec.mesh != mesh for t in tensors):
        raise RuntimeError(
            "norms of DTensors on several meshes cannot be put together: take full_tensor() of each before"
        )
    goal = tuple(
        [
            kind if any(t._spec.placements[i] == kind for t in tensors) else REPLICATE
            for i in range(mesh.ndim)
        ]
    )
    locals_ = [redistribute(plain(t), t._spec, goal) for t in tensors]
    return wrap(
        func(locals_, dim), Layout(mesh, goal, ops.stack([_meta(t) for t in tensors], dim).shape)
    )


def _settled(t: Any) -> Any:
    if isinstance(t, DTensor) and any(isinstance(q, _NormPartial) for q in t._spec.placements):
        return without_partial(t)
    return t


def _meta(t: DTensor) -> Tensor:
    return ops.empty(t.shape, device="meta")


@special("max", "min")
def _extreme(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    if (
        args
        or kwargs
        or x.requires_grad
        or not all(p.is_shard() or p.is_replicate() for p in x.placements)
    ):
        return by_rule(DTensor, func, name, (x, *args), kwargs)
    if any(0 in part for part in _local_shapes(x)):  # a rank without elements has no largest
        return by_rule(DTensor, func, name, (x,), {})
    goal = tuple([REPLICATE if p.is_replicate() else Partial(name) for p in x.placements])
    return wrap(func(plain(x)), Layout(x._spec.mesh, goal, ()))


def _local_shapes(x: DTensor) -> list[tuple[int, ...]]:
    """The shapes of the parts that may be empty: those of the last ranks."""
    shape = [*x.shape]
    for i, placement in enumerate(x.placements):
        if placement.is_shard():
            n, dim = x._spec.mesh.size(i), placement.dim  # pyright: ignore[reportAttributeAccessIssue]
            step = -(-shape[dim] // n)
            shape[dim] = max(shape[dim] - step * (n - 1), 0)
    return [tuple(shape)]


@special("any", "all")
def _any_or_all(func: Any, x: DTensor, *args: Any, **kwargs: Any) -> Any:
    """Of the whole: each rank answers for its part, and one number is exchanged."""
    if args or kwargs:
        return by_rule(DTensor, func, func.__name__, (x, *args), kwargs)
    x = without_partial(x)
    kind = Partial("max" if func.__name__ == "any" else "min")
    goal = tuple([REPLICATE if p.is_replicate() else kind for p in x.placements])
    return wrap(func(plain(x)), Layout(x._spec.mesh, goal, ()))


# -- losses ------------------------------------------------------------------------------------------------------------


@special(*POINTWISE_LOSSES)
def _pointwise_loss(func: Any, *args: Any, reduction: str = "mean", **kwargs: Any) -> DTensor:
    name = func.__name__
    if reduction in ("none", "sum"):
        return by_rule(DTensor, func, name, args, {**kwargs, "reduction": reduction})
    each = by_rule(DTensor, func, name, args, {**kwargs, "reduction": "none"})
    if reduction == "batchmean":
        return each.sum() / each.shape[0]
    return each.mean()


@special(*CLASS_LOSSES)
def _class_loss(
    func: Any,
    input: DTensor,
    target: DTensor,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    **kwargs: Any,
) -> DTensor:
    name = func.__name__
    given = {"ignore_index": ignore_index, **kwargs}
    if reduction in ("none", "sum"):
        args = (input, target, weight)
        return by_rule(DTensor, func, name, args, {**given, "reduction": reduction})
    if weight is not None:
        raise NotImplementedError(
            f"the mean {name} of DTensors with class weights: use reduction='sum' and divide by the sum of the "
            "weights of the targets"
        )
    total = by_rule(DTensor, func, name, (input, target, None), {**given, "reduction": "sum"})
    if target.dtype.is_floating_point:
        return total / (input.numel() // input.shape[min(input.ndim - 1, 1)])
    return total / target.ne(ignore_index).sum().to(total.dtype)


# -- gradients ---------------------------------------------------------------------------------------------------------


@special("grad")
def _grad(
    func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any
) -> tuple:
    """``autograd.grad``: on the parts, whose gradients are parts of the gradients."""
    seeds = None if grad_outputs is None else _seeds(outputs, grad_outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    found = func(
        tree_map(_plain, _listed(outputs)), [_plain(x) for x in ins], seeds, *args, **kwargs
    )
    return tuple(
        [
            wrap(g.view_as(g), x._spec.placed(x._spec.gradient))
            if isinstance(x, DTensor) and g is not None
            else g
            for x, g in zip(ins, found)
        ]
    )


@special("backward")
def _backward(func: Any, tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
    """``autograd.backward``."""
    seeds = None if grad_tensors is None else _seeds(tensors, grad_tensors)
    func(tree_map(_plain, _listed(tensors)), seeds, *args, **kwargs)


def _listed(tensors: Any) -> list:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _plain(value: Any) -> Any:
    return plain(value) if isinstance(value, DTensor) else value


def _seeds(outputs: Any, seeds: Any) -> list:
    """Gradients to begin with, placed as those of the tensors are."""
    found = []
    for out, seed in zip(_listed(outputs), _listed(seeds)):
        if isinstance(out, DTensor) and seed is not None:
            if not isinstance(seed, DTensor):
                raise TypeError("the gradient of a DTensor is a DTensor: distribute it first")
            seed = plain(seed.redistribute(placements=out._spec.gradient))
        found.append(seed)
    return found
