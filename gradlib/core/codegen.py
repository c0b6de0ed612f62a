"""The fast path of each op, written out as straight code: what `dispatch.general` and `node` do in general.

For the common case (NumPy arrays of the right dtypes, no mode but no_grad active) an op's call and its node's `run`
are generated from the declaration, as `dataclasses` writes `__init__`: no loops over arguments, no tuples, no dicts.
Whatever is unusual goes to the general path. Set GRADLIB_SHOW_CODE=<op> to read what is generated.
"""

from __future__ import annotations

import linecache
import os
import sys
from textwrap import indent

import numpy as np

from . import dtypes, formulas, saved
from .modes import shared, state
from .node import Node, VariadicNode, deliver, edge, next_seq
from .source import GENERATED, LIBRARY, user_frame
from .storage import Storage, share, version_of

SHOW = os.environ.get("GRADLIB_SHOW_CODE", "").split(",")


def build(op) -> None:
    """Give `op` its node class and its `call`."""
    if op.variadic or op.n_out != 1:
        from . import dispatch

        op.node_class = _plain_node_class(op)
        op.call = dispatch.general_call(op)
        return
    op.node_class = _node_class(op)
    op.call = _call(op)


def _compile(op, what: str, text: str, names: dict):
    filename = f"{GENERATED}{op.name} {what}>"
    if op.name in SHOW:
        print(text, file=sys.stderr)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), names)
    return names


def saved_slots(op) -> tuple[str, ...]:
    slots = [f"{kind}_{name}" for name in op.saved_tensors for kind in "sv"]
    slots += [f"{kind}_{name}" for name in op.saved_results for kind in "svk"]
    slots += [f"h_{name}" for name in op.saved_hidden] + [f"a_{name}" for name in op.saved_attrs]
    return (*slots, *(f"n_{name}" for name in op.saved_shapes))


def _plain_node_class(op):
    """For lists of tensors and several outputs: nothing generated but the slots."""
    base = VariadicNode
    slots = saved_slots(op)
    body = {
        "__slots__": slots,
        "op": op,
        "node_name": op.node_name,
        "__module__": __name__,
    }
    if op.n_out is None:  # known when it has run
        body["__slots__"] = (*slots, "n_out")
    else:
        body["n_out"] = op.n_out
    body["gradients"] = formulas.gradients
    body["release"] = _release(op)
    return type(op.node_name, (base,), body)


def _release(op):
    names = (*op.saved_tensors, *op.saved_results)
    lines = [f"node.s_{n} = None; node.v_{n} = {saved.FREED}" for n in names]
    lines += [f"node.h_{n} = None" for n in op.saved_hidden]
    text = "def release(node):\n" + indent("\n".join(lines or ["pass"]), "    ")
    return _compile(op, "release", text, {})["release"]


# -- the node ----------------------------------------------------------------------------------------------------


def _node_class(op):
    n = len(op.tensors)
    slots = [s for i in range(n) for s in (f"e{i}", f"i{i}")]
    if op.elementwise and n > 1:
        slots += [f"b{i}" for i in range(n)]
    slots += saved_slots(op)
    pairs = "".join(f"(self.e{i}, self.i{i} if self.e{i} is not None else 0), " for i in range(n))
    nodes = "".join(f"self.e{i}, " for i in range(n))
    text = f"def edges(self):\n    return ({pairs})\n\ndef targets(self):\n    return ({nodes})\n"
    names = _compile(op, "edges", text, {})
    body = {
        "__slots__": tuple(slots), "op": op, "node_name": op.node_name, "__module__": __name__,
        "edges": names["edges"], "targets": names["targets"], "gradients": formulas.gradients, "release": _release(op),
    }  # fmt: skip
    if op.differentiable:
        body["run"] = _run(op)
    return type(op.node_name, (Node,), body)


def _fetch(op, want: str) -> str:
    """Code that puts the raw value `want` of a node into a local variable."""
    if want in op.saved_tensors:
        return (
            f"v = node.v_{want}\n"
            f"{want} = node.s_{want}\n"
            f"if v >= 0 and {want}._ver == v: {want} = {want}._array\n"
            f"elif v != {saved.DIRECT}: {want} = unpack(node, '{want}')"
        )
    if want in op.saved_results:
        return (
            f"k = node.k_{want}\n"
            f"{want} = node.s_{want} if k.version == node.v_{want} else unpack_result(node, '{want}')"
        )
    if want in op.hidden:
        return f"{want} = node.h_{want}"
    if want in op.attrs:
        return f"{want} = node.a_{want}"
    if want.endswith("_shape"):
        return f"{want} = node.n_{want[:-6]}"
    return ""


