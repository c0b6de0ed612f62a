"""The fast path of each op, written out as straight code: what `interpret.general` does in general.

For the common case (NumPy arrays of the right dtypes, no mode but no_grad active) an op's call is generated from its
declaration, as `dataclasses` writes `__init__`: no loops over arguments, no tuples, no dicts. Whatever is unusual goes
to the general path. Set GRADLIB_SHOW_CODE=<op> to read what is generated.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from textwrap import indent
from types import FunctionType

import numpy as np

from ..tape import dtypes, override, views
from ..tape.layout import follow, in_order
from ..tape.modes import shared, state
from ..tape.node import edge, next_seq, unrecorded_edge
from ..tape.saved import DIRECT, save_result
from ..tape.source import LIBRARY, learn, user_frame
from ..tape.storage import share, version_of
from ..tape.tensor import Tensor
from . import formulas, halves, interpret, overlays, spreading
from .expose import apart, out_writer
from .registry import REGISTRY
from .write_node import compile_code, node_class, run_again
from .write_record import Recorder, deeper, keep_list


def prepare(op) -> None:
    """Give `op` a `call` that writes its own code the first time it is called.

    Writing out all ops would make importing gradlib slow. The function object stays the same: what has been
    published under many names (function, method, operator) gets the code in one place.
    """
    op.call = FunctionType(_first_call.__code__, {"build": build, "op": op}, op.name)
    op.call.__dict__["asks"] = True  # `interpret.general` does, where it fails


def _first_call(*args, **kwargs):
    """The body of every op's call until it is first called; `build` and `op` are globals of that function."""
    build(op)  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    return op.call(*args, **kwargs)  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def build(op) -> None:
    """Write the node class of `op` and the code of its `call`."""
    with BUILDING:
        if op.built is not None:
            return
        names = names_for(op, node_class(op))
        overlay = _overlay_on_numpy(op)
        overlays.hold(names, overlay, op, "forward")
        taken = set(names) & {*op.tensors, *op.attrs}
        if taken:
            raise TypeError(
                f"op {op.name}: generated code uses the names {sorted(taken)}; call these arguments otherwise"
            )
        write = (
            _call_general
            if op.leaves_device or op.sparse
            else _call_variadic
            if op.variadic
            else write_call
        )
        made = write(op, names)
        call = op.call
        call.__globals__.update(names)
        overlays.hold(call.__globals__, overlay, op, "forward")
        runs = override.running(call)
        for fn in (call, runs):
            fn.__defaults__, fn.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        op.number_first = names.get("number_first")
        op.built = names["node_class"]
        runs.__code__ = made.__code__
        for made in op.operators:
            _become_operator(made, runs)


def _write_again() -> None:
    """Write the code of all ops that spread large arguments once more; see `spreading`."""
    with BUILDING:
        for op in REGISTRY.values():
            if op.built is None or not spreading.suits(op):
                continue
            runs = override.running(op.call)
            runs.__code__ = write_call(op, op.call.__globals__).__code__
            for made in op.operators:
                _become_operator(made, runs)
            run_again(op)


spreading.at_begin(_write_again)


def operator(op, name: str, reflected: bool = False) -> FunctionType:
    """``op.call`` for Python's operators: operands of other kinds give NotImplemented, so that theirs is asked.

    The first operand must be a tensor; if `reflected`, the last.
    """
    names = {"build": build, "op": op, "n": len(op.operators), "operator_name": name}
    made = FunctionType(_first_operator.__code__, names | {"reflected": reflected}, name)
    op.operators.append(made)
    if op.built is not None:
        _become_operator(made, override.running(op.call))
    return made


def _first_operator(*args):
    """The body of an operator until `op` is built."""
    build(op)  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    return op.operators[n](*args)  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


