"""The layout of a tensor: views of it lead to the same parts of a copy that is laid out so."""

from __future__ import annotations

from typing import Any, NamedTuple

from .accumulation import is_dense
from .arrays import backend_of
from .layout import contiguous_format
from .memory import address, extent


def overlap(a: Any, b: Any) -> str:
    """How two dense raw arrays share memory: "" not at all, "whole" with each element at its place, or "partly".

    Of arrays with gaps nothing is said: "".
    """
    if not (a.size and b.size and is_dense(a) and is_dense(b)):
        return ""
    start, other = address(a), address(b)
    if start == other and a.nbytes == b.nbytes:
        if a.ndim != b.ndim:
            return "partly"
        pairs = zip(a.shape, a.strides, strict=True), zip(b.shape, b.strides, strict=True)
        first, second = ([s for n, s in p if n != 1] for p in pairs)
        return "whole" if first == second else "partly"
    return "partly" if start < other + b.nbytes and other < start + a.nbytes else ""


class Layout(NamedTuple):
    """The dimensions from the one with the longest to the one with the shortest stride, for a dense array; else `room`,
    the elements of all the memory, `start`, the place of the first element in it, and the strides, in elements."""

    order: tuple[int, ...] | None
    room: int = 0
    start: int = 0
    strides: tuple[int, ...] = ()

    @staticmethod
    def of(array: Any) -> Layout:
        if array.flags.c_contiguous:
            return ROW_MAJOR
        if is_dense(array) or not array.size:
            return Layout(tuple(sorted(range(array.ndim), key=lambda i: -array.strides[i])))
        return Layout.in_memory(array)

    @staticmethod
    def in_memory(array: Any) -> Layout:
        """With all the memory that `array` is a part of."""
        item, (low, size) = array.itemsize, extent(array)
        steps = tuple([s // item for s in array.strides])
        return Layout(None, size // item, (address(array) - low) // item, steps)

    def raw_copy(self, array: Any) -> Any:
        """A copy of a raw array of the same shape, laid out so."""
        if self.order is None:
            xp, item = backend_of(array), array.itemsize
            strides = tuple([s * item for s in self.strides])
            out = xp.as_strided(
                xp.zeros(self.room, array.dtype), array.shape, strides, self.start * item
            )
            out[...] = array
            return out
        if not self.order:
            return array.copy(order="C")
        return array.transpose(self.order).copy(order="C").transpose(self._back())

    def copy(self, tensor: Any) -> Any:
        """The same of a Tensor; the copy is recorded."""
        if self.order is None:
            memory = tensor.new_zeros(self.room)
            return memory.as_strided(tensor.shape, self.strides, self.start).copy_(tensor)

        if not self.order:
            return tensor.clone(memory_format=contiguous_format)
        turned = tensor.permute(self.order).clone(memory_format=contiguous_format)
        return turned.permute(self._back())

    def _back(self) -> tuple[int, ...]:
        order: Any = self.order
        return tuple([order.index(i) for i in range(len(order))])


ROW_MAJOR = Layout(())