def _run(op) -> object:
    """run(node, g, inbox): formulas on raw arrays, results put where they flow to."""
    lines: list[str] = []
    uses_f = "F" in op.users
    if uses_f:
        lines.append("F = raw_ops(g)")
    names = {
        "unpack": saved.unpack, "unpack_result": saved.unpack_result, "deliver": deliver,
        "raw_ops": formulas.raw_ops, "sum_to": formulas.sum_to,
    }  # fmt: skip
    fetched: set[str] = set()

    def fetch(wants, depth: str, remember: bool):
        for want in wants:
            code = _fetch(op, want) if want not in fetched else ""
            if code:
                lines.append(indent(code, depth))
                if remember:
                    fetched.add(want)

    def put(i: int, value: str, depth: str):
        lines.append(f"{depth}if node.i{i} or e in inbox: deliver(inbox, e, node.i{i}, {value})")
        lines.append(f"{depth}else: inbox[e] = {value}")

    if op.vjp is not None:
        needs = "".join(f"node.e{i} is not None, " for i in range(len(op.tensors)))
        lines.append(f"needs = ({needs})")
        lines.append("traced = False")
        names["vjp"] = op.vjp.fn
        fetch(op.vjp.wants, "", True)
        outs = "".join(f"r{i}, " for i in range(len(op.tensors)))
        lines.append(f"{outs} = vjp({', '.join(op.vjp.wants)})")
        for i in range(len(op.tensors)):
            lines += [f"e = node.e{i}", f"if e is not None and r{i} is not None:"]
            put(i, f"r{i}", "    ")
    else:
        shared_wants = [w for w in op.users if len(op.users[w]) == len(op.formulas)]
        if len(op.formulas) == 1:
            fetch(shared_wants, "", True)
        for i, argument in enumerate(op.tensors):
            formula = op.formulas.get(argument)
            if formula is None:
                continue
            names[f"f{i}"] = formula.fn
            lines += [f"e = node.e{i}", "if e is not None:"]
            fetch(formula.wants, "    ", False)
            lines.append(f"    r = f{i}({', '.join(formula.wants)})")
            if op.elementwise and len(op.tensors) > 1:
                lines.append(f"    if node.b{i} is not None: r = sum_to(r, node.b{i})")
            put(i, "r", "    ")
    text = "def run(node, g, inbox):\n" + indent("\n".join(lines), "    ")
    return _compile(op, "backward", text, names)["run"]


_NUMBERS: dict = {dtypes.float32.np: {}, dtypes.float64.np: {}}


def as_number(value, dtype):
    """A Python number as 0-dim array; those of the usual dtypes are kept, since making one costs as much as an op."""
    array = np.asarray(value, dtype)
    kept = _NUMBERS.get(dtype)
    if kept is not None and value:  # not 0: 0.0 and -0.0 are equal
        if len(kept) >= 1024:
            kept.clear()
        kept[value] = array
    return array


# -- the call ----------------------------------------------------------------------------------------------------