def _become_operator(made: FunctionType, call) -> None:
    names = made.__globals__
    if names["reflected"]:
        general = interpret.operate_reflected
    else:
        name = names["operator_name"]

        def general(op, args, attrs):
            return interpret.operate(op, args, attrs, name)

    names.update({**call.__globals__, "general": general})
    op = names["op"]
    overlays.hold(names, _overlay_on_numpy(op), op, names["operator_name"], names["reflected"])
    if "number_second" in names:
        names["number_second"] = FunctionType(names["number_second"].__code__, names)
    made = override.running(made)
    made.__defaults__, made.__kwdefaults__ = call.__defaults__, call.__kwdefaults__
    made.__code__ = call.__code__


BUILDING = threading.RLock()
WHOLE = 1 << 62
_NUMBERS: dict = {dtypes.float32.np: {}, dtypes.float64.np: {}}


def as_number(value, dtype):
    """A Python number as 0-dim array; those of the usual dtypes are kept: making one costs as much as an op."""
    if dtype.kind == "V" and value.__class__ is int:
        value = float(value)  # bfloat16 takes no integers of more than 64 bits
    elif dtype.kind == "c" and value.__class__ in (float, int):
        # formulas take its conjugate: no imaginary -0.0
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    array = np.asarray(value, dtype)
    kept = _NUMBERS.get(dtype)
    if kept is not None and value:  # not 0: 0.0 and -0.0 are equal
        if len(kept) >= 1024:
            kept.clear()
        kept[value] = array
    return array


def save_outputs(node, outs: list) -> None:
    """Keep the outputs of an op with several, as far as its formulas need them."""

    for name in node.op.saved_results:
        i = node.op.results.index(name)
        save_result(node, name, outs[i], outs[i]._nr)


# Local variables of generated code end in an underscore, so that arguments and attributes may have any name.
_NUMBERED = "node_.seq = next_seq(); node_.extra = None"
_CALLER = [
    "try: l_ = LIBRARY[c_.co_filename]",
    "except KeyError: l_ = learn(c_.co_filename)",
    "if l_: f_ = user_frame(f_); c_ = f_.f_code",
    "node_.code = c_; node_.lasti = f_.f_lasti",
]
_PLACE = [_NUMBERED, "f_ = getframe(1); c_ = f_.f_code", *_CALLER]


def _place_on_device(above: int) -> list[str]:
    """Where the frames up to `above` are the library's: those are passed over. Under autocast the frame is known."""
    return [
        _NUMBERED,
        "f_ = state.site if shared.active else None",
        "if f_ is None:",
        f"    try: f_ = getframe({above})",
        "    except ValueError: f_ = getframe(1)",  # a thread whose function is the op itself
        "c_ = f_.f_code",
        *_CALLER,
        "node_.stream = lane(here_)",
    ]


_NEW = "out_ = new(Tensor); out_._array = r_; out_._nr = 0; out_._grad = None; out_._ver = 0; out_._view = None"


def names_for(op, made_class: type) -> dict:
    """The globals of generated code."""
    xp = formulas.numpy_backend()
    return {
        "__name__": "gradlib.generated", "op": op, "general": interpret.elsewhere,
        "state": state, "shared": shared, "ndarray": np.ndarray,
        "asarray": np.asarray, "new": object.__new__, "Tensor": Tensor, "node_class": made_class, "edge": edge,
        "unrecorded_edge": unrecorded_edge,
        "share": share, "version_of": version_of, "next_seq": next_seq, "getframe": sys._getframe,
        "LIBRARY": LIBRARY, "user_frame": user_frame, "learn": learn, "xp": xp, "attach": views.attach,
        "write_out": out_writer(op), "apart": apart, "in_order": in_order,
        "failed": interpret.failed, "floating": dtypes.NP_FLOATING | {dtypes.bfloat16.np},
        "differentiable": dtypes.DIFFERENTIABLE,
        "numbers4": _NUMBERS[dtypes.float32.np], "numbers8": _NUMBERS[dtypes.float64.np], "as_number": as_number,
        "halves": dtypes.HALVES, "f4": dtypes.float32.np, "f8": dtypes.float64.np, "i8": dtypes.int64.np,
        "complexes": dtypes.COMPLEXES, "save_outputs": save_outputs,
        "attach_outputs": interpret.attach_outputs,
        "kernel": getattr(xp, op.ufunc) if op.ufunc else op.bare if _lays_out(op) else op.forward,
        "in_float32": halves.runs(op),
        "follow": follow, "spread": spreading.spread, "spread_formula": spreading.spread_formula, **on_device(op),
    }  # fmt: skip


