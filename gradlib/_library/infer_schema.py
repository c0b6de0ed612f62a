"""The schema of a function, of its type annotations."""

from __future__ import annotations

import collections.abc
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import gradlib

__all__ = ["infer_schema"]

_Fn = Callable[..., Any]
# type -> its word; whether there are lists of it, lists of optionals, optional lists
_SCALARS: dict[Any, tuple[str, bool, bool, bool]] = {
    gradlib.Tensor: ("Tensor", True, True, False),
    int: ("SymInt", True, False, True),
    float: ("float", True, False, True),
    bool: ("bool", True, False, True),
    str: ("str", False, False, False),
    numbers.Number: ("Scalar", True, False, False),
    gradlib.dtype: ("ScalarType", False, False, False),
    gradlib.device: ("Device", False, False, False),
}
_NUMBER = int | float | bool  # what types.Number of PyTorch is


def _word(kind: Any) -> str | None:
    """The type of a schema for a type annotation of an argument; None if there is none."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind][0]
    if kind == _NUMBER or kind == typing.Union[int, float, bool]:  # noqa: UP007
        return "Scalar"
    if origin in (typing.Union, types.UnionType) and len(inner) == 2 and type(None) in inner:
        [kind] = [i for i in inner if i is not type(None)]
        if kind in _SCALARS:
            return _SCALARS[kind][0] + "?"
        found = _word(kind)
        of = typing.get_args(kind)
        allowed = found is not None and found.endswith("[]") and _SCALARS.get(of[0], ("",) * 4)[3]
        return f"{found}?" if allowed else None
    if origin in (list, collections.abc.Sequence):
        if inner[0] in _SCALARS and _SCALARS[inner[0]][1]:
            return _SCALARS[inner[0]][0] + "[]"
        if _word(inner[0]) == "Tensor?":
            return "Tensor?[]"
    return None


def _result_word(kind: Any, error: Callable[[str], ValueError]) -> str:
    """The result of a schema for the annotation of what a function returns."""
    words = {
        gradlib.Tensor: "Tensor",
        int: "SymInt",
        float: "float",
        bool: "bool",
        numbers.Number: "Scalar",
    }
    words[list[gradlib.Tensor]] = words[typing.List[gradlib.Tensor]] = "Tensor[]"  # noqa: UP006
    if kind is None or kind is type(None):
        return "()"
    if typing.get_origin(kind) is tuple:
        inner = [i for i in typing.get_args(kind) if i != ()]
        for one in inner:
            if one not in words:
                raise error(
                    f"Return has unsupported type {kind}. The valid types are: {list(words)}."
                )
        return "(" + ", ".join(words[i] for i in inner) + ")"
    if kind not in words:
        raise error(f"Return has unsupported type {kind}. The valid types are: {list(words)}.")
    return words[kind]


def infer_schema(
    prototype_function: _Fn, /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The schema that the type annotations of a function say.

    Args:
        prototype_function: a function whose arguments, and result, all have annotations.
        mutates_args: the names of the arguments that it changes, or "unknown" for all tensors.
        op_name: a name to put before.

    Raises:
        ValueError: an annotation is missing, or of a type that schemas have not.

    Example:
        >>> def scale(x: gradlib.Tensor, by: float = 2.0) -> gradlib.Tensor: ...
        >>> gradlib.library.infer_schema(scale, mutates_args=(), op_name="scale")
        'scale(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    unknown = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not unknown:
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'. "
        )
    written = set() if unknown else set(mutates_args)

    def error(text: str) -> ValueError:
        return ValueError(f"infer_schema(func): {text} Got func with signature {signature})")

    def resolved(kind: Any) -> Any:
        if not isinstance(kind, str):
            return kind
        try:
            return eval(kind, prototype_function.__globals__)
        except Exception as problem:
            raise error(
                f"Unsupported type annotation {kind}. It is not a type. ({type(problem).__name__}: {problem})"
            ) from None

    parts, starred = [], False
    for i, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            raise error("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind == p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if p.annotation is p.empty:
            raise error(f"Parameter {name} must have a type annotation.")
        word = _word(resolved(p.annotation))
        if word is None:
            raise error(
                f"Parameter {name} has unsupported type {p.annotation}. Valid are Tensor, int, float, bool, str, "
                "Number, dtype and device, Optional of them, and lists of Tensor, int, float, bool and Number."
            )
        if name in written and not word.startswith("Tensor"):
            raise error(
                f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
            )
        if name in written or (unknown and word.startswith("Tensor")):
            word = f"Tensor(a{i}!){word.removeprefix('Tensor')}"
        parts.append(
            f"{word} {name}"
            + ("" if p.default is p.empty else f"={_written_default(name, p.default, error)}")
        )
    missing = written - signature.parameters.keys()
    if missing:
        raise error(
            f"{missing} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    returned = signature.return_annotation
    if returned is signature.empty:
        raise error("No return type annotation was provided. Please add one.")
    result = _result_word(resolved(returned), error)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _written_default(name: str, value: Any, error: Callable[[str], ValueError]) -> str:
    if value is None or isinstance(value, int | float):
        return str(value)
    if isinstance(value, str | gradlib.device):
        return f'"{value}"'
    if isinstance(value, gradlib.dtype):
        return str(value).rpartition(".")[2]
    raise error(f"Parameter {name} has an unsupported default value type {type(value)}.")