def _record(op, tensors: list[str], depth: str) -> str:
    """Code that makes the node: edges, saved values, place in the program."""
    lines = ["node = new(node_class)"]
    users = op.users
    for i, name in enumerate(op.tensors):
        if name not in tensors or op.vjp is None and name not in op.formulas:
            lines.append(f"node.e{i} = None")
            continue
        test = f"{name}._rg" if name not in op.optional else f"{name} is not None and {name}._rg"
        lines += [
            f"if {test}:",
            f"    e = {name}._fn",
            f"    if e is None: node.e{i}, node.i{i} = edge({name})",
            f"    else: node.e{i} = e; node.i{i} = {name}._nr",
            f"else: node.e{i} = None",
        ]

    def needed(name: str) -> str:
        """A test for whether anybody who needs `name` gets a gradient; '' if that is certain."""
        who = [i for i, t in enumerate(op.tensors) if t in users[name]]
        live = [i for i in who if op.tensors[i] in tensors]
        differentiable = [
            i for i, t in enumerate(op.tensors) if t in tensors and (op.vjp or t in op.formulas)
        ]
        if set(live) >= set(differentiable):
            return ""
        return " or ".join(f"node.e{i} is not None" for i in live) or "False"

    for name in op.saved_tensors:
        if name in tensors:
            code = [
                f"v = {name}._ver",
                f"node.s_{name} = {name}; node.v_{name} = v if v.__class__ is int else version_of({name}, True)",
            ]
            if name in op.optional:
                code = [
                    f"if {name} is None: node.s_{name} = None; node.v_{name} = -1",
                    "else:",
                    *("    " + c for c in code),
                ]
        else:
            code = [f"node.s_{name} = {name}; node.v_{name} = -1"]
        test = needed(name)
        if test:
            lines += [
                f"if {test}:",
                *("    " + c for c in code),
                f"else: node.s_{name} = None; node.v_{name} = -1",
            ]
        else:
            lines += code
    for name in op.saved_results:
        lines += [
            f"k = share(out); node.k_{name} = k; node.s_{name} = r; node.v_{name} = k.version"
        ]
    lines += [f"node.h_{name} = h_{name}" for name in op.saved_hidden]
    lines += [f"node.a_{name} = {name}" for name in op.saved_attrs]
    lines += [
        f"node.n_{t} = a_{t}.shape" if t in tensors else f"node.n_{t} = ()" for t in op.saved_shapes
    ]
    if op.elementwise and len(op.tensors) > 1:
        both = [t for t in op.tensors if t in tensors]
        clear = "; ".join(f"node.b{i} = None" for i in range(len(op.tensors)))
        if len(both) > 1:
            same = " == ".join(f"a_{t}.shape" for t in both)
            lines += [f"if {same}: {clear}", "else:", "    s = r.shape"]
            for i, t in enumerate(op.tensors):
                lines.append(
                    f"    node.b{i} = None if a_{t}.shape == s else a_{t}.shape"
                    if t in both
                    else f"    node.b{i} = None"
                )
        else:
            lines.append(clear)
    lines += [
        "node.seq = next_seq(); node.extra = None",
        "f = getframe(1); c = f.f_code",
        "if LIBRARY[c.co_filename]: f = user_frame(f); c = f.f_code",
        "node.code = c; node.lasti = f.f_lasti",
        "out._rg = True",
    ]
    return indent("\n".join(lines), depth)


