"""The docstrings of elementwise ops and of in-place forms, made of what is declared.

They are put together when an op is declared: a few microseconds each, since only strings are joined.
"""

from __future__ import annotations

from typing import Any

_DTYPES = {
    "float": "the floating one of the argument; for integers and bool the default one",
    "number": "that of the argument; for bool int64",
}
_NUMBERS = {
    "none": "",
    "any": ", or numbers",
    "one": "; one of them may be a number",
    "second": "; the second may be a number",
}


def described(
    op: Any,
    what: str,
    example: tuple[str, str] | None,
    *,
    refuses: str | None = None,
    result: str = "",
    out: bool = True,
) -> str:
    """The docstring of an elementwise op: what it computes; arguments, result and errors as declared; an example.

    Args:
        op: the op.
        what: the sentence that says what it computes.
        example: a call, and what it shows.
        refuses: kinds of dtypes that it raises NotImplementedError for, of "bool integer floating complex", and after
            a slash those that it raises RuntimeError for. None: what follows from the declaration.
        result: the dtype of the result, where the declaration does not give it.
        out: whether there is ``out=``.
    """
    several = len(op.tensors) > 1
    names = ", ".join(["input" if name == "self" else name for name in op.tensors])
    if refuses is None:
        refuses = _refused(op)
    missing, _, wrong = refuses.partition("/")
    dtype = result or _DTYPES.get(op.promote, "that of the argument")
    if op.complex:
        dtype = dtype.replace("floating", "floating or complex")
    if several:
        given = f"    {names}: tensors whose shapes broadcast{_NUMBERS[op.numbers]}.\n"
        dtype = dtype.replace("that of the", "the one of the").replace("the ", "the common ", 1)
        dtype = dtype.replace("of the argument", "of the arguments")
        shape, reasons = "that the arguments broadcast to", "the shapes do not broadcast"
        reasons += ", or the devices differ"
        kind = "an argument is of another kind"
        if op.numbers in ("one", "second"):
            kind += ", or all are numbers"
    else:
        given = f"    {names}: a tensor of any shape.\n"
        shape, reasons, kind = "of the argument", "", "the argument is no tensor"
    if op.nondifferentiable == "bool":
        dtype = "bool"
    if out:
        must = "of the dtype of the result" if op.exact_out else "whose dtype can hold the result"
        must = "of dtype bool" if op.bool_out else must
        given += f"    out: a tensor to write to, {must}"
        given += "; then nothing may require grad.\n" if op.differentiable else ".\n"
        reasons += ", or `out` is not as said" if reasons else "`out` is not as said"
    raised = f"    RuntimeError: {reasons}.\n" if reasons else ""
    if wrong:
        raised += f"    RuntimeError: an argument is {kinds(wrong)}.\n"
    if missing:
        raised += f"    NotImplementedError: an argument is {kinds(missing)}.\n"
    gradient = "" if op.differentiable else " It has no gradient."
    text = (
        f"{what}\n\nArgs:\n{given}\nReturns:\n    A tensor of the shape {shape}.{gradient}\n    Its dtype: {dtype}.\n\n"
        f"Raises:\n{raised}    TypeError: {kind}.\n"
    )
    return f"{text}\nExample:\n    >>> {example[0]}\n    {example[1]}\n" if example else text


def _refused(op: Any) -> str:
    """The kinds of dtypes that an op of this declaration raises NotImplementedError for."""
    if op.nondifferentiable == "integer":
        return "floating complex"
    real = op.complex is False or (op.promote == "float" and not op.complex)
    return "complex" if real else ""


def kinds(names: str) -> str:
    """ "bool integer complex" -> "bool, integer or complex"."""
    *first, last = names.split()
    return f"{', '.join(first)} or {last}" if first else last


def in_place_text(name: str, first: str = "") -> str:
    """The docstring of the in-place form of the function `name`; first: its first line, if it says more than that."""
    return f"""{first or f"In-place version of ``{name}``: the result is written into this tensor."}

Returns:
    This tensor, of the same shape and dtype, with the operation in its history.

Raises:
    RuntimeError: operations are recorded and the tensor is a leaf that requires grad, or a view of one; the result has
        another shape, or is of a kind that the dtype cannot hold (as integers a floating result); some of the elements
        share memory. Also all that ``{name}`` raises.
"""
