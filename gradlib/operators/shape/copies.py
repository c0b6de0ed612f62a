"""Copies of views: ``<view>_copy`` gives what the view ``<view>`` gives, in memory of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...op.declare import REGISTRY, Op, declare
from ...op.expose import function, write_same
from ...tape import dtypes
from ...tape.tensor import Tensor
from ..elementwise import complex
from . import as_strided, dims, expand, slicing, split
from . import reshape as shape
from .triangles import diagonal_copy_op

# view op -> the op that copies; that of the diagonal is also what `diag` of a matrix is
_OF: dict[Op, Op] = {slicing.diagonal_op: diagonal_copy_op}


def _declare_copy(op: Op) -> Op:
    """Declare ``<op>_copy`` with the formulas of the view op `op`."""

    @functools.wraps(op.forward)
    def forward(xp, self, **attrs):
        out = op.forward(xp, self, **attrs)
        return out.copy() if op.n_out == 1 else [part.copy() for part in out]

    spec: dict[str, Any] = {key: formula.fn for key, formula in op.formulas.items()}
    return declare(
        op.name + "_copy", forward, public=op.public + "_copy", node=op.node_name + "_copy", jvp=op.jvp,
        n_out=op.n_out, complex=op.complex, nondifferentiable=op.nondifferentiable, samples=op.samples,
        by_place=op.by_place, batch=op.batch, **spec,
    )  # fmt: skip


for _view in [op for op in REGISTRY.values() if op.view and not op.flips]:
    if _view not in _OF:
        _OF[_view] = _declare_copy(_view)


def _publish(name: str, view: Callable) -> None:
    """Publish ``gradlib.<name>_copy``, whose arguments are those of the function `view`."""

    def copied(input, *args, out=None, **kwargs):
        made = view(Tensor._make(input._array), *args, **kwargs)  # checks the arguments
        if isinstance(made, tuple):
            return _several(input, made, out)
        step = made._view
        if step is None:  # the view is the input itself
            return write_same(out, _OF[shape.alias_op].call(input))
        return write_same(out, _OF[step.op].call(input, *step.attrs))

    copied.__name__ = copied.__qualname__ = name + "_copy"
    copied.__doc__ = f"""A copy of what ``{name}`` gives as a view, with memory of its own.

Args:
    input: a tensor.
    args, kwargs: as of ``{name}``, with its errors.
    out: a tensor of the same dtype to write to; of several results a tuple of them.

Returns:
    A new tensor, or a tuple of them; gradients flow to `input`.
"""
    function()(copied)


def _several(input: Tensor, parts: tuple, out) -> tuple:
    """The copies of several views of `input`, each one step away from it."""
    made = tuple([_OF[p._view.op].call(input, *p._view.attrs) for p in parts])
    if out is None:
        return made
    for o, part in zip(out, made, strict=True):
        write_same(o, part)
    return tuple(out)


def _detached(input):
    return shape.alias_op.call(input)


def _sliced(input, dim=0, start=None, end=None, step=1):
    n = input._array.ndim
    slicing.refuse_step(step)
    key = (slice(None),) * slicing.wrap_dim(dim, n) + (slice(start, end, step),)
    return input[key]


def _viewed(input, *size, dtype=None):
    """The view, of the elements in their order where `input` itself cannot be viewed so."""
    if dtype is None and not isinstance(size[0], dtypes.dtype) and not input.is_contiguous():
        input = input.contiguous()
    return shape.view(input, *size) if dtype is None else shape.view(input, dtype=dtype)


for _name, _function in {
    "alias": _detached, "as_strided": as_strided.as_strided, "diagonal": slicing.diagonal, "expand": expand.expand,
    "permute": dims.permute, "select": slicing.select, "slice": _sliced, "split": split.split,
    "split_with_sizes": split.split_with_sizes, "squeeze": dims.squeeze, "t": dims.t, "transpose": dims.transpose,
    "unbind": split.unbind, "unfold": slicing.unfold, "unsqueeze": dims.unsqueeze, "view": _viewed,
    "view_as_complex": complex.view_as_complex, "view_as_real": complex.view_as_real,
}.items():  # fmt: skip
    _publish(_name, _function)


@function("detach_copy")
def detach_copy(input, *, out=None):
    """A copy with memory of its own and no history: ``detach`` followed by a copy.

    Args:
        input: a tensor of any shape and dtype.
        out: written to instead of a new tensor.

    Returns:
        A tensor that does not require grad.

    Example:
        >>> gradlib.detach_copy(gradlib.ones(2, requires_grad=True))
        tensor([1., 1.])
    """
    return write_same(out, input.detach().clone())
