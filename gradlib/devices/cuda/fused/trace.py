"""Tracing elementwise formulas: run on symbols instead of arrays, they give an expression for each result.

A formula sees the namespace `xp` of array functions (`Functions`) or `F` of ops (`Ops`), and arguments that are
`Symbol`s of one floating dtype. Python numbers, attributes and branches on them are part of the trace; a branch on a
value, a reduction or a function that is not known here raises `Untraceable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....op import formulas

FLOAT, BOOL = "f", "b"
_ARITHMETIC = {"add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "divide": "{} / {}"}
_COMPARISONS = {
    "greater": "{} > {}", "less": "{} < {}", "greater_equal": "{} >= {}", "less_equal": "{} <= {}",
    "equal": "{} == {}", "not_equal": "{} != {}",
}  # fmt: skip
_LOGICAL = {
    "bitwise_and": "{} && {}",
    "bitwise_or": "{} || {}",
    "bitwise_xor": "bool({}) != bool({})",
}
_UNARY = {
    "negative": "-{}", "absolute": "fabs({})", "square": "{0} * {0}", "reciprocal": "A(1) / {}",
    "sign": "({0} != {0} ? {0} : A({0} > A(0)) - A({0} < A(0)))",
    **{
        name: f"{name}({{}})"
        for name in ("exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh sqrt cbrt trunc floor ceil rint "
                     "erf erfc lgamma").split()
    },
    **{
        f"arc{name}": f"a{name}({{}})" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
}  # fmt: skip
_BINARY = {
    "maximum": "larger({}, {})", "minimum": "smaller({}, {})", "fmax": "fmax({}, {})", "fmin": "fmin({}, {})",
    "power": "pow({}, {})", "arctan2": "atan2({}, {})", "hypot": "hypot({}, {})", "copysign": "copysign({}, {})",
    "logaddexp": "log_add_exp({}, {})", "fmod": "fmod({}, {})",
}  # fmt: skip
_TESTS = {
    "isnan": "{0} != {0}",
    "isinf": "fabs({}) == infinity<A>()",
    "isfinite": "fabs({}) < infinity<A>()",
}


class Untraceable(Exception):
    """The formula does something that has no place in one elementwise kernel."""


class Node:
    """An immutable expression: C++ text with places for arguments. Equal ones are one object, so work is shared."""

    __slots__ = ("args", "kind", "text")

    def __init__(self, kind: str, text: str, args: tuple):
        self.kind, self.text, self.args = kind, text, args


class Trace:
    """The expressions of one formula."""

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype
        self.nodes: dict[tuple, Node] = {}

    def node(self, kind: str, text: str, *args: Any) -> Node:
        """The expression `text` of arguments that are nodes or numbers."""
        key = (kind, text, args)
        if key not in self.nodes:
            self.nodes[key] = Node(kind, text, args)
        return self.nodes[key]

    def symbol(self, kind: str, text: str, *args: Any) -> Symbol:
        """The same for symbols and numbers; bool arguments of arithmetic become numbers."""
        operands = tuple(self.operand(a, kind_of_argument(text, i)) for i, a in enumerate(args))
        return Symbol(self, self.node(kind, text, *operands))

    def operand(self, value: Any, wanted: str | None) -> Any:
        """What an argument is in an expression: a node, or a constant as C++ text."""
        if isinstance(value, Symbol):
            node = value.node
            if wanted == FLOAT and node.kind == BOOL:
                return self.node(FLOAT, "A({})", node)
            if wanted == BOOL and node.kind == FLOAT:
                raise Untraceable("a number where a truth value is needed")
            return node
        if isinstance(value, (bool, np.bool_)) and wanted != FLOAT:
            return "true" if value else "false"
        if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            return constant(float(value))
        raise Untraceable(f"a {type(value).__name__} in an elementwise formula")


def constant(x: float) -> str:
    """A number as C++ text of the type A."""
    if math.isnan(x):
        return "not_a_number<A>()"
    if math.isinf(x):
        return "infinity<A>()" if x > 0 else "-infinity<A>()"
    return f"A({x!r})"


def kind_of_argument(text: str, i: int) -> str | None:
    """What the places of an expression take; None for either."""
    if text in _LOGICAL.values() or text == "!{}" or (text == WHERE and i == 0):
        return BOOL
    return None if text == PASS else FLOAT


WHERE, PASS = "({} ? {} : {})", "{}"


class Shape:
    """The shape of an argument: there is one, but nothing may depend on it."""

    def _refuse(self, *args: Any) -> Any:
        raise Untraceable("the shape of an argument")

    __len__ = __iter__ = __getitem__ = __eq__ = __add__ = __radd__ = _refuse
    __hash__ = None  # type: ignore[assignment]


SHAPE = Shape()


class Symbol:
    """Stands for an array in a formula. In-place operations change what the symbol stands for, as they do to arrays."""

    __array_ufunc__ = None  # numpy scalars leave the operation to us
    ndim, size = 1, 1 << 20

    def __init__(self, trace: Trace, node: Node):
        self.trace, self.node = trace, node

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(bool) if self.node.kind == BOOL else self.trace.dtype

    @property
    def real(self) -> Symbol:
        return self

    def astype(self, dtype: Any, copy: bool = True) -> Symbol:
        """The same: a trace has one floating type. A truth value becomes a number."""
        kind = np.dtype(dtype).kind
        if kind == "b" and self.node.kind == BOOL:
            return self
        if kind not in "fV":
            raise Untraceable(f"a conversion to {dtype}")
        return Symbol(self.trace, self.trace.operand(self, FLOAT))

    def copy(self, order: str = "K") -> Symbol:
        return Symbol(self.trace, self.node)

    def conjugate(self) -> Symbol:
        return self

    conj = conjugate

    def __bool__(self) -> bool:
        raise Untraceable("a branch on a value")

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> Any:
        return SHAPE

    def __getattr__(self, name: str) -> Any:
        if name == "_array":  # how formulas tell Tensors
            raise AttributeError(name)
        raise Untraceable(f"the attribute {name} of an argument")

    def __neg__(self) -> Symbol:
        return self.trace.symbol(FLOAT, _UNARY["negative"], self)

    def __pos__(self) -> Symbol:
        return self.copy()

    def __abs__(self) -> Symbol:
        return self.trace.symbol(FLOAT, _UNARY["absolute"], self)

    def __invert__(self) -> Symbol:
        return self.trace.symbol(BOOL, "!{}", self)

    def __pow__(self, exponent: Any) -> Symbol:
        if exponent == 2 and not isinstance(exponent, Symbol):
            return self.trace.symbol(FLOAT, _UNARY["square"], self)
        return self.trace.symbol(FLOAT, _BINARY["power"], self, exponent)

    def __rpow__(self, base: Any) -> Symbol:
        return self.trace.symbol(FLOAT, _BINARY["power"], base, self)


def _operators() -> None:
    """The binary operators of Symbol, also reflected and in place."""

    def install(name: str, kind: str, text: str, swap: bool = False, keep: bool = False) -> None:
        def operator(self: Symbol, other: Any) -> Symbol:
            out = self.trace.symbol(kind, text, *((other, self) if swap else (self, other)))
            if not keep:
                return out
            self.node = out.node
            return self

        setattr(Symbol, f"__{name}__", operator)

    for table, kind, names in (
        (
            _ARITHMETIC,
            FLOAT,
            {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"},
        ),
        (_LOGICAL, BOOL, {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}),
    ):
        for short, name in names.items():
            install(short, kind, table[name])
            install("r" + short, kind, table[name], swap=True)
            install("i" + short, kind, table[name], keep=True)
    names = {
        "gt": "greater",
        "lt": "less",
        "ge": "greater_equal",
        "le": "less_equal",
        "eq": "equal",
        "ne": "not_equal",
    }
    for short, name in names.items():
        install(short, BOOL, _COMPARISONS[name])


_operators()


class Functions:
    """The namespace `xp` of a trace."""

    name = "trace"
    waits = True  # symbols have no values

    def __init__(self, trace: Trace):
        self.trace = trace
        for table, kind in (
            (_ARITHMETIC, FLOAT), (_COMPARISONS, BOOL), (_LOGICAL, BOOL), (_UNARY, FLOAT), (_BINARY, FLOAT),
            (_TESTS, BOOL),
        ):  # fmt: skip
            for key, text in table.items():
                setattr(self, key, self._function(kind, text))
        self.true_divide, self.sgn = self.divide, self.sign
        self.logical_and, self.logical_or = self.bitwise_and, self.bitwise_or
        self.logical_not = self._function(BOOL, "!{}")

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"the function {name}")

    def _function(self, kind: str, text: str) -> Callable:
        def function(*args: Any, out: Any = None) -> Symbol:
            *operands, last = args
            if text.count("{}") + ("{0}" in text) < len(
                args
            ):  # the result as a last positional argument
                args, out = tuple(operands), last
            result = self.trace.symbol(kind, text, *args)
            if out is None:
                return result
            out.node = result.node
            return out

        return function

    def in_pieces(self, kernel: Callable, *arrays: Any) -> Any:
        return kernel(self, *arrays)

    def where(self, test: Any, a: Any, b: Any) -> Any:
        if not isinstance(test, Symbol):
            return a if test else b
        both = (
            a.node.kind if isinstance(a, Symbol) else None,
            b.node.kind if isinstance(b, Symbol) else None,
        )
        if BOOL in both:
            raise Untraceable("a choice between truth values")
        return self.trace.symbol(FLOAT, WHERE, test, a, b)

    def clip(self, x: Any, low: Any = None, high: Any = None) -> Any:
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    def remainder(self, x: Any, y: Any) -> Any:
        return self.trace.symbol(FLOAT, "floored_remainder({}, {})", x, y)

    def zeros_like(self, x: Any) -> Symbol:
        return self.trace.symbol(FLOAT, PASS, 0.0)

    def ones_like(self, x: Any) -> Symbol:
        return self.trace.symbol(FLOAT, PASS, 1.0)

    def positive(self, x: Symbol) -> Symbol:
        return x.copy()

    conjugate = positive
    wide = positive


class Ops:
    """The namespace `F` of a trace: other ops, run on symbols."""

    def __init__(self, xp: Functions):
        self.backend = xp

    def __getattr__(self, name: str) -> Any:

        if name in formulas._functions:
            return lambda *args: formulas._functions[name](self, *args)
        op = formulas._ops.get(name)
        if op is None or not traceable(op):
            raise Untraceable(f"the op {name}")
        return lambda *args: run_forward(self, op, args)

    def is_complex(self, x: Any) -> bool:
        return False

    def where(self, test: Any, a: Any, b: Any) -> Any:
        return self.backend.where(test, a, b)

    def zeros_like(self, x: Any) -> Any:
        return self.backend.zeros_like(x)

    def clamp_number(self, x: Any, low: Any, high: Any) -> Any:
        return self.backend.clip(x, low, high)


def traceable(op: Any) -> bool:
    """Whether an op works on each element alone and has nothing but one result."""
    return op.pointwise and op.n_out == 1 and not op.hidden


def run_forward(F: Ops, op: Any, args: tuple) -> Any:
    """The forward of `op` on symbols; `args` are its tensors and then its attributes."""
    xp, n = F.backend, len(op.tensors)
    if op.expression is not None:
        return op.expression(xp, *args)
    given = [
        xp.trace.symbol(FLOAT, PASS, a) if isinstance(a, (int, float)) else a for a in args[:n]
    ]
    return op.forward(xp, *given, **dict(zip(op.attrs, args[n:])))
