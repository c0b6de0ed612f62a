"""Elementwise ops as one kernel: the declared formulas, traced and written out as CUDA C++.

Every elementwise op gets a forward overlay if its formula takes several passes over memory, and a vjp overlay if the
gradients that are needed take several together. A kernel is made for each combination of attributes, needed gradients
and kinds of arguments that occurs (at most `VARIANTS` for an op: an attribute that changes all the time would mean
compiling all the time), and for each way arguments lie in memory: dense, one element, or strided and broadcast.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from ..kernels import (
    F4,
    F8,
    FLOATS,
    HALVES,
    Module,
    blocks_for,
    instance,
    instances,
    launcher_of,
    source,
)
from .trace import FLOAT, Functions, Node, Ops, Symbol, Trace, Untraceable, run_forward, traceable

VARIANTS = 32
DENSE, ONE, STRIDED, NUMBER = "dense", "one", "strided", "number"
MAX_DIMS = 8
PREAMBLE = ("common.cuh", "pointwise.cuh")


class Traced:
    """The expressions of a formula and the names of the arguments they read."""

    def __init__(self, outputs: Sequence[Node], inputs: dict[str, Node]):
        self.outputs = list(outputs)
        self.order = _in_order(self.outputs)
        used = {id(n) for n in self.order}
        self.inputs = {name: node for name, node in inputs.items() if id(node) in used}
        self.cost = len(self.order) - len(self.inputs)  # operations

    def body(self) -> str:
        """C++ that computes out0, out1... from inputs that are already named in_<argument>."""
        names = {id(node): f"in_{name}" for name, node in self.inputs.items()}
        numbers, lines = count(), []
        for node in self.order:
            if id(node) in names:
                continue
            args = [names[id(a)] if isinstance(a, Node) else a for a in node.args]
            names[id(node)] = f"t{next(numbers)}"
            kind = "A" if node.kind == FLOAT else "bool"
            lines.append(f"const {kind} {names[id(node)]} = {node.text.format(*args)};")
        lines += [f"out{i}[i] = T({names[id(n)]});" for i, n in enumerate(self.outputs)]
        return "\n  ".join(lines)


def _in_order(outputs: list[Node]) -> list[Node]:
    """Every expression that the outputs need, arguments first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(outputs)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(a, False) for a in reversed(node.args) if isinstance(a, Node)]
    return order


def trace(
    dtype: np.dtype, names: Sequence[str], run: Callable[[Ops, dict[str, Any]], list]
) -> Traced | None:
    """Trace ``run(F, symbols by name)``, which returns the results; None if it cannot be one kernel."""
    here = Trace(dtype)
    inputs = {name: here.node(FLOAT, f"input {name}") for name in names}
    try:
        results = run(Ops(Functions(here)), {k: Symbol(here, n) for k, n in inputs.items()})
        outputs = [here.operand(r, FLOAT) for r in results]
    except (Untraceable, TypeError, ValueError, AttributeError, RuntimeError):
        return None
    outputs = [o if isinstance(o, Node) else here.node(FLOAT, "{}", o) for o in outputs]
    return Traced(outputs, inputs)


# -- code --------------------------------------------------------------------------------------------------------------


def write(name: str, traced: Traced, places: dict[str, str], dims: int) -> str:
    """The kernel template; `places` says how each input lies in memory, strided ones over `dims` dimensions."""
    parameters, loads, starts, steps = [], [], [], []
    for k, how in places.items():
        parameters.append(f"A in_{k}" if how == NUMBER else f"const T* p_{k}")
        if how == STRIDED:
            starts.append(f"int64 k_{k} = 0;")
            steps += [f"k_{k} += place{d} * stride_{k}{d};" for d in range(dims)]
        if how != NUMBER:
            index = {DENSE: "i", ONE: "0", STRIDED: f"k_{k}"}[how]
            loads.append(f"const A in_{k} = p_{k}[{index}];")
    parameters += [f"T* out{i}" for i in range(len(traced.outputs))] + ["int64 size"]
    if starts:
        parameters += [f"int64 size{d}" for d in range(dims)]
        parameters += [
            f"int64 stride_{k}{d}"
            for k, how in places.items()
            if how == STRIDED
            for d in range(dims)
        ]
        starts.append("int64 rest = i;")
        for d in reversed(range(dims)):
            starts.append(f"const int64 place{d} = rest % size{d};")
            starts.append(f"rest /= size{d};")
    parameters = [p.replace("A in_", "wide<T> in_") for p in parameters]
    lines = ["typedef wide<T> A;", "const int64 i = thread_number();", "if (i >= size) return;"]
    lines += [*starts, *steps, *loads, traced.body()]
    return (
        f"template <typename T> __global__ void {name}({', '.join(parameters)}) {{\n  "
        + "\n  ".join(lines)
        + "\n}\n"
    )


