"""Backward inside vmap that nobody differentiates again: elementwise formulas on the arrays of all entries at once.

A pass inside vmap runs formulas on Tensors, so that each op in them is batched. Where the gradient and all that a
formula needs have the shape of one entry, the formula means the same on the arrays of the whole batch.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from ..tape import dtypes
from ..tape.modes import NO_GRAD, VMAP, shared, state
from ..tape.node import Node
from ..tape.saved import DIRECT
from ..tape.storage import version_of
from ..tape.tensor import Tensor
from . import spreading
from .formulas import raw_ops
from .vmap import Logical, wrap

_PLAIN = (dtypes.float32.np, dtypes.float64.np)
_NOT_HERE = object()
# the flags of a pass whose gradients nobody differentiates, with nothing on but vmap
AT_ONCE = VMAP | NO_GRAD


def batch_gradients(node: Node, grad: Tensor) -> tuple | None:
    """What ``node.gradients((grad,), DIFFERENTIATED)`` gives; None where the formulas have to run on Tensors.

    node: of an elementwise op, while the flags are `AT_ONCE`.
    """
    op, logical = node.op, grad._array
    if logical.__class__ is not Logical or state.interposers or state.capture is not None:
        return None
    level, g = logical.level, logical.physical._array
    if (
        level is not state.batch
        or not logical.batched
        or g.__class__ is not ndarray
        or g.dtype not in _PLAIN
        or g.size >= spreading.LARGE
        or shared.subclasses is not None
    ):
        return None
    needed, several = state.needed, len(op.tensors) > 1
    known: dict[str, Any] = {"g": g}
    outs: list[Any] = []
    for i, (name, target) in enumerate(zip(op.tensors, node.targets(), strict=True)):
        formula = op.formulas.get(name)
        if formula is None or target is None or (needed is not None and target not in needed):
            outs.append(None)
            continue
        if several and getattr(node, f"b{i}") is not None:  # it was broadcast
            return None
        for want in formula.wants:
            if want not in known:
                known[want] = _value(node, want, level, logical.shape, g)
            value = known[want]
            if value is _NOT_HERE:
                return None
            if value.__class__ is ndarray and value.shape != g.shape and "F" in formula.wants:
                return None  # kernels need not broadcast
        out = formula.fn(*[known[want] for want in formula.wants])
        if out is g:
            outs.append(grad)
        elif out.__class__ is ndarray and out.shape == g.shape and out.dtype is g.dtype:
            outs.append(Tensor._make(wrap(level, Tensor._make(out))))
        else:
            return None
    return tuple(outs)


def _value(node: Any, want: str, level: Any, shape: tuple, g: ndarray) -> Any:
    """What a formula needs as raw array of the whole batch, or as number; `_NOT_HERE` if it is anything else."""
    op = node.op
    if want == "F":
        return raw_ops(g)
    if want in op.saved_attrs and want not in op.arrays:
        return getattr(node, "a_" + want)
    is_result = want in op.saved_results
    if not is_result and want not in op.saved_tensors:
        return _NOT_HERE
    # in this order: another thread may free the graph in between; see `saved.unpack_tensor`
    value, version = getattr(node, "s_" + want), getattr(node, "v_" + want)
    if version == DIRECT:
        return value if value.__class__ is float or value.__class__ is int else _NOT_HERE
    if version < 0:
        return _NOT_HERE
    storage: Any = getattr(node, "k_" + want) if is_result else None
    if storage.__class__ is tuple or version != (
        storage.version if is_result else version_of(value)
    ):
        return _NOT_HERE
    array = value if is_result else value._array
    if array.shape != shape:
        return _NOT_HERE
    if array.__class__ is Logical:
        if array.level is not level:
            return _NOT_HERE
        array = array.physical._array
    return array if array.__class__ is ndarray and array.dtype is g.dtype else _NOT_HERE
