"""How elementwise ops are declared and published: as function, method and in-place method at once.

In a formula, `x.conjugate()` is written wherever a derivative multiplies a gradient: that is PyTorch's convention for
complex numbers, costs next to nothing on real arrays, and works on Python numbers too.
"""

from __future__ import annotations

from typing import Any

from ..tape.tensor import Tensor
from .declare import Op, declare
from .describe import described
from .expose import PUBLIC, inplace_method


def pointwise(
    name: str,
    forward: Any,
    /,
    *aliases: str,
    doc: str,
    example: tuple[str, str],
    refuses: str | None = None,
    result: str = "",
    with_out: bool = True,
    inplace: bool = True,
    exact_out: str = "",
    bool_out: str = "",
    **spec: Any,
) -> Op:
    """Declare an elementwise op and publish it as function, method and in-place method, under all its names.

    doc, example: what it computes, and a call with what it shows; the declaration gives the rest of the docstring.
    refuses, result: the dtypes that it refuses and that of its result, where they are not as declared; see `described`.
    with_out: whether there is ``out=``.
    exact_out: a tensor given as ``out=`` must have the dtype of the result, else there is an error of this text.
    bool_out: it must be a bool tensor.
    """
    op = declare(name, forward, elementwise=True, **spec)
    op.exact_out, op.bool_out = exact_out, bool_out
    op.call.__doc__ = described(op, doc, example, refuses=refuses, result=result, out=with_out)
    for key in (name, *aliases):
        PUBLIC[key] = op.call
        setattr(Tensor, key, op.call)
        if inplace:
            inplace_method(op, key + "_")
    return op


def unary(
    name: str,
    formula: Any = None,
    /,
    *aliases: str,
    forward: Any = None,
    promote: str = "float",
    **spec: Any,
) -> Op:
    """A pointwise op of one argument; `formula` is its gradient."""
    if formula is not None:
        spec["self"] = formula
    return pointwise(name, forward or name, *aliases, promote=promote, **spec)
