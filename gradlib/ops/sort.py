"""Order: sort, topk, kthvalue, unique, counting, binary search, and the positions of non-zero elements.

Sorting ops compute indices first; the values are then gathered, and that gather is what gradients flow through.
"""

from __future__ import annotations

import numpy as np

from .. import return_types
from ..core import errors
from ..core.op import Op, declare
from ..core.tensor import Tensor, wrap_dim
from .expose import function, write_out
from .scatter import places
from .slicing import at
from .split import unbind

I8, I4 = np.dtype(np.int64), np.dtype(np.int32)


# -- indices -----------------------------------------------------------------------------------------------------


def _argsort(xp, self, *, dim, descending):
    if not self.ndim:
        return xp.zeros((), I8)
    self = xp.wide(self)
    if not descending:
        return xp.argsort(self, axis=dim, kind="stable")
    back = at(dim, slice(None, None, -1))
    order = xp.argsort(self[back], axis=dim, kind="stable")
    return xp.ascontiguousarray((self.shape[dim] - 1 - order)[back])


def _topk_index(xp, self, *, k, dim, largest, sorted):
    if not self.ndim:
        return xp.zeros((), I8)
    n, wide = self.shape[dim], xp.wide(self)
    if 4 * k >= n or n < 64:
        order = _argsort(xp, wide, dim=dim, descending=largest)
        return xp.ascontiguousarray(order[at(dim, slice(0, k))])
    part = xp.argpartition(wide, n - k if largest else k - 1, axis=dim)
    part = part[at(dim, slice(n - k, None) if largest else slice(0, k))]
    part = xp.sort(part, axis=dim)
    values = wide.reshape(-1).take(places(xp, part, wide.shape, dim))
    order = _argsort(xp, values, dim=dim, descending=largest)
    return part.reshape(-1).take(places(xp, order, part.shape, dim))


def _kth_index(xp, self, *, k, dim):
    if not self.ndim:
        return xp.zeros((), I8)
    order = _argsort(xp, self, dim=dim, descending=False)
    return xp.ascontiguousarray(order[at(dim, slice(k - 1, k))])


argsort_op = declare(
    "argsort", _argsort, nondifferentiable="indices",
    samples=lambda t: [(t(3, 4), 1, False), (t(3, 4), 0, True), (t(), 0, False), (t(0, 2), 0, False)],
)  # fmt: skip
topk_index_op = declare(
    "topk_index", _topk_index, nondifferentiable="indices",
    samples=lambda t: [(t(3, 4), 2, 1, True, True), (t(3, 100), 3, 1, False, True), (t(), 1, 0, True, True),
        (t(0, 2), 1, 1, True, True)],
)  # fmt: skip
kth_index_op = declare(
    "kth_index", _kth_index, nondifferentiable="indices",
    samples=lambda t: [(t(3, 4), 2, 1), (t(), 1, 0), (t(0, 2), 1, 1)],
)  # fmt: skip


def _taking(name: str) -> Op:
    """The op `name` that gathers the values at indices found before."""
    return declare(
        name, lambda xp, self, index, *, dim: self.reshape(-1).take(places(xp, index, self.shape, dim)), promote="free",
        jvp="linear", self=lambda F, g, index, self_shape, dim: F.gather_backward(g, index, self_shape, dim),
        samples=lambda t: [(t(3, 4), Tensor._make(np.array([[2, 0, 1, 1]])), 0),
            (t(), Tensor._make(np.zeros((), I8)), 0)],
    )  # fmt: skip


sort_op, topk_op, kthvalue_op = _taking("sort"), _taking("topk"), _taking("kthvalue")


# -- sort --------------------------------------------------------------------------------------------------------


def _refuse(input: Tensor, name: str, kinds: str) -> None:
    if input._array.dtype.kind in kinds:
        kind = input.dtype.tensor_type.removesuffix("Tensor")
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind}'")


def _refuse_complex(input: Tensor) -> None:
    if input._array.dtype.kind == "c":
        raise RuntimeError(" Sort does not support complex dtypes on CPU")


@function("sort", method=True)
def sort(input, dim=-1, descending=False, stable=False, *, out=None):
    """(values, indices) in ascending or descending order along `dim`; equal elements keep their order.

    NaN counts as the greatest value. Gradients flow to the elements' places in the input.
    """
    _refuse_complex(input)
    dim = wrap_dim(dim, input._array.ndim)
    index = argsort_op.call(input, dim, bool(descending))
    return write_out(out, return_types.sort(sort_op.call(input, index, dim), index))


