"""The scatter family: writing along one dimension at places given by an index tensor.

Everything is done on flat contiguous memory: `places` turns an index tensor into positions there.
"""

from __future__ import annotations

import math

import numpy as np

from ...op.declare import declare
from ...op.expose import function, method, write_same
from ...op.formulas import formula_function
from ...op.plain_numbers import is_number, plain_number
from ...op.writing import InPlace, on_copy
from ...tape import errors
from ...tape.arrays import backend_of
from ...tape.lazy import raw_values
from ...tape.modes import shared, state, unrecorded
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import refused, unsupported

ndarray = np.ndarray
UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}

# -- positions ---------------------------------------------------------------------------------------------------


def places(xp, index, shape: tuple, dim: int):
    """Positions in a flat contiguous array of `shape` that `index` along `dim` names."""
    if not shape:
        return index
    steps = [1] * len(shape)
    for d in range(len(shape) - 1, 0, -1):
        steps[d - 1] = steps[d] * shape[d]
    grid = None
    for d, n in enumerate(index.shape):
        if d != dim and n > 1:
            line = xp.arange(0, n * steps[d] or n, steps[d] or 1)
            line = line.reshape((n,) + (1,) * (index.ndim - d - 1)) if d + 1 < index.ndim else line
            grid = line if grid is None else grid + line
    spots = index if steps[dim] == 1 else index.astype("i8", copy=False) * steps[dim]
    return spots if grid is None else spots + grid


def _on_flat(xp, out, change) -> None:
    """Call ``change(flat)`` on the elements of `out` as contiguous memory, and keep what it does."""
    if out.flags.c_contiguous:
        change(out.reshape(-1))
        return
    dense = xp.ascontiguousarray(out)
    change(dense.reshape(-1))
    out[...] = dense


def _corner(array, shape):
    """The leading part of `array` that has `shape`."""
    return array if array.shape == shape else array[tuple([slice(n) for n in shape])]


@formula_function()
def padded(F, x, shape):
    """`x` with zeros behind it in every dimension, up to `shape`."""
    have = tuple(x.shape)
    if not shape and have:
        return F.reshape(x, ())
    for d, n in enumerate(shape):
        if have[d] != n:
            have = (*have[:d], n, *have[d + 1 :])
            x = F.slice_backward(x, have, d, 0, x.shape[d], 1)
    return x


def check_index(name: str, index: Tensor, n: int, dim: int, kind: type = RuntimeError) -> None:
    """Integer dtype and range of an index tensor (the range only in host memory)."""
    array = raw_values(index)
    if array.dtype.kind != "i" or array.dtype.itemsize < 4:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    refuse_outside(outside, array, n, dim, kind, OUTSIDE)


OUTSIDE = "index {index} is out of bounds for dimension {dim} with size {n}"


def refuse_outside(find, array, n: int, dim: int | None, kind: type, text: str) -> None:
    """Raise ``kind(text)`` with the index that `find`, one of the next two, finds; in each replay of a plan, too."""
    if (shared.active and state.capture is not None) or find(array, n) is not None:
        unrecorded(_refuse, find, array, n, dim, kind, text)


def _refuse(find, array, n: int, dim: int | None, kind: type, text: str) -> None:
    found = find(array, n)
    if found is not None:
        raise kind(text.format(index=found, dim=dim, n=n))


def outside(array, n: int):
    """An index in `array` that is not in [0, n), or None (also when looking would mean waiting for a device)."""
    if array.__class__ is not ndarray or not array.size:
        return None
    # as unsigned numbers negative ones are large: one pass finds both
    if int(np.maximum.reduce(array.view(UNSIGNED[array.itemsize]), None)) < n:
        return None
    low = int(array.min())
    return low if low < 0 else int(array.max())


def outside_either_way(array, n: int):
    """The same for [-n, n), where negative ones count from the end."""
    if array.__class__ is not ndarray or not array.size:
        return None
    low, high = int(array.min()), int(array.max())
    return low if low < -n else high if high >= n else None


# -- ops ---------------------------------------------------------------------------------------------------------


def sample_index(*shape, n=3):
    return Tensor._make((np.arange(math.prod(shape)) * 2 % n).reshape(shape))


def _scatter_into(xp, self, index, src, *, dim):
    spots = places(xp, index, self.shape, dim)

    def change(flat):
        flat[spots] = _corner(src, index.shape)

    _on_flat(xp, self, change)


def _scatter_value_into(xp, self, index, *, dim, value):
    spots = places(xp, index, self.shape, dim)

    def change(flat):
        flat[spots] = value

    _on_flat(xp, self, change)


def _scatter_add_into(xp, self, index, src, *, dim):
    spots = places(xp, index, self.shape, dim)
    _on_flat(xp, self, lambda flat: xp.add_flat(flat, spots, _corner(src, index.shape)))