def on_device(op) -> dict:
    """How the code for NumPy arrays finds that for a device's, which is written when it is first needed."""
    return {
        "on_device": op.on_device, "on_device_number_first": op.on_device_number_first,
        "device_array": None if op.on_device is None else shared.cuda.array,
    }  # fmt: skip


def _overlay_on_numpy(op) -> Callable | None:
    table = overlays.on("numpy")
    return table.bare_forward_of(op) if _lays_out(op) else table.forward_of(op)


def _lays_out(op) -> bool:
    """Whether the generated code, not the kernel, keeps channels last."""
    return bool(op.channels_last) and op.n_out == 1


_NO_HALF = "d_ is f4 or d_ is f8 or d_.itemsize != 2 or d_ not in halves"
DENSE, QUICK = "flags.c_contiguous", "_c_contiguous"  # of NumPy, and of CuPy's arrays beside it


class _Writer(Recorder):
    """Writes the call of one op for one choice of which arguments are tensors and which are Python numbers.

    device: for arrays of a device; they must lie on the current one, and nodes remember its current stream.
    overlaid: the kernel `overlay` is tried before the declared one.
    dense: the attribute that says whether an array is row-major.
    """

    def __init__(
        self,
        op,
        numbers: tuple = (),
        device: bool = False,
        overlaid: bool = False,
        dense: str = DENSE,
    ):
        super().__init__(op)
        self.numbers, self.device, self.overlaid, self.dense = numbers, device, overlaid, dense
        self.by_float32 = not device and halves.suits(op)
        # the code for a device is called by that for NumPy arrays, or by `interpret.elsewhere`; that for a number in
        # the second place by the code for a device, and the code for NumPy arrays has one for it, too
        above = 4 if numbers and numbers[0] == op.tensors[1] else 2
        self.place = _place_on_device(above) if device else _PLACE
        self.tensors = [t for t in op.tensors if t not in numbers]
        self.required = [t for t in self.tensors if t not in op.optional]
        self.diff = [t for t in self.diff if t in self.tensors]
        self.args = "".join(t + ", " for t in op.tensors)
        self.attrs = "".join(a + ", " for a in op.attrs)
        known = f", {above}" if device else ""
        self.general = f"return general(op, ({self.args}), ({self.attrs}){known})"

    def body(self) -> str:
        lines = [*self.arrays(), *self.checks(), *self.kernel(), *self.finish()]
        return indent("\n".join(lines), "    ")

    def optional(self, name: str, value: str, otherwise: str = "None") -> str:
        return f"{otherwise} if {name} is None else {value}" if name in self.op.optional else value

    def requires(self, name: str) -> str:
        return f"{name} is not None and {name}._rg" if name in self.op.optional else f"{name}._rg"

    def arrays(self) -> list[str]:
        """Raw arrays of the tensors; a Python number goes to the variant for it, anything else the general way."""
        op, lines = self.op, []
        if op.elementwise and len(op.tensors) == 2 and not self.numbers and op.numbers != "none":
            lines += [
                f"k_ = {op.tensors[1]}.__class__",
                f"if k_ is not Tensor and (k_ is float or k_ is int): return number_second({self.args}{self.attrs})",
            ]
        lines.append("try:")
        lines += [f"    a_{t} = " + self.optional(t, f"{t}._array") for t in self.tensors]
        return [*lines, "except AttributeError: " + self.general]

    def checks(self) -> list[str]:
        """NumPy arrays, of dtypes for which NumPy does what PyTorch does, and no mode that wants to know."""
        op, lines = self.op, []
        first = self.required[0]
        others = self.required[1:]
        given = [t for t in self.tensors if t in op.optional]
        tests = [f"a_{t}.__class__ is not ndarray" for t in self.required]
        tests += [f"{t} is not None and a_{t}.__class__ is not ndarray" for t in given]
        kind = f"a_{first}.dtype"
        if self.by_float32 or self.numbers or op.promote in ("float", "number"):
            lines.append(f"d_ = {kind}")
            kind = "d_"
        if self.numbers or op.promote in ("float", "number"):
            tests.append(
                "d_ is not f4 and d_ is not f8 and d_ not in floating" + self.unless_whole()
            )
        if op.complex is False:
            if kind != "d_":
                lines.append(f"d_ = {kind}")
                kind = "d_"
            tests.append("d_ is not f4 and d_ in complexes")
        if op.promote in ("same", "float", "number", "none"):
            others = [t for t in others if t not in op.fixed]
            tests += [f"a_{t}.dtype is not {kind}" for t in others]
            tests += [f"{t} is not None and a_{t}.dtype is not {kind}" for t in given]
        lines.append(f"if {' or '.join(tests)}:")
        if not self.device and not op.leaves_device:
            there = [f"a_{t}.__class__ is device_array" for t in self.required]
            there += [f"({t} is None or a_{t}.__class__ is device_array)" for t in given]
            call = "on_device_number_first" if op.tensors[0] in self.numbers else "on_device"
            test = f"    if on_device is not None and {' and '.join(there)}"
            lines.append(f"{test}: return {call}({self.args}{self.attrs})")
        lines.append(f"    {self.general}")
        if self.device:
            away = [f"a_{t}.data.device_id != here_" for t in self.required]
            away += [f"{t} is not None and a_{t}.data.device_id != here_" for t in given]
            lines += ["here_ = current_device()", f"if {' or '.join(away)}: {self.general}"]
        lines += _mode(self.general, bool(op.arrays))
        return lines + self.number_arrays()

    def unless_whole(self) -> str:
        """Whole numbers beside int64 promote nothing either; those of 63 bits may not fit."""
        op = self.op
        if op.promote not in ("same", "number") or op.check is not None or self.device:
            return ""
        return "".join(
            f" and (d_ is not i8 or {n}.__class__ is not int or not -{WHOLE} < {n} < {WHOLE})"
            for n in self.numbers
        )

    def number_arrays(self) -> list[str]:
        """A Python number takes part as a 0-dim array of the tensor's dtype."""
        make = "as_number({0}, d_)"
        if self.op.wide_numbers:
            make = "as_number({0}, f4 if d_ in halves else d_)"
        if self.device:  # a wide number is kept for the formulas as it took part
            kept = "a_{0} = {0} = " if self.op.wide_numbers else "a_{0} = "
            return [(kept + make).format(t) for t in self.numbers]
        lines = []
        for t in self.numbers:
            kept = f"None if not {t} else numbers4.get({t}) if d_ is f4 else numbers8.get({t}) if d_ is f8 else None"
            lines += [f"k_ = {kept}", f"{t} = {make.format(t)} if k_ is None else k_"]
        return lines

    def kernel(self) -> list[str]:
        op = self.op
        arrays = ", ".join(f"a_{t}" if t in self.tensors or self.device else t for t in op.tensors)
        attrs = "".join(f", {a}={a}" for a in op.attrs)
        target = ("r_" if op.n_out == 1 else "rs_") + "".join(f", h_{h}" for h in op.hidden)
        if op.n_out != 1 and op.hidden:
            target = "*rs_" + "".join(f", h_{h}" for h in op.hidden)
        call = f"kernel({arrays})" if op.ufunc else f"kernel(xp, {arrays}{attrs})"
        if spreading.begun and not self.device and spreading.suits(op):
            spread = "spread" if op.ufunc else "spread_formula"
            large = f"{spread}(kernel, {'' if op.ufunc else 'xp, '}{arrays}{attrs})"
            call = f"({call} if a_{self.required[0]}.size < {spreading.LARGE} else {large})"
        if self.by_float32:
            wide = f"in_float32(kernel, {'' if op.ufunc else 'xp, '}{arrays}{attrs})"
            if op.ufunc:  # whose loops for halves round once, too
                few = halves.FEW_OF_ONE if len(op.tensors) == 1 else halves.FEW_OF_SEVERAL
                few = " and ".join([f"a_{t}.size <= {few}" for t in self.required])
                wide = f"kernel({arrays}) if {few} else {wide}"
            call = f"{call} if {_NO_HALF} else {wide}"
        if self.overlaid:
            lines = ["try:", *deeper(_overlaid(target, f"(xp, {arrays}{attrs})", call))]
        else:
            lines = [f"try: {target} = {call}"]
        lines += [
            f"except Exception as exc_: return failed(exc_, op, ({self.args}), ({self.attrs}))",
        ]
        if not self.device and _lays_out(op):
            for i in op.channels_last:
                source = f"a_{op.tensors[i]}"
                kept = f"follow(xp, r_, {source}, 1, {op.channels_last_3d})"
                lines += [
                    f"s_ = {source}.strides",
                    f"if len(s_) > 3 and s_[1] <= s_[-1]: r_ = {kept}",
                ]
        return lines

    def finish(self) -> list[str]:
        """Wrap, record, make views."""
        op = self.op
        if op.n_out != 1:
            return self.finish_several()
        whole = [] if op.flips else ["if r_.__class__ is not ndarray: r_ = asarray(r_)"]
        lines = [*whole, *self.layout(), _NEW]
        if op.wide_numbers and self.numbers:
            lines.insert(1, "if r_.dtype is not d_ and d_ in halves: r_ = r_.astype(d_)")
        view = f"return attach(out_, {self.required[0]}, op, ({self.attrs}), "
        plain = [view + "None)"] if op.view else ["return out_"]
        if not op.differentiable:
            return [*lines, "out_._rg = False; out_._fn = None", *plain]
        test = " or ".join(self.requires(t) for t in self.diff) or "False"
        if op.integer_results:
            test = f"r_.dtype in differentiable and ({test})"
        record = [*self.node(), *self.save_result(), *self.place, "out_._rg = True"]
        record += [view + "node_)"] if op.view else ["out_._fn = node_"]
        return [
            *lines,
            f"if record_ and ({test}):",
            *deeper(record),
            "else: out_._rg = False; out_._fn = None",
            *plain,
        ]

    def layout(self) -> list[str]:
        """Row-major results where the op asks for them; elementwise ones keep the order of their arguments' strides."""
        if self.op.row_major:
            return [f"if r_.ndim > 1 and not r_.{self.dense}: r_ = r_.copy()"]
        op = self.op
        ordered = len(self.required) > 1 or (self.device and op.inplace)
        pointwise = op.elementwise or (op.pointwise and ordered)
        if pointwise and self.device:  # CuPy's ufuncs keep other orders than NumPy's
            dense = " and ".join(f"a_{t}.{self.dense}" for t in self.required)
            arrays = "".join(f"a_{t}, " for t in self.required)
            return [f"if r_.ndim > 1 and not ({dense}): r_ = in_order(xp, r_, ({arrays}))"]
        if not pointwise or (op.ufunc and len(self.required) < 2):
            return []
        first = self.required[0]
        other = f"a_{self.required[1]}" if op.ufunc else "r_"
        arrays = "".join(f"a_{t}, " for t in self.required)
        mixed = f"not a_{first}.flags.c_contiguous and a_{first}.strides != {other}.strides"
        return [f"if r_.ndim > 1 and {mixed}: r_ = in_order(xp, r_, ({arrays}))"]

    def finish_several(self) -> list[str]:
        op = self.op
        lines = ["outs_ = []", "node_ = None"]
        if op.differentiable:
            test = " or ".join(self.requires(t) for t in self.diff) or "False"
            record = [*self.node(), *self.place]
            if op.n_out is None:
                record.append("node_.n_out = len(rs_)")
            lines += [f"if record_ and ({test}):", *deeper(record)]
        lines += [
            "for r_ in rs_:",
            "    if r_.__class__ is not ndarray: r_ = asarray(r_)",
            "    " + _NEW,
            "    outs_.append(out_)",
            "    out_._rg = False; out_._fn = None",
            "    if node_ is not None:",
            "        i_ = len(outs_)",
        ]
        refused = tuple(op.nondifferentiable) if not isinstance(op.nondifferentiable, str) else ()
        excluded = f" and i_ - 1 not in {refused}" if refused else ""
        lines += [
            f"        if r_.dtype in differentiable{excluded}: out_._rg = True; out_._fn = node_; out_._nr = i_"
        ]
        if op.n_out is None:
            lines.append("if len(outs_) == 1: outs_[0]._nr = 0")
        if op.saved_results:
            lines.append("if node_ is not None: save_outputs(node_, outs_)")
        if op.view:
            lines.append(f"attach_outputs(op, ({self.attrs}), {self.required[0]}, outs_, node_)")
        return [*lines, "return tuple(outs_)"]

    def node(self) -> list[str]:
        """Make the node."""
        hidden = [f"node_.h_{name} = h_{name}" for name in self.op.saved_hidden]
        made = "node_ = new(node_class)"
        if self.by_float32 and self.op.formulas:
            made += f" if {_NO_HALF} else new(op.half_node_class)"
        return [made, *self.keep(), *hidden]

    def save(self, name: str) -> list[str]:
        if name not in self.tensors:
            return [f"node_.s_{name} = {name}; node_.v_{name} = {DIRECT}"]
        version = f"v_ if v_.__class__ is int else version_of({name}, True)"
        code = [f"v_ = {name}._ver", f"node_.s_{name} = {name}; node_.v_{name} = {version}"]
        if name not in self.op.optional:
            return code
        nothing = f"if {name} is None: node_.s_{name} = None; node_.v_{name} = {DIRECT}"
        return [nothing, "else:", *deeper(code)]

    def shape(self, name: str) -> str:
        return self.optional(name, f"a_{name}.shape", "()") if name in self.tensors else "()"

    def save_result(self) -> list[str]:
        return [
            f"k_ = share(out_); node_.k_{name} = k_; node_.s_{name} = r_; node_.v_{name} = k_.version"
            for name in self.op.saved_results
        ]

    def broadcast(self) -> list[str]:
        op = self.op
        clear = "; ".join(f"node_.b{i} = None" for i in range(len(op.tensors)))
        if len(self.tensors) == 1:
            return [clear]
        same = " == ".join(f"a_{t}.shape" for t in self.tensors)
        lines = [f"if {same}: {clear}", "else:", "    s_ = r_.shape"]
        for i, t in enumerate(op.tensors):
            own = f"None if a_{t}.shape == s_ else a_{t}.shape" if t in self.tensors else "None"
            lines.append(f"    node_.b{i} = {own}")
        return lines


