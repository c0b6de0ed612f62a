"""Decides whether a difference has a cause that is known, by running the program once more without that cause.

Each `Rewrite` takes one cause out of a program: it copies what an in-place op reads, asks for gradients one at a time,
and so on. A difference is excused where both libraries agree on what is left, and the one that is right did the same
before. `facts` names what has no answer at all: positions of equal elements, writes to a view that overlaps itself.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from found_programs import differences, names_for, run

import gradlib
from gradlib.op import vmap as batched
from gradlib.utils._watching import Watching

FORWARD = r"jvp|fwAD|jacfwd|hessian|hvp"
TRANSFORMS = r"\b(vmap|(?<!\.)grad|jvp|vjp|jac\w+|hessian)\(|functional\.\w+\("


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """A cause: `where` (a regular expression) a program may have it, what the differences say, how it is taken out."""

    why: str
    where: str
    says: str
    change: Callable[[ast.Module], None]
    prelude: str = ""
    zero_is_none: bool = False  # whether a .grad of zeros counts as none
    either: bool = False  # whether either library may have been right before
    ours_alone: bool = False  # whether PyTorch cannot run the result if there are transforms in it

    def __call__(self, program: str) -> str:
        tree = ast.parse(program)
        self.change(tree)
        return self.prelude + ast.unparse(ast.fix_missing_locations(tree))


# -- changes of programs -----------------------------------------------------------------------------------------


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in _walk(tree):
        for field in ("body", "orelse", "handlers"):
            found = getattr(node, field, None)
            if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                yield found


def _method(node: Any) -> str:
    return (
        node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else ""
    )


def _in_place(node: Any) -> bool:
    name = _method(node)
    return name.endswith("_") and not name.startswith("_") and not name.endswith("__")


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _copy_operands(tree: ast.Module) -> None:
    for node in _walk(tree):
        match node:
            case ast.AugAssign():
                node.value = _call("__copied", node.value)
            case ast.Assign(targets=[ast.Subscript()]):
                node.value = _call("__copied", node.value)
            case ast.Call() if _in_place(node):
                node.args = [_call("__copied", a) for a in node.args]


def _retain(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _is_backward(node) or _is_grad(node):
            node.keywords = [k for k in node.keywords if k.arg != "retain_graph"]
            node.keywords.append(ast.keyword("retain_graph", ast.Constant(True)))
        elif _method(node) == "disable_saved_tensors_hooks":
            node.func.attr, node.args = "save_on_cpu", []


def _keep_all(tree: ast.Module) -> None:
    _retain(tree)
    block = ast.parse(
        "with torch.autograd.graph.saved_tensors_hooks(__copied, lambda t: t):\n    pass"
    ).body[0]
    assert isinstance(block, ast.With)
    block.body = tree.body or [ast.Pass()]
    tree.body = [block]


def _is_backward(node: Any) -> bool:
    return _method(node) == "backward"


def _is_grad(node: Any) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.autograd.grad"


def _walk(tree: ast.AST) -> list[Any]:
    return list(ast.walk(tree))


def _anchor_roots(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _is_backward(node):
            if ast.unparse(node.func) == "torch.autograd.backward":
                node.args[0] = _call("__rooted", node.args[0])
            else:
                node.func.value = _call("__rooted", node.func.value)
        elif _is_grad(node):
            node.func = ast.Name(id="__gradients", ctx=ast.Load())


def _one_by_one(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _is_grad(node):
            node.func = ast.Name(id="__gradients", ctx=ast.Load())


def _look_at_written(tree: ast.Module) -> None:
    for body in _bodies(tree):
        for k in reversed(range(len(body))):
            found = {_root(n) for n in _written(body[k])} - {""}
            body[k:k] = [ast.parse(f"{n}.grad_fn").body[0] for n in sorted(found)]


def _written(statement: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(statement, (ast.With, ast.FunctionDef, ast.Try, ast.ClassDef)):
        return
    for node in _walk(statement):
        if _in_place(node):
            yield node.func.value
        elif isinstance(node, ast.AugAssign):
            yield node.target
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield node.targets[0]


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) and node.id not in ("torch", "F") else ""


def _out_of_place(tree: ast.Module) -> None:
    """x.t_() becomes x = x.t()."""
    for body in _bodies(tree):
        for k, statement in enumerate(body):
            call: Any
            match statement:
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call
                ):
                    if method in GEOMETRY:
                        call.func = ast.Attribute(
                            ast.Name(name, ast.Load()), method[:-1], ast.Load()
                        )
                        body[k] = ast.Assign([ast.Name(name, ast.Store())], call)


GEOMETRY = {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_"}


def _own_results(tree: ast.Module) -> None:
    for node in _walk(tree):
        if isinstance(node, ast.Assign) and (
            _method(node.value) == "frac"
            or (isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Mod))
        ):
            node.value = _call("__copied", node.value)


def _nothing(tree: ast.Module) -> None:
    pass


COPIED = """def __copied(t):
    return t.clone() if isinstance(t, torch.Tensor) else t
