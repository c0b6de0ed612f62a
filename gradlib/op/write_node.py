"""The Node class of each op, with its methods written out: edges, targets, run, release.

`run` is the engine's fast path: it computes the gradients on raw arrays and puts them into the inbox of the nodes they
flow to. `formulas.gradients` is its meaning.
"""

from __future__ import annotations

import linecache
import os
import sys
from textwrap import indent
from typing import Any

from ..tape import saved
from ..tape.arrays import backend_for
from ..tape.dtypes import HALVES
from ..tape.modes import DIFFERENTIATED
from ..tape.node import Node, VariadicNode, deliver
from ..tape.source import GENERATED
from ..tape.storage import Storage
from . import formulas, halves, overlays, spreading, write_record
from .signature import parameters

SHOW = os.environ.get("GRADLIB_SHOW_CODE", "").split(",")


def compile_code(op, what: str, text: str, names: dict) -> dict:
    """Run generated code; tracebacks show its lines."""
    filename = f"{GENERATED}{op.name} {what}>"
    if op.name in SHOW:
        print(text, file=sys.stderr)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), names)
    return names


def node_class(op) -> type[Node]:
    """A subclass of Node with slots for what this op saves."""
    slots = [f"{kind}_{name}" for name in op.saved_tensors for kind in "sv"]
    slots += [f"{kind}_{name}" for name in op.saved_results for kind in "svk"]
    slots += [f"h_{name}" for name in op.saved_hidden] + [f"a_{name}" for name in op.saved_attrs]
    slots += [f"n_{name}" for name in op.saved_shapes]
    body = {
        "op": op, "node_name": op.node_name, "__module__": __name__, "gradients": formulas.gradients,
        "release": _release(op), "connect": _first_connect,
    }  # fmt: skip
    if op.n_out is None:
        slots.append("n_out")  # known when it has run
    else:
        body["n_out"] = op.n_out
    if op.variadic:
        base: type[Node] = VariadicNode
    else:
        base, n = Node, len(op.tensors)
        slots += [s for i in range(n) for s in (f"e{i}", f"i{i}")]
        if op.elementwise and n > 1:
            slots += [f"b{i}" for i in range(n)]
        body |= _edges(op, n)
    if op.differentiable:
        body["run"] = _run_on_host(op)
    return type(op.node_name, (base,), {"__slots__": tuple(slots), **body})


def _run_on_host(op) -> Any:
    fused = overlays.on("numpy").vjp_of(op)
    return formula_run(op) if fused is None else _run_overlaid(op, fused)


def run_again(op) -> None:
    """Write `run` of the node class of a built op once more."""
    if op.differentiable:
        op.formula_run = None
        op.built.run = _run_on_host(op)


def device_node_class(op) -> type[Node]:
    """The node class for arrays of a device: `run` tries the fused kernel of the gradient, where the op has one."""
    base, table = op.node_class, backend_for("cuda").overlays
    fused = table.vjp_of(op) if op.differentiable and table is not None else None
    body: dict = {"__slots__": ()}
    if fused is None and op.differentiable:
        body["run"] = formula_run(op)  # that of the base may try an overlay for NumPy
    elif fused is not None:
        body["run"] = _run_overlaid(op, fused, "device")
        body["gradients"] = _gradients_on_device
    return type(base.__name__, (base,), body)


def half_node_class(op) -> type[Node]:
    """The node class for NumPy arrays of a half type: formulas run in float32, and round once."""
    base = op.node_class
    if (
        not any([halves.differentiable(op, f.wants) for f in op.formulas.values()])
        or op.vjp is not None
    ):
        return base
    run, fused = _run(op, True), overlays.on("numpy").vjp_of(op)
    if fused is not None:
        run = _run_overlaid(op, fused, "halves", otherwise=run)
    return type(base.__name__, (base,), {"__slots__": (), "run": run})


def formula_node_class(op) -> type[Node]:
    """The node class for arrays without kernels of their own: `run` does not try the overlay that the base has."""
    body: dict = {"__slots__": ()}
    if op.differentiable:
        body["run"] = formula_run(op)
    return type(op.node_class.__name__, (op.node_class,), body)