def _overlaid(target: str, arguments: str, declared: str) -> list[str]:
    """The declared kernel where the overlay declines."""
    if "," not in target:
        return [
            f"{target} = overlay{arguments}",
            f"if {target} is NotImplemented: {target} = {declared}",
        ]
    return [
        f"raw_ = overlay{arguments}",
        f"if raw_ is NotImplemented: raw_ = {declared}",
        f"{target} = raw_",
    ]


def _mode(general: str, arrays: bool = False) -> list[str]:
    """arrays: some attributes are raw arrays, which may belong to a vmap although no tensor does."""
    return [
        "if shared.active:",
        "    bits_ = state.bits",
        *([f"    if shared.batches: {general}"] if arrays else []),
        f"    if bits_ > 1: {general}",
        "    record_ = not bits_",
        "else: record_ = True",
    ]


def write_call(op, names: dict, device: bool = False):
    """The function ``op(*tensors, *attrs)``."""
    parameters = ", ".join((*op.tensors, *op.attrs))
    if op.optional and not op.attrs:
        parameters = ", ".join(f"{t}=None" if t in op.optional else t for t in op.tensors)
    text, overlaid = "", overlays.HELD in names
    # CuPy makes an object of all flags each time
    known = device and hasattr(names["ndarray"], QUICK)
    how = device, overlaid, QUICK if known else DENSE
    if op.elementwise and len(op.tensors) == 2 and op.numbers != "none":
        for name, number in zip(
            ("number_second", "number_first"), reversed(op.tensors), strict=True
        ):
            text += f"def {name}({parameters}):\n{_Writer(op, (number,), *how).body()}\n\n"
    start = ""
    if op.elementwise and not op.attrs and op.tensors[0] == "self":
        # public as it is: PyTorch calls the first argument `input`, and takes out=
        rest = ", ".join(op.tensors[1:])
        parameters = ", ".join(("input", *op.tensors[1:], "*", "out=None"))
        start = (
            "    self = input\n"
            f"    if out is not None: return write_out(apart(out, input, {rest}), op.call(input, {rest}))\n"
        )
    text += f"def {op.name}({parameters}):\n{start}{_Writer(op, (), *how).body()}\n"
    return compile_code(op, "device forward" if device else "forward", text, names)[op.name]


