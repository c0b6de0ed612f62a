"""The formulas of an op on Tensors, written out: what `formulas.gradients` does when it is traced.

Backward runs this way with ``create_graph=True`` and while somebody records the ops. The code of an op is written when
it is first needed. Ops whose formulas need what is not simply saved (hidden values, index arrays) or that have one
formula for all arguments keep the general way.
"""

from __future__ import annotations

from textwrap import indent
from typing import Any

from ..tape import saved
from ..tape.modes import DIFFERENTIATED, state
from ..tape.storage import Storage
from . import formulas, overlays
from .dependence import depend
from .vmap_backward import AT_ONCE, batch_gradients
from .write_node import compile_code, is_current

_NAMES = {
    "state": state, "traced_ops": formulas.traced_ops, "unpack_tensor": saved.unpack_tensor,
    "sum_to_size": formulas.traced_ops.sum_to_size, "general": formulas.gradients, "depend": depend, "UNSET": object(),
    "Storage": Storage, "DIFFERENTIATED": DIFFERENTIATED, "batch_gradients": batch_gradients,
}  # fmt: skip
_FREE = {"g", "gs", "F"}  # known without asking the node
_AT_ONCE = [
    f"if state.bits == {AT_ONCE}:",
    "    outs_ = batch_gradients(node, grads[0])",
    "    if outs_ is not None: return outs_",
]


def specialize(op: Any) -> None:
    """Give the node class of `op` a `gradients` with traced formulas written out, where that can be done."""
    if op.vjp is not None or op.variadic or op.n_out != 1 or not op.differentiable:
        return
    wants = {want for formula in op.formulas.values() for want in formula.wants}
    if wants & {*op.hidden, *op.arrays}:
        return
    names = {**_NAMES, **{f"f{i}_": f.fn for i, f in _formulas(op)}}
    text = "def gradients(node, grads, traced):\n" + indent("\n".join(_body(op)), "    ")
    op.node_class.gradients = compile_code(op, "traced backward", text, names)["gradients"]


def _formulas(op: Any) -> list[tuple[int, Any]]:
    """(position of the argument, its formula)"""
    return [(i, op.formulas[t]) for i, t in enumerate(op.tensors) if t in op.formulas]


def _body(op: Any) -> list[str]:
    every = [want for _, formula in _formulas(op) for want in formula.wants]
    shared = sorted({want for want in every if every.count(want) > 1} - _FREE)
    overlaid = (
        overlays.on("numpy").vjp_of(op) is not None
    )  # it runs unless the result is differentiated
    other = "traced is not DIFFERENTIATED" if overlaid else "not traced"
    lines = [
        f"if {other} or grads[0] is None: return general(node, grads, traced)",
        *(_AT_ONCE if op.elementwise else ()),
        "g, gs, F, needed_ = grads[0], grads, traced_ops, state.needed",
        "".join(f"r{i}_ = " for i in range(len(op.tensors))) + "None",
        *(f"{want} = UNSET" for want in shared),
    ]
    for i, formula in _formulas(op):
        lines += [f"e_ = node.e{i}", "if e_ is not None and (needed_ is None or e_ in needed_):"]
        for want in formula.wants:
            if want in shared:  # fetched once: unpacking may call hooks
                lines += [f"    if {want} is UNSET:", indent(_fetch(op, want), "        ")]
            elif want not in _FREE:
                lines.append(indent(_fetch(op, want), "    "))
        lines.append(f"    r{i}_ = f{i}_({', '.join(formula.wants)})")
        if op.elementwise and len(op.tensors) > 1:
            lines.append(f"    if node.b{i} is not None: r{i}_ = sum_to_size(r{i}_, node.b{i})")
        if op.dependent:
            lines.append(f"    if not r{i}_._rg: r{i}_ = depend(node, {i}, r{i}_)")
    return [*lines, "return (" + "".join(f"r{i}_, " for i in range(len(op.tensors))) + ")"]


def _fetch(op: Any, want: str) -> str:
    """Code that puts the value `want` of a node into a local variable of that name."""
    if want == "needs":
        edges = [f"node.e{i}" for i in range(len(op.tensors))]
        tests = [f"{e} is not None and (needed_ is None or {e} in needed_), " for e in edges]
        return f"needs = ({''.join(tests)})"
    if want in op.saved_tensors:
        return (
            f"{want} = node.s_{want}\nv_ = node.v_{want}\n"
            f"if v_ < 0 or not {is_current(want)}: {want} = unpack_tensor(node, '{want}')"
        )
    if want in op.saved_results:
        return f"{want} = unpack_tensor(node, '{want}')"
    if want in op.attrs:
        return f"{want} = node.a_{want}"
    return f"{want} = node.n_{want.removesuffix('_shape')}"
