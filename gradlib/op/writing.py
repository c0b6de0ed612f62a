"""Writing into a tensor: what in-place ops with kernels of their own share.

`op.inplace` computes a new value and copies it in; that costs a pass over the whole tensor even when ``x[i] = v``
touches one row. An `InPlace` pairs an op with a kernel that writes only what changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from numpy import ndarray

from ..tape import sparse
from ..tape.lazy import is_lazy
from ..tape.memory import repeats_itself
from ..tape.modes import FORWARD_AD, NO_GRAD, shared, state
from ..tape.source import here
from ..tape.storage import INFERENCE, bump
from ..tape.tensor import Tensor
from .declare import Op
from .inplace import inplace


class InPlace:
    """An op whose kernel ``kernel(xp, array, *others, **attrs)`` changes `array` itself."""

    def __init__(self, op: Op, kernel: Callable):
        self.op, self.kernel = op, kernel

    def __getattr__(self, name: str):
        return getattr(self.op, name)

    def forward(self, xp, array, *others, **attrs):
        self.kernel(xp, array, *others, **attrs)
        return array

    def __call__(self, tensor: Tensor, others: tuple = (), attrs: tuple = ()) -> Tensor:
        """Run it on `tensor` with history, checks and version counter; returns `tensor`."""
        plain = state.bits & FORWARD_AD
        if (
            state.interposers
        ):  # which are told of the op itself, unless only this kernel can write there
            plain = plain or not repeats_itself(tensor._array)
        return inplace(self.op if plain else self, tensor, others, attrs)


def on_copy(kernel: Callable) -> Callable:
    """The forward function of a kernel that writes into its first array, `self`: it writes into a copy, row by row."""

    @wraps(kernel)  # whose arguments are those of the op
    def forward(xp, self, *others, **attrs):
        out = xp.array(self, order="C")
        kernel(xp, out, *others, **attrs)
        return out

    return forward


def quiet(tensor: Tensor, *sources) -> bool:
    """Whether writing to `tensor` concerns no graph, mode or view: then a raw write and `wrote` are enough."""
    array = tensor._array
    if shared.sparse is not None and sparse.among((tensor, *sources)):
        return False
    if tensor._ver is INFERENCE or 0 in array.strides:
        return False
    if (
        shared.batches
    ):  # `tensor` or a source may be one entry of a batch, whose array has no values
        return False
    if shared.lazy and any([is_lazy(t) for t in (tensor, *sources)]):
        return False
    if shared.subclasses is not None and shared.subclasses.among((tensor, *sources)):
        return False
    if array.__class__ is not ndarray and shared.cuda is not None and shared.cuda.elsewhere(array):
        return False  # dispatch makes the device of the tensor current
    if shared.active:
        bits = state.bits
        if bits == NO_GRAD:
            return True
        if bits:
            return False
    view = tensor._view
    if tensor._rg or (view is not None and view.base._rg):
        return False
    return not any([s._rg for s in sources if isinstance(s, Tensor)])


def wrote(tensor: Tensor, name: str) -> Tensor:
    """Count a raw write by the op `name`; returns `tensor`."""
    bump(tensor, here(), name)
    return tensor
