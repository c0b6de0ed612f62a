"""Where the values of a sparse array stand, in each layout, and from one layout to another."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from .arrays import kernels_of
from .device import beside
from .layout import UNSTORED, layout, strided

COO, CSR, CSC = UNSTORED["sparse_coo"], UNSTORED["sparse_csr"], UNSTORED["sparse_csc"]
BSR, BSC = UNSTORED["sparse_bsr"], UNSTORED["sparse_bsc"]
SPELLED = {
    strided: "Strided",
    COO: "Sparse",
    CSR: "SparseCsr",
    CSC: "SparseCsc",
    BSR: "SparseBsr",
    BSC: "SparseBsc",
}
BY_ROWS, BLOCKED = (CSR, BSR), (BSR, BSC)
INT64 = np.dtype(np.int64)


class Pattern:
    """Where the values of a sparse array stand; it is never changed, so arrays share it.

    Args:
        layout: COO, CSR, CSC, BSR or BSC.
        shape: of the whole array.
        indices: COO: int64 (sparse dimensions, n). Otherwise None.
        coalesced: COO: whether each place occurs once, in order.
        compressed, plain: the others: where each row (column) begins, and the columns (rows) of the values.
        block: BSR and BSC: the size of a block.
    """

    __slots__ = (
        "__weakref__",
        "_coo",
        "_kept",
        "_of",
        "block",
        "coalesced",
        "compressed",
        "indices",
        "layout",
        "plain",
        "shape",
    )

    def __init__(
        self,
        layout: layout,
        shape: tuple[int, ...],
        indices: Any = None,
        coalesced: bool = False,
        compressed: Any = None,
        plain: Any = None,
        block: tuple[int, int] | None = None,
    ):
        self.layout, self.shape, self.indices, self.coalesced = layout, shape, indices, coalesced
        self.compressed, self.plain, self.block = compressed, plain, block
        self._coo: tuple[Pattern, Any] | None = None
        self._kept: dict[str, Any] = {}  # what kernels made of it
        self._of: Any = (
            None  # of a transposed matrix: a weak reference to the pattern that it was made from
        )

    def __reduce__(self) -> Any:
        return Pattern, (
            self.layout, self.shape, self.indices, self.coalesced, self.compressed, self.plain, self.block
        )  # fmt: skip

    @property
    def sparse_dim(self) -> int:
        """How many dimensions, the first ones, are sparse."""
        return self.indices.shape[0] if self.layout is COO else 2

    @property
    def count(self) -> int:
        """The number of values (of rows of values, or of blocks)."""
        return self.indices.shape[1] if self.layout is COO else self.plain.shape[0]

    @property
    def values_shape(self) -> tuple[int, ...]:
        """The shape of the values that belong here."""
        return (self.count, *(self.block or ()), *self.shape[self.sparse_dim :])

    def kept(self, name: str, make: Any) -> Any:
        """What ``make()`` gave the first time, with the device of the pattern current."""
        if name not in self._kept:
            with self.there():
                self._kept[name] = make()
        return self._kept[name]

    def there(self) -> Any:
        """A context in which the device of its arrays is the current one."""
        return beside(self.indices if self.layout is COO else self.plain)

    def coo(self) -> tuple[Pattern, Any]:
        """The same places as a COO pattern, in order, and which of the flat values stands at each (None: in order)."""
        if self.layout is COO:
            return self, None
        if self._coo is None:
            with self.there():
                self._coo = self._expanded()
        return self._coo

    def _expanded(self) -> tuple[Pattern, Any]:
        xp = kernels_of(self.plain)
        plain = self.plain.astype(INT64, copy=False)
        lengths = self.compressed[1:] - self.compressed[:-1]
        rows = repeated(xp, lengths, self.count)
        if self.layout not in BY_ROWS:
            rows, plain = plain, rows
        order = None
        if self.block:
            high, wide = self.block
            down, across = xp.arange(high)[:, None], xp.arange(wide)
            rows = xp.broadcast_to(
                rows[:, None, None] * high + down, (self.count, high, wide)
            ).reshape(-1)
            plain = xp.broadcast_to(
                plain[:, None, None] * wide + across, (self.count, high, wide)
            ).reshape(-1)
        indices = xp.stack([rows, plain])
        if self.layout is not CSR:
            order = xp.argsort(keys_of(indices, self.shape[:2]))
            indices = indices[:, order]
        return Pattern(COO, self.shape, indices, True), order

    def keys(self) -> Any:
        """One number for each place of a COO pattern, in the order of places."""
        return self.kept("keys", lambda: keys_of(self.indices, self.shape[: self.sparse_dim]))

    def transposed(self, first: int, second: int) -> Pattern:
        """A COO pattern with two of its sparse dimensions exchanged."""
        order = list(range(self.sparse_dim))
        order[first], order[second] = second, first
        shape = [self.shape[d] for d in order] + list(self.shape[self.sparse_dim :])
        with self.there():
            indices = self.indices[order]
        made = Pattern(COO, tuple(shape), indices, self.count < 2)
        if self.sparse_dim == 2:
            made._of = weakref.ref(self)
        return made

    def transposed_of(self) -> Pattern | None:
        """The pattern of which this is the transposed one, if that is still there."""
        return None if self._of is None else self._of()


def repeated(xp: Any, lengths: Any, total: int) -> Any:
    """0 as often as the first of `lengths` says, 1 as the second..., `total` numbers (int64)."""
    ends = xp.cumsum(lengths)
    return xp.searchsorted(ends, xp.arange(total), side="right").astype(INT64, copy=False)


def keys_of(indices: Any, shape: tuple[int, ...]) -> Any:
    """The row-major number of each place; NotImplementedError where int64 cannot count them."""
    if math.prod(shape) >= 2**63:
        raise NotImplementedError(
            f"sparse tensor of size {list(shape)}: its places cannot be numbered with 63 bits"
        )
    xp = kernels_of(indices)
    keys = xp.zeros(indices.shape[1], INT64)
    for row, length in zip(indices, shape, strict=True):
        keys = keys * length + row
    return keys


def compress(pattern: Pattern, kind: layout, block: tuple[int, int] | None) -> tuple[Pattern, Any]:
    """The compressed form of a coalesced COO matrix, and the order of its values in it (None: the same).

    For blocks: the place of each value among those of all blocks.
    """
    with pattern.there():
        return _compress(pattern, kind, block)


def _compress(pattern: Pattern, kind: layout, block: tuple[int, int] | None) -> tuple[Pattern, Any]:
    xp, (rows, cols) = kernels_of(pattern.indices), pattern.indices
    height, width = pattern.shape[:2]
    down = across = 0
    if kind in BLOCKED:
        assert block is not None
        down, across = rows % block[0], cols % block[1]
        rows, cols = rows // block[0], cols // block[1]
        height, width = height // block[0], width // block[1]
    by_rows = kind in BY_ROWS
    major, minor, length, other = (
        (rows, cols, height, width) if by_rows else (cols, rows, width, height)
    )
    order = None
    if kind is not CSR:
        keys = major * other + minor
        if block is not None and kind in BLOCKED:
            blocks, at = xp.unique(keys, return_inverse=True)
            order = (at.reshape(-1) * block[0] + down) * block[1] + across
            major, minor = blocks // other, blocks % other
        else:
            order = xp.argsort(keys)
            major, minor = major[order], minor[order]
    starts = xp.searchsorted(major, xp.arange(length + 1)).astype(INT64, copy=False)
    made = Pattern(
        kind, pattern.shape, None, False, starts, xp.ascontiguousarray(minor),
        block if kind in BLOCKED else None,
    )  # fmt: skip
    return made, order
