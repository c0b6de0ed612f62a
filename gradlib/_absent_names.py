"""Names of PyTorch's that a program mentions and gradlib lacks, read from its source: ``python -m gradlib --check``."""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ._refused import is_refused

__all__ = ["check"]


def _member(value: Any, name: str) -> Any:
    """An attribute, or a module that nobody imported yet; AttributeError if there is neither."""
    try:
        return getattr(value, name)
    except AttributeError:
        if not isinstance(value, ModuleType):
            raise
    full = f"{value.__name__}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name in (full, value.__name__):
            raise AttributeError(full) from None
        raise


@cache
def _lacks(name: str) -> str | None:
    """The part of a dotted name up to what is absent; None if all is there. Modules and classes are looked into."""
    value: Any = importlib.import_module("gradlib")
    parts = name.split(".")
    for i, part in enumerate(parts[1:], 2):
        if not isinstance(value, ModuleType | type) or part.startswith("__"):
            return None
        try:
            value = _member(value, part)
        except AttributeError:
            return ".".join(parts[:i])
        except ImportError:  # it is there, and needs a package that is not
            return None
        if is_refused(value) and (i == len(parts) or not isinstance(value, ModuleType)):
            return ".".join(parts[:i])
    return None


class _Reader(ast.NodeVisitor):
    """Follows the names that imports bind to PyTorch's modules; a function's own variables hide them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.mentioned: set[tuple[int, str]] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "torch":
                self.mentioned.add((node.lineno, alias.name))
                self.names[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or "").partition(".")[0] != "torch":
            return
        for alias in node.names:
            full = node.module if alias.name == "*" else f"{node.module}.{alias.name}"
            self.mentioned.add((node.lineno, str(full)))
            if alias.name != "*":
                self.names[alias.asname or alias.name] = str(full)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            parts.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self.names:
            if isinstance(node.ctx, ast.Load):
                full = ".".join([self.names[value.id], *reversed(parts)])
                self.mentioned.add((node.end_lineno or node.lineno, full))
        else:
            self.visit(value)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        outer = self.names
        arguments = node.args
        own = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)}
        body = node.body if isinstance(node.body, list) else [node.body]
        own |= {
            n.id
            for statement in body
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        for name, value in ast.iter_fields(node):  # decorators, defaults, annotations: outside
            if name != "body":
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self.visit(child)
        self.names = {n: full for n, full in outer.items() if n not in own}
        for statement in body:
            self.visit(statement)
        self.names = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)


def _bindings_first(tree: ast.Module) -> Iterator[ast.stmt]:
    """The module's own imports before the rest: a function may stand above the import that it uses."""
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    yield from imports
    yield from (n for n in tree.body if n not in imports)


def _absent_of(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        yield f"{file}:{getattr(error, 'lineno', None) or 1}: not read: {error}"
        return
    reader = _Reader()
    for statement in _bindings_first(tree):
        reader.visit(statement)
    for line, absent in sorted({(n, a) for n, name in reader.mentioned if (a := _lacks(name))}):
        yield f"{file}:{line}: {absent}"


def check(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The absent names in Python files, and in those below folders, as ``file:line: name``. Nothing of them is run.

    A file that cannot be parsed is a line too. Names reached through variables and ``getattr`` are not seen.

    Raises:
        FileNotFoundError: there is no such path.

    Example:
        >>> from gradlib._absent_names import check
        >>> check([])
        []
    """
    found: list[str] = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found += _absent_of(file)
    return found
