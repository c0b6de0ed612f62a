"""Signatures of ops as PyTorch writes them: ``scale(Tensor x, float by=2.0, *, Tensor(a!)? out=None) -> Tensor``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..tape.device import device
from ..tape.dtypes import dtype
from ..tape.errors import type_name
from ..tape.tensor import Tensor

# the word of a type -> what values it takes
_KINDS: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": (int,),
    "SymInt": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "Scalar": (int, float, complex, bool),
    "ScalarType": (dtype,),
    "Device": (device, str),
}
_ARGUMENT = re.compile(r"(\w+)(?:\((\w+)(!?)\))?((?:\?|\[\d*\])*)\s+(\w+)(?:\s*=\s*(.+))?$")


@dataclass(frozen=True)
class Argument:
    """One argument of a schema, or one result (then without a name)."""

    name: str
    kind: str  # the word of its type: Tensor, int, ...
    suffix: str  # "?" if it may be None, "[]" if it is a list
    alias: str = ""
    is_write: bool = False
    kwarg_only: bool = False
    has_default: bool = False
    default_value: Any = None

    @property
    def type(self) -> str:
        """Its type as it is written."""
        mark = f"({self.alias}{'!' * self.is_write})" if self.alias else ""
        return f"{self.kind}{mark}{self.suffix}"

    @property
    def is_tensor_list(self) -> bool:
        return self.kind == "Tensor" and "[" in self.suffix

    def __str__(self) -> str:
        default = self.default_value
        shown = f'"{default}"' if isinstance(default, str) else str(default).rpartition("torch.")[2]
        if isinstance(default, float):
            shown = shown.removesuffix("0") if shown.endswith(".0") else shown
        return f"{self.type} {self.name}".rstrip() + (f"={shown}" if self.has_default else "")

    def takes(self, value: Any) -> bool:
        """Whether `value` is of its type."""
        if value is None:
            return self.suffix.endswith("?")
        kinds = _KINDS.get(self.kind, (object,))
        if "[" in self.suffix:
            inner = self.suffix.startswith("?")
            return isinstance(value, list | tuple) and all(
                isinstance(v, kinds) or (inner and v is None) for v in value
            )
        if isinstance(value, bool) and self.kind in ("int", "SymInt", "float"):
            return False
        return isinstance(value, kinds)


@dataclass(frozen=True)
class FunctionSchema:
    """The signature of an op.

    Attributes:
        name: its name with the namespace, ``ns::name``.
        overload_name: what follows the name after a point, or "".
        arguments: in order; those that are given by name alone come last.
        returns: the results.
    """

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]

    @property
    def is_mutable(self) -> bool:
        """Whether it changes an argument."""
        return any(a.is_write for a in self.arguments)

    def __str__(self) -> str:
        parts, starred = [], False
        for a in self.arguments:
            if a.kwarg_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(a))
        results = ", ".join(r.type for r in self.returns)
        results = results if len(self.returns) == 1 else f"({results})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {results}"

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call, defaults filled in: those by position, and those that are given by name alone.

        Raises:
            RuntimeError: one is missing, unknown, or of another type.
        """
        by_position = [a for a in self.arguments if not a.kwarg_only]
        if len(args) > len(by_position):
            raise RuntimeError(
                f"{self.name}() expected at most {len(by_position)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        given, values = dict(kwargs), {}
        for i, a in enumerate(self.arguments):
            if i < len(args):
                value = args[i]
                if a.name in given:
                    raise RuntimeError(
                        f"{self.name}() got multiple values for argument '{a.name}'. Declaration: {self}"
                    )
            elif a.name in given:
                value = given.pop(a.name)
            elif a.has_default:
                value = a.default_value
            else:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{a.name}'. Declaration: {self}"
                )
            if not a.takes(value):
                raise RuntimeError(
                    f"{self.name}() Expected a value of type '{_said(a)}' for argument '{a.name}' but instead found "
                    f"type '{type_name(value)}'.\nDeclaration: {self}"
                )
            values[a.name] = float(value) if a.kind == "float" and type(value) is int else value
        if given:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(given))}' for operator '{self.name}'. Schema: {self}"
            )
        named = {a.name: values[a.name] for a in self.arguments if a.kwarg_only}
        return tuple(values[a.name] for a in by_position), named


def _said(a: Argument) -> str:
    kind = {"SymInt": "int", "Scalar": "number"}.get(a.kind, a.kind)
    for mark in re.findall(r"\?|\[\d*\]", a.suffix):
        kind = f"Optional[{kind}]" if mark == "?" else f"List[{kind}]"
    return kind


def _split(text: str) -> list[str]:
    """The parts between commas that are not within brackets or quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += (c in "([") - (c in ")]")
        if c == "," and not depth and not quoted:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:]) if p.strip()]


def _default(text: str, find_dtype: Callable[[str], Any]) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        found = find_dtype(text)
        return text if found is None else found


def parse(text: str, find_dtype: Callable[[str], Any] = lambda name: None) -> FunctionSchema:
    """The schema that a text says.

    Args:
        text: with the name of the op, namespace or not.
        find_dtype: gives a dtype by its name, for defaults.

    Raises:
        RuntimeError: it is none.
    """
    head = re.fullmatch(r"\s*([\w:]+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*", text, re.DOTALL)
    if head is None:
        raise RuntimeError(
            f"expected a schema like 'name(Tensor x, int n=1) -> Tensor', but found: {text!r}"
        )
    name, overload, arguments, results = head.groups()
    found, named = [], False
    for part in _split(arguments):
        if part == "*":
            named = True
            continue
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise RuntimeError(f"cannot read the argument {part!r} of the schema {text!r}")
        kind, alias, write, suffix, arg, default = match.groups()
        has = default is not None
        value = _default(default, find_dtype) if has else None
        found.append(Argument(arg, kind, suffix, alias or "", bool(write), named, has, value))
    inner = results[1:-1] if results.startswith("(") and results.endswith(")") else results
    returns = []
    for part in _split(inner):
        match = _ARGUMENT.fullmatch(part if re.search(r"\s\w+$", part) else part + " _")
        if match is None:
            raise RuntimeError(f"cannot read the result {part!r} of the schema {text!r}")
        kind, alias, write, suffix, _, _ = match.groups()
        returns.append(Argument("", kind, suffix, alias or "", bool(write)))
    return FunctionSchema(name, overload or "", tuple(found), tuple(returns))