def preamble() -> str:
    """What generated kernels build on."""
    return "".join(source(name) for name in PREAMBLE)


class Generated(Module):
    """A module of one generated kernel template."""

    __slots__ = ("own",)

    def __init__(self, label: str, traced: Traced, places: dict[str, str], dims: int):
        digest = hashlib.sha256(f"{traced.body()}{places}{dims}".encode()).hexdigest()[:12]
        name = f"{label}_{digest}"
        self.own = write(name, traced, places, dims)
        super().__init__(name, instances(name, FLOATS))

    @property
    def code(self) -> str:
        return preamble() + self.own


# -- running -----------------------------------------------------------------------------------------------------------


class Kernel:
    """A traced formula that can be run on arrays."""

    def __init__(self, label: str, traced: Traced):
        self.label, self.traced = label, traced
        self.modules: dict[tuple, Generated] = {}

    def __call__(self, xp: Any, values: dict[str, Any], shape: tuple, dtype: np.dtype) -> Any:
        """The results, or NotImplemented if the arguments are of different dtypes."""
        values = {name: values[name] for name in self.traced.inputs}
        arrays = {k: v for k, v in values.items() if hasattr(v, "dtype")}
        if any(a.dtype != dtype for a in arrays.values()):
            return NotImplemented
        outs, places, sizes, strides = _layout(xp, arrays, shape, dtype, len(self.traced.outputs))
        if outs is None:
            return NotImplemented
        size = math.prod(shape)
        if not size:
            return outs
        places = {k: places.get(k, NUMBER) for k in values}
        key = (tuple(places.values()), len(sizes))
        module = self.modules.get(key)
        if module is None:
            module = self.modules[key] = Generated(self.label, self.traced, places, len(sizes))
        wide = (F4 if dtype in HALVES else dtype).type
        given = [v if k in arrays else wide(v) for k, v in values.items()]
        numbers = [np.int64(n) for n in (size, *sizes, *strides)]
        launcher = launcher_of(xp)
        args = (*given, *outs, *numbers)
        launcher.launch(module, instance(module.name, dtype), blocks_for(size), 256, args)
        return outs


