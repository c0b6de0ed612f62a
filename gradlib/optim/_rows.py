"""Steps along a sparse gradient, which touch nothing but the rows that it has."""

from __future__ import annotations

from typing import Any

from ..tape import sparse
from ..tape.arrays import kernels_of
from ..tape.storage import before_write, bump
from ..tape.tensor import Tensor


class Rows:
    """The places of a parameter that a sparse gradient has, and its values there, coalesced: raw arrays.

    Args:
        p: a dense parameter.
        grad: its sparse gradient.
    """

    def __init__(self, p: Tensor, grad: Tensor):
        array = sparse.coo_parts(grad._array)
        self.p, self.values = p, array.values
        self.key: Any = tuple(array.pattern.indices) or (None,)  # of a number: the number itself
        self.xp = kernels_of(array.values)

    def of(self, tensor: Tensor) -> Any:
        """A copy of these rows of a tensor of the shape of the parameter."""
        if len(self.key) == 1 and self.key[0] is not None:
            return tensor._array.take(self.key[0], axis=0)
        return tensor._array[self.key].copy()

    def write(self, tensor: Tensor, values: Any) -> None:
        """Write to these rows of a tensor."""
        before_write(tensor)
        tensor._array[self.key] = values
        bump(tensor)

    def step(self, change: Any) -> None:
        """Subtract from these rows of the parameter."""
        self.write(self.p, self.of(self.p) - change)
