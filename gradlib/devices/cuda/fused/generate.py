"""Elementwise kernels as CUDA C++: from a traced formula to a translation unit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Sequence
from itertools import count
from typing import Any

import numpy as np

from ..kernels import F4, F8, HALVES, Module, blocks_for, instances, packs_for, source
from .trace import FLOAT, Functions, Node, Ops, Symbol, Trace, Untraceable

DENSE, ONE, STRIDED, NUMBER = "dense", "one", "strided", "number"
"""Where the elements of an argument are: side by side, one for all, at strides; or it is a number."""

LIGHT = 12  # operations; a formula with more is bound by them and not by memory, and long to compile several times
PREAMBLE = ("common.cuh", "pointwise.cuh")


class Traced:
    """The expressions of a formula and the names of the arguments they read."""

    def __init__(self, dtype: np.dtype, outputs: Sequence[Node], inputs: dict[str, Node]):
        self.dtype, self.outputs = dtype, list(outputs)
        self.order = _in_order(self.outputs)
        used = {id(n) for n in self.order}
        self.inputs = {name: node for name, node in inputs.items() if id(node) in used}
        self.cost = len(self.order) - len(self.inputs)  # operations

    def body(self) -> str:
        """C++ that computes r0, r1... of type T from inputs that are named in_<argument>, of type A."""
        names = {id(node): f"in_{name}" for name, node in self.inputs.items()}
        numbers, lines = count(), []
        for node in self.order:
            if id(node) in names:
                continue
            args = [names[id(a)] if isinstance(a, Node) else a for a in node.args]
            names[id(node)] = f"t{next(numbers)}"
            kind = "A" if node.kind == FLOAT else "bool"
            lines.append(f"const {kind} {names[id(node)]} = {node.text.format(*args)};")
        lines += [f"r{i} = T({names[id(n)]});" for i, n in enumerate(self.outputs)]
        return "\n    ".join(lines)


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
    return Traced(dtype, outputs, inputs)


# -- code --------------------------------------------------------------------------------------------------------------


def write(
    name: str, traced: Traced, places: dict[str, str], dims: int, narrow: Container[str] = ()
) -> str:
    """The kernel template; `places` says how each input lies in memory, strided ones over `dims` dimensions.

    narrow: inputs of a half type H, beside others and results of T.
    """
    parameters = [
        f"wide<T> in_{k}" if how == NUMBER else f"const {'H' if k in narrow else 'T'}* p_{k}"
        for k, how in places.items()
    ]
    parameters += [f"T* out{i}" for i in range(len(traced.outputs))] + ["int64 size"]
    lines = ["typedef wide<T> A;"]
    lines += [f"const A in_{k} = p_{k}[0];" for k, how in places.items() if how == ONE]
    lines += written(traced, places)
    if not by_vectors(traced, places):
        parameters += [f"int64 size{d}" for d in range(dims)]
        strided = [k for k, how in places.items() if how == STRIDED]
        parameters += [f"int64 stride_{k}{d}" for k in strided for d in range(dims)]
        lines += _one_by_one(traced, places, dims)
    else:
        lines.append("const int64 first = thread_number() * Pack<T>::size;")
        lines += vectors(traced, places, narrow)
    types = "typename T, typename H" if narrow else "typename T"
    head = f"template <{types}> __global__ void {name}({', '.join(parameters)}) {{"
    return head + "\n  " + "\n  ".join(lines) + "\n}\n"


def _moving(places: dict[str, str]) -> list[str]:
    """The arguments that have an element for each element of the result."""
    return [k for k, how in places.items() if how in (DENSE, STRIDED)]


def written(traced: Traced, places: dict[str, str]) -> list[str]:
    """The formula as a function ``compute`` of the elements of its moving arguments."""
    parameters = [f"A in_{k}" for k in _moving(places)]
    parameters += [f"T& r{i}" for i in range(len(traced.outputs))]
    return [f"const auto compute = [=]({', '.join(parameters)}) {{\n    {traced.body()}\n  }};"]


def _call(traced: Traced, places: dict[str, str], element: Callable[[str], str], out: str) -> str:
    """A call of the formula; `element` says what to read for an argument."""
    given = [f"(A){element(k)}" for k in _moving(places)]
    given += [out.format(i) for i in range(len(traced.outputs))]
    return f"compute({', '.join(given)});"


def _one_by_one(traced: Traced, places: dict[str, str], dims: int) -> list[str]:
    """A thread for each element."""
    strided = [k for k, how in places.items() if how == STRIDED]
    lines = ["const int64 i = thread_number();", "if (i >= size) return;"]
    lines += ["int64 rest = i;"] if strided else []
    lines += [f"int64 k_{k} = 0;" for k in strided]
    for d in reversed(range(dims)):
        lines += [
            f"const int64 place{d} = rest_of(rest, size{d});",
            f"rest = quotient(rest, size{d});",
        ]
        lines += [f"k_{k} += place{d} * stride_{k}{d};" for k in strided]
    spots = {k: f"p_{k}[{'i' if places[k] == DENSE else f'k_{k}'}]" for k in _moving(places)}
    return [*lines, _call(traced, places, lambda k: spots[k], "out{}[i]")]


def vectors(traced: Traced, places: dict[str, str], narrow: Container[str] = ()) -> list[str]:
    """The Pack of neighbouring elements from ``first`` on, below ``size``; one by one where they are not aligned."""
    moving, outs = _moving(places), [f"out{i}" for i in range(len(traced.outputs))]
    of = {k: "<H, Pack<T>::size>" if k in narrow else "<T>" for k in moving}
    tests = [*(f"aligned{of[k]}(p_{k})" for k in moving), *(f"aligned({out})" for out in outs)]
    aligned = " && ".join(tests)
    reads = " ".join(f"const Pack{of[k]} v_{k} = pack_of{of[k]}(p_{k} + first);" for k in moving)
    results = " ".join(f"Pack<T> w{i};" for i in range(len(outs)))
    inside = _call(traced, places, lambda k: f"v_{k}.at[k]", "w{}.at[k]")
    writes = " ".join(f"pack_of({out} + first) = w{i};" for i, out in enumerate(outs))
    single = _call(traced, places, lambda k: f"p_{k}[i]", "out{}[i]")
    return [
        f"if (first + Pack<T>::size <= size && {aligned}) {{",
        f"  {reads}",
        f"  {results}",
        f"  for (int k = 0; k < Pack<T>::size; ++k) {inside}",
        f"  {writes}",
        "} else {",
        "  const int64 end = min(first + Pack<T>::size, size);",
        f"  for (int64 i = first; i < end; ++i) {single}",
        "}",
    ]


def by_vectors(traced: Traced, places: dict[str, str]) -> bool:
    """Whether a thread works on several elements."""
    return traced.cost <= LIGHT and STRIDED not in places.values()


def preamble() -> str:
    """What generated kernels build on."""
    return "".join(source(name) for name in PREAMBLE)


class Generated(Module):
    """A module of one generated kernel template."""

    __slots__ = ("own", "several")

    def __init__(
        self, label: str, traced: Traced, places: dict[str, str], dims: int, narrow: Sequence[str] = ()
    ):  # fmt: skip
        text = f"{traced.body()}{places}{dims}{traced.dtype}{narrow or ''}"
        name = f"{label}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        self.own = write(name, traced, places, dims, narrow)
        self.several = by_vectors(traced, places)
        dtypes = [(F4,), HALVES] if narrow else [(F8,) if traced.dtype == F8 else (*HALVES, F4)]
        super().__init__(name, instances(name, *dtypes))

    def blocks(self, size: int, dtype: np.dtype) -> int:
        """How many blocks of 256 threads the kernel wants for `size` elements."""
        return packs_for(size, dtype) if self.several else blocks_for(size)

    @property
    def code(self) -> str:
        return preamble() + self.own