def _gradients_on_device(node, grads, traced):
    """The formulas, which `write_traced` may have written out for the base, unless the kernel may run."""
    if traced is not DIFFERENTIATED:
        return formulas.gradients(node, grads, traced)
    return node.op.node_class.gradients(node, grads, traced)


def formula_run(op) -> Any:
    """`run` by the formulas, without an overlay."""
    if op.formula_run is None:
        op.formula_run = _run_variadic(op) if op.variadic else _run(op)
    return op.formula_run


def _run_overlaid(op, overlay, *where, otherwise: Any = None) -> Any:
    """An overlay gives the gradients of all arguments; where it declines, `otherwise` does, or the formulas."""
    if op.n_out is None or op.variadic:
        return Node.run
    wants = parameters(overlay)
    lines = [_fetch(op, want) for want in wants]
    lines += [
        f"rs_ = overlay({', '.join(wants)})",
        "if rs_ is NotImplemented: return otherwise(node, g, inbox)",
    ]
    summed = op.elementwise and len(op.tensors) > 1
    for i in range(len(op.tensors)):
        lines += [
            f"e_ = node.e{i}",
            "if e_ is not None:",
            f"    r_ = rs_[{i}]",
            "    if r_ is not None:",
        ]
        if summed:
            lines.append(f"        if node.b{i} is not None: r_ = sum_to(r_, node.b{i})")
        lines += [indent(line, "    ") for line in _put(i, "r_")]
    text = "def run(node, g, inbox):\n" + indent("\n".join(line for line in lines if line), "    ")
    names = {**_NAMES, "otherwise": otherwise or formula_run(op)}
    overlays.hold(names, overlay, op, "backward", *where)
    return compile_code(op, "overlaid backward", text, names)["run"]


def _edges(op, n: int) -> dict:
    pairs = "".join(f"(self.e{i}, self.i{i} if self.e{i} is not None else 0), " for i in range(n))
    nodes = "".join(f"self.e{i}, " for i in range(n))
    text = f"def edges(self):\n    return ({pairs})\n\ndef targets(self):\n    return ({nodes})\n"
    names = compile_code(op, "edges", text, {})
    return {key: names[key] for key in ("edges", "targets")}


def _first_connect(node, *given):
    """`connect` of a node class until the general way first needs it."""
    op = node.op
    names = compile_code(op, "record", write_record.connect(op), dict(write_record.NAMES))
    op.node_class.connect = names["connect"]
    node.connect(*given)


def _release(op):
    """Forget what was saved. Another thread may run the node meanwhile: the version tells first; see `_fetch`."""
    lines = [
        f"node.v_{n} = {saved.FREED}; node.s_{n} = None"
        for n in (*op.saved_tensors, *op.saved_results)
    ]
    lines += [f"node.h_{n} = RELEASED" for n in op.saved_hidden]
    lines += [f"node.a_{n} = RELEASED" for n in op.saved_arrays]
    text = "def release(node):\n" + indent("\n".join(lines or ["pass"]), "    ")
    return compile_code(op, "release", text, {"RELEASED": saved.RELEASED})["release"]


def is_current(name: str) -> str:
    """Code that tells whether the Tensor in the variable `name` still has the version `v_`."""
    return f"((k_ := {name}._ver) == v_ or k_.__class__ is Storage and k_.version == v_)"


def _fetch(op, want: str) -> str:
    """Code that puts the raw value `want` of a node into a local variable of that name.

    The value is read before its version: if another thread frees the graph in between, the version says so.
    """
    if want == "gs":
        return "gs = g" if op.n_out is not None else "gs = g if g.__class__ is list else [g]"
    if want == "F":
        return "F = raw_ops(g)"
    if want == "needs":
        return (
            "needs = (" + "".join(f"node.e{i} is not None, " for i in range(len(op.tensors))) + ")"
        )
    if want in op.saved_tensors:
        return (
            f"{want} = node.s_{want}\nv_ = node.v_{want}\n"
            f"if v_ >= 0 and {is_current(want)}: {want} = {want}._array\n"
            f"elif v_ != {saved.DIRECT}: {want} = unpack(node, '{want}')"
        )
    if want in op.saved_results:
        return (
            f"{want} = node.s_{want}\nk_ = node.k_{want}\n"
            f"if k_.__class__ is tuple or k_.version != node.v_{want}: {want} = unpack(node, '{want}')"
        )
    if want in op.hidden:
        return f"{want} = node.h_{want}\nif {want} is RELEASED: freed(node)"
    if want in op.arrays:
        return f"{want} = node.a_{want}\nif {want} is RELEASED: freed(node)"
    if want in op.attrs:
        return f"{want} = node.a_{want}"
    return f"{want} = node.n_{want[:-6]}" if want.endswith("_shape") else ""


