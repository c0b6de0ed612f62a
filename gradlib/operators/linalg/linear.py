"""linear: the product with the transpose of a weight, and a bias, as one node."""

from __future__ import annotations

from numpy import ndarray

from ...op import costs
from ...op.declare import declare
from ...op.formulas import formula_function
from ...tape import dtypes
from ..kinds import is_half, narrow, unsupported
from .matmul import F4, F8, rows_of


def _linear(xp, input, weight, bias=None):
    d = input.dtype
    if input.__class__ is not ndarray:
        out = xp.matmul(input, weight.T)
        return out if bias is None else xp.add(out, bias, out=out)
    if d is not F4 and d is not F8:
        if d.kind == "b":
            raise unsupported("addmm_impl_cpu_", dtypes.bool_)
        if is_half(input):
            wide = None if bias is None else xp.wide(bias)
            return narrow(_linear(xp, xp.wide(input), xp.wide(weight), wide), d)
    if input.ndim == 2:
        out = input.dot(weight.T)
    elif input.ndim == 1:
        out = weight.dot(input)
    else:
        out = rows_of(input).dot(weight.T).reshape(input.shape[:-1] + weight.shape[:1])
    if bias is not None:
        out += bias
    return out


def _linear_jvp(F, input, weight, input_t, weight_t, bias_t, result):
    parts = [
        F.linear(input_t, weight, None) if input_t is not None else None,
        F.linear(input, weight_t, None) if weight_t is not None else None,
        F.expand(bias_t, result.shape) if bias_t is not None else None,
    ]
    found = [p for p in parts if p is not None]
    total = found[0]
    for p in found[1:]:
        total = total + p
    return total


def _linear_of_two_kinds(input, weight, bias) -> str:
    """What PyTorch says of tensors of several dtypes: it is one product with a bias, another without."""
    if bias is None:
        return (
            "expected m1 and m2 to have the same dtype, but got: "
            f"{input.dtype.cpp_name} != {weight.dtype.cpp_name}"
        )
    pair = ("mat1", input) if input.dtype is not weight.dtype else ("self", bias)
    kinds = f"{pair[1].dtype.scalar_type} and {weight.dtype.scalar_type}"
    return f"{pair[0]} and mat2 must have the same dtype, but got {kinds}"


linear_op = declare(
    "linear", _linear,
    flops=costs.linear, backward_flops=costs.linear_back, autocast="lower", promote="none", mixed=_linear_of_two_kinds,
    jvp=_linear_jvp,
    complex=True, node="AddmmBackward0",
    known_as=lambda input, weight, bias: "mm" if bias is None else "addmm",
    input=lambda F, g, weight: F.matmul(g, F.conj_of(weight)),
    weight=lambda F, g, input: F.linear_weight(g, F.conj_of(input)),
    bias=lambda F, g: F.sum(g, tuple(range(g.ndim - 1)), False) if g.ndim > 1 else g,
    samples=lambda t: [
        (t(3, 4), t(2, 4), t(2)), (t(2, 3, 4), t(2, 4), t(2)), (t(4), t(2, 4), t(2)), (t(3, 4), t(2, 4), None),
        (t(0, 4), t(2, 4), t(2)),
    ],
    batch="linear",
)  # fmt: skip


@formula_function()
def linear_weight(F, g, input):
    """The gradient of the weight of `linear`: outer products of output gradients and inputs, summed."""
    if g.ndim == 1:
        return F.unsqueeze(g, 1) * input
    return F.rows_product(g, input)
