"""Where a program catches a failed import: there an absent name has to fail, so that the program's own way is taken."""

from __future__ import annotations

import ast
import linecache
from functools import cache
from typing import Any

__all__ = ["guarded_lines"]

_CAUGHT = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))


def _names(node: ast.AST) -> set[str]:
    return {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node)}


def _guards(node: ast.AST) -> bool:
    """Whether an ImportError in the body of a statement goes no further."""
    if isinstance(node, ast.Try):
        return any(h.type is None or _names(h.type) & _CAUGHT for h in node.handlers)
    calls = [item.context_expr for item in getattr(node, "items", ())]  # with suppress(...)
    return any("suppress" in _names(call) and _names(call) & _CAUGHT for call in calls)


@cache
def guarded_lines(file: str) -> frozenset[int]:
    """The lines of a file where an ImportError goes to the program's own handler; none if it cannot be read.

    Example:
        >>> guarded_lines("no such file")
        frozenset()
    """
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return frozenset()
    found: set[int] = set()

    def visit(node: Any, guarded: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            guarded = False  # what is defined in a try runs outside of it
        if guarded and isinstance(node, ast.stmt):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        inside = node.body if isinstance(node, ast.Try | ast.With) and _guards(node) else []
        for child in ast.iter_child_nodes(node):
            visit(child, guarded or child in inside)

    visit(tree, False)
    return frozenset(found)