@function("argsort", method=True)
def argsort(input, dim=-1, descending=False, stable=False):
    """The indices that sort `input` along `dim`."""
    _refuse_complex(input)
    return argsort_op.call(input, wrap_dim(dim, input._array.ndim), bool(descending))


@function("msort", method=True)
def msort(input, *, out=None):
    """Sorted along the first dimension."""
    return write_out(out, sort(input, 0)[0])


@function("topk", method=True)
def topk(input, k, dim=-1, largest=True, sorted=True, *, out=None):
    """(values, indices) of the `k` largest (or smallest) elements along `dim`, the first being the extreme one."""
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    k = int(k)
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError("selected index k out of range")
    if input._array.dtype.kind in "cb":
        kind = "complex" if input._array.dtype.kind == "c" else "bool"
        raise RuntimeError(f"topk does not support {kind} dtypes on CPU")
    index = topk_index_op.call(input, k, dim, bool(largest), bool(sorted))
    return write_out(out, return_types.topk(topk_op.call(input, index, dim), index))


@function("kthvalue", method=True)
def kthvalue(input, k, dim=-1, keepdim=False, *, out=None):
    """(values, indices) of the `k`-th smallest element along `dim` (k counts from 1)."""
    shape = input._array.shape
    dim = wrap_dim(dim, len(shape))
    if not 1 <= k <= (shape[dim] if shape else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    _refuse(input, "kthvalue_cpu", "cb")
    index = kth_index_op.call(input, k, dim)
    if not keepdim and shape:
        place = index.squeeze(dim)
        flat = index._array
        values = kthvalue_dropped(input, flat, dim)
        return write_out(out, return_types.kthvalue(values, place))
    return write_out(out, return_types.kthvalue(kthvalue_op.call(input, index, dim), index))


def kthvalue_dropped(input: Tensor, index, dim: int) -> Tensor:
    """The values at `index` (length one along `dim`) without that dimension, as one op."""
    return kthvalue_flat_op.call(input, Tensor._make(index), dim)


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
    whole = {"dtype": _int64(), "low": 0, "high": 3}
    return [
        (t(3, 4, **whole), None),
        (t(3, 2, **whole), 0),
        (t(**whole), None),
        (t(0, **whole), None),
    ]


def _int64():
    from ..core import dtypes

    return dtypes.int64


unique_op = declare("unique", _unique, n_out=3, nondifferentiable="sets", samples=_set_samples)
unique_consecutive_op = declare(
    "unique_consecutive",
    _unique_consecutive,
    n_out=3,
    nondifferentiable="sets",
    samples=_set_samples,
)


def _chosen(op: Op, input: Tensor, dim, return_inverse, return_counts):
    _refuse(input, "unique", "c")
    outs = op.call(input, None if dim is None else wrap_dim(dim, input._array.ndim))
    values, inverse, counts = outs
    kept = (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))
    return kept if len(kept) > 1 else values


@function("unique", method=True)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements (or slices of `dim`) in ascending order.

    return_inverse: also where each element of `input` is among them; return_counts: also how often each occurs.
    """
    return _chosen(unique_op, input, dim, return_inverse, return_counts)


@function("unique_consecutive", method=True)
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices of `dim`) that differ from the one before them; results as of ``unique``."""
    return _chosen(unique_consecutive_op, input, dim, return_inverse, return_counts)


# -- counting ----------------------------------------------------------------------------------------------------


