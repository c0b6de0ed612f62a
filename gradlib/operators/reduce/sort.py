"""Order: sort, argsort, topk, kthvalue, unique.

Sorting ops compute indices first; the values are then gathered, and that gather is what gradients flow through.
"""

from __future__ import annotations

import operator

import numpy as np

from ... import return_types
from ...op.declare import Op, declare
from ...op.expose import function, refuse_overlap, write_out, write_same
from ...tape import dtypes
from ...tape.layout import in_order
from ...tape.tensor import Tensor, wrap_dim
from ..index.gather import gathered
from ..index.scatter import places
from ..kinds import missing, refuse
from ..shape.slicing import at

I8 = np.dtype(np.int64)


# -- indices -----------------------------------------------------------------------------------------------------


def stable_order(xp, self, dim, descending):
    """The indices that sort an array of at least one dimension stably."""
    if not descending:
        return xp.argsort(self, axis=dim, kind="stable")
    back = at(dim, slice(None, None, -1))
    order = xp.argsort(self[back], axis=dim, kind="stable")
    return xp.ascontiguousarray((self.shape[dim] - 1 - order)[back])


def topk_by(order):
    """The forward function: where the k greatest (or least) are; order: as `stable_order`."""

    def forward(xp, self, *, k, dim, largest, sorted):
        if not self.ndim:
            return xp.zeros((), I8)
        n, wide = self.shape[dim], xp.wide(self)
        if 4 * k >= n or n < 64:
            return xp.ascontiguousarray(order(xp, wide, dim, largest)[at(dim, slice(0, k))])
        part = xp.argpartition(wide, n - k if largest else k - 1, axis=dim)
        part = part[at(dim, slice(n - k, None) if largest else slice(0, k))]
        part = xp.sort(part, axis=dim)
        values = wide.reshape(-1).take(places(xp, part, wide.shape, dim))
        return part.reshape(-1).take(places(xp, order(xp, values, dim, largest), part.shape, dim))

    return forward


def kth_by(order):
    """The forward function: where the k-th least are; order: as `stable_order`."""

    def forward(xp, self, *, k, dim):
        if not self.ndim:
            return xp.zeros((), I8)
        return xp.ascontiguousarray(order(xp, xp.wide(self), dim, False)[at(dim, slice(k - 1, k))])

    return forward


def _argsort(xp, self, *, dim, descending):
    """With the order of strides of `self`, as that of the sorted values."""
    if not self.ndim:
        return xp.zeros((), I8)
    index = stable_order(xp, xp.wide(self), dim, descending)
    return index if self.flags.c_contiguous else in_order(xp, index, (self,))


def _sorted(xp, self, index, *, dim):
    values = self.reshape(-1).take(places(xp, index, self.shape, dim))
    return values if self.flags.c_contiguous else in_order(xp, values, (self,))


argsort_op = declare(
    "argsort", _argsort, nondifferentiable="indices",
    samples=lambda t: [(t(3, 4), 1, False), (t(3, 4), 0, True), (t(), 0, False), (t(0, 2), 0, False)],
    batch="same_rank",
)  # fmt: skip
topk_index_op = declare(
    "topk_index", topk_by(stable_order), nondifferentiable="indices",
    samples=lambda t: [(t(3, 4), 2, 1, True, True), (t(3, 100), 3, 1, False, True), (t(), 1, 0, True, True),
        (t(0, 2), 1, 1, True, True)],
    batch="same_rank",
)  # fmt: skip
kth_index_op = declare(
    "kth_index", kth_by(stable_order), nondifferentiable="indices",
    samples=lambda t: [(t(3, 4), 2, 1), (t(), 1, 0), (t(0, 2), 1, 1)],
    batch="same_rank",
)  # fmt: skip


def taking(name: str, kernel=gathered) -> Op:
    """The op `name` that gathers the values at indices found before."""
    return declare(
        name, kernel, promote="free", batch="same_rank",
        jvp="linear", self=lambda F, g, index, self_shape, dim: F.gather_backward(g, index, self_shape, dim),
        samples=lambda t: [(t(3, 4), Tensor._make(np.array([[2, 0, 1, 1]])), 0),
            (t(), Tensor._make(np.zeros((), I8)), 0)],
    )  # fmt: skip


sort_op, topk_op, kthvalue_op = taking("sort", _sorted), taking("topk"), taking("kthvalue")


# -- sort --------------------------------------------------------------------------------------------------------


def _refuse_complex(input: Tensor) -> None:
    if input._array.dtype.kind == "c":
        raise RuntimeError(" Sort does not support complex dtypes on CPU")