def _layout(xp: Any, arrays: dict[str, Any], shape: tuple, dtype: Any, n_out: int) -> tuple:
    """(new results, where each array's elements are, sizes, strides) with strides in elements, of strided ones."""
    whole = [a for a in arrays.values() if a.shape == shape]
    first = whole[0] if whole else None
    if first is not None and len(whole) == len(arrays) and _dense_alike(whole):
        outs = [xp.empty_like(first) for _ in range(n_out)]
        if all(o.strides == first.strides for o in outs):
            return outs, dict.fromkeys(arrays, DENSE), (), ()
    outs = [xp.empty(shape, dtype) for _ in range(n_out)]
    places = {
        k: ONE if a.size == 1 else DENSE if a.shape == shape and a.flags.c_contiguous else STRIDED
        for k, a in arrays.items()
    }
    strided = [a for k, a in arrays.items() if places[k] == STRIDED]
    if not strided:
        return outs, places, (), ()
    sizes, rows = collapse(shape, [_strides(a, shape) for a in strided])
    if len(sizes) > MAX_DIMS:
        return None, {}, (), ()
    return outs, places, sizes, [s // dtype.itemsize for row in rows for s in row]


def _dense_alike(arrays: list) -> bool:
    """Whether arrays of one shape lie in memory in the same order and without gaps."""
    first = arrays[0]
    if any(a.strides != first.strides for a in arrays[1:]) and not all(
        a.flags.c_contiguous for a in arrays
    ):
        return False
    if first.flags.c_contiguous or first.flags.f_contiguous:
        return True
    order = sorted(range(first.ndim), key=lambda d: -first.strides[d])
    return first.transpose(order).flags.c_contiguous


def _strides(a: Any, shape: tuple) -> tuple:
    """Byte strides of `a` broadcast to `shape`."""
    lead = len(shape) - a.ndim
    own = [0 if n == 1 else s for n, s in zip(a.shape, a.strides)]
    return (0,) * lead + tuple(own)


def collapse(shape: tuple, strides: list[tuple]) -> tuple[list[int], list[list[int]]]:
    """Fewest dimensions that describe the same elements: neighbours that every array walks through evenly are joined."""
    sizes: list[int] = []
    rows: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(row[-1] == s[d] * n for row, s in zip(rows, strides)):
            sizes[-1] *= n
            for row, s in zip(rows, strides):
                row[-1] = s[d]
            continue
        sizes.append(n)
        for row, s in zip(rows, strides):
            row.append(s[d])
    return sizes, rows


# -- overlays ----------------------------------------------------------------------------------------------------------


class Overlay:
    """Common part of the two overlays of an op: a kernel for each variant that occurs."""

    def __init__(self, op: Any, label: str):
        self.op, self.label = op, f"{op.name}_{label}"
        self.variants: dict[tuple, Kernel | None] = {}

    def kernel(
        self, key: tuple, make: Callable[[], Traced | None], least: int = 2
    ) -> Kernel | None:
        """The kernel of a variant; None if it has no kernel, or one that would not save a pass over memory."""
        try:
            return self.variants[key]
        except KeyError:
            pass
        except TypeError:  # an attribute without a hash, an array for instance
            return None
        if len(self.variants) >= VARIANTS:
            return None
        traced = make()
        found = None
        if traced is not None and traced.cost >= least and traced.inputs:
            found = Kernel(self.label, traced)
        self.variants[key] = found
        return found


class ForwardOverlay(Overlay):
    """``forward(xp, *arrays, **attrs)`` in one kernel."""

    def __call__(self, xp: Any, *arrays: Any, **attrs: Any) -> Any:
        op = self.op
        values = dict(zip(op.tensors, arrays))
        given = {name: a for name, a in values.items() if a is not None}
        kinds = {a.dtype for a in given.values()}
        dtype = kinds.pop()
        if kinds or dtype not in FLOATS:
            return NotImplemented
        wide = F8 if dtype == F8 else F4
        settings = tuple(attrs[name] for name in op.attrs)

        def run(F: Ops, symbols: dict[str, Any]) -> list:
            result = run_forward(F, op, (*(symbols.get(t) for t in op.tensors), *settings))
            if result.dtype != wide:
                raise Untraceable("a result that is not a number")
            return [result]

        key = (wide, tuple(given), settings, tuple(map(type, settings)))
        kernel = self.kernel(key, lambda: trace(wide, tuple(given), run))
        if kernel is None:
            return NotImplemented
        shapes = {a.shape for a in given.values()}
        shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
        out = kernel(xp, given, shape, dtype)
        return out if out is NotImplemented else out[0]


class VjpOverlay(Overlay):
    """The gradients that are needed, in one kernel."""

    def __init__(self, op: Any):
        super().__init__(op, "vjp")
        wants = dict.fromkeys(
            w for f in op.formulas.values() for w in f.wants if w not in ("F", "g", "needs")
        )
        self.wants = tuple(wants)
        self.values = tuple(w for w in self.wants if w in op.tensors or w in op.results)
        names = ("F", "g", "needs", *self.wants)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])

    def __call__(self, F: Any, g: Any, needs: tuple, *wanted: Any) -> Any:
        op = self.op
        if g is None or g.dtype not in FLOATS:
            return NotImplemented
        given = dict(zip(self.wants, wanted))
        attrs = {k: v for k, v in given.items() if k not in self.values}
        wide = F8 if g.dtype == F8 else F4
        key = (wide, needs, tuple(attrs.values()), tuple(map(type, attrs.values())))
        kernel = self.kernel(key, lambda: self._trace(wide, needs, attrs))
        if kernel is None:
            return NotImplemented
        found = kernel(F.backend, {"g": g, **given}, g.shape, g.dtype)
        if found is NotImplemented:
            return NotImplemented
        results = iter(found)
        return tuple(
            next(results) if need and name in op.formulas else None
            for name, need in zip(op.tensors, needs)
        )

    def _trace(self, wide: np.dtype, needs: tuple, attrs: dict[str, Any]) -> Traced | None:
        op = self.op

        def run(F: Ops, symbols: dict[str, Any]) -> list:
            known = {"F": F, "needs": needs, **symbols, **attrs}
            return [
                op.formulas[name].fn(*(known[w] for w in op.formulas[name].wants))
                for name, need in zip(op.tensors, needs)
                if need and name in op.formulas
            ]

        return trace(wide, ("g", *self.values), run)


def overlay(kind: str, op: Any) -> Callable | None:
    """The overlay of an elementwise op, if its declaration can have one."""
    if not traceable(op) or op.integer_results:
        return None
    if kind == "forward":
        return None if op.ufunc else ForwardOverlay(op, "forward")
    if not op.formulas or op.vjp is not None:
        return None
    known = {"F", "g", "needs", *op.tensors, *op.results, *op.attrs}
    if any(w not in known for f in op.formulas.values() for w in f.wants):
        return None
    return VjpOverlay(op)