_NAMES = {
    "unpack": saved.unpack, "deliver": deliver, "raw_ops": formulas.raw_ops, "sum_to": formulas.sum_to,
    "spread_gradient": spreading.spread_gradient,
    "halves": HALVES, "RELEASED": saved.RELEASED, "freed": saved.freed, "Storage": Storage,
}  # fmt: skip


def _put(i: int, value: str) -> list[str]:
    return [
        f"    if node.i{i} or e_ in inbox: deliver(inbox, e_, node.i{i}, {value})",
        f"    else: inbox[e_] = {value}",
    ]


def _run(op, in_float32: bool = False):
    """For a fixed list of arguments: each formula, if its argument takes a gradient; in_float32: of halves."""
    lines: list[str] = []
    names = dict(_NAMES)
    if op.vjp is not None:
        names["vjp"] = op.vjp.fn
        # what only an overlay reads is fetched as well: whether it was changed does not depend on the device
        lines += [_fetch(op, want) for want in (*op.saves, *op.vjp.wants)]
        outs = "".join(f"r{i}_, " for i in range(len(op.tensors)))
        lines.append(f"{outs} = vjp({', '.join(op.vjp.wants)})")
        for i in range(len(op.tensors)):
            lines += [
                f"e_ = node.e{i}",
                f"if e_ is not None and r{i}_ is not None:",
                *_put(i, f"r{i}_"),
            ]
    elif op.wide_numbers:
        lines.append("d_ = g.dtype")
    for i, argument in enumerate(op.tensors if op.vjp is None else ()):
        formula = op.formulas.get(argument)
        if formula is None:
            continue
        names[f"f{i}_"] = formula.for_halves(op) if in_float32 else formula.fn
        lines += [f"e_ = node.e{i}", "if e_ is not None:"]
        lines += [indent(_fetch(op, want), "    ") for want in formula.wants]
        call = f"f{i}_({', '.join(formula.wants)})"
        if spreading.begun and not in_float32 and spreading.spreadable(op, formula.wants):
            large = f"spread_gradient(f{i}_, {', '.join(formula.wants)})"
            call = f"{call} if g.size < {spreading.LARGE} else {large}"
        lines.append(f"    r_ = {call}")
        if op.wide_numbers:
            lines.append("    if r_.dtype is not d_ and d_ in halves: r_ = r_.astype(d_)")
        if op.elementwise and len(op.tensors) > 1:
            lines.append(f"    if node.b{i} is not None: r_ = sum_to(r_, node.b{i})")
        lines += _put(i, "r_")
    text = "def run(node, g, inbox):\n" + indent("\n".join(line for line in lines if line), "    ")
    return compile_code(op, "backward", text, names)["run"]


def _run_variadic(op):
    """For a list of tensors: the joint formula gives a gradient for each."""
    if "tensors" in op.saved_tensors:
        return Node.run
    wants = op.vjp.wants
    lines = [
        "needs = [e_ is not None for e_, _ in node.edge_list]",
        *(_fetch(op, want) for want in wants if want != "needs"),
        f"for (e_, i_), r_ in zip(node.edge_list, vjp({', '.join(wants)})):",
        "    if e_ is not None and r_ is not None:",
        "        if i_ or e_ in inbox: deliver(inbox, e_, i_, r_)",
        "        else: inbox[e_] = r_",
    ]
    text = "def run(node, g, inbox):\n" + indent("\n".join(line for line in lines if line), "    ")
    return compile_code(op, "backward", text, {**_NAMES, "vjp": op.vjp.fn})["run"]