@function("sort", method=True)
def sort(input, dim=-1, descending=False, stable=False, *, axis=None, out=None):
    """The elements in order along a dimension, and where they were; equal ones keep their order.

    Args:
        input: a tensor of a real dtype; nan counts as the greatest value.
        dim: the dimension, also under the name `axis`.
        descending: whether the greatest comes first.
        stable: without effect: the order is always stable.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (values, indices) of the shape of `input`; gradients flow to the places of the elements.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.sort(gradlib.tensor([3, 1, 2]))
        torch.return_types.sort(
        values=tensor([1, 2, 3]),
        indices=tensor([1, 2, 0]))
    """
    _refuse_complex(input)
    dim = _dim("sort", dim if axis is None else axis, input)
    index = argsort_op.call(input, dim, bool(descending))
    return write_same(out, return_types.sort(sort_op.call(input, index, dim), index))


def _dim(name: str, dim, input: Tensor) -> int:
    if dim.__class__ is not int:
        if isinstance(dim, bool) or not hasattr(dim, "__index__"):
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got (Tensor, {type(dim).__name__})"
            )
        dim = operator.index(dim)
    return wrap_dim(dim, input._array.ndim)


@function("argsort", method=True)
def argsort(input, dim=-1, descending=False, stable=False, *, axis=None, out=None):
    """The indices that sort `input` along `dim`.

    Raises IndexError: no such dimension. The result is int64, and has no gradient.

    Example:
        >>> gradlib.argsort(gradlib.tensor([3.0, 1.0, 2.0]))
        tensor([1, 2, 0])
    """
    _refuse_complex(input)
    dim = _dim("argsort", dim if axis is None else axis, input)
    return write_same(out, argsort_op.call(input, dim, bool(descending)))


@function("msort", method=True)
def msort(input, *, out=None):
    """A copy with the elements of each column sorted: ``sort`` along the first dimension, without the indices.

    Args:
        input: a tensor of a real dtype.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> gradlib.msort(gradlib.tensor([[3, 1], [2, 4]]))
        tensor([[2, 1],
                [3, 4]])
    """
    return write_same(out, sort(input, 0)[0])


@function("topk", method=True)
def topk(input, k, dim=-1, largest=True, sorted=True, *, axis=None, out=None):
    """(values, indices) of the `k` largest (or smallest) elements along `dim`, the first being the extreme one.

    Raises RuntimeError: `k` is above the length of the dimension.

    Example:
        >>> gradlib.topk(gradlib.tensor([3.0, 1.0, 2.0]), 2).values
        tensor([3., 2.])
    """
    shape = input._array.shape
    dim = wrap_dim(dim if axis is None else axis, len(shape))
    if isinstance(k, float) or not hasattr(k, "__index__"):
        raise TypeError(f"topk(): argument 'k' (position 2) must be int, not {type(k).__name__}")
    k = operator.index(k)
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError("selected index k out of range")
    if input._array.dtype.kind in "cb":
        kind = "complex" if input._array.dtype.kind == "c" else "bool"
        space = " " if kind == "complex" else ""
        raise RuntimeError(f"{space}topk does not support {kind} dtypes on CPU")
    index = topk_index_op.call(input, k, dim, bool(largest), bool(sorted))
    return write_same(out, return_types.topk(topk_op.call(input, index, dim), index))


@function("kthvalue", method=True)
def kthvalue(input, k, dim=-1, keepdim=False, *, out=None):
    """The `k`-th smallest element along a dimension.

    Args:
        input: a tensor of a real dtype.
        k: which one, from 1.
        dim: the dimension.
        keepdim: whether it stays with length one.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (values, indices).

    Raises:
        RuntimeError: `k` is not in [1, length].
        IndexError: no such dimension.

    Example:
        >>> gradlib.kthvalue(gradlib.tensor([3, 1, 2]), 2)
        torch.return_types.kthvalue(
        values=tensor(2),
        indices=tensor(2))
    """
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if shape and not shape[dim]:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    refuse("kthvalue_cpu", input, "cb")
    if out is not None:
        _check_kth_out(out, input)
    index = kth_index_op.call(input, k, dim)
    if not keepdim and shape:
        place = index.squeeze(dim)
        values = kthvalue_flat_op.call(input, Tensor._make(index._array), dim)
        return write_out(out, return_types.kthvalue(values, place))
    return write_out(out, return_types.kthvalue(kthvalue_op.call(input, index, dim), index))


