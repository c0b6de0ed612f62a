"""What is known of an op stands in its declaration: no table elsewhere is keyed by the names of ops."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import gradlib  # noqa: F401  # declares the ops
from gradlib.core.op import REGISTRY

ROOT = Path(__file__).parent.parent
FEW = 3  # op names in one literal that make it a table

KNOWN: dict[str, str] = {
    "gradlib/backends/_gaps.py: _REDUCTIONS": "names of NumPy functions",
    "gradlib/backends/_gaps.py: WIDENED": "names of NumPy functions",
    "gradlib/backends/fused/__init__.py: MODULES": "names of modules",
    "gradlib/backends/fused/trace.py: _LOGICAL": "names of NumPy functions",
    "gradlib/backends/fused/trace.py: _UNARY": "names of NumPy functions",
    "gradlib/backends/fused/trace.py: _BINARY": "names of NumPy functions",
    "gradlib/backends/fused/trace.py: _TESTS": "names of NumPy functions",
    "gradlib/backends/fused/trace.py: _operators": "names of NumPy functions",
    "gradlib/backends/overlays.py: _find": "becomes a field",
    "gradlib/core/batched.py: replacement": "a rule of vmap",
    "gradlib/core/batched.py: _rule_of": "a rule of vmap",
    "gradlib/core/codegen.py: write_call": "the name of the function that is written",
    "gradlib/core/codegen.py: _call_general": "the name of the function that is written",
    "gradlib/core/codegen.py: _call_variadic": "the name of the function that is written",
    "gradlib/core/codegen_node.py: compile_code": "the name of the function that is written",
    "gradlib/core/formulas.py: register": "the namespace F of formulas",
    "gradlib/ops/batching_layers.py: convolution": "a rule of vmap",
    "gradlib/ops/batching_layers.py: planes": "a rule of vmap",
    "gradlib/ops/batching_layers.py: images": "a rule of vmap",
    "gradlib/ops/batching_layers.py: losses": "a rule of vmap",
    "gradlib/ops/batching_rules.py: elementwise": "a rule of vmap",
    "gradlib/ops/batching_rules.py: _SAME_RANK": "a rule of vmap",
    "gradlib/ops/batching_rules.py: along_dimensions": "a rule of vmap",
    "gradlib/ops/batching_rules.py: _only_view": "a rule of vmap",
    "gradlib/ops/batching_rules.py: with_positions": "a rule of vmap",
    "gradlib/ops/batching_rules.py: over_all": "a rule of vmap",
    "gradlib/ops/batching_rules.py: over_all_flat": "a rule of vmap",
    "gradlib/ops/batching_rules.py: matmul": "a rule of vmap",
    "gradlib/ops/batching_rules.py: addmm": "a rule of vmap",
    "gradlib/ops/batching_rules.py: _LEADING": "a rule of vmap",
    "gradlib/ops/copies.py: module": "becomes a field",
    "gradlib/ops/embedding.py: MODES": "values of the argument `mode`",
    "gradlib/ops/expose.py: _QUICK": "public functions that check their argument themselves",
    "gradlib/ops/index_dim.py: _reduce_name": "values of the argument `reduce`",
    "gradlib/ops/scatter.py: _reduce_samples": "values of the argument `reduce`",
    "gradlib/ops/scatter.py: _check_reduce": "values of the argument `reduce`",
    "gradlib/ops/written.py: _IN_PLACE": "functions that PyTorch publishes beside the methods, of aliases too",
    "gradlib/return_types.py: _PAIRS": "types of results by public functions, some made of several ops",
    "gradlib/return_types.py: module": "types of results by public functions, some made of several ops",
    "gradlib/special.py: _SAME": "under which names gradlib.special publishes functions",
    "ci/bench/op_table.py: OPS": "which ops are timed",
    "ci/op_table.py: batch": "becomes a field",
    "ci/op_table.py: fused": "becomes a field",
    "ci/stubs.py: NAMED": "becomes a field",
    "ci/stubs.py: EITHER": "becomes a field",
}
"""``file: where`` -> why these names stand there. It may only shrink: a fact of an op is a field of its declaration."""


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
    new = sorted(set(found()) - set(KNOWN))
    assert not new, "what is known of an op belongs into its declaration: make it a field of Op"


def test_the_known_tables_are_there():
    gone = sorted(set(KNOWN) - set(found()))
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
