"""`tests/programs.py` with captured steps: what loops do, or what comes after the models are made."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import gradlib as torch
from tests import programs
from tests.capture.as_steps import facts

STEPS = 20
# from which variable on the body of a program without loops is a step
FIRST = {
    "packed_sequences": "packed",
    "transformer": "out",
    "differentiated_twice": "inner",
    "transforms": "together",
}
REPLAYED = ("image_classifier", "variational_autoencoder", "adversarial_training")


def names(nodes: list[ast.stmt], kind: type) -> list[str]:
    """The variables that statements store or load, without those of comprehensions."""
    walked = [n for node in nodes for n in ast.walk(node)]
    targets = [t for c in walked if isinstance(c, ast.comprehension) for t in ast.walk(c.target)]
    own = {t.id for t in targets if isinstance(t, ast.Name)}
    found = [n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, kind)]
    return [n for n in dict.fromkeys(found) if n not in own]


def carried(body: list[ast.stmt], made: list[str]) -> list[str]:
    """What a round of a loop takes over from the one before."""
    found: list[str] = []
    known: set[str] = set()
    for node in body:
        found += [n for n in names([node], ast.Load) if n in made and n not in known]
        known |= set(names([node], ast.Store))
    return list(dict.fromkeys(found))


class Loops(ast.NodeTransformer):
    """The body of each innermost loop becomes a function, which is wrapped."""

    def __init__(self) -> None:
        self.count = 0

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        other = (ast.For, ast.Return, ast.FunctionDef, ast.Break, ast.Continue)
        if any([isinstance(n, other) for part in node.body for n in ast.walk(part)]):
            return node
        self.count += 1
        targets = names([node.target], ast.Store)  # type: ignore[list-item]
        made = [n for n in names(node.body, ast.Store) if n not in targets]
        used = names(node.body, ast.Load)
        given = ", ".join([t for t in targets if t in used] + carried(node.body, made))
        results = "".join(f"{n}, " for n in made)
        head = f"@WRAP\ndef step{self.count}({given}):\n    return ({results})"
        step: Any = ast.parse(head).body[0]
        step.body[:0] = node.body
        call = f"step{self.count}({given})"
        node.body = ast.parse(f"{results}= {call}" if made else call).body
        if isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "range":
            node.iter.args = [ast.Constant(min(STEPS, 8) if "schedule" in used else STEPS)]
        return [step, node]


def run(program: Callable, wrap: Callable) -> tuple[Any, list]:
    """What a program returns whose loops run their bodies as functions, and these."""
    tree = ast.parse(inspect.getsource(program))
    function: Any = tree.body[0]
    if program.__name__ in FIRST:
        body, first = function.body, FIRST[program.__name__]
        k = next(i for i, node in enumerate(body) if first in names([node], ast.Store))
        loop: Any = ast.parse(f"for _ in range({STEPS}): pass").body[0]
        loop.body, body[k:-1] = body[k:-1], [loop]
    tree = ast.fix_missing_locations(Loops().visit(tree))
    steps: list[Any] = []
    space = dict(vars(programs), WRAP=lambda f: steps.append(wrap(f)) or steps[-1])
    exec(compile(tree, f"<{program.__name__}>", "exec"), space)
    torch.manual_seed(0)
    return facts(space[program.__name__](torch, "cpu"), named=False), steps


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program):
    expected, _ = run(program, lambda f: f)
    found, steps = run(program, torch.capture)
    assert found == expected

    assert any([s.replays for s in steps]) == (program.__name__ in REPLAYED)
