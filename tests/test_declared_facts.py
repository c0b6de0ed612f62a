"""What is known of an op stands in its declaration: no table elsewhere is keyed by the names of ops."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gradlib  # noqa: F401  # declares the ops
from gradlib.op.declare import REGISTRY

ROOT = Path(__file__).parent.parent
FEW = 3  # op names in one literal that make it a table

KNOWN: dict[str, list[str]] = {
    "names of NumPy functions": [
        "gradlib/devices/cuda/gaps.py: _REDUCTIONS",
        "gradlib/devices/cuda/gaps.py: WIDENED",
        "gradlib/devices/cuda/fused/trace.py: _LOGICAL",
        "gradlib/devices/cuda/fused/trace.py: _UNARY",
        "gradlib/devices/cuda/fused/trace.py: _BINARY",
        "gradlib/devices/cuda/fused/trace.py: _TESTS",
        "gradlib/devices/cuda/fused/trace.py: _operators",
        "gradlib/devices/numpy/mkl.py: FUNCTIONS",
    ],
    "public functions, which are made for lists of tensors": [
        "gradlib/_foreach.py: BINARY",
        "gradlib/_foreach.py: UNARY",
    ],
    "public functions, which are split among processes": [
        "gradlib/distributed/tensor/_rules.py: BINARY",
        "gradlib/distributed/tensor/_rules.py: UNARY",
    ],
    "how elements of a row are put together": ["gradlib/operators/sparse/products.py: REDUCTIONS"],
    "how processes put values together": [
        "gradlib/distributed/_gloo/reduction.py: COMBINE",
        "gradlib/distributed/_mpi/reductions.py: _UFUNCS",
        "gradlib/distributed/_nccl/engine.py: _OPS",
        "gradlib/distributed/_reducing.py: _OF_BOOL",
        "gradlib/distributed/tensor/_redistribute.py: _REDUCTIONS",
    ],
    "where PyTorch counts operations": [
        "gradlib/utils/flop_counter.py: _COUNTED",
    ],
    "names of constraints": [
        "gradlib/distributions/constraints.py: __all__",
    ],
    "what is measured": [
        "ci/gpu/micro.py: WORKLOADS",
        "ci/gpu/micro.py: pointwise.make",
    ],
    "functions of NumPy": [
        "gradlib/devices/meta/functions.py: _NO_EMPTY",
        "gradlib/devices/meta/functions.py: module",
    ],
    "methods of NumPy's arrays": [
        "gradlib/_capture/inline.py: _METHODS",
        "gradlib/_capture/watch.py: _READERS",
    ],
    "names of modules": [
        "gradlib/devices/cuda/fused/__init__.py: MODULES",
    ],
    "overlays register under the name of their op": [
        "gradlib/op/overlays.py: Overlays._lookup",
        "ci/op_table.py: fused",
    ],
    "the name of the function that is written": [
        "gradlib/op/write.py: write_call",
        "gradlib/op/write.py: _call_general",
        "gradlib/op/write.py: _call_variadic",
        "gradlib/op/write_node.py: compile_code",
    ],
    "the namespace F of formulas": [
        "gradlib/op/formulas.py: register",
    ],
    "public functions, whose results are copied": [
        "gradlib/operators/shape/copies.py: module",
    ],
    "what a module of PyTorch holds": [
        "gradlib/distributions/constraints.py: __all__",
        "gradlib/sparse.py: __all__",
    ],
    "values of the argument `mode`": [
        "gradlib/operators/nn/embedding.py: MODES",
    ],
    "public functions that check their argument themselves": [
        "gradlib/op/expose.py: _QUICK",
    ],
    "values of the argument `reduce`": [
        "gradlib/_composites.py: _IDENTITY",
        "gradlib/operators/index/index_dim.py: _reduce_name",
        "gradlib/operators/index/scatter.py: _reduce_samples",
        "gradlib/operators/index/scatter.py: _check_reduce",
    ],
    "public functions, of aliases too": [
        "gradlib/operators/written.py: _IN_PLACE",
    ],
    "types of results, of public functions": [
        "gradlib/return_types.py: _PAIRS",
        "gradlib/return_types.py: module",
    ],
    "under which names gradlib.special publishes functions": [
        "gradlib/special.py: _SAME",
    ],
    "how Python's operators are written": [
        "gradlib/fx/_code.py: magic_methods",
        "gradlib/fx/_code.py: reflectable_magic_methods",
    ],
    "what is timed": [
        "ci/bench/op_table.py: OPS",
    ],
    "public functions that stubs describe twice": [
        "ci/stubs.py: EITHER",
    ],
}
"""Why -> ``file: where``. What stands there are no facts of ops. It may only shrink."""


def names_in(node: ast.AST) -> list[str]:
    """The strings of a literal: keys, members, or the words of a text that is split."""
    members: list = []
    if isinstance(node, ast.Dict):
        members = node.keys
    elif isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        members = node.elts
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value.split()
        return words if all(w.isidentifier() for w in words) else []
    return [m.value for m in members if isinstance(m, ast.Constant) and isinstance(m.value, str)]


def of_an_op(node: ast.AST) -> bool:
    """Whether an expression is ``<op>.name`` or ``<op>.public``."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("name", "public"):
        return False
    holder = node.value
    return getattr(holder, "id", getattr(holder, "attr", "")) in ("op", "stands")


