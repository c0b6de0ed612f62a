"""swap_tensors: two tensors exchange all that they are, but for who holds them."""

from __future__ import annotations

import weakref

from ..tape.attributes import raw_attributes
from ..tape.tensor import Tensor

_SLOTS = ("_array", "_fn", "_grad", "_nr", "_rg", "_ver", "_view")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange memory, class, attributes, gradient and history of two tensors.

    Whoever holds one of them then has what the other was.

    Args:
        t1: a tensor.
        t2: another one.

    Raises:
        RuntimeError: something refers weakly to one of them: a graph that it is a leaf of, a view, or a program.

    Example:
        >>> a, b = gradlib.ones(2), gradlib.zeros(1)
        >>> swap_tensors(a, b)
        >>> a, b
        (tensor([0.]), tensor([1., 1.]))
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, Tensor):
            raise TypeError(f"swap_tensors: {name} must be a Tensor, not {type(t).__name__}")
        if weakref.getweakrefcount(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if t._accumulator is not None and t._accumulator() is not None:
            raise RuntimeError(f"Cannot swap {name} because a graph accumulates its gradient")
    first, second = type(t1), type(t2)
    held = [getattr(t1, slot) for slot in _SLOTS]
    for slot, value in zip(_SLOTS, held, strict=True):
        setattr_ = vars(Tensor)[slot].__set__
        setattr_(t1, getattr(t2, slot))
        setattr_(t2, value)
    own, other = dict(raw_attributes(t1)), dict(raw_attributes(t2))
    for t, attributes in ((t1, other), (t2, own)):
        raw_attributes(t).clear()
        raw_attributes(t).update(attributes)
    t1.__class__, t2.__class__ = second, first