def _check_kth_out(out: tuple, input: Tensor) -> None:
    refuse_overlap(out, input)
    if out[0].dtype is not input.dtype:
        raise RuntimeError("output values must be of same type as input")
    if out[1]._array.dtype != I8:
        raise RuntimeError("output indices must be of scalar type Long")


def _take_flat(xp, self, index, *, dim):
    out = self.reshape(-1).take(places(xp, index, self.shape, dim))
    return out.reshape(self.shape[:dim] + self.shape[dim + 1 :])


kthvalue_flat_op = declare(
    "kthvalue_flat", _take_flat, promote="free", jvp="linear", node="KthvalueBackward0",
    self=lambda F, g, index, self_shape, dim: F.gather_backward(F.reshape(g, tuple(index.shape)), index, self_shape,
        dim),
    samples=lambda t: [(t(3, 4), Tensor._make(np.array([[2, 0, 1, 1]])), 0)],
)  # fmt: skip


# -- unique ------------------------------------------------------------------------------------------------------


def _unique(xp, self, *, dim):
    values, inverse, counts = xp.unique(
        self, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    inverse = inverse.reshape(self.shape if dim is None else (self.shape[dim],))
    return values, inverse.astype(I8), counts.astype(I8)


def _unique_consecutive(xp, self, *, dim):
    rows = self.reshape(-1) if dim is None else xp.moveaxis(self, dim, 0)
    n = rows.shape[0]
    if n:
        changed = (rows[1:] != rows[:-1]).any(tuple(range(1, rows.ndim)))
        new = xp.concatenate([xp.ones(1, bool), changed])
    else:
        new = xp.zeros(0, bool)
    starts = xp.flatnonzero(new)
    counts = xp.diff(xp.concatenate([starts, xp.full(1, n, starts.dtype)]))
    inverse = xp.cumsum(new) - 1
    if dim is None:
        return rows[starts], inverse.reshape(self.shape).astype(I8), counts.astype(I8)
    return xp.moveaxis(rows[starts], 0, dim), inverse.astype(I8), counts.astype(I8)


def _set_samples(t):
    whole = {"dtype": dtypes.int64, "low": 0, "high": 3}
    return [
        (t(3, 4, **whole), None),
        (t(3, 2, **whole), 0),
        (t(**whole), None),
        (t(0, **whole), None),
    ]


unique_op = declare(
    "unique", _unique, dynamic=True, n_out=3, nondifferentiable=(1, 2), node="Unique2Backward0",
    self=missing("_unique2"),
    public="_unique2",
    samples=_set_samples,
)  # fmt: skip
unique_consecutive_op = declare(
    "unique_consecutive", _unique_consecutive, dynamic=True, n_out=3, nondifferentiable=(1, 2),
    self=missing("unique_consecutive"),
    samples=_set_samples,
)  # fmt: skip


def _check_slices(input: Tensor, dim: int) -> None:
    shape = input._array.shape
    if not shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, len(shape))
    if 0 in (*shape[:dim], *shape[dim + 1 :]):
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )


def _chosen(op: Op, input: Tensor, dim, return_inverse, return_counts):
    refuse("unique", input, "c")
    if dim is not None:
        _check_slices(input, dim)
    outs = op.call(input, None if dim is None else wrap_dim(dim, input._array.ndim))
    values, inverse, counts = outs
    kept = (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))
    return kept if len(kept) > 1 else values


@function("unique", method=True)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or slices, in ascending order.

    Args:
        input: a tensor of any shape.
        sorted: without effect: they are always sorted.
        return_inverse: whether to say which of them each element of `input` is.
        return_counts: whether to say how often each occurs.
        dim: compare the slices of this dimension; the flat elements if None.

    Returns:
        A tensor, or a tuple with the inverse and the counts (int64) behind it. On a device this waits for the values.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.unique(gradlib.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    return _chosen(unique_op, input, dim, return_inverse, return_counts)


@function("unique_consecutive", method=True)
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements that differ from the one before them.

    Args:
        input: a tensor of any shape.
        return_inverse: whether to say which element of the result each one of `input` is.
        return_counts: whether to say how often each one stands there.
        dim: compare the slices of this dimension; the flat elements if None.

    Returns:
        A tensor, or a tuple with the inverse and the counts (int64) behind it. On a device this waits for the values.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.unique_consecutive(gradlib.tensor([1, 1, 2, 1]), return_counts=True)
        (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    return _chosen(unique_consecutive_op, input, dim, return_inverse, return_counts)