"""
DENSE = """def __dense(found, fresh):
    if isinstance(found, torch.Tensor):
        return found.clone() if fresh or 0 in found.stride() else found
    return type(found)(__dense(f, fresh) for f in found) if isinstance(found, (list, tuple)) else found
def __densely(transform, fresh):
    def made(*args, **kwargs):
        run = transform(*args, **kwargs)
        return lambda *xs, **ys: __dense(run(*xs, **ys), fresh)
    return made
vmap = __densely(vmap, False)
jacrev, jacfwd, hessian = [__densely(t, True) for t in (jacrev, jacfwd, hessian)]
"""
ROOTED = """__anchor = D(1, rg=True)
def __rooted(root):
    if isinstance(root, (list, tuple)):
        return [__rooted(r) for r in root]
    with torch.enable_grad():
        return root * 1 if root.requires_grad else root + __anchor * 0
"""
GRADIENTS = """def __gradients(outputs, inputs, *args, **kwargs):
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    kept = {**kwargs, 'retain_graph': True}
    first = [torch.autograd.grad(outputs, i, *args, **kept)[0] for i in inputs[:-1]]
    return (*first, torch.autograd.grad(outputs, inputs[-1], *args, **kwargs)[0])
"""
ANCHORED = (
    ROOTED
    + """def __gradients(outputs, inputs, *args, **kwargs):
    kwargs = {**kwargs, 'allow_unused': True, 'materialize_grads': True}
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    wanted = [i for i in inputs if i.requires_grad] + [__anchor]
    found = iter(torch.autograd.grad(__rooted(outputs), wanted, *args, **kwargs))
    return tuple([next(found) if i.requires_grad else torch.zeros_like(i) for i in inputs])
