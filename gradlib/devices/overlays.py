"""Fused kernels in place of formulas: which ops have them, and how to ask.

An op is defined by its declared forward and gradient formulas, on every backend. An overlay is a faster way to the
same numbers on CUDA arrays; dispatch tries it first and falls back when there is none or when it says NotImplemented
(another dtype, another layout). Derivatives of derivatives always use the formulas.

    @forward("softmax")
    def softmax(xp, self, *, dim): ...

    @vjp("softmax")
    def softmax_vjp(F, g, result, dim): ...

- A **forward** overlay has the signature of the op's forward and returns what that returns: the result, or results
  followed by hidden values.
- A **vjp** overlay names what it needs by parameters, like a formula: `F` (whose `backend` is `xp`), `g` or `gs`,
  `needs`, and what the op's own formulas use, since that is what the op saves. It returns one gradient (or None) for
  each tensor argument. Gradients of elementwise ops have the result's shape: the caller sums them to the argument's,
  as for formulas.
"""

from __future__ import annotations

from collections.abc import Callable

from ..op.declare import Op, parameters
from .cuda import fused

FORWARD: dict[str, Callable] = {}
VJP: dict[str, Callable] = {}
_found: dict[tuple[str, Op], Callable | None] = {}


def forward(*names: str) -> Callable[[Callable], Callable]:
    """Register a function as the forward overlay of the ops `names`."""
    return lambda function: _put(FORWARD, names, function)


def vjp(*names: str) -> Callable[[Callable], Callable]:
    """Register a function as the vjp overlay of the ops `names`."""
    return lambda function: _put(VJP, names, function)


def _put(table: dict[str, Callable], names: tuple[str, ...], function: Callable) -> Callable:
    for name in names:
        if name in table:
            raise TypeError(f"op {name} has two overlays: {table[name]} and {function}")
        table[name] = function
    return function


def forward_of(op: Op) -> Callable | None:
    """The forward overlay of an op, or None."""
    return _lookup("forward", op)


def vjp_of(op: Op) -> Callable | None:
    """The vjp overlay of an op, or None. `parameters` of it are the names it wants."""
    return _lookup("vjp", op)


def _lookup(kind: str, op: Op) -> Callable | None:
    try:
        return _found[kind, op]
    except KeyError:
        _found[kind, op] = found = _find(kind, op)
        return found


def _find(kind: str, op: Op) -> Callable | None:

    fused.load()
    found = (FORWARD if kind == "forward" else VJP).get(op.name)
    if found is None:
        found = fused.pointwise.overlay(kind, op)
    if found is not None and kind == "vjp":
        _check(op, found)
    return found if found is None or kind == "vjp" else op.laid_out(found)


def _check(op: Op, function: Callable) -> None:
    saved = {*op.saved_tensors, *op.saved_results, *op.saved_hidden, *op.saved_attrs}
    saved |= {f"{name}_shape" for name in op.saved_shapes}
    unknown = set(parameters(function)) - saved - {"F", "g", "gs", "needs"}
    if unknown:
        raise TypeError(
            f"the vjp overlay of {op.name} asks for {sorted(unknown)}, which the op does not save; "
            f"it saves {sorted(saved)}"
        )


def names() -> dict[str, list[str]]:
    """The ops with an overlay of their own: ``{"forward": [...], "vjp": [...]}``; for tables and tests."""

    fused.load()
    return {"forward": sorted(FORWARD), "vjp": sorted(VJP)}
