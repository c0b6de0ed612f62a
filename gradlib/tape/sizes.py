"""Size, the shape of a tensor, and dimensions counted from the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex, overload


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints that prints as ``torch.Size([2, 3])``.

    Args:
        lengths: an iterable of ints.

    Raises:
        TypeError: of something else.

    Example:
        >>> gradlib.Size([2, 3]) == (2, 3), gradlib.Size([2, 3])[:1]
        (True, torch.Size([2]))
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[SupportsIndex] = ()) -> Size:
        return size_of([_length(k, n) for k, n in enumerate(lengths)])

    def numel(self) -> int:
        """The number of elements: the product of the lengths.

        Example:
            >>> gradlib.ones(2, 3).shape.numel()
            6
        """
        n = 1
        for length in self:
            n *= length
        return n

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    @overload
    def __getitem__(self, item: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Size: ...
    def __getitem__(self, item):
        out = tuple.__getitem__(self, item)
        return size_of(out) if isinstance(item, slice) else out

    def __add__(self, other) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to torch.Size"
            )
        return Size(tuple.__add__(self, other))

    def __radd__(self, other) -> Size:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self):
        return (Size, (tuple(self),))


def size_of(lengths: Iterable[int]) -> Size:
    """A Size of what is known to be ints, which is not looked at again: every ``x.shape`` makes one."""
    return _new(Size, lengths)


_new = tuple.__new__


def _length(place: int, value: SupportsIndex) -> int:
    """One entry of a Size; TypeError for what is no whole number."""
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {place} is '{type(value).__name__}')"
        ) from None


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension in [0, ndim) from one in [-ndim, ndim); 0-dim tensors accept 0 and -1."""
    n = ndim or 1
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
    )