def _scatter_samples(t):
    return [
        (t(3, 4), sample_index(2, 3), t(2, 3), 0), (t(3, 4), sample_index(3, 1), t(3, 2), 1),
        (t(), sample_index(n=1), t(), 0),
        (t(2, 3), sample_index(0, 3), t(0, 3), 0),
    ]  # fmt: skip


def _unique_samples(t):
    where = Tensor._make(np.array([[0, 2, 1], [1, 0, 2]]))
    return [
        (t(3, 4), where, t(2, 3), 0),
        (t(), sample_index(n=1), t(), 0),
        (t(2, 3), sample_index(0, 3), t(0, 3), 0),
    ]


scatter_op = declare(
    "scatter", on_copy(_scatter_into), promote="free", jvp="linear", complex=True, samples=_unique_samples,
    sharing="apart",
    self=lambda F, g, index, dim: F.scatter_value(g, index, dim, 0),
    src=lambda F, g, index, dim, src_shape: F.padded(F.gather(g, index, dim), src_shape),
    batch="same_rank",
    aten="(self, dim, index, src)",
)  # fmt: skip


scatter_value_op = declare(
    "scatter_value", on_copy(_scatter_value_into), public="scatter", promote="free", complex=True,
    node="ScatterBackward1",
    self=lambda F, g, index, dim: F.scatter_value(g, index, dim, 0),
    jvp=lambda F, self_t, index, dim: F.scatter_value(self_t, index, dim, 0),
    samples=lambda t: [(t(3, 4), sample_index(2, 3), 0, 2.0), (t(), sample_index(n=1), 0, 1.0),
        (t(2, 3), sample_index(0, 3), 0, 1.0)],
    batch="same_rank",
    aten="(self, dim, index, value)",
)  # fmt: skip
scatter_add_op = declare(
    "scatter_add", on_copy(_scatter_add_into),
    autocast="cuda:promote", promote="free", jvp="linear", complex=True, samples=_scatter_samples,
    sharing="apart", self=lambda g: g,
    src=lambda F, g, index, dim, src_shape: F.padded(F.gather(g, index, dim), src_shape),
    batch="same_rank",
    aten="(self, dim, index, src)",
)  # fmt: skip


# -- scatter_reduce ----------------------------------------------------------------------------------------------


def _identity(reduce: str, dtype):
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    if dtype.kind == "b":
        return reduce == "amin"
    return -math.inf if reduce == "amax" else math.inf


def _scatter_reduce_into(xp, self, index, src, *, dim, reduce, include_self):
    spots, src = places(xp, index, self.shape, dim), _corner(src, index.shape)
    half = self.dtype.itemsize == 2 and self.dtype.kind in "fV"

    def change(flat):
        if not include_self:
            flat[spots] = _identity(reduce, flat.dtype)
        if half and reduce != "sum":
            wide = xp.wide(flat)
            combine(wide, xp.wide(src))
            flat[...] = wide.astype(flat.dtype)
        else:
            combine(flat, src)

    def combine(flat, src):
        if reduce == "prod":
            xp.multiply.at(flat, spots, src)
        elif reduce == "amax":
            xp.maximum.at(flat, spots, src)
        elif reduce == "amin":
            xp.minimum.at(flat, spots, src)
        else:
            xp.add_flat(flat, spots, src)
        if reduce == "mean":
            count = xp.full(flat.shape, int(include_self), "i8")
            xp.add_flat(count, spots, xp.ones(spots.shape, "i8"))
            count = xp.maximum(count, 1)
            flat[...] = flat // count if flat.dtype.kind in "iu" else flat / count

    _on_flat(xp, self, change)


@formula_function()
def head(F, x, shape):
    """The leading part of `x` that has `shape`."""
    for d, n in enumerate(shape):
        if x.shape[d] != n:
            x = F.slice(x, d, 0, n, 1)
    return x


def _scatter_reduce_vjp(F, g, self, index, src, result, dim, reduce, include_self, needs):
    whole = tuple(src.shape)
    src = F.head(src, tuple(index.shape))
    if reduce == "sum":
        to_self, to_src = g, F.gather(g, index, dim)
    elif reduce == "mean":
        count = F.scatter_add(_ones(F, g, include_self), index, _ones(F, src), dim)
        share = g / (count + (count == 0))
        to_self, to_src = share, F.gather(share, index, dim)
    elif reduce == "prod":
        to_self, to_src = _prod_parts(F, g, self, index, src, result, dim, include_self)
    else:
        own = (self == result) * 1.0
        if not include_self:
            own = F.scatter_value(own, index, dim, 0)
        taken = (src == F.gather(result, index, dim)) * 1.0
        share = g / F.scatter_add(
            own, index, taken, dim
        )  # nan where the result is nan, which equals nothing
        to_self, to_src = share * own, F.gather(share, index, dim) * taken
    if not include_self:
        to_self = F.scatter_value(to_self, index, dim, 0)
    return to_self, None, F.padded(to_src, whole)


