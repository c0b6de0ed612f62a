"""From values to a sparse tensor and back, and products with sparse matrices.

Everything else about sparse tensors is composed of these and of dense ops on the values, so gradients in every mode
follow from the formulas here. A gradient with respect to a sparse tensor stands at the places of that tensor.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ...op.declare import Op, declare
from ...op.formulas import formula_function, register
from ...tape import sparse
from ...tape.arrays import backend_of
from ...tape.device import beside as on_device_of
from ...tape.dtypes import HALVES
from ...tape.sparse import COO, Pattern, Sparse
from ...tape.tensor import Tensor
from ..index.index_dim import index_select

BLOCK = 1 << 20  # elements of a temporary of products


def boundary(name: str, forward: Any, **spec: Any) -> Op:
    """An op whose arguments or result are sparse: no generated test can draw those, tests/sparse has its own."""
    op = Op(name, forward, promote="free", complex=True, sparse=True, **spec)
    register(op)
    return op


def beside(pattern: Pattern, values: Any) -> Pattern:
    """The pattern with its arrays where `values` are."""
    own = pattern.indices if pattern.layout is COO else pattern.plain
    here, there = (
        None if isinstance(a, np.ndarray) else getattr(a.data, "device_id", None)
        for a in (own, values)
    )
    if own.__class__ is values.__class__ and here == there:
        return pattern

    def move() -> Pattern:
        with on_device_of(values):
            return moved(pattern, backend_of(values).asarray)

    return pattern.kept(f"beside {values.__class__} {there}", move)


def moved(pattern: Pattern, move: Any) -> Pattern:
    """The pattern with ``move(array)`` for its arrays."""
    if pattern.layout is COO:
        return Pattern(COO, pattern.shape, move(pattern.indices), pattern.coalesced)
    return Pattern(
        pattern.layout, pattern.shape, None, False, move(pattern.compressed), move(pattern.plain), pattern.block
    )  # fmt: skip


def _picked(xp: Any, self: Any, pattern: Pattern) -> Any:
    pattern = beside(pattern, self.values if isinstance(self, Sparse) else self)
    if (
        isinstance(self, Sparse)
        and self.pattern is pattern
        and (pattern.coalesced or pattern.layout is not COO)
    ):
        return self.values
    places, order = pattern.coo()
    values = sparse.picked(places, self)
    if order is None:
        return values
    out = xp.empty(values.shape, values.dtype)
    out[order] = values
    return out.reshape(pattern.values_shape)


def _scattered(xp: Any, values: Any, pattern: Pattern) -> Any:
    return sparse.dense(Sparse(beside(pattern, values), values))


@formula_function()
def pick(F: Any, g: Any, pattern: Pattern) -> Any:
    """The values of `g`, dense or sparse, at the places of a pattern."""
    return F.sparse_pick(g, pattern, isinstance(getattr(g, "_array", g), Sparse))


@formula_function()
def whole(F: Any, g: Any) -> Any:
    """A gradient as a dense one."""
    return F.sparse_whole(g) if isinstance(getattr(g, "_array", g), Sparse) else g


def _unpicked(F: Any, g: Any, pattern: Pattern, thin: bool) -> Any:
    return F.sparse_from(g, pattern) if thin else F.sparse_scatter(g, pattern)


from_op = boundary(
    "sparse_from",
    lambda xp, values, *, pattern: Sparse(beside(pattern, values), values),
    public="sparse_coo_tensor", node="SparseCooTensorWithDimsAndTensorsBackward0", jvp="linear",
    values=lambda F, g, pattern: F.pick(g, pattern),
)  # fmt: skip
values_op = boundary(
    "sparse_values",
    lambda xp, self, *, pattern: self.values,
    public="values", node="ValuesBackward0", jvp="linear",
    self=lambda F, g, pattern: F.sparse_from(g, pattern),
)  # fmt: skip
coalesce_op = boundary(
    "sparse_coalesce", lambda xp, self: sparse.coalesced(self), public="coalesce", node="CoalesceBackward0",
    jvp="linear", self=lambda g: g,
)  # fmt: skip
copy_op = boundary(
    "sparse_copy", lambda xp, self: self.copy(), public="clone", node="CloneBackward0", jvp="linear",
    self=lambda g: g,
)  # fmt: skip
add_op = boundary(
    "sparse_add", lambda xp, self, other: sparse.added(self, other), public="add", node="AddBackward0",
    self=lambda g: g, other=lambda g: g, jvp=lambda F, self_t, other_t: _sum_of(self_t, other_t),
)  # fmt: skip
pick_op = boundary(
    "sparse_pick", lambda xp, self, *, pattern, thin: _picked(xp, self, pattern), public="sparse_mask",
    node="SparseMaskBackward0", jvp="linear",
    self=lambda F, g, pattern, thin: _unpicked(F, g, pattern, thin),
)  # fmt: skip

masked_op = boundary(
    "sparse_masked", lambda xp, self, *, pattern: Sparse(pattern, _picked(xp, self, pattern)), public="sparse_mask",
    node="SparseMaskBackward0", jvp="linear", self=lambda F, g: F.whole(g),
)  # fmt: skip
whole_op = boundary(
    "sparse_whole", lambda xp, self: sparse.dense(self), public="to_dense", node="ToDenseBackward0",
    self=lambda g: g, jvp="linear",
)  # fmt: skip


def _sum_of(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first + second


# -- dense values, dense results ---------------------------------------------------------------------------------------


def _example(t: Any) -> Pattern:
    """A pattern for samples: 4 places in a 3 x 5 matrix."""
    indices = np.array([[0, 0, 1, 2], [1, 4, 0, 3]])
    return Pattern(COO, (3, 5), indices, True)


scatter_op = declare(
    "sparse_scatter", lambda xp, values, *, pattern: _scattered(xp, values, pattern), public="to_dense",
    node="ToDenseBackward0", promote="free", complex=True, jvp="linear",
    values=lambda F, g, pattern: F.pick(g, pattern),
    samples=lambda t: [(t(4), _example(t))],
)  # fmt: skip


def _transposed(pattern: Pattern) -> Pattern:
    """The pattern of the transposed matrix, for the same order of values."""
    of = pattern.transposed_of()
    return of or pattern.kept("transposed", lambda: pattern.transposed(0, 1))


def _mm(xp: Any, values: Any, other: Any, *, pattern: Pattern) -> Any:
    rows, cols = beside(pattern, values).indices
    dtype = np.dtype(np.float32) if values.dtype in HALVES else values.dtype
    out = xp.zeros((pattern.shape[0], other.shape[1]), dtype)
    step = max(1, BLOCK // max(1, other.shape[1]))
    for i in range(0, pattern.count, step):
        part = values[i : i + step, None].astype(dtype, copy=False) * other[cols[i : i + step]]
        xp.add_at(out, (rows[i : i + step],), part.astype(dtype, copy=False))
    return out.astype(values.dtype, copy=False)


def _dots(xp: Any, self: Any, other: Any, *, pattern: Pattern) -> Any:
    rows, cols = beside(pattern, self).indices
    step = max(1, BLOCK // max(1, self.shape[1]))
    wide = np.dtype(np.float32) if self.dtype in HALVES else self.dtype
    parts = [
        (self[rows[i : i + step]].astype(wide, copy=False) * other[cols[i : i + step]]).sum(1)
        for i in range(0, pattern.count, step)
    ]
    out = xp.concatenate(parts) if parts else xp.zeros((0,), self.dtype)
    return out.astype(self.dtype, copy=False)


mm_op = declare(
    "sparse_mm", _mm, public="sparse.mm", node="SparseMmBackward0", promote="none", complex=True, jvp="multilinear",
    autocast="lower",
    values=lambda F, g, other, pattern: F.sparse_dots(g, other.conjugate(), pattern),
    other=lambda F, g, values, pattern: F.sparse_mm(values.conjugate(), g, _transposed(pattern)),
    samples=lambda t: [(t(4), t(5, 2), _example(t)), (t(4), t(5, 0), _example(t))],
)  # fmt: skip
dots_op = declare(
    "sparse_dots", _dots, public="sparse.sampled_addmm", node="SparseSampledAddmmBackward0", promote="none",
    complex=True, jvp="multilinear",
    self=lambda F, g, other, pattern: F.sparse_mm(g, other.conjugate(), pattern),
    other=lambda F, g, self, pattern: F.sparse_mm(g, self.conjugate(), _transposed(pattern)),
    samples=lambda t: [(t(3, 2), t(5, 2), _example(t))],
)  # fmt: skip

# -- on tensors --------------------------------------------------------------------------------------------------------


def wrap(array: Any) -> Tensor:
    """A raw array as a Tensor."""
    return Tensor._make(array)


def values_of(tensor: Tensor) -> Tensor:
    """The values of a sparse tensor, as its layout has them; gradients flow."""
    return values_op.call(tensor, tensor._array.pattern)


def coalesced(tensor: Tensor) -> Tensor:
    """The tensor with each place once; itself if it is so."""
    pattern = tensor._array.pattern
    return coalesce_op.call(tensor) if pattern.layout is COO and not pattern.coalesced else tensor


def parts(tensor: Tensor) -> tuple[Pattern, Tensor]:
    """The coalesced COO pattern of a sparse tensor, and the values there; gradients flow."""
    tensor = coalesced(tensor)
    pattern, values = tensor._array.pattern, values_of(tensor)
    places, order = pattern.coo()
    if pattern.block:
        values = values.reshape(-1)
    if order is not None:
        values = index_select(values, 0, wrap(order))
    return places, values


def made(pattern: Pattern, values: Tensor) -> Tensor:
    """The sparse tensor of values at the places of a pattern; gradients flow."""
    return from_op.call(values, pattern)


def in_layout(pattern: Pattern, values: Tensor, kind: Any, block: Any = None) -> Tensor:
    """The sparse tensor of values at the places of a coalesced COO pattern, in the layout `kind`."""
    if kind is COO:
        return made(pattern, values)
    new, order = sparse.compress(pattern, kind, block)
    if new.block is not None:
        count = int(np.prod(new.values_shape))
        lies = Pattern(COO, (count,), order[None], True)
        lies.coalesced = False  # not in order, but each place is there once
        values = scatter_op.call(values, lies).reshape(new.values_shape)
    elif order is not None:
        values = index_select(values, 0, wrap(order))
    return made(new, values)


def to_dense(tensor: Tensor) -> Tensor:
    """The dense tensor of the same numbers; gradients flow."""
    pattern, values = parts(tensor)
    return scatter_op.call(values, pattern)


def everywhere(array: Any, sparse_dim: int) -> Pattern:
    """The COO pattern of all places of a dense raw array."""
    xp, shape = backend_of(array), array.shape[:sparse_dim]
    with on_device_of(array):
        indices = xp.asarray(np.indices(shape).reshape(sparse_dim, -1), dtype=sparse.INT64)
    return Pattern(COO, tuple(array.shape), indices, True)


def layout_of(tensor: Tensor) -> tuple[Any, Any]:
    """The layout of a sparse tensor, and the size of its blocks."""
    pattern = tensor._array.pattern
    return pattern.layout, pattern.block


def as_coo(tensor: Tensor) -> Tensor:
    """A sparse tensor in COO, coalesced if it was in another layout."""
    return tensor if tensor.layout is COO else made(*parts(tensor))


def _load_rules() -> None:
    for name in ("places", "products"):  # which load the others
        importlib.import_module(f"{__package__}.{name}")


sparse.comes_with(_load_rules)
