"""Short programs as steps: what they make becomes an argument or a leaf that stays, what they log is returned.

A program is one of those that `tests/oracle` draws or keeps: lines on `torch`, with ``D(seed, *shape, dt=, rg=)`` for
tensors and ``log(...)`` for what they show. `differences(program)` runs it as a step, many times with new values, once
plain and once captured, and says where the two are not the same to the last bit.
"""

from __future__ import annotations

import ast
import re
import textwrap
import traceback
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from time import process_time
from typing import Any

import gradlib as torch
from gradlib._capture import check, passes, steps, trial, writer
from gradlib.tape.source import describe
from gradlib.utils import _pytree as pytree
from tests.oracle.found_programs import names_for

STEPS = 20
LONG = 0.2  # seconds: after a step that takes so long no more are made, since some programs' graphs grow with each
KEEP = """
def KEEP(v):
    if isinstance(v, torch.Tensor):
        return v.detach().clone()
    if isinstance(v, (list, tuple)):
        return [KEEP(x) for x in v]
    return {k: KEEP(x) for k, x in v.items()} if isinstance(v, dict) else v
"""


class _Hoisted(ast.NodeTransformer):
    """Tensors that a program makes of seeds: leaves as globals ``P0, ...``, the others as arguments ``A0, ...``."""

    def __init__(self) -> None:
        self.leaves: list[tuple[tuple, dict]] = []
        self.arguments: list[tuple[tuple, dict]] = []
        self.inside = 0  # of functions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "log":
            shown = ast.List([*node.args], ast.Load())
            return ast.Call(
                ast.Attribute(ast.Name("LOG", ast.Load()), "append", ast.Load()), [shown], []
            )
        if not (isinstance(node.func, ast.Name) and node.func.id == "D"):
            return node
        try:
            args = tuple([ast.literal_eval(a) for a in node.args])
            kwargs = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
        except ValueError:
            return node
        kind, into = ("P", self.leaves) if kwargs.get("rg") else ("A", self.arguments)
        into.append((args, kwargs))
        name = ast.Name(f"{kind}{len(into) - 1}", ast.Load())
        if not self.inside:
            return name
        return ast.Call(ast.Attribute(name, "clone", ast.Load()), [], [])  # a new one in each call

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.inside += 1
        self.generic_visit(node)
        self.inside -= 1
        return node


def _variables(body: list[ast.stmt]) -> list[str]:
    """Names that certainly have a value at the end of a program, and are no functions."""
    found: dict[str, None] = {}
    for node in body:
        if isinstance(node, ast.With):
            found |= dict.fromkeys(_variables(node.body))
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                found.pop(getattr(target, "id", ""), None)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            found |= dict.fromkeys(n.id for n in names if isinstance(n.ctx, ast.Store))
    gone = {
        t.id
        for node in body
        for d in ast.walk(node)
        if isinstance(d, ast.Delete)
        for t in d.targets
        if isinstance(t, ast.Name)
    }
    return [n for n in found if n not in gone]


class Step:
    """A program as a step. raw: its variables are returned as they are, not as copies without history."""

    def __init__(self, program: str, raw: bool = False):
        hoisted = _Hoisted()
        tree = ast.fix_missing_locations(hoisted.visit(ast.parse(program)))
        self.leaves, self.arguments = hoisted.leaves, hoisted.arguments
        lines = ast.unparse(tree)
        shown = ", ".join(["LOG", *_variables(tree.body)])
        given = ", ".join(f"A{i}" for i in range(len(self.arguments)))
        shown = f"[{shown}]" if raw else f"KEEP([{shown}])"
        body = textwrap.indent(f"LOG = []\n{lines}\nreturn {shown}", "    ")
        self.source = f"{KEEP}\ndef step({given}):\n{body}\n"
        (step,) = [n for n in ast.parse(self.source).body if getattr(n, "name", "") == "step"]
        self.ends = [n.end_lineno or 0 for n in step.body[1:-1]]  # of its statements
        self.raised_at: int | None = None  # which of them raised in the last run

    def line(self, text: str) -> int | None:
        """Which statement of the program a place in the code of the step is in."""
        found = re.search(r"<program>:(\d+)", text)
        return bisect_left(self.ends, int(found[1])) if found else None

    def run(
        self,
        wrap: Callable[[Callable], Callable],
        steps: int = STEPS,
        after: Any = None,
        around: Callable = nullcontext,
    ) -> tuple[list, Any]:
        """What each of the steps gives and leaves, and the step.

        after: ``after(k, result, leaves)`` gives what is seen of the k-th result, if that is not all.
        around: a block that is open for two steps.
        """
        names = names_for("gradlib")
        make = names["D"]
        leaves = {f"P{i}": make(*a, **kw) for i, (a, kw) in enumerate(self.leaves)}
        names.update(leaves)
        exec(compile(self.source, "<program>", "exec"), names)
        torch.manual_seed(0)
        step, found = wrap(names["step"]), []
        with ExitStack() as stack:
            self._steps(step, found, make, leaves, range(steps), after, stack, around)
        return found, step

    def _steps(self, step, found, make, leaves, steps, after, stack, around) -> None:
        for k in steps:
            if k % 2 == 0:
                stack.close()
                stack.enter_context(around())
            began = process_time()
            given = [make(a[0] + 31 * k, *a[1:], **kw) for a, kw in self.arguments]
            try:
                result: Any = step(*given)
                result = facts(result) if after is None else after(k, result, leaves)
            except Exception as exc:
                result = type(exc).__name__, str(exc).split("\n")[0]
                lines = [
                    f.lineno
                    for f in traceback.extract_tb(exc.__traceback__)
                    if f.filename == "<program>"
                ]
                self.raised_at = bisect_left(self.ends, lines[0]) if lines else None
            found.append([result, facts([*given, *leaves.values()]), facts(torch.get_rng_state())])
            del result
            if process_time() - began > LONG:
                break


