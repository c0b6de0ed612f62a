"""Changes of programs that take one cause of a difference out of them, each with its reason; see `fuzz_decide`."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

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
    open: bool = False  # whether the program has no right outcome before
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
            case ast.Call() if _in_place(node) or any(k.arg == "out" for k in node.keywords):
                node.args = [_call("__copied", a) for a in node.args]


def retain(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _is_backward(node) or _is_grad(node):
            node.keywords = [k for k in node.keywords if k.arg != "retain_graph"]
            node.keywords.append(ast.keyword("retain_graph", ast.Constant(True)))
        elif _method(node) == "disable_saved_tensors_hooks":
            node.func.attr, node.args = "save_on_cpu", []


def _keep_all(tree: ast.Module) -> None:
    retain(tree)
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
            match body[k]:
                case ast.AugAssign(target=ast.Subscript() as target) as one:
                    # x[i] += y as what it stands for
                    name = ast.Name("__part", ast.Store())
                    got = ast.Subscript(target.value, target.slice, ast.Load())
                    body[k : k + 1] = [
                        ast.Assign([name], got),
                        ast.AugAssign(ast.Name("__part", ast.Store()), one.op, one.value),
                        ast.Assign([target], ast.Name("__part", ast.Load())),
                    ]
        for k in reversed(range(len(body))):
            found = {_root(n) for n in _written(body[k])} - {""}
            body[k:k] = [ast.parse(f"{n}.grad_fn").body[0] for n in sorted(found)]


def _written(statement: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(statement, (ast.With, ast.FunctionDef, ast.Try, ast.ClassDef)):
        return
    for node in _walk(statement):
        if _in_place(node):
            yield node.func.value
        elif isinstance(node, ast.Call) and any(k.arg == "inplace" for k in node.keywords):
            yield from node.args[:1]
        elif isinstance(node, ast.AugAssign):
            yield node.target
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield node.targets[0]


def _root(node: Any) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) and node.id not in ("torch", "F") else ""


def _out_of_place(tree: ast.Module, methods: set[str] | None = None) -> None:
    """x.t_() becomes x = x.t()."""
    for body in _bodies(tree):
        for k, statement in enumerate(body):
            call: Any
            match statement:
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call
                ):
                    if method in (methods or GEOMETRY):
                        call.func = ast.Attribute(
                            ast.Name(name, ast.Load()), method[:-1], ast.Load()
                        )
                        body[k] = ast.Assign([ast.Name(name, ast.Store())], call)


GEOMETRY = {"t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_"}


def _detached(tree: ast.Module) -> None:
    """x.detach_() becomes x = x.detach()."""
    _out_of_place(tree, {"detach_"})


def _compose(tree: ast.Module) -> None:
    """Functions and modules of COMPOSED become the formulas of that prelude."""
    for node in _walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        short = name.rpartition(".")[2]
        inplace = [k for k in node.keywords if k.arg == "inplace"]
        if short in ("hardsigmoid", "hardswish", "silu") and inplace:
            node.keywords = []
            fresh = _call("__" + short, _call("__copied", node.args[0]))
            node.func, node.args = ast.Attribute(node.args[0], "copy_", ast.Load()), [fresh]
        elif not short.isidentifier() or not re.search(rf"\b__{short}\b", COMPOSED):
            continue
        elif name.startswith(("F.", "torch.", "nn.")):
            node.func = ast.Name("__" + short, ast.Load())
        elif short in ("select_scatter", "addcmul"):
            node.args.insert(0, node.func.value)
            node.func = ast.Name("__" + short, ast.Load())


def _copied_back(tree: ast.Module) -> None:
    """x.asinh_() becomes x.copy_(__copied(x).asinh())."""
    for node in _walk(tree):
        if _method(node) in ("asinh_", "acosh_", "atanh_"):
            made = ast.Attribute(
                _call("__copied", node.func.value), node.func.attr[:-1], ast.Load()
            )
            node.func, node.args = (
                ast.Attribute(node.func.value, "copy_", ast.Load()),
                [ast.Call(made, [], [])],
            )


def _after_gradients(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _method(node) == "register_post_accumulate_grad_hook":
            node.args = [_call("__after", *node.args)]


def _positive_zeros(tree: ast.Module) -> None:
    """a % b becomes a % b + 0."""

    class Change(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
            self.generic_visit(node)
            plus = isinstance(node.op, ast.Mod)
            return ast.BinOp(node, ast.Add(), ast.Constant(0)) if plus else node

    Change().visit(tree)


def _own_memory(tree: ast.Module) -> None:
    """What PyTorch gives as a view, or with elements that share a place, becomes a copy."""

    class Change(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            name = ast.unparse(node.func)
            fresh = re.fullmatch(r"net\d*|F\.linear|functional_call|torch\.einsum", name)
            return _call("__copied", node) if fresh or _method(node) == "unfold" else node

    Change().visit(tree)


def _made_anew(tree: ast.Module) -> None:
    """What is a view or a copy, as its argument lies in memory, becomes a copy."""

    class Change(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            by_layout = _method(node) in ("contiguous", "ravel", "reshape", "flatten")
            return _call("__copied", node) if by_layout else node

    Change().visit(tree)


def _row_major(tree: ast.Module) -> None:
    """x.stride() becomes that of a copy of x, row by row."""
    for node in _walk(tree):
        if _method(node) in ("stride", "is_contiguous"):
            clone = ast.parse("x.clone(memory_format=torch.contiguous_format)", mode="eval").body
            assert isinstance(clone, ast.Call) and isinstance(clone.func, ast.Attribute)
            clone.func.value, node.func.value = node.func.value, clone


def _pack_copies(tree: ast.Module) -> None:
    """Hooks of saved tensors that keep the tensor itself keep a copy."""
    for node in _walk(tree):
        if _method(node) == "save_on_cpu":
            node.func = ast.Name("__saved_copies", ast.Load())
        elif _method(node) == "saved_tensors_hooks" and isinstance(node.args[0], ast.Lambda):
            pack = node.args[0]
            if isinstance(pack.body, ast.Tuple):
                pack.body.elts[0] = _call("__copied", pack.body.elts[0])
            else:
                pack.body = _call("__copied", pack.body)


def _own_gradients(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _is_grad(node):
            node.func = ast.Name(id="__gradients", ctx=ast.Load())


def _no_autocast(tree: ast.Module) -> None:
    for node in _walk(tree):
        if _method(node) == "autocast":
            node.keywords.append(ast.keyword("enabled", ast.Constant(False)))


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
        fresh = fresh or 0 in found.stride()
        with torch.inference_mode(found.is_inference()):
            return found.clone(memory_format=torch.contiguous_format) if fresh else found
    return type(found)(__dense(f, fresh) for f in found) if isinstance(found, (list, tuple)) else found
def __densely(transform, fresh):
    def made(*args, **kwargs):
        run = transform(*args, **kwargs)
        return lambda *xs, **ys: __dense(run(*xs, **ys), fresh)
    return made
vmap = __densely(vmap, False)
jacrev, jacfwd, hessian = [__densely(t, True) for t in (jacrev, jacfwd, hessian)]
"""
OF_ONE = DENSE.replace("0 in found.stride()", "1 in found.shape")
ROW_MAJOR = DENSE.replace("(vmap, False)", "(vmap, True)")
SAVED_COPIES = (
    COPIED
    + """def __saved_copies(*args, **kwargs):
    return torch.autograd.graph.saved_tensors_hooks(__copied, lambda t: t)
"""
)
OWN_GRADIENTS = """def __gradients(*args, **kwargs):
    return tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in torch.autograd.grad(*args, **kwargs))
"""
COMPOSED = """def __copied(t):
    return t.clone()
def __hardsigmoid(x):
    return F.relu6(x + 3) / 6
def __hardswish(x):
    return x * __hardsigmoid(x)
def __silu(x):
    return x * torch.sigmoid(x)
def __select_scatter(x, y, dim, index):
    return x.slice_scatter(y.unsqueeze(dim), dim, index, index + 1)
def __addcmul(x, y, z, value=1):
    return x + y * z * value
def __where(c, x, y):
    if not isinstance(y, torch.Tensor):
        return torch.where(c, x, y)
    kind = (x + y).dtype
    return torch.where(c, x.to(kind), y.to(kind))
def __layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(shape), 0))
    d = x - x.mean(dims, keepdim=True)
    out = d / ((d * d).mean(dims, keepdim=True) + eps).sqrt()
    out = out if weight is None else out * weight
    return out if bias is None else out + bias
def __instance_norm(x):
    return __layer_norm(x, x.shape[2:] if x.dim() > 2 else x.shape[1:])
def __of(module, forward):
    return type(module.__name__, (module,), {'forward': forward})
__LayerNorm = lambda *args: __of(nn.LayerNorm, lambda m, x: __layer_norm(x, args, m.weight, m.bias, m.eps))(*args)
__InstanceNorm1d = lambda *args: __of(nn.InstanceNorm1d, lambda m, x: __instance_norm(x))(*args)
"""
AFTER = """def __after(hook):
    return lambda p: None if p.grad is None else hook(p)
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
    Rewrite("an in-place op that reads what it writes reads the old value, and so does its tangent",
            r"_\(|[-+*/%]=|\] =|out=", "value|logged", _copy_operands, COPIED),
    Rewrite("results of vmap have entries of their own, and a Jacobian is a tensor of its own",
            TRANSFORMS, "value|logged|more than one element|is being modified inplace|single memory location|has:|leaf|"
            "requires? grad|requires_grad|view size is not",
            _nothing, DENSE),
    Rewrite("what does not depend on a batch of one has a place of its own, too",
            r"vmap\(.*in_dims=\([^)]*None", "value", _nothing, OF_ONE),
    Rewrite("how the results of transforms lie in memory decides whether what is made of them shares it",
            rf"(?s)({TRANSFORMS}).*(\.(ravel|reshape|flatten|contiguous|as_strided|long|\w*stride|view\w*)\()",
            "value|logged|shape mismatch|last dimension with stride|out of bounds", _nothing, ROW_MAJOR, either=True),
    Rewrite("another number of tensors is saved for backward: not at all, or a copy of it",
            "backward|grad|jac|hess|vjp", "one of the variables needed for gr|Trying to backward through the graph",
            _keep_all, COPIED, ours_alone=True),
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
    Rewrite("detach_ in a transform ends the derivatives and tangents of all that are around it, as documented",
            rf"(?s)(?=.*({FORWARD}|{TRANSFORMS}))(?=.*detach_\(\))", "", _detached),
    Rewrite("the slope of hardsigmoid is exactly 1/6, and the gradient of a complex silu is not its conjugate",
            "hardsigmoid|hardswish|silu", "value", _compose, COMPOSED),
    Rewrite("derivatives of a normalisation, and that of equal numbers, are the mathematical ones",
            "_norm|Norm", "value", _compose, COMPOSED),
    Rewrite("strides of what a transform returns are those of how it was made",
            rf"(?s)({TRANSFORMS}).*\.(stride|is_contiguous)\(", "logged", _row_major, either=True),
    Rewrite("the gradient of select_scatter inside vmap counts once",
            "select_scatter", "value", _compose, COMPOSED),
    Rewrite("an entry of no dimensions promotes beside a 0-dim tensor of a wider dtype, too, and so does a tangent",
            r"where|addcmul", "dtype", _compose, COMPOSED),
    Rewrite("asinh_, acosh_ and atanh_ have a gradient", r"a(sin|cos|tan)h_\(", "", _copied_back, COPIED),
    Rewrite("a post-accumulate hook is not called where nothing was accumulated", "post_accumulate", "logged|grad",
            _after_gradients, AFTER),
    Rewrite("the remainder 0 has the sign of the divisor, as documented", "%", "value", _positive_zeros, either=True),
    Rewrite("the result of a layer or of einsum is no view, and what overlaps itself has a tangent that does not",
            r"net|linear|einsum|unfold", "", _own_memory, COPIED),
    Rewrite("how a result lies in memory decides whether another shape of it is a view",
            r"\.(contiguous|ravel|reshape|flatten)\(", "value", _made_anew, COPIED, either=True),
    Rewrite("hooks of saved tensors that keep the tensor itself see what is written to it",
            "saved_tensors_hooks|save_on_cpu", "value|ended", _pack_copies, SAVED_COPIES, open=True),
    Rewrite("what is written to through .data or detach() changes a gradient only where that was saved",
            r"\.data\b|detach\(\)", "value", _keep_all, COPIED, open=True),
    Rewrite("gradients that are asked for do not share memory",
            r"autograd\.grad\(", "value|logged|require grad|retain|does not require", _own_gradients, OWN_GRADIENTS,
            either=True),
    Rewrite("the backward pass is none that autocast concerns",
            r"(?s)autocast\(.*(backward|grad)", "value", _no_autocast),
    Rewrite("PyTorch refuses to write to a view until somebody has asked for its grad_fn",
            r"_\(|\] [-+*/]?=|[-+*/]=|inplace", "PyTorch: a leaf Variable that requires grad is being used",
            _look_at_written),
)  # fmt: skip
