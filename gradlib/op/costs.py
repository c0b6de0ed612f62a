"""Floating point operations of products (`flops` of a declaration): two for each multiplication and addition.

Each takes the attributes by name and then the shapes of the tensor arguments.
"""

from __future__ import annotations

from math import prod
from typing import Any


def product(_: Any, a: tuple, b: tuple, *rest: Any) -> int:
    """matmul with its batches: (..., n, k) @ (..., k, m)."""
    if len(b) == 1:
        return 2 * prod(a)
    if len(a) == 1:
        return 2 * prod(b)
    batch = 1
    for i in range(3, max(len(a), len(b)) + 1):
        batch *= max(a[-i] if i <= len(a) else 1, b[-i] if i <= len(b) else 1)
    return 2 * batch * a[-2] * a[-1] * b[-1]


def added_product(_: Any, __: Any, a: tuple, b: tuple, *rest: Any) -> int:
    """addmm, addmv, baddbmm and addbmm: the product, as the addition counts for nothing."""
    return product(_, a, b)


def linear(_: Any, x: tuple, weight: tuple, *rest: Any) -> int:
    """A product with a matrix that holds a row for each output."""
    return 2 * prod(x) * weight[0]


def linear_back(attrs: dict, grad: tuple, x: tuple, *rest: Any) -> int:
    """A product for the gradient of the input, and one for that of the weight."""
    return sum(attrs["needs"][:2]) * 2 * prod(x) * grad[-1]


def added_product_back(attrs: dict, grad: tuple, a: tuple, *rest: Any) -> int:
    """The same for addmm, whose factors are its second and third argument."""
    return sum(attrs["needs"][1:]) * 2 * prod(a) * grad[-1]


def pair(attrs: dict, a: tuple, b: tuple, *rest: Any) -> int:
    """einsum of two factors: a product for each combination of all indices."""
    return 2 * prod({**dict(zip(attrs["a"], a)), **dict(zip(attrs["b"], b))}.values())


def attention(_: Any, query: tuple, key: tuple, value: tuple, *rest: Any) -> int:
    """Scores, and their product with the values."""
    return 2 * prod(query) * key[-2] + 2 * prod(query[:-1]) * key[-2] * value[-1]


def attention_back(_: Any, grad: tuple, query: tuple, key: tuple, value: tuple, *rest: Any) -> int:
    """Five products: the scores once more, and the gradients of four factors."""
    pairs = 2 * prod(query[:-1]) * key[-2]
    return pairs * (3 * query[-1] + 2 * value[-1])


# -- convolutions ------------------------------------------------------------------------------------------------------


def convolution(attrs: dict, x: tuple, weight: tuple, *rest: Any) -> int:
    """Each output element is a product with one filter; padding counts as elements."""
    places = 1
    for i, kernel in enumerate(weight[2:]):
        size, stride = x[2 + i], _at(attrs, "stride", i, 1)
        reach = _at(attrs, "dilation", i, 1) * (kernel - 1) + 1
        padding = _at(attrs, "padding", i, 0)
        before, after = padding if isinstance(padding, tuple) else (padding, padding)
        places *= (size + before + after - reach) // stride + 1
    return 2 * x[0] * places * prod(weight)


def convolution_input(_: Any, places: tuple, weight: tuple, *rest: Any) -> int:
    """conv_transpose and the gradient of the input: each place of the first argument meets the whole filter."""
    return 2 * places[0] * prod(places[2:]) * prod(weight)


def convolution_weight(attrs: dict, x: tuple, grad: tuple, *rest: Any) -> int:
    """The gradient of the weight: each place of the result meets the whole filter."""
    weight = grad[1] * (x[1] // attrs["groups"]) * prod(attrs["kernel_size"])
    return 2 * grad[0] * prod(grad[2:]) * weight


def convolution_back(attrs: dict, grad: tuple, *rest: Any) -> int:
    """Each gradient of a convolution takes as much as the convolution did."""
    return sum(attrs["needs"][:2]) * convolution_input(attrs, grad, attrs["weight_shape"])


def transposed_back(attrs: dict, *rest: Any) -> int:
    """The same for a transposed one."""
    each = convolution_input(attrs, attrs["input_shape"], attrs["weight_shape"])
    return sum(attrs["needs"][:2]) * each


def _at(attrs: dict, name: str, i: int, default: int) -> Any:
    value = attrs.get(name, default)
    return value[i] if isinstance(value, (tuple, list)) else value