def _call_general(op, names: dict):
    names |= {"n": len(op.tensors)}
    text = f"def {op.name}(*args):\n    return general(op, args[:n], args[n:])\n"
    return compile_code(op, "forward", text, names)[op.name]


def _call_variadic(op, names: dict):
    """call(list of tensors, *attrs) for ops with one output that save no tensor; the others go the general way."""
    if op.n_out != 1 or op.saved_tensors or op.saved_results or op.hidden or op.view:
        return _call_general(op, names)
    attrs = "".join(a + ", " for a in op.attrs)
    general = f"return general(op, (tensors,), ({attrs}))"
    kept = keep_list(op, "edge(t_) for t_ in tensors", "a_.shape for a_ in arrays_")
    record = ["node_ = new(node_class)", *kept]
    same = (
        "for a_ in arrays_:\n    if a_.__class__ is not ndarray or a_.dtype is not d_: " + general
    )
    given = f"xp, arrays_{''.join(f', {a}={a}' for a in op.attrs)}"
    kernel = [f"try: r_ = kernel({given})"]
    if overlays.HELD in names:
        kernel = ["try:", *deeper(_overlaid("r_", f"({given})", f"kernel({given})"))]
    lines = [
        "try: arrays_ = [t_._array for t_ in tensors]",
        "except (AttributeError, TypeError): " + general,
        "if not arrays_: " + general,
        "d_ = arrays_[0].dtype",
        same,
        *_mode(general),
        *kernel,
        f"except Exception as exc_: return failed(exc_, op, (tensors,), ({attrs}))",
        "if r_.__class__ is not ndarray: r_ = asarray(r_)",
        _NEW,
        *(
            [
                "if record_ and any([t_._rg for t_ in tensors]):",
                *deeper([*record, *_PLACE, "out_._rg = True; out_._fn = node_"]),
                "else: out_._rg = False; out_._fn = None",
            ]
            if op.differentiable
            else ["out_._rg = False; out_._fn = None"]
        ),
        "return out_",
    ]
    text = f"def {op.name}(tensors, {attrs}):\n" + indent("\n".join(lines), "    ")
    return compile_code(op, "forward", text, names)[op.name]