"""
)

REWRITES: tuple[Rewrite, ...] = (
    Rewrite("the tangent of an in-place op that reads what it writes is that of the old value",
            FORWARD, "value|logged", _copy_operands, COPIED),
    Rewrite("addmm_ and its kin read the old value, PyTorch's what they have already written",
            r"add(mm|mv|r|bmm)_\(", "value", _copy_operands, COPIED),
    Rewrite("results of vmap have entries of their own, and a Jacobian is a tensor of its own",
            TRANSFORMS, "value|logged|more than one element|is being modified inplace|single memory location|has:|leaf|"
            "requires? grad|requires_grad|view size is not",
            _nothing, DENSE),
    Rewrite("another number of tensors is saved for backward: not at all, or a copy of it",
            "backward|grad", "one of the variables needed for gr|Trying to backward through the graph", _keep_all,
            COPIED, ours_alone=True),
    Rewrite("a derivative that is zero everywhere is not recorded",
            FORWARD + "|create_graph|grad|jac", "require grad", _anchor_roots, ANCHORED, zero_is_none=True),
    Rewrite("a tensor that is the root of backward has its hooks, too",
            r"multi_grad_hook", "logged", _anchor_roots, ROOTED + GRADIENTS),
    Rewrite("one gradient for each that is asked for, changed by its hooks whatever else is asked for",
            r"autograd\.grad\(", "value|grad", _one_by_one, GRADIENTS, either=True),
    Rewrite("a change of geometry in place concerns this tensor alone, not what was saved or the batch",
            r"\b(t_|transpose_|squeeze_|unsqueeze_|swapaxes_)\(", "", _out_of_place),
    Rewrite("the tangent of a result is written to, not that of the argument",
            rf"(?s)(?=.*({FORWARD})).*(frac|%)", "logged|value|does not require", _own_results, COPIED),
    Rewrite("PyTorch refuses to write to a view until somebody has asked for its grad_fn",
            r"_\(|\] [-+*/]?=|[-+*/]=", "PyTorch: a leaf Variable that requires grad is being used", _look_at_written),
)  # fmt: skip


def decided(program: str, says: list[str]) -> str:
    """Why the difference of a program is on purpose; "" if it has no such cause."""
    text = "\n".join(says[1:])
    fits = [r for r in REWRITES if re.search(r.where, program) and re.search(r.says, text)]
    for rewrite in fits:
        if _explains(program, text, rewrite):
            return rewrite.why
    return ""


def _explains(program: str, text: str, rewrite: Rewrite) -> bool:
    """Whether both libraries agree once the cause is gone, and the one that is right went the same way before."""
    try:
        changed = rewrite(program)
    except (SyntaxError, RecursionError):
        return False
    if changed == program:
        return False
    outcomes = [[_outcome(p, lib) for lib in ("gradlib", "torch")] for p in (program, changed)]
    (ours, theirs), (our_other, their_other) = outcomes
    failed_first = text.startswith("ended") and _line(ours) and not 0 < _line(theirs) < _line(ours)
    if rewrite.ours_alone and re.search(TRANSFORMS, program):
        return _same(theirs if failed_first else ours, our_other, rewrite)
    right, right_other = (theirs, their_other) if failed_first else (ours, our_other)
    same_before = _same(right, right_other, rewrite) or (
        rewrite.either and _same(theirs, their_other, rewrite)
    )
    return same_before and _same(our_other, their_other, rewrite)


def _outcome(program: str, library: str) -> dict:
    found = run(program, library)
    found.pop("text", None)
    return {k: v for k, v in found.items() if not k.startswith("variable __")}


def _line(outcome: dict) -> int:
    return outcome.get("line", 0)


def _same(a: dict, b: dict, rewrite: Rewrite) -> bool:
    """Whether two outcomes show the same, but for the lines."""
    a, b = ({k: v for k, v in o.items() if k != "line"} for o in (a, b))
    if a["ended"] != "well":  # hooks of another number of nodes may have run
        a.pop("logged")
        b.pop("logged")
    if rewrite.zero_is_none:
        a, b = _without_zeros(a), _without_zeros(b)
    return not differences(a, b)


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


def flags_of_zeros(program: str, says: list[str]) -> set[str]:
    """The variables whose flags differ, where the library that has the flag gives nothing but gradients of zero."""
    found = set()
    for library, sign in (("torch", "True vs False"), ("gradlib", "False vs True")):
        wanted = {s.split()[1] for s in says if re.match(rf"variable \w+ requires_grad: {sign}", s)}
        if wanted:
            names = _left_by(program, library)
            found |= {n for n in wanted if n in names and _depends_on_nothing(names[n], library)}
    return found


def _left_by(program: str, library: str) -> dict:
    tree = ast.parse(program)
    _retain(tree)
    program, names = ast.unparse(ast.fix_missing_locations(tree)), names_for(library)
    try:
        exec(compile(program, "<program>", "exec"), names)
    except Exception:
        pass
    return names


def _depends_on_nothing(tensor: Any, library: str) -> bool:
    lib = __import__(library)
    leaves, seen, queue = [], set(), [tensor.grad_fn]
    if tensor.grad_fn is None:
        return False
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
    return all(g is None or not g.detach().abs().max() for g in grads if g is None or g.numel())


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
        return proceed()

    def call_inplace(
        self, op: Any, tensor: Any, others: tuple, attrs: tuple, proceed: Callable
    ) -> Any:
        if _overlaps(_array(tensor)):
            self.found.add("overlap")
        if tensor.is_inference() and not gradlib.is_inference_mode_enabled():
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
