"""Views with at least so many dimensions: atleast_1d, atleast_2d, atleast_3d."""

from __future__ import annotations

from ...op.expose import function
from ...tape.tensor import Tensor
from .dims import unsqueeze_op
from .reshape import reshape_to


def _at_least(name: str, grow):
    def at_least(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return grow(tensors[0])
        if len(tensors) == 1:
            tensors = tuple(tensors[0])
        return tuple([grow(x) for x in tensors])

    at_least.__name__ = at_least.__qualname__ = name
    ones = ", ".join("1" * int(name[8]))
    at_least.__doc__ = f"""Views with at least {name[8]} dimension{"s" if name[8] > "1" else ""}.

Where dimensions are missing, some of length one are put in.

Args:
    tensors: one tensor, several, or one sequence of them.

Returns:
    A view of the tensor (itself if it has the dimensions), or a tuple of them.

Example:
    >>> gradlib.{name}(gradlib.tensor(5.0)).shape
    torch.Size([{ones}])
"""
    return function(name)(at_least)


def _one(x: Tensor) -> Tensor:
    return x if x._array.ndim else reshape_to(x, (1,))


def _two(x: Tensor) -> Tensor:
    n = x._array.ndim
    return x if n > 1 else unsqueeze_op.call(x, 0) if n else reshape_to(x, (1, 1))


def _three(x: Tensor) -> Tensor:
    n = x._array.ndim
    if n > 2:
        return x
    if n == 0:
        return reshape_to(x, (1, 1, 1))
    return unsqueeze_op.call(x if n == 2 else unsqueeze_op.call(x, 0), 2)


atleast_1d = _at_least("atleast_1d", _one)
atleast_2d = _at_least("atleast_2d", _two)
atleast_3d = _at_least("atleast_3d", _three)