def _ones(F, like, on: bool = True):
    return F.zeros_like(like) + (1 if on else 0)


def _prod_parts(F, g, self, index, src, result, dim, include_self):
    """Products without one factor: divide by it, and where it is the only zero multiply the others anew."""
    empty = self == 0
    safe = F.where(empty, F.zeros_like(self) + 1, self)
    others = F.scatter_reduce(safe, index, src, dim, "prod", include_self)
    to_self = g * (others / safe).conjugate()
    zero = src == 0
    zeros = F.scatter_add(F.zeros_like(g), index, zero * 1.0 + F.zeros_like(src), dim)
    alone = zero & (F.gather(zeros, index, dim) == 1)
    filled = F.where(alone, F.zeros_like(src) + 1, src)
    around = F.gather(F.scatter_reduce(self, index, filled, dim, "prod", include_self), index, dim)
    divided = F.gather(result, index, dim) / F.where(zero, F.zeros_like(src) + 1, src)
    to_src = F.gather(g, index, dim) * F.where(alone, around, divided).conjugate()
    return to_self, to_src


def _reduce_samples(t):
    low = {"low": 0.5, "high": 2.0}
    return [
        (t(3, 4), sample_index(2, 3), t(2, 3), 0, kind, keep)
        for kind in ("sum", "mean", "amax", "amin") for keep in (True, False)
    ] + [
        (t(3, 4, **low), sample_index(3, 2), t(3, 2, **low), 1, "prod", True),
        (t(), sample_index(n=1), t(), 0, "sum", True), (t(2, 3), sample_index(0, 3), t(0, 3), 0, "sum", True),
    ]  # fmt: skip


scatter_reduce_op = declare(
    "scatter_reduce", on_copy(_scatter_reduce_into), promote="free", vjp=_scatter_reduce_vjp, samples=_reduce_samples,
    sharing="apart",
    batch="same_rank",
    aten="(self, dim, index, src, reduce, include_self)",
)  # fmt: skip


def _scatter_with_into(xp, self, index, src, *, dim, reduce):
    if reduce == "add":
        _scatter_add_into(xp, self, index, src, dim=dim)
    else:
        _scatter_reduce_into(xp, self, index, src, dim=dim, reduce="prod", include_self=True)


# ``scatter(reduce=)``: scatter_add and scatter_reduce are what is to be differentiated
scatter_with_op = declare(
    "scatter_with", on_copy(_scatter_with_into), promote="free", node="NotImplemented", complex=True, sharing="apart",
    self=refused("aten::scatter"), src=refused("aten::scatter"),
    samples=lambda t: [
        (t(3, 4, requires_grad=False), sample_index(2, 3), t(2, 3, requires_grad=False), 0, kind)
        for kind in ("add", "multiply")
    ],
)  # fmt: skip

# -- public ------------------------------------------------------------------------------------------------------


def nowhere(x: Tensor, shape: tuple) -> Tensor:
    """An empty index of an integer dtype."""
    return Tensor._make(backend_of(x._array).zeros(shape, np.int64))