@function("bincount", method=True)
def bincount(input, weights=None, minlength=0):
    """How often each of 0, 1, 2... occurs in an integer vector, or the sum of the weights of its occurrences."""
    array = input._array
    if array.dtype.kind not in "iu":
        kind = input.dtype.tensor_type.removesuffix("Tensor")
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{kind}'")
    if array.ndim != 1 or (array.size and int(array.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    xp = _backend(array)
    array = array.astype(I8, copy=False)
    if weights is None:
        return Tensor._make(xp.bincount(array, minlength=minlength).astype(I8))
    if weights._array.shape != array.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = weights._array.dtype
    sums = xp.bincount(array, weights._array.astype("f8"), minlength)
    return Tensor._make(sums.astype(kind if kind == np.float32 else "f8"))


def _backend(array):
    from ..backends import backend_of

    return backend_of(array)


@function("histc", method=True)
def histc(input, bins=100, min=0, max=0, *, out=None):
    """How many elements fall into each of `bins` equal intervals from `min` to `max`.

    Where both are equal, they are the extremes of the data.
    """
    array = input._array
    if array.dtype.kind not in "fV":
        kind = input.dtype.tensor_type.removesuffix("Tensor")
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{kind}'")
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if min == max and array.size:
        min, max = float(array.min()), float(array.max())
    if min == max:
        min, max = min - 1, max + 1
    if not (np.isfinite(min) and np.isfinite(max)):
        raise RuntimeError(f"range of [{min}, {max}] is not finite")
    if min > max:
        raise RuntimeError("torch.histc: max must be larger than min")
    xp = _backend(array)
    values = array.reshape(-1).astype("f8")
    values = values[(values >= min) & (values <= max)]
    spots = xp.minimum(((values - min) * (bins / (max - min))).astype(I8), bins - 1)
    return write_out(out, Tensor._make(xp.bincount(spots, minlength=bins).astype(array.dtype)))


# -- binary search -----------------------------------------------------------------------------------------------


def _search(xp, rows, values, side: str):
    if rows.ndim == 1:
        return xp.searchsorted(rows, values, side)
    flat_rows, flat = rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1])
    found = [xp.searchsorted(r, v, side) for r, v in zip(flat_rows, flat)]
    return xp.stack(found).reshape(values.shape) if found else xp.zeros(values.shape, I8)


@function("searchsorted")
def searchsorted(
    sorted_sequence, input, *, out_int32=False, right=False, side=None, out=None, sorter=None
):
    """Where each value would be inserted into the last dimension of `sorted_sequence` to keep it sorted.

    right (or side="right"): after equal elements instead of before them; sorter: indices that sort the sequence.
    """
    rows = sorted_sequence
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    _refuse(rows, "searchsorted_out_cpu", "cb")
    if sorter is not None:
        rows = rows.gather(-1, sorter)
    xp = _backend(rows._array)
    values = input._array if isinstance(input, Tensor) else xp.asarray(input)
    if rows._array.ndim > 1 and (
        values.ndim != rows._array.ndim or values.shape[:-1] != rows._array.shape[:-1]
    ):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {errors.size(rows.shape)} and "
            f"input value tensor {errors.size(values.shape)}"
        )
    found = _search(
        xp, xp.wide(rows._array), xp.wide(values), "right" if right or side == "right" else "left"
    )
    result = Tensor._make(xp.asarray(found).astype(I4 if out_int32 else I8))
    return write_out(out, result)


@function("bucketize", method=True)
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    """The number of the interval between sorted `boundaries` that each value is in."""
    if boundaries._array.ndim != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries._array.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


# -- non-zero elements -------------------------------------------------------------------------------------------

nonzero_op = declare(
    "nonzero", lambda xp, self: _nonzero(xp, self), nondifferentiable="indices",
    samples=lambda t: [(t(3, 4),), (t(),), (t(0, 2),)],
)  # fmt: skip


def _nonzero(xp, self):
    if not self.ndim:
        return xp.zeros((int(bool(self)), 0), I8)
    return xp.stack(xp.nonzero(self), 1).astype(I8, copy=False)


@function("nonzero", method=True)
def nonzero(input, *, out=None, as_tuple=False):
    """The indices of the elements that are not zero, one row each; as_tuple: one vector for each dimension."""
    if as_tuple:
        if not input._array.ndim:
            return unbind(nonzero_op.call(input.reshape(1)), 1)
        return unbind(nonzero_op.call(input), 1)
    return write_out(out, nonzero_op.call(input))


@function("argwhere", method=True)
def argwhere(input):
    """``nonzero``."""
    return nonzero_op.call(input)


@function("nonzero_static", method=True)
def nonzero_static(input, *, size, fill_value=-1):
    """The first `size` rows of ``nonzero``, filled up with `fill_value`."""
    found = nonzero_op.call(input)
    rows = found._array[:size]
    out = _backend(rows).full((size, rows.shape[1]), fill_value, I8)
    out[: rows.shape[0]] = rows
    return Tensor._make(out)


@function("unravel_index")
def unravel_index(indices, shape):
    """The coordinates, as a tuple of tensors, of flat positions in an array of `shape`."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    array = indices._array
    if array.dtype.kind not in "iu":
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    return tuple([Tensor._make(_backend(array).asarray(c)) for c in np.unravel_index(array, shape)])