def asks_for_a_name(node: ast.AST) -> bool:
    """Whether an expression decides by the name of an op: compares it, or looks something up by it."""
    if isinstance(node, ast.Compare):
        return any(of_an_op(side) for side in (node.left, *node.comparators))
    if isinstance(node, ast.Subscript):
        key = node.slice
        return any(of_an_op(k) for k in (key.elts if isinstance(key, ast.Tuple) else [key]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("startswith", "endswith", "removesuffix", "removeprefix"):
            return of_an_op(node.func.value)
        return node.func.attr in ("get", "pop", "setdefault") and any(map(of_an_op, node.args))
    return False


def is_table(node: ast.AST) -> bool:
    """Whether a literal holds names of ops; a text does if most of its words are some, else it is a sentence."""
    words = names_in(node)
    ops = sum(word in REGISTRY for word in words)
    return ops >= FEW and (2 * ops >= len(words) or not isinstance(node, ast.Constant))


def tables(tree: ast.AST, where: str = "") -> Iterator[str]:
    """Where the tables of a module are: the name that is assigned to, the function, or the one that is called."""
    for node in ast.iter_child_nodes(tree):
        inside = where
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inside = f"{where}.{node.name}".strip(".")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and not where:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            inside = ast.unparse(target)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if is_table(node) or asks_for_a_name(node):
            yield inside or "module"
        else:
            yield from tables(node, inside)


def known() -> set[str]:
    return {place for places in KNOWN.values() for place in places}


@cache
def found() -> dict[str, int]:
    """``file: where`` -> how many tables there are."""
    counts: dict[str, int] = {}
    for folder in ("gradlib", "ci"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for where in tables(ast.parse(path.read_text())):
                key = f"{path.relative_to(ROOT)}: {where}"
                counts[key] = counts.get(key, 0) + 1
    return counts


def test_no_table_is_keyed_by_names_of_ops():
    new = sorted(set(found()) - known())
    assert not new, "what is known of an op belongs into its declaration: make it a field of Op"


def test_the_known_tables_are_there():
    gone = sorted(known() - set(found()))
    assert not gone, "these are no tables of op names any more: take them off the list"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("COSTS = {'mul': 1, 'add': 2, 'exp': 3}", ["COSTS"]),
        ("def f(op):\n    return op.name in ('mul',)", ["f"]),
        ("def f(op):\n    return SLOW.get(op.name)", ["f"]),
        ("LOW = frozenset('mm bmm matmul linear'.split())", ["LOW"]),
        ("for n in 'mul add exp'.split():\n    rule(n)", ["module"]),
        ("PAIR = {'mul': 1, 'add': 2}", []),
        ("def f(op):\n    return f'{op.name} failed'", []),
        ("def f():\n    'mul add exp'", []),
        ("raise TypeError('neither std nor var nor mean of an integer')", []),
    ],
)
def test_what_a_table_is(text, where):
    assert list(tables(ast.parse(text))) == where
