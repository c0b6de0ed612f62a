"""Size, the shape of a tensor, and dimensions counted from the end."""

from __future__ import annotations

from typing import SupportsIndex, overload


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints that prints as ``torch.Size([2, 3])``."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
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
        return Size(out) if isinstance(item, slice) else out

    def __add__(self, other) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __reduce__(self):
        return (Size, (tuple(self),))


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension in [0, ndim) from one in [-ndim, ndim); 0-dim tensors accept 0 and -1."""
    n = ndim or 1
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
    )
