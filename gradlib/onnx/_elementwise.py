"""Functions of each element, and products."""

from __future__ import annotations

from typing import Any

import gradlib

from ..fx import Node
from ..fx._names import call_name
from ._converters import axis_of, converts, dtype_of, unseen
from ._graph import Writer


def _unary(names: str, kind: str) -> None:
    def write(w: Writer, node: Node, x: Any, inplace: bool = False) -> str:
        if inplace:
            unseen(node)
        return w.op(kind, w.tensor(x, dtype_of(w, node)))

    converts(names)(write)


for _names, _kind in (
    ("relu", "Relu"), ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("erf", "Erf"), ("exp", "Exp"), ("log", "Log"),
    ("sqrt", "Sqrt"), ("abs", "Abs"), ("neg", "Neg"), ("sin", "Sin"), ("cos", "Cos"), ("floor", "Floor"),
    ("ceil", "Ceil"), ("reciprocal", "Reciprocal"), ("sign", "Sign"), ("softplus", "Softplus"),
    ("contiguous clone detach", "Identity"), ("hardswish", "HardSwish"), ("mish", "Mish"), ("round", "Round"),
):  # fmt: skip
    _unary(_names, _kind)


def _binary(names: str, kind: str) -> None:
    def write(w: Writer, node: Node, a: Any, b: Any, *, alpha: Any = 1) -> str:
        dtype = dtype_of(w, node)
        right = w.tensor(b, dtype)
        if alpha != 1:
            right = w.op("Mul", right, w.tensor(alpha, dtype))
        return w.op(kind, w.tensor(a, dtype), right)

    converts(names)(write)


for _names, _kind in (
    ("add", "Add"), ("sub", "Sub"), ("mul", "Mul"), ("pow", "Pow"), ("maximum", "Max"), ("minimum", "Min"),
):  # fmt: skip
    _binary(_names, _kind)


@converts("div truediv floordiv")
def _div(w: Writer, node: Node, a: Any, b: Any) -> str:
    dtype = dtype_of(w, node)
    floor = getattr(node.target, "__name__", "") == "floordiv"
    if floor and isinstance(w.known[node], gradlib.Tensor):
        raise TypeError("// of tensors")
    return w.op("Div", w.tensor(a, dtype), w.tensor(b, dtype))


def _comparison(names: str, kind: str, negated: bool = False) -> None:
    def write(w: Writer, node: Node, a: Any, b: Any) -> str:
        dtype = gradlib.result_type(w.value(a), w.value(b))
        made = w.op(kind, w.tensor(a, dtype), w.tensor(b, dtype))
        return w.op("Not", made) if negated else made

    converts(names)(write)


for _names, _kind, _negated in (
    ("eq", "Equal", False), ("ne", "Equal", True), ("lt", "Less", False), ("gt", "Greater", False),
    ("le", "LessOrEqual", False), ("ge", "GreaterOrEqual", False),
):  # fmt: skip
    _comparison(_names, _kind, _negated)


def _logical(names: str, kind: str) -> None:
    def write(w: Writer, node: Node, *args: Any) -> str:
        if any(w.value(a).dtype is not gradlib.bool_ for a in args):
            raise TypeError("bits of numbers")
        return w.op(kind, *(w.tensor(a) for a in args))

    converts(names)(write)


for _names, _kind in (
    ("and bitwise_and logical_and", "And"), ("or bitwise_or logical_or", "Or"),
    ("invert bitwise_not logical_not", "Not"),
):  # fmt: skip
    _logical(_names, _kind)


@converts("silu")
def _silu(w: Writer, node: Node, x: Any, inplace: bool = False) -> str:
    if inplace:
        unseen(node)
    return w.op("Mul", w.tensor(x), w.op("Sigmoid", w.tensor(x)))


@converts("relu6")
def _relu6(w: Writer, node: Node, x: Any, inplace: bool = False) -> str:
    if inplace:
        unseen(node)
    dtype = dtype_of(w, node)
    return w.op("Clip", w.tensor(x, dtype), w.tensor(0, dtype), w.tensor(6, dtype))


@converts("hardtanh")
def _hardtanh(
    w: Writer,
    node: Node,
    x: Any,
    min_val: float = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> str:
    if inplace:
        unseen(node)
    dtype = dtype_of(w, node)
    return w.op("Clip", w.tensor(x, dtype), w.tensor(min_val, dtype), w.tensor(max_val, dtype))


@converts("hardsigmoid")
def _hardsigmoid(w: Writer, node: Node, x: Any, inplace: bool = False) -> str:
    if inplace:
        unseen(node)
    return w.op("HardSigmoid", w.tensor(x), alpha=1 / 6, beta=0.5)


@converts("rsqrt")
def _rsqrt(w: Writer, node: Node, x: Any) -> str:
    return w.op("Reciprocal", w.op("Sqrt", w.tensor(x, dtype_of(w, node))))


@converts("leaky_relu")
def _leaky_relu(
    w: Writer, node: Node, x: Any, negative_slope: float = 0.01, inplace: bool = False
) -> str:
    if inplace:
        unseen(node)
    return w.op("LeakyRelu", w.tensor(x), alpha=float(negative_slope))


@converts("elu")
def _elu(w: Writer, node: Node, x: Any, alpha: float = 1.0, inplace: bool = False) -> str:
    if inplace:
        unseen(node)
    return w.op("Elu", w.tensor(x), alpha=float(alpha))


@converts("clamp clip")
def _clamp(w: Writer, node: Node, x: Any, min: Any = None, max: Any = None) -> str:
    dtype = dtype_of(w, node)
    limits = [w.tensor(v, dtype) if v is not None else "" for v in (min, max)]
    return w.op("Clip", w.tensor(x, dtype), *limits)


@converts("softmax log_softmax")
def _softmax(
    w: Writer, node: Node, x: Any, dim: int, _stacklevel: int = 3, dtype: Any = None
) -> str:
    name = node.target if isinstance(node.target, str) else call_name(node.target)
    kind = "Softmax" if name == "softmax" else "LogSoftmax"
    return w.op(kind, w.tensor(x, dtype_of(w, node)), axis=axis_of(w, x, dim))


@converts("matmul")
@converts("bmm")
@converts("mm")
def _matmul(w: Writer, node: Node, a: Any, b: Any) -> str:
    return w.op("MatMul", w.tensor(a), w.tensor(b))


@converts("addmm")
def _addmm(w: Writer, node: Node, x: Any, a: Any, b: Any) -> str:
    return w.op("Gemm", w.tensor(a), w.tensor(b), w.tensor(x))


@converts("einsum")
def _einsum(w: Writer, node: Node, equation: str, *operands: Any) -> str:
    return w.op("Einsum", *(w.tensor(o) for o in operands), equation=equation)
