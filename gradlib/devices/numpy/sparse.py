"""Products with sparse matrices by SciPy, where it is installed (``pip install 'gradlib[scipy]'``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tape.sparse import Pattern
from ..packages import find
from . import forward

_KINDS = "fFdD"


@forward("sparse_mm")
def sparse_mm(xp: Any, values: Any, other: Any, *, pattern: Pattern) -> Any:
    """Compressed rows times columns of a dense matrix."""
    if values.dtype.char not in _KINDS or values.dtype != other.dtype or not pattern.count:
        return NotImplemented
    if pattern.indices.__class__ is not np.ndarray or find("scipy") is None:
        return NotImplemented
    return _matrix(find("scipy.sparse"), values, pattern) @ np.ascontiguousarray(other)


def _matrix(scipy: Any, values: Any, pattern: Pattern) -> Any:
    """SciPy's matrix of the values; nothing is sorted, and indices are converted once for each pattern."""
    height, width = pattern.shape
    if not pattern.coalesced:
        of = pattern.transposed_of()  # as in the gradient of a product
        if of is not None and of.coalesced:
            return _matrix(scipy, values, of).T
        return scipy.coo_matrix((values, tuple(pattern.indices)), pattern.shape).tocsr()

    def compress() -> tuple[Any, Any]:
        rows, cols = pattern.indices
        small = max(height, width, pattern.count) < 2**31
        kind = np.dtype(np.int32 if small else np.int64)
        starts = np.searchsorted(rows, np.arange(height + 1)).astype(kind)
        return cols.astype(kind), starts

    cols, starts = pattern.kept("scipy", compress)
    return scipy.csr_matrix((np.ascontiguousarray(values), cols, starts), pattern.shape, copy=False)