def _body(op, tensors: list[str], numbers: list[str]) -> str:
    """The call for given tensor arguments; `numbers` are arguments that are Python numbers in this variant."""
    everything = ", ".join((*op.tensors, *op.attrs))
    general = (
        f"return general(op, ({', '.join(op.tensors)},), ({''.join(a + ', ' for a in op.attrs)}))"
    )
    lines = []
    if op.elementwise and len(op.tensors) == 2 and not numbers:
        second = op.tensors[1]
        lines += [f"k = {second}.__class__", f"if k is float or k is int: return with_number({everything})"]
    lines.append("try:")
    for t in tensors:
        lines.append(
            f"    a_{t} = {t}._array"
            if t not in op.optional
            else f"    a_{t} = None if {t} is None else {t}._array"
        )
    lines.append("except AttributeError:")
    lines.append("    " + general)
    required = [t for t in tensors if t not in op.optional]
    tests = [f"a_{t}.__class__ is not ndarray" for t in required]
    tests += [
        f"{t} is not None and a_{t}.__class__ is not ndarray" for t in tensors if t in op.optional
    ]
    first = required[0]
    if numbers or op.promote == "float":
        lines.append(f"d = a_{first}.dtype")
        tests.append("d is not f4 and d is not f8 and d not in floating")
    if op.promote in ("same", "float", "none"):
        tests += [f"a_{t}.dtype is not a_{first}.dtype" for t in required[1:]]
        tests += [
            f"{t} is not None and a_{t}.dtype is not a_{first}.dtype"
            for t in tensors
            if t in op.optional
        ]
    lines += [f"if {' or '.join(tests)}: {general}"]
    for t in numbers:  # takes part as a 0-dim array of the tensor's dtype
        lines += [
            f"k = (numbers4 if d is f4 else numbers8).get({t}) if {t} and (d is f4 or d is f8) else None",
            f"{t} = as_number({t}, d) if k is None else k",
        ]
    lines += [
        "if active.active:",
        "    bits = state.bits",
        f"    if bits > 1: {general}",
        "    record = not bits",
        "else: record = True",
    ]
    arrays = ", ".join(f"a_{t}" if t in tensors else t for t in op.tensors)
    attrs = "".join(f", {a}={a}" for a in op.attrs)
    target = "r" + "".join(f", h_{h}" for h in op.hidden)
    call = f"kernel({arrays})" if op.ufunc else f"kernel(xp, {arrays}{attrs})"
    lines += [
        f"try: {target} = {call}",
        f"except Exception as exc: raise kernel_error(exc, op, ({', '.join(op.tensors)},), ({''.join(a + ', ' for a in op.attrs)})) from None",
        "if r.__class__ is not ndarray: r = asarray(r)",
        "out = new(Tensor); out._array = r; out._nr = 0; out._grad = None; out._ver = 0; out._view = None",
    ]
    if op.differentiable:
        flags = [f"{t}._rg" if t not in op.optional else f"{t} is not None and {t}._rg"
                 for t in tensors if op.vjp is not None or t in op.formulas]  # fmt: skip
        test = " or ".join(flags) or "False"
        lines += [f"if record and ({test}):", _record(op, tensors, "    ")]
        if op.view:
            lines.append(
                f"    return attach(out, {first}, op, ({''.join(a + ', ' for a in op.attrs)}), node)"
            )
        lines += ["    out._fn = node", "else: out._rg = False; out._fn = None"]
    else:
        lines += ["out._rg = False; out._fn = None"]
    if op.view:
        lines.append(
            f"return attach(out, {first}, op, ({''.join(a + ', ' for a in op.attrs)}), None)"
        )
    lines.append("return out")
    return indent("\n".join(lines), "    ")


def _call(op):
    from ..ops.expose import write_out
    from . import dispatch, views
    from .tensor import Tensor

    xp = formulas.numpy_backend()
    names = {
        "op": op, "general": dispatch.general, "state": state, "active": shared, "ndarray": np.ndarray,
        "asarray": np.asarray, "new": object.__new__, "Tensor": Tensor, "node_class": op.node_class, "edge": edge,
        "share": share, "Storage": Storage, "version_of": version_of, "next_seq": next_seq, "getframe": sys._getframe,
        "LIBRARY": LIBRARY, "user_frame": user_frame, "xp": xp, "attach": views.attach,
        "kernel_error": dispatch.kernel_error, "write_out": write_out, "floating": dtypes.NP_FLOATING,
        "numbers4": _NUMBERS[dtypes.float32.np], "numbers8": _NUMBERS[dtypes.float64.np], "as_number": as_number,
        "f4": dtypes.float32.np, "f8": dtypes.float64.np,
        "kernel": getattr(xp, op.ufunc) if op.ufunc else op.forward,
    }  # fmt: skip
    parameters = ", ".join(
        [*(f"{t}=None" if t in op.optional else t for t in op.tensors), *op.attrs]
    )
    if op.optional and op.attrs:
        parameters = ", ".join((*op.tensors, *op.attrs))
    text = ""
    if op.elementwise and len(op.tensors) == 2:
        first, second = op.tensors
        variants = _body(op, [first], [second]), _body(op, [second], [first])
        text += f"def number_second({parameters}):\n{variants[0]}\n\ndef number_first({parameters}):\n{variants[1]}\n\n"
        text += "with_number = number_second\n\n"
    if op.elementwise and not op.attrs and op.tensors[0] == "self":
        # public as it is: PyTorch calls the first argument `input`, and takes out=
        public = ", ".join(("input", *op.tensors[1:], "*", "out=None"))
        start = f"    self = input\n    if out is not None: return write_out(out, op.call({', '.join(('input', *op.tensors[1:]))}))\n"
        text += f"def {op.name}({public}):\n{start}{_body(op, list(op.tensors), [])}\n"
    else:
        text += f"def {op.name}({parameters}):\n{_body(op, list(op.tensors), [])}\n"
    names = _compile(op, "forward", text, names)
    op.number_first = names.get("number_first")
    return names[op.name]
