"""How elementwise ops are declared and published: as function, method and in-place method at once.

In a formula, `x.conjugate()` is written wherever a derivative multiplies a gradient: that is PyTorch's convention for
complex numbers, costs next to nothing on real arrays, and works on Python numbers too.
"""

from __future__ import annotations

from typing import Any

from ..tape.tensor import Tensor
from .declare import Op, declare
from .expose import PUBLIC, inplace_method


def pointwise(
    name: str,
    forward: Any,
    /,
    *aliases: str,
    doc: str = "",
    example: tuple[str, str] | None = None,
    inplace: bool = True,
    exact_out: str = "",
    bool_out: str = "",
    **spec: Any,
) -> Op:
    """Declare an elementwise op and publish it as function, method and in-place method, under all its names.

    doc, example: what it computes, and a call with what it shows; the declaration gives the rest of the docstring.
    exact_out: a tensor given as ``out=`` must have the dtype of the result, else there is an error of this text.
    bool_out: it must be a bool tensor.
    """
    op = declare(name, forward, elementwise=True, **spec)
    op.exact_out, op.bool_out = exact_out, bool_out
    op.call.__doc__ = described(op, doc or f"``{name}`` of each element.", example)
    for key in (name, *aliases):
        PUBLIC[key] = op.call
        setattr(Tensor, key, op.call)
        if inplace:
            inplace_method(op, key + "_")
    return op


_DTYPES = {
    "float": "of its floating dtype; integers and bool become the default floating dtype",
    "number": "of its dtype; bool becomes int64",
    "same": "of its dtype",
}


def described(op: Op, what: str, example: tuple[str, str] | None) -> str:
    """The docstring of an elementwise op: what it computes; shapes, dtypes and errors as it is declared; an example."""
    several = len(op.tensors) > 1
    dtype = _DTYPES.get(op.promote, "of its dtype").replace(
        "its", "their common" if several else "its"
    )
    if op.nondifferentiable == "bool":
        dtype = "of dtype bool"
    shape = "the shape that the arguments broadcast to" if several else "the shape of the argument"
    lines = [what, "", "Returns:", f"    A tensor of {shape}, {dtype}."]
    if not op.differentiable:
        lines[-1] += " It has no gradient."
    wrong = []
    if several:
        wrong.append(
            "    RuntimeError: the shapes do not broadcast, or the tensors are on different devices."
        )
    if op.complex is False:
        kind = "NotImplementedError" if op.check is None else "RuntimeError"
        wrong.append(f"    {kind}: an argument is complex.")
    wrong.append(
        "    TypeError: an argument is of another kind"
        + (", or all are numbers." if several else ".")
    )
    lines += ["", "Raises:", *wrong]
    if example is not None:
        lines += ["", "Example:", f"    >>> {example[0]}", f"    {example[1]}"]
    return "\n".join(lines) + "\n"


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
