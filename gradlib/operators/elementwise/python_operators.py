"""Python's operators on Tensors: +, -, *, /, //, %, ** and their in-place and reflected forms."""

from __future__ import annotations

import numpy as np

from ...op.declare import Op
from ...op.expose import in_place_operator, op_operator
from ...op.interpret import beside_array
from ...op.write import operator
from ...tape import dtypes
from ...tape.tensor import Tensor
from .absolute import abs
from .arithmetic import (
    add_op,
    div_op,
    mul,
    neg,
    positive,
    pow,
    pow_number,
    pow_tensors,
    quotient_op,
    remainder,
    sub_op,
)


def _reflected(op: Op, needs: str = ""):
    """``number <op> tensor``; AttributeError for a second operand without the attribute that the operation needs."""
    run = operator(op, f"__r{op.name}__", reflected=True)

    def reflected(self, other):
        first = op.number_first
        if first is not None and other.__class__ in (float, int) and isinstance(self, Tensor):
            return first(other, self)
        if needs:
            getattr(self, needs)
            if isinstance(
                other, np.ndarray
            ):  # the only reflected operator that PyTorch has beside arrays
                pair = beside_array(self, other)
                return NotImplemented if pair is None else op.call(*pair[::-1])
        return run(other, self)

    reflected.__name__ = f"__r{op.name}__"
    return reflected


def _power(self, other):
    """``self ** other``."""
    try:
        if isinstance(other, np.ndarray):
            self, other = beside_array(self, other)  # type: ignore[misc]  # of None: a TypeError
        if other.__class__ in (int, float) and self._array.dtype in dtypes.NP_FLOATING:
            return pow_number.call(self, other)
        return pow(self, other)
    except TypeError:
        return NotImplemented


for _names, _op in (
    (("__add__", "__radd__"), add_op),
    (("__sub__",), sub_op),
    (("__mul__", "__rmul__"), mul),
    (("__truediv__", "__div__"), div_op),
    (("__floordiv__",), quotient_op),
    (("__mod__",), remainder),
):
    for _name in _names:
        setattr(Tensor, _name, operator(_op, _name))
for _name, _op in (
    ("__rsub__", sub_op), ("__rfloordiv__", quotient_op), ("__rmod__", remainder), ("__rpow__", pow_tensors),
):  # fmt: skip
    setattr(Tensor, _name, _reflected(_op))
Tensor.__rtruediv__ = Tensor.__rdiv__ = _reflected(div_op, needs="reciprocal")
Tensor.__pow__ = _power
Tensor.__neg__, Tensor.__pos__, Tensor.__abs__ = neg.call, positive, abs.call
for _names, _op in (
    (("__iadd__",), add_op),
    (("__isub__",), sub_op),
    (("__imul__",), mul),
    (("__itruediv__", "__idiv__"), div_op),
    (("__ifloordiv__",), quotient_op),
    (("__imod__",), remainder),
):
    for _name in _names:
        op_operator(_name, _op)
in_place_operator("__ipow__", Tensor.pow_)  # type: ignore[attr-defined]
