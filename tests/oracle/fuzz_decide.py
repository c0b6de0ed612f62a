"""Decides whether a difference has a cause that is known, by running the program once more without that cause.

Each `Rewrite` takes one cause out of a program: it copies what an in-place op reads, asks for gradients one at a time,
and so on. A difference is excused where both libraries agree on what is left, and the one that is right did the same
before. `facts` names what has no answer at all: positions of equal elements, writes to a view that overlaps itself.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from found_programs import differences, names_for, run
from fuzz_rewrites import REWRITES, TRANSFORMS, Rewrite, retain

import gradlib
from gradlib.op import vmap as batched
from gradlib.utils._watching import Watching

# what computes in single precision
ROUGH = r"float32|float16|int64|float\(\)|long|complex64|arg(max|min)|\.(any|all|bool)\("


def decided(program: str, says: list[str], excused: Callable[[str], bool]) -> str:
    """Why the difference of a program is on purpose; "" if it has no such cause.

    `excused` tells of one difference whether it may stay when the cause is gone.
    """
    text = "\n".join(says[1:])
    fits = [r for r in REWRITES if re.search(r.where, program) and re.search(r.says, text)]
    for rewrite in fits:
        if _explains(program, text, (rewrite,), excused):
            return rewrite.why
    others = [
        r for r in REWRITES if r not in fits and not r.ours_alone and re.search(r.where, program)
    ]
    for pair in itertools.product(fits, [*fits, *others]):  # one cause may hide another
        if pair[0] is not pair[1] and _explains(program, text, pair, excused):
            return "; ".join(r.why for r in pair)
    return ""


def _explains(
    program: str, text: str, rewrites: tuple[Rewrite, ...], excused: Callable[[str], bool]
) -> bool:
    """Whether both libraries agree once the causes are gone, and the one that is right went the same way before."""
    changed = program
    try:
        for rewrite in rewrites:
            before, changed = changed, rewrite(changed)
            if changed == before:
                return False
    except (SyntaxError, RecursionError):
        return False
    outcomes = [[_outcome(p, lib) for lib in ("gradlib", "torch")] for p in (program, changed)]
    (ours, theirs), (our_other, their_other) = outcomes
    loose = any(r.zero_is_none for r in rewrites)
    failed_first = text.startswith("ended") and _line(ours) and not 0 < _line(theirs) < _line(ours)
    if any(r.ours_alone for r in rewrites) and re.search(TRANSFORMS, program):
        return _same(theirs if failed_first else ours, our_other, loose)
    same_before = (
        _same(ours, our_other, loose)
        or (text.startswith("ended") and _line(ours) > 0)  # it was refused aloud
        or any(r.open for r in rewrites)
        or (any(r.either for r in rewrites) and _same(theirs, their_other, loose))
    )
    if not same_before:
        return False
    found = _differences(our_other, their_other, loose, bool(re.search(ROUGH, program)))
    return not [f for f in without_flags_of_zeros(changed, found) if not excused(f)]


def _outcome(program: str, library: str) -> dict:
    found = run(program, library)
    found.pop("text", None)
    return {k: v for k, v in found.items() if not k.startswith("variable __")}


def _line(outcome: dict) -> int:
    return outcome.get("line", 0)


def _same(a: dict, b: dict, zero_is_none: bool) -> bool:
    """Whether two outcomes show the same, but for the lines."""
    return not _differences(a, b, zero_is_none)


def _differences(a: dict, b: dict, zero_is_none: bool, rough: bool = False) -> list[str]:
    a, b = ({k: v for k, v in o.items() if k != "line"} for o in (a, b))
    if a["ended"] != "well":  # hooks of another number of nodes may have run
        a.pop("logged")
        b.pop("logged")
    if zero_is_none:
        a, b = _without_zeros(a), _without_zeros(b)
    return differences(a, b, rough=rough)


def _without_zeros(facts: Any) -> Any:
    """Facts without gradients that are zero or missing, and without flags that such a gradient decides."""
    if not isinstance(facts, dict):
        return facts
    kept = {}
    for key, value in facts.items():
        if key == "grad" and (value is None or np.allclose(value["value"], 0, atol=1e-12)):
            continue
        if key in ("requires_grad", "leaf"):
            continue
        kept[key] = _without_zeros(value)
    return kept


# -- flags -------------------------------------------------------------------------------------------------------


RECORDED = r"(?:variable )?(\w+)((?:\[\d+\])*)( grad)? "
FLAG = RECORDED + "(requires_grad|leaf|has)"


def without_flags_of_zeros(program: str, says: list[str]) -> list[str]:
    """`says` without the flags of tensors that depend on nothing: all their gradients are zeros."""
    zero = set()
    for library, sign in (
        ("torch", "(requires_grad: True vs False|leaf: False vs True)"),
        ("gradlib", "(requires_grad: False vs True|leaf: True vs False)"),
    ):
        wanted = [m for m in (re.match(rf"{RECORDED}{sign}", s) for s in says) if m is not None]
        if not wanted:
            continue
        for names in (_left_by(program, library), _left_by(_without_hooks(program), library)):
            for name, path, grad in {m.groups()[:3] for m in wanted}:
                value: Any = names.get(name)
                try:
                    for index in re.findall(r"\d+", path):
                        value = value[int(index)]
                    value = value.grad if grad else value
                except (TypeError, IndexError, AttributeError):
                    continue
                if value is not None and _depends_on_nothing(value, library):
                    zero.add((name, path, grad))
    flags = [re.match(FLAG, s) for s in says]
    return [s for s, m in zip(says, flags, strict=True) if m is None or m.groups()[:3] not in zero]


def _without_hooks(program: str) -> str:
    """The program with hooks that do nothing: what they did may raise, or change a gradient."""
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("register_hook"):
            node.args = [ast.parse("lambda *g: None", mode="eval").body]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("multi_grad_hook"):
            node.args[0] = ast.Tuple([], ast.Load())
    return ast.unparse(tree)


UNRECORDED = (
    "not require grad|require gradient|requires_grad=False|on non-leaf|"
    "'NoneType' object has no attribute|this checkpoint\\(\\) is not necessary|"
    "Expected gradient function to be set"
)


RECORDED_ZEROS = "automatic differentiation|only change requires_grad flags|that requires grad"


def stopped_by_zeros(program: str, line: int, text: str, library: str = "gradlib") -> bool:
    """Whether a library stops at `line` since something depends on nothing: PyTorch has recorded it, with zeros."""
    if not re.search(UNRECORDED if library == "gradlib" else RECORDED_ZEROS, text):
        return False
    tree = ast.parse(program)
    place = next(k for k, s in enumerate(tree.body) if s.lineno <= line <= (s.end_lineno or 0))
    used = {n.id for n in ast.walk(tree.body[place]) if isinstance(n, ast.Name)}
    before = ast.unparse(ast.Module(tree.body[:place], []))
    ours, theirs = _left_by(before, "gradlib"), _left_by(before, "torch")
    pairs: list[tuple[Any, Any]] = [(ours.get(n), theirs.get(n)) for n in used]
    cut = [
        b
        for a, b in pairs
        if isinstance(a, gradlib.Tensor)
        and not a.requires_grad
        and getattr(b, "requires_grad", False)
    ]
    return bool(cut) and all(_depends_on_nothing(b, "torch") for b in cut)


def _left_by(program: str, library: str) -> dict:
    tree = ast.parse(program)
    retain(tree)
    program, names = ast.unparse(ast.fix_missing_locations(tree)), names_for(library)
    names["logged"] = []  # the values themselves
    names["log"] = lambda *values: names["logged"].append(values)
    try:
        exec(compile(program, "<program>", "exec"), names)
    except Exception:
        pass
    return names


def _depends_on_nothing(tensor: Any, library: str) -> bool:
    lib = __import__(library)
    try:
        start = tensor.grad_fn
    except RuntimeError:  # of a view whose base was written to in a way that is refused
        start = None
    if start is None:
        return False
    leaves, seen, queue = [], set(), [start]
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        queue += [n for n, _ in node.next_functions]
    if not leaves:
        return True
    try:
        with lib.inference_mode(False), lib.enable_grad():
            weights = (
                lib.linspace(0.5, 1.5, tensor.numel(), dtype=lib.float64)
                .reshape(tensor.shape)
                .to(tensor.dtype)
            )
            grads = lib.autograd.grad(tensor, leaves, weights, retain_graph=True, allow_unused=True)
    except Exception:
        return False
    sizes = [g.detach().abs().max() for g in grads if g is not None and g.numel()]
    return all(size < 1e-12 for size in sizes)


# -- rounding ----------------------------------------------------------------------------------------------------

SHIFTED = """__exactly = D
def D(seed, *shape, dt="float64", rg=False):
    made = __exactly(seed, *shape, dt=dt)
    shift = {{"float64": {0}, "complex128": {0}, "float32": 5e8 * {0}, "complex64": 5e8 * {0}}}.get(dt, 0)
    made = made * (1 + shift) if shift else made
    return made.detach().requires_grad_() if rg else made
