"""What CuPy has, read from api.txt: names, parameters of functions, types of ufuncs."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
UFUNCS: dict[str, tuple[str, list[str]]] = {}  # public name -> CuPy's name, types
FUNCTIONS: dict[str, inspect.Signature | None] = {}
VALUES: set[str] = set()
REDUCTIONS: dict[str, list[str]] = {}  # name -> types
METHODS: set[str] = set()
RUNTIME: set[str] = set()


def dtype_of(char: str) -> np.dtype:
    return BFLOAT16 if char == "E" else np.dtype(char)


def parse(words: list[str]) -> inspect.Signature | None:
    """The signature that record_api.py wrote as words; None where it is not known."""
    if words == ["?"]:
        return None
    kinds = inspect.Parameter
    kind: Any = kinds.POSITIONAL_OR_KEYWORD
    made: list[inspect.Parameter] = []
    for word in words:
        if word == "/":
            made = [p.replace(kind=kinds.POSITIONAL_ONLY) for p in made]
        elif word == "*":
            kind = kinds.KEYWORD_ONLY
        elif word.startswith("**"):
            made.append(kinds(word[2:], kinds.VAR_KEYWORD))
        elif word.startswith("*"):
            made.append(kinds(word[1:], kinds.VAR_POSITIONAL))
            kind = kinds.KEYWORD_ONLY
        else:
            default = None if word.endswith("=") else kinds.empty
            made.append(kinds(word.rstrip("="), kind, default=default))
    return inspect.Signature(made)


def _read() -> None:
    for line in Path(__file__).with_name("api.txt").read_text().splitlines():
        kind, name, *rest = line.split(" ")
        if kind == "ufunc":
            UFUNCS[name] = rest[0], rest[1:]
        elif kind == "function":
            FUNCTIONS[name] = parse([w for w in rest if w])
        elif kind == "reduction":
            REDUCTIONS[name] = rest
        elif kind == "value":
            VALUES.add(name)
        elif kind == "method":
            METHODS.add(name)
        elif kind == "runtime":
            RUNTIME.add(name)


_read()
