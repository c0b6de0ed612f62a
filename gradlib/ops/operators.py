"""Python's operators on Tensors: +, -, *, /, //, %, ** and their in-place and reflected forms."""

from __future__ import annotations

from ..core.op import Op
from ..core.tensor import Tensor
from .absolute import abs
from .elementwise import (
    add_op,
    div_op,
    floor_divide,
    floor_divide_op,
    mul,
    neg,
    positive,
    pow,
    pow_tensors,
    remainder,
    sub_op,
)


def _reflected(op: Op):
    """``number <op> tensor``."""

    def reflected(self, other):
        first = op.number_first
        if first is not None and other.__class__ in (float, int):
            return first(other, self)
        return op.call(other, self)

    reflected.__name__ = f"__r{op.name}__"
    return reflected


Tensor.__add__ = Tensor.__radd__ = add_op.call
Tensor.__sub__, Tensor.__rsub__ = sub_op.call, _reflected(sub_op)
Tensor.__mul__ = Tensor.__rmul__ = mul.call
Tensor.__truediv__ = Tensor.__div__ = div_op.call
Tensor.__rtruediv__ = Tensor.__rdiv__ = _reflected(div_op)
Tensor.__floordiv__ = floor_divide
Tensor.__rfloordiv__ = lambda self, other: floor_divide_op.call(other, self)
Tensor.__mod__, Tensor.__rmod__ = remainder.call, lambda self, other: remainder.call(other, self)
Tensor.__pow__, Tensor.__rpow__ = pow, lambda self, other: pow_tensors.call(other, self)
Tensor.__neg__, Tensor.__pos__, Tensor.__abs__ = neg.call, positive.call, abs.call
for _operator, _method in {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
}.items():
    setattr(Tensor, _operator, getattr(Tensor, _method))