"""


def without_rounding(program: str, says: list[str]) -> list[str]:
    """`says` without the values that change as much where the program's numbers change in their last digits."""
    left = list(says)
    for shift in (3e-16, -5e-16, 2e-15):
        changed = SHIFTED.format(shift) + program
        for library in ("gradlib", "torch"):
            if not left:
                return left
            found = differences(_outcome(program, library), _outcome(changed, library))
            moved = {f.partition(": ")[0] for f in found if f.partition(": ")[0].endswith("value")}
            left = [s for s in left if s.partition(": ")[0] not in moved]
    return left


# -- what has no answer ------------------------------------------------------------------------------------------

ORDERED = r"sort|topk|kth|median|mode_index"


class _Watch(Watching):
    """Sees the ops of a program, and remembers what has no answer."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def call(
        self, op: Any, args: tuple, attrs: tuple, proceed: Callable, compute: Any = None
    ) -> Any:
        if re.search(ORDERED, op.name):
            array = _array(args[0])
            if array.size > len(np.unique(array)):
                self.found.add("ties")
        if re.match("std|var", op.name):
            array = _array(args[0])
            if any(np.ptp(array, k).min(initial=1) < 1e-14 for k in range(array.ndim)) or (
                array.size and np.ptp(array) < 1e-14
            ):
                self.found.add("constant")
        return proceed()

    def call_inplace(
        self, op: Any, tensor: Any, others: tuple, attrs: tuple, proceed: Callable
    ) -> Any:
        if _overlaps(_array(tensor)):
            self.found.add("overlap")
        if op.name == "index_put" and not dict(zip(op.attrs, attrs, strict=True)).get("accumulate"):
            self.found.add("put")
        if batched.all_entries(tensor).is_inference() and not gradlib.is_inference_mode_enabled():
            self.found.add("late")
        return proceed()


def _array(tensor: Any) -> Any:
    """The values of a tensor; of all entries inside vmap."""
    array: Any = tensor._array
    while array.__class__ is batched.Logical:
        array = array.physical._array
    return array


def _overlaps(array: Any) -> bool:
    """Whether elements of an array share a place in memory."""
    places = {0}
    for n, step in zip(array.shape, array.strides, strict=True):
        places = {p + k * step for p in places for k in range(n)}
    return len(places) < np.prod(array.shape)


def facts(program: str) -> set[str]:
    """What a program on gradlib shows that has no one answer.

    "ties" of what is ordered, an "overlap" of what is written, a "late" refusal to write to an inference tensor,
    "inference": such a tensor that requires grad.
    """
    watch = _Watch()
    with watch:
        names = _left_by(program, "gradlib")
    tensors = [v for v in names.values() if isinstance(v, gradlib.Tensor)]
    if any(t.is_inference() and t.requires_grad for t in tensors):
        watch.found.add("inference")
    return watch.found