def facts(value: Any, named: bool = True) -> Any:
    """All that a program can see of a value, to the last bit. named: also what made it."""
    if isinstance(value, torch.Tensor):
        with warnings.catch_warnings(action="ignore"):
            grad = value.grad if value.is_leaf else None
        node = None if value.grad_fn is None else value.grad_fn.name() if named else ""
        strides = [s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1]
        kind = type(value).__name__, str(value.dtype), tuple(value.shape), strides
        version = None if value.is_inference() else value._version
        with torch.no_grad():
            array = value.resolve_conj().resolve_neg()._array
        content = array.tobytes() if hasattr(array, "tobytes") else repr(array)
        flags = value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg(), node, version
        return *kind, *flags, content, None if grad is None else facts(grad, named)
    if isinstance(value, dict):
        return [(k, facts(v, named)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [facts(v, named) for v in value]
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        return type(value).__name__, repr(value)
    return type(value).__name__


def _unnamed(k: int, result: Any, leaves: dict[str, Any]) -> Any:
    return facts(result, named=False)


def differentiated(k: int, result: Any, leaves: dict[str, Any]) -> Any:
    """What a program sees of the k-th result, and of backward through it: plain, from some of it, twice, or double."""
    seen = facts(result, named=False)
    flat = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    hanging = list({id(t): t for t in flat if t.requires_grad and t.grad_fn is not None}.values())
    if k % 4 == 1:
        hanging = hanging[::2]
    if not hanging:
        return seen
    said = ""
    try:
        loss = sum([(t * (i + 1.5)).abs().sum() for i, t in enumerate(hanging)])
        wanted = [t for t in leaves.values() if t.requires_grad]
        if k % 4 == 2 and wanted:
            given = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
            loss = loss + sum([(g * g.conj()).real.sum() for g in given if g is not None])
        loss.backward(retain_graph=k % 4 == 3)
        if k % 4 == 3:
            loss.backward()
    except RuntimeError as exc:
        said = str(exc).split("\n")[0]
    gradients = facts([t.grad for t in leaves.values()], named=False)
    for t in leaves.values():
        t.grad = None
    return seen, gradients, re.sub(r"which is output \d of \S+", "", said)


def captured_part(program: str, tries: int = 12, raw: bool = False) -> tuple[str, int]:
    """The program without the lines for which it runs as it is, and how many plans are made of what is left."""
    for _ in range(tries):
        made = Step(program, raw)
        _, step = made.run(torch.capture, 4)
        if step.replays or not program:
            return program, step.replays
        where = [made.line(t) for t in [f.where for f in torch.explain(step)]]
        where += [made.raised_at] if made.raised_at else []
        body = ast.parse(program).body
        drop = next((k for k in where if k is not None and k < len(body)), len(body) - 1)
        del body[drop]
        program = "\n".join(map(ast.unparse, body))
    return program, 0


class WrongLines(BaseException):
    """A draft gives other numbers than the step."""


@contextmanager
def strictly() -> Iterator[None]:
    """Where a draft gives other numbers than the step, which is then run as it is, `WrongLines` is raised."""

    def raising(*given: Any) -> None:
        line = check.first_difference(*given)
        if line is not None:
            raise WrongLines(f"{line.text}  # {line.what} at {describe(line.site)}")

    def tried(plan: Any, recorder: Any) -> bool:
        if not trial.gives_again(plan, recorder):
            recorder.confirm()  # raises if it is a line
            raise WrongLines("the plan as a whole")
        return True

    before = writer.first_difference
    writer.first_difference = passes.first_difference = raising
    steps.gives_again = tried
    try:
        yield
    finally:
        writer.first_difference = passes.first_difference = before
        steps.gives_again = trial.gives_again


def differences(
    program: str,
    raw: bool = False,
    steps: int = STEPS,
    after: Any = None,
    around: Callable = nullcontext,
) -> tuple[list[str], int]:
    """Where a program does something else if it is captured, and how many plans were made of it."""
    if raw and after is None:  # the nodes of what is returned have other names
        after = _unnamed
    with warnings.catch_warnings(action="ignore"), strictly():
        made = Step(program, raw)
        expected, _ = made.run(lambda f: f, steps, after, around)
        found, step = made.run(torch.capture, len(expected), after, around)
        del expected[len(found) :]
        if found == expected:
            return [], step.replays
        for _ in range(
            4
        ):  # memory without content, or products whose last bits depend on where arrays lie
            again, _ = made.run(lambda f: f, len(found), after, around)
            del expected[len(again) :], found[len(again) :]
            if again != expected:
                return [], step.replays
    where = next(k for k, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
    parts = zip(("result", "tensors", "random state"), found[where], expected[where], strict=True)
    return [f"step {where}, {n}:\n   {a}\n   {b}" for n, a, b in parts if a != b], step.replays
