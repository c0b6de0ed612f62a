"""Estimates of floating point operations: two for each multiplication and addition of a product."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any


def _product(_: Any, a: tuple, b: tuple, *rest: Any) -> int:
    """matmul with its batches: (..., n, k) @ (..., k, m)."""
    if len(b) == 1:
        return 2 * prod(a)
    if len(a) == 1:
        return 2 * prod(b)
    batch = 1
    for i in range(3, max(len(a), len(b)) + 1):
        batch *= max(a[-i] if i <= len(a) else 1, b[-i] if i <= len(b) else 1)
    return 2 * batch * a[-2] * a[-1] * b[-1]


def _added(_: Any, __: Any, a: tuple, b: tuple, *rest: Any) -> int:
    """addmm, addmv, baddbmm and addbmm: the product, as the addition counts for nothing."""
    return _product(_, a, b)


def _linear(_: Any, x: tuple, weight: tuple, *rest: Any) -> int:
    return 2 * prod(x) * weight[0]


def _convolution(attrs: dict, x: tuple, weight: tuple, *rest: Any) -> int:
    """Each output element is a product with one filter; padding counts as elements."""
    places = 1
    for i, kernel in enumerate(weight[2:]):
        size, stride = x[2 + i], _at(attrs, "stride", i, 1)
        reach = _at(attrs, "dilation", i, 1) * (kernel - 1) + 1
        padding = _at(attrs, "padding", i, 0)
        before, after = padding if isinstance(padding, tuple) else (padding, padding)
        places *= (size + before + after - reach) // stride + 1
    return 2 * x[0] * places * prod(weight)


def _convolution_back(_: Any, places: tuple, weight: tuple, *rest: Any) -> int:
    """conv_transpose and the gradient of the input: each place of the first argument meets the whole filter."""
    return 2 * places[0] * prod(places[2:]) * prod(weight)


def _weight_gradient(attrs: dict, x: tuple, grad: tuple, *rest: Any) -> int:
    weight = grad[1] * (x[1] // attrs["groups"]) * prod(attrs["kernel_size"])
    return 2 * grad[0] * prod(grad[2:]) * weight


def _convolution_whole(attrs: dict, grad: tuple, *rest: Any) -> int:
    """Each gradient of a convolution takes as much as the convolution did."""
    return sum(attrs["needs"][:2]) * _convolution_back(attrs, grad, attrs["weight_shape"])


def _transposed_whole(attrs: dict, *rest: Any) -> int:
    each = _convolution_back(attrs, attrs["input_shape"], attrs["weight_shape"])
    return sum(attrs["needs"][:2]) * each


def _einsum(attrs: dict, a: tuple, b: tuple, *rest: Any) -> int:
    """The sum of two factors over some indices: a product for each combination of all indices."""
    return 2 * prod({**dict(zip(attrs["a"], a)), **dict(zip(attrs["b"], b))}.values())


def _at(attrs: dict, name: str, i: int, default: int) -> Any:
    value = attrs.get(name, default)
    return value[i] if isinstance(value, (tuple, list)) else value


def _attention(_: Any, query: tuple, key: tuple, value: tuple, *rest: Any) -> int:
    """Scores, and their product with the values."""
    return 2 * prod(query) * key[-2] + 2 * prod(query[:-1]) * key[-2] * value[-1]


def _attention_back(_: Any, grad: tuple, query: tuple, key: tuple, value: tuple, *rest: Any) -> int:
    """Five products in the place of two: the scores once more, and the gradients of four factors."""
    return 5 * _attention(_, query, key, value) // 2


_FORMULAS: dict[str, Callable[..., int]] = {
    "matmul": _product,
    "rows_product": _product,
    "mm": _product,
    "bmm": _product,
    "mv": _product,
    "dot": _product,
    "vdot": _product,
    "addmm": _added,
    "addmv": _added,
    "addbmm": _added,
    "baddbmm": _added,
    "linear": _linear,
    "convolution": _convolution,
    "conv_grad_input": _convolution_back,
    "conv_grad_weight": _weight_gradient,
    "conv_transpose": _convolution_back,
    "convolution_backward": _convolution_whole,
    "conv_transpose_backward": _transposed_whole,
    "einsum": _einsum,
    "scaled_dot_product_attention_op": _attention,
    "scaled_dot_product_attention_op_backward": _attention_back,
}


def estimate(op: Any, args: Any, attrs: tuple) -> int:
    """Floating point operations of one call; 0 for ops that are no products."""
    formula = _FORMULAS.get(op.name)
    if formula is None:
        return 0
    shapes = [getattr(a, "shape", ()) for a in args]
    return formula(dict(zip(op.attrs, attrs, strict=False)), *shapes)