def _check_scatter(
    name: str, x: Tensor, dim: int, index: Tensor, src: Tensor | None
) -> tuple[int, Tensor]:
    """(dim, index), checked."""
    if src is not None and not isinstance(src, Tensor):
        raise TypeError(
            f"{name}(): argument 'src' (position 3) must be Tensor, not {type(src).__name__}"
        )
    shape, have = x._array.shape, index._array.shape
    dim = wrap_dim(dim, len(shape))
    if src is not None and src._array.dtype != x._array.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if not index._array.size:
        return dim, nowhere(x, (0,) * len(shape))
    if max(len(shape), 1) != max(len(have), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    if src is not None and max(len(src._array.shape), 1) != max(len(have), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    wide = any([d != dim and n > m for d, (n, m) in enumerate(zip(have, shape))])
    room = have if src is None else src._array.shape
    wide_src = room != have and any([n > m for n, m in zip(have, room)])
    if wide or wide_src:
        raise RuntimeError(
            f"Expected index {errors.size(have)} to be no larger than self {errors.size(shape)} apart from dimension "
            f"{dim}"
            + (
                f" and to be no larger size than src {errors.size(src._array.shape)}"
                if src is not None
                else ""
            )
        )
    check_index(name, index, shape[dim] if shape else 1, dim)
    return dim, index


class _Into:
    """The in-place forms of the ops above."""

    scatter = InPlace(scatter_op, _scatter_into)
    value = InPlace(scatter_value_op, _scatter_value_into)
    add = InPlace(scatter_add_op, _scatter_add_into)
    reduce = InPlace(scatter_reduce_op, _scatter_reduce_into)
    combine = InPlace(scatter_with_op, _scatter_with_into)


def _scatter_plan(x: Tensor, dim: int, index: Tensor, src, reduce):
    """(op, in-place op, tensors, attributes) of a call of scatter."""
    if is_number(src):
        dim, index = _check_scatter("scatter", x, dim, index, None)
        if reduce is None:
            return scatter_value_op, _Into.value, (index,), (dim, plain_number(src, x.dtype))
        src = x.new_full(index._array.shape, src)
    dim, index = _check_scatter("scatter", x, dim, index, src)
    if reduce is None:
        return scatter_op, _Into.scatter, (index, src), (dim,)
    if reduce in ("add", "multiply"):
        return scatter_with_op, _Into.combine, (index, src), (dim, reduce)
    raise RuntimeError("reduce argument must be either add or multiply.")


@function("scatter", method=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None, out=None):
    """A copy of `input` with `src` at the places of `dim` that `index` names: ``out[index[i][j]][j] = src[i][j]``.

    Args:
        dim: the dimension.
        index: int32 or int64, as many dimensions as `input`, in no dimension longer than `src`, and than `input` only
            in `dim`.
        src: a tensor of the dtype of `input`, or a number, also under the name `value`. Of repeated places it is open
            which value stays.
        reduce: "add" or "multiply" combines with what is there instead; that has no derivative.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to `input` and `src`.

    Raises:
        RuntimeError: an index is out of range, or shapes or dtypes do not fit.
        IndexError: no such dimension.

    Example:
        >>> gradlib.scatter(gradlib.zeros(2, 2), 1, gradlib.tensor([[1], [0]]), gradlib.tensor([[7.0], [8.0]]))
        tensor([[0., 7.],
                [8., 0.]])
    """
    src = value if src is None else src
    op, _, others, attrs = _scatter_plan(input, dim, index, src, reduce)
    return write_same(out, op.call(input, *others, *attrs))


@method("scatter_")
def scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    """In-place version of ``scatter``."""
    src = value if src is None else src
    _, into, others, attrs = _scatter_plan(self, dim, index, src, reduce)
    return into(self, others, attrs)


@function("scatter_add", method=True)
def scatter_add(input, dim, index, src, *, out=None):
    """A copy of `input` with `src` added at the places of `dim` that `index` names, repeated ones included.

    Raises RuntimeError: an index is out of range, `index` is larger than `src`, dtypes differ.

    Example:
        >>> gradlib.scatter_add(gradlib.zeros(3), 0, gradlib.tensor([0, 0, 2]), gradlib.ones(3))
        tensor([2., 0., 1.])
    """
    dim, index = _check_scatter("scatter", input, dim, index, src)
    return write_same(out, scatter_add_op.call(input, index, src, dim))


@method("scatter_add_")
def scatter_add_(self, dim, index, src):
    """In-place version of ``scatter_add``."""
    dim, index = _check_scatter("scatter", self, dim, index, src)
    return _Into.add(self, (index, src), (dim,))


def _check_reduce(reduce: str, x: Tensor) -> str:
    kind = x._array.dtype.kind
    if (kind == "b" and reduce == "mean") or (kind == "c" and reduce in ("amax", "amin")):
        raise unsupported(f"scatter_gather_tensor_cpu_reduce_{reduce}", x)
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    return reduce


@function("scatter_reduce", method=True)
def scatter_reduce(input, dim, index, src, reduce, *, include_self=True, out=None):
    """A copy of `input` where all of `src` that `index` sends to one place are reduced into it.

    Args:
        dim: the dimension.
        index: int32 or int64, as many dimensions as `input`; not longer than `src`, and than `input` only in `dim`.
        src: a tensor of the dtype of `input`.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether what stands in `input` takes part.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`; gradients flow to `input` and `src`.

    Raises:
        RuntimeError: an index is out of range, another `reduce`, or shapes or dtypes that do not fit.
        IndexError: no such dimension.

    Example:
        >>> index, src = gradlib.tensor([0, 0, 1]), gradlib.tensor([1.0, 2.0, 4.0])
        >>> gradlib.scatter_reduce(gradlib.zeros(2), 0, index, src, "sum")
        tensor([3., 4.])
    """
    dim, index = _check_scatter("scatter_reduce", input, dim, index, src)
    attrs = (dim, _check_reduce(reduce, input), include_self)
    return write_same(out, scatter_reduce_op.call(input, index, src, *attrs))


@method("scatter_reduce_")
def scatter_reduce_(self, dim, index, src, reduce, *, include_self=True):
    """In-place version of ``scatter_reduce``."""
    dim, index = _check_scatter("scatter_reduce", self, dim, index, src)
    return _Into.reduce(self, (index, src), (dim, _check_reduce(reduce, self), include_self))
