"""gradcheck of functions of sparse tensors: a function of dense ones that stands for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..operators.sparse import base
from ..tape.device import copied
from ..tape.modes import shared
from ..tape.sparse import COO, Pattern, coo_parts, is_sparse
from ..tape.tensor import Tensor


def on_dense(func: Callable, inputs: tuple, masked: bool | None) -> tuple[Callable, tuple]:
    """A function of dense tensors, and those, whose derivatives are those of `func` for sparse `inputs`.

    masked: only the values that are there are varied. Otherwise each element of a sparse input is, also those that are
    not there; the gradient that backward gives for those counts as zero.
    """
    makers = [_maker(t, bool(masked)) for t in inputs]
    if shared.sparse is None:
        return func, inputs
    dense = tuple(
        [t if maker is None else maker[0] for t, maker in zip(inputs, makers, strict=True)]
    )

    def function(*given: Any) -> Any:
        sparse = [t if m is None else m[1](t) for t, m in zip(given, makers, strict=True)]
        out = func(*sparse)
        if isinstance(out, (tuple, list)):
            return tuple([o.to_dense(masked_grad=masked) if is_sparse(o) else o for o in out])
        return out.to_dense(masked_grad=masked) if is_sparse(out) else out

    return function, dense


def _maker(tensor: Any, masked: bool) -> tuple[Tensor, Callable[[Tensor], Tensor]] | None:
    """For a sparse tensor that requires grad: a dense one, and the function that makes the sparse one of it."""
    if not is_sparse(tensor) or not tensor.requires_grad:
        return None
    kind, block = tensor.layout, tensor._array.pattern.block
    array = coo_parts(tensor._array)
    places = array.pattern
    if masked:
        values = Tensor._make(copied(array.values)).requires_grad_()
        return values, lambda v: base.in_layout(places, v, kind, block)
    whole = base.to_dense(tensor.detach()).requires_grad_()
    n = places.sparse_dim
    everywhere = base.everywhere(whole._array, n)

    def make(t: Tensor) -> Tensor:
        elsewhere = t.detach() - base.scatter_op.call(
            base.pick_op.call(t.detach(), places, False), places
        )
        here: Pattern = everywhere if bool(elsewhere.any()) else places
        made = base.masked_op.call(t, here)
        return made if kind is COO else base.in_layout(*base.parts(made), kind, block)

    return whole, make
