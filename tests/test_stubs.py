"""The type stubs: what editors complete is what the library has."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import gradlib
from gradlib._refused import is_refused
from gradlib.op.expose import PUBLIC

ROOT = Path(__file__).parents[1]


def _generator():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "ci" / "stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _names(text: str, owner: str | None = None) -> set[str]:
    """The names that a stub (or a class in it) declares; SyntaxError if it is no Python."""
    body = ast.parse(text).body
    if owner is not None:
        body = next(n for n in body if isinstance(n, ast.ClassDef) and n.name == owner).body
    found = {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    found |= {
        n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    for n in body:
        if isinstance(n, ast.ImportFrom):
            found |= {a.asname or a.name for a in n.names}
    return found


def test_stubs_are_up_to_date():
    assert _generator().stale() == [], "run: python ci/stubs.py"


def test_stubs_name_everything_public():
    stub = _names((ROOT / "gradlib" / "__init__.pyi").read_text())
    assert "*" in stub  # the functions of public.pyi
    stub |= _names((ROOT / "gradlib" / "operators" / "public.pyi").read_text())
    absent = {
        n for n in dir(gradlib) if is_refused(getattr(gradlib, n))
    }  # once somebody imported them
    assert {n for n in dir(gradlib) if not n.startswith("_")} - absent <= stub
    assert {n for n in PUBLIC if not n.startswith("_")} <= stub


def test_stubs_name_every_method():
    methods = _names((ROOT / "gradlib" / "tape" / "declared.pyi").read_text(), "Declared")
    own = {n for base in gradlib.Tensor.__mro__[:-1] for n in vars(base)}
    assert {"add", "add_", "softmax", "__add__", "T", "unbind"} <= methods <= own
    assert _generator()._made_by_declarations().keys() == methods
