"""Extrema: max, min, amax, amin, aminmax, argmax, argmin. Where elements tie, full reductions share the gradient."""

from __future__ import annotations

from ... import return_types
from ...op.declare import declare
from ...op.expose import function, write_out, write_same
from ...op.formulas import formula_function
from ...tape import dtypes
from ...tape.tensor import Tensor, wrap_dim
from ..elementwise.clamp import maximum, minimum
from .sums import count, dims_of, kept

# -- one element along a dimension -------------------------------------------------------------------------------


def grid(xp, indices, dim: int) -> tuple:
    """An index that picks ``x[..., indices[...], ...]`` along `dim`; `indices` has the rank of x."""
    shape = indices.shape
    ones = (1,) * len(shape)
    index = [xp.arange(n).reshape((*ones[:i], n, *ones[i + 1 :])) for i, n in enumerate(shape)]
    index[dim] = indices
    return tuple(index)


def _take_one(xp, self, indices, *, dim, keepdim):
    if not self.ndim:
        return self.copy()
    if dim == self.ndim - 1 and self.size and self.flags.c_contiguous:
        rows = xp.arange(0, self.size, self.shape[dim])
        return self.reshape(-1).take(indices.reshape(-1) + rows).reshape(indices.shape)
    index = indices if keepdim else xp.expand_dims(indices, dim)
    out = self[grid(xp, index, dim)]
    return out if keepdim else out.reshape(indices.shape)


def _put_one(xp, self, indices, *, shape, dim, keepdim):
    if not shape:
        return self.copy()
    out = xp.zeros(shape, self.dtype)
    if not keepdim:
        self, indices = xp.expand_dims(self, dim), xp.expand_dims(indices, dim)
    out[grid(xp, indices, dim)] = self
    return out


def index_samples(t):
    """A tensor, indices along a dimension of it, the dimension and keepdim."""

    def index(*shape, n):
        return t(*shape, low=0, high=n, dtype=dtypes.int64)

    return [
        (t(3, 4), index(3, n=4), 1, False), (t(2, 3, 4), index(2, 1, 4, n=3), 1, True), (t(), index(n=1), 0, False),
    ]  # fmt: skip


def taken(name: str, kernel=_take_one, samples=index_samples, **spec):
    """Declare an op that takes one element along `dim`, the one that `indices` says."""
    return declare(
        name, kernel, promote="free", complex=True, row_major=True,
        self=lambda F, g, indices, self_shape, dim, keepdim: F.put_one(g, indices, tuple(self_shape), dim, keepdim),
        jvp=lambda F, self_t, indices, dim, keepdim: F.take_one(self_t, indices, dim, keepdim), samples=samples,
        batch="with_positions", **spec,
    )  # fmt: skip


take_one = taken("take_one", node="IndexSelectBackward0")
put_one = declare(
    "put_one", _put_one, promote="free", complex=True,
    self=lambda F, g, indices, dim, keepdim: F.take_one(g, indices, dim, keepdim),
    jvp="linear",
    samples=lambda t: [(t(3), t(3, low=0, high=4, dtype=dtypes.int64), (3, 4), 1, False)],
    batch="with_positions",
)  # fmt: skip


# -- full extrema and amax, amin ---------------------------------------------------------------------------------


def _even_share(xp, self, like, *, dim):
    total = xp.add.reduce(
        self, dim or None, like.dtype if like.dtype.kind == "f" else None, None, True
    )
    return xp.true_divide(self, total).astype(like.dtype)


# a mask over its number of true elements, in the dtype of `like`: what each of the tied elements gets
even_share = declare(
    "even_share", _even_share, promote="free", nondifferentiable="it shares by a mask, which is a constant",
    samples=lambda t: [
        (t(3, 4, low=0, high=2, dtype=dtypes.bool_), t(3), (1,)), (t(3, low=1, dtype=dtypes.bool_), t(), ()),
    ],
    batch="even_share",
)  # fmt: skip


@formula_function()
def share_ties(F, g, self, result, dim, keepdim):
    """The gradient of an extremum: equal shares for all elements equal to the result."""
    shape = self.shape
    mask = self == F.keep_dims(result, shape, dim, keepdim)
    if dim is None:  # a full extremum that is nan comes from the nans
        mask, dim = mask | (self != self) & (result != result), ()
    return F.keep_dims(g, shape, dim, keepdim) * F.even_share(mask, g, dim)


def _share_jvp(F, self, self_t, result, dim, keepdim):
    mask = self == F.keep_dims(result, self.shape, dim, keepdim)
    if dim is None:
        mask, dim = mask | (self != self) & (result != result), ()
    return F.sum(self_t * F.even_share(mask, self_t, dim), dim, keepdim)


def _empty(name: str, shape, dim: tuple) -> Exception:
    if not dim:
        return RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )
    d = next((d for d in dim if not shape[d]), dim[0])
    return IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _extremum(method: str, name: str):
    def forward(xp, self, *, dim, keepdim):
        if not self.size and not count(self.shape, dim):
            raise _empty(name, self.shape, dim)
        return getattr(self, method)(dim or None, None, keepdim)

    return forward


def _full_extremum(name: str):
    def forward(xp, self):
        if not self.size:
            raise _empty(name, (), ())
        return getattr(self, name)()

    return forward


_SAMPLES = lambda t: [
    (t(3, 4), (1,), False),
    (t(2, 3, 4), (0, 2), True),
    (t(), (), False),
    (t(0, 3), (1,), False),
]
amax_op, amin_op = (
    declare(
        name, _extremum(method, name), row_major=True, jvp=_share_jvp, samples=_SAMPLES, complex=False,
        batch="same_rank", in_float32="whole",
        self=lambda F, g, self, result, dim, keepdim: F.share_ties(g, self, result, dim, keepdim),
    )
    for name, method in (("amax", "max"), ("amin", "min"))
)  # fmt: skip
max_all, min_all = (
    declare(
        name + "_all", _full_extremum(name), public=name, batch=name + "_all",
        node=name.capitalize() + "Backward1", samples=lambda t: [(t(3, 4),), (t(),)],
        self=lambda F, g, self, result: F.share_ties(g, self, result, None, False), complex=False, in_float32="whole",
        jvp=lambda F, self, self_t, result: _share_jvp(F, self, self_t, result, None, False),
    )
    for name in ("max", "min")
)  # fmt: skip


_OTHER_DTYPE = (
    "Expected the dtype for input and out to match, but got {Want} for input's dtype and {Got} for "
    "out's dtype."
)


def _amax(op, input, dim, keepdim, out, axis, keepdims):
    dims = dims_of(dim if axis is None else axis, input._array.ndim)
    return write_same(out, op.call(input, dims, keepdim or keepdims), _OTHER_DTYPE)


@function("amax", method=True)
def amax(input, dim=(), keepdim=False, *, out=None, axis=None, keepdims=False):
    """The largest element over dimensions; equally large ones share the gradient.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension or a tuple of them, all if empty; also under the name `axis`.
        keepdim: whether the dimensions that are gone stay with length one; also under the name `keepdims`.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`; nan where there is one.

    Raises:
        IndexError: no such dimension, or nothing to choose from.
        RuntimeError: a dimension is named twice.

    Example:
        >>> gradlib.amax(gradlib.tensor([[3, 1], [2, 4]]), 1)
        tensor([3, 4])
    """
    return _amax(amax_op, input, dim, keepdim, out, axis, keepdims)


@function("amin", method=True)
def amin(input, dim=(), keepdim=False, *, out=None, axis=None, keepdims=False):
    """The smallest element over dimensions; equally small ones share the gradient.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension or a tuple of them, all if empty; also under the name `axis`.
        keepdim: whether the dimensions that are gone stay with length one; also under the name `keepdims`.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the dtype of `input`; nan where there is one.

    Raises:
        IndexError: no such dimension, or nothing to choose from.
        RuntimeError: a dimension is named twice.

    Example:
        >>> gradlib.amin(gradlib.tensor([[3, 1], [2, 4]]), 1)
        tensor([1, 2])
    """
    return _amax(amin_op, input, dim, keepdim, out, axis, keepdims)


def _aminmax(xp, self, *, dim, keepdim):
    pair = [
        xp.asarray(_extremum(m, "aminmax")(xp, self, dim=dim, keepdim=keepdim))
        for m in ("min", "max")
    ]
    return tuple([a if a.flags.c_contiguous else xp.ascontiguousarray(a) for a in pair])


def _aminmax_self(F, gs, self, result0, result1, dim, keepdim):
    total = None
    for g, result in zip(gs, (result0, result1)):
        if g is not None:
            part = F.share_ties(g, self, result, dim, keepdim)
            total = part if total is None else total + part
    return total


aminmax_op = declare(
    "aminmax",
    _aminmax,
    n_out=2,
    self=_aminmax_self,
    samples=_SAMPLES,
    complex=False,
    batch="same_rank",
)


@function("aminmax", method=True)
def aminmax(input, *, dim=None, keepdim=False, out=None, axis=None, keepdims=False):
    """The smallest and the largest element over one dimension, or over all.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension; all if None; also under the name `axis`.
        keepdim: whether the dimension that is gone stays with length one; also under the name `keepdims`.
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (min, max) of tensors of the dtype of `input`.

    Raises:
        IndexError: no such dimension, or nothing to choose from in it.
        RuntimeError: there are no elements at all.

    Example:
        >>> gradlib.aminmax(gradlib.tensor([3, 1, 2]))
        torch.return_types.aminmax(
        min=tensor(1),
        max=tensor(3))
    """
    dim = axis if dim is None else dim
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"aminmax(): argument 'dim' must be int, not {type(dim).__name__}")
    pair = aminmax_op.call(input, dims_of(dim, input._array.ndim), keepdim or keepdims)
    return write_same(out, return_types.aminmax(*pair))


# -- indices -----------------------------------------------------------------------------------------------------


def _arg(method: str):
    def forward(xp, self, *, dim, keepdim):
        if not self.size:
            if dim is None:
                raise IndexError(
                    f"{method}(): Expected reduction dim to be specified for input.numel() == 0."
                )
            if not self.shape[dim]:
                raise IndexError(f"{method}(): Expected reduction dim {dim} to have non-zero size.")
        out = getattr(self, method)(dim)
        return out if not keepdim else out.reshape(kept(self.shape, () if dim is None else (dim,)))

    return forward


argmax_op, argmin_op = (
    declare(
        name,
        _arg(name),
        row_major=True,
        nondifferentiable="integer",
        batch="same_rank",
        samples=lambda t: [(t(3, 4), 1, False), (t(3, 4), None, True), (t(), None, False)],
    )
    for name in ("argmax", "argmin")
)


def _check_order(name: str, input: Tensor) -> None:
    """RuntimeError for elements without an order that an index could be found by."""
    kind = input._array.dtype.kind
    if kind in "bc":
        raise RuntimeError(
            f"{name}(): does not support {'bool' if kind == 'b' else 'complex'} input"
        )


def _index(op, input, dim, keepdim, out):
    _check_order(op.name, input)
    if dim is not None:
        dim = wrap_dim(dim, input.ndim)
        if not input.ndim:
            dim = None
    result = op.call(input, dim, keepdim)
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(
            f"Expected out tensor to have dtype long int, but got {out.dtype.name} instead"
        )
    return write_out(out, result) if out is not None else result


@function("argmax", method=True)
def argmax(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """The index (int64) of the first largest element: in the flattened tensor, or along `dim`.

    Raises IndexError: no such dimension, or one without entries.

    Example:
        >>> gradlib.argmax(gradlib.tensor([3.0, 5.0, 4.0]))
        tensor(1)
    """
    return _index(argmax_op, input, dim if axis is None else axis, keepdim or keepdims, out)


@function("argmin", method=True)
def argmin(input, dim=None, keepdim=False, *, out=None, axis=None, keepdims=False):
    """The index (int64) of the first smallest element: in the flattened tensor, or along `dim`.

    Raises IndexError: no such dimension, or one without entries.

    Example:
        >>> gradlib.argmin(gradlib.tensor([3.0, 5.0, 1.0]))
        tensor(2)
    """
    return _index(argmin_op, input, dim if axis is None else axis, keepdim or keepdims, out)


# -- max and min with indices ------------------------------------------------------------------------------------


def _values(method: str):
    def forward(xp, self, indices, *, dim, keepdim):
        return getattr(self, method)(dim, None, keepdim) if self.ndim else self.copy()

    return forward


def _extremum_samples(op):
    def samples(t):
        x, y = t(3, 4), t(2, 3, 4)
        return [
            (x, op.call(x, 1, False), 1, False),
            (y, op.call(y, 0, True), 0, True),
            (t(), op.call(t(), None, False), 0, False),
        ]

    return samples


max_dim = taken("max", _values("max"), _extremum_samples(argmax_op), node="MaxBackward0")
min_dim = taken("min", _values("min"), _extremum_samples(argmin_op), node="MinBackward0")


def _not_a_tensor(name: str, *args) -> TypeError:
    given = ", ".join(type(a).__name__ for a in args)
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({given}), but expected one of:\n"
        " * (Tensor input, *, Tensor out = None)\n * (Tensor input, Tensor other, *, Tensor out = None)\n"
        " * (Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None)"
    )


def _along(op, arg_op, result_type, input, dim, keepdim, out):
    if input._array.dtype.kind == "c":
        _check_order(op.name, input)
    d = wrap_dim(dim, input._array.ndim)
    if input._array.ndim and not input._array.shape[d]:
        raise IndexError(f"{op.name}(): Expected reduction dim {d} to have non-zero size.")
    indices = arg_op.call(input, d if input._array.ndim else None, keepdim)
    result = result_type(op.call(input, indices, d, keepdim), indices)
    return write_same(out, result) if out is not None else result


def _max_or_min(how: tuple, input, dim, keepdim, other, out, axis):
    """max or min, by the ops (of all elements, of two tensors, along a dimension, of the indices along it)."""
    of_all, of_two, along, arg_op = how
    if dim is None:
        if other is None and axis is None:
            return of_all.call(input) if out is None else write_out(out, of_all.call(input))
        dim = axis if other is None else other
    if isinstance(dim, Tensor):
        return of_two.call(input, dim, out=out)
    if not isinstance(input, Tensor):
        raise _not_a_tensor(along.name, input, dim)
    return _along(along, arg_op, getattr(return_types, along.name), input, dim, keepdim, out)


@function("max", method=True)
def max(input, dim=None, keepdim=False, *, other=None, out=None, axis=None, keepdims=False):
    """The largest element of all, or along a dimension, or of two tensors.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension, also under the name `axis`; all elements if None. With a tensor: ``maximum(input, other)``.
        keepdim: whether the dimension that is gone stays with length one; also under the name `keepdims`.
        other: a tensor, by keyword.
        out: written to instead of a new tensor.

    Returns:
        A tensor without dimensions, whose gradient equal elements share; with `dim` a named tuple (values, indices).

    Raises:
        IndexError: no such dimension, or nothing to choose from in it.
        RuntimeError: there are no elements at all.

    Example:
        >>> gradlib.max(gradlib.tensor([3, 1, 2])), gradlib.max(gradlib.tensor([[3, 1], [2, 4]]), 1).values
        (tensor(3), tensor([3, 4]))
    """
    how = (max_all, maximum, max_dim, argmax_op)
    return _max_or_min(how, input, dim, keepdims or keepdim, other, out, axis)


@function("min", method=True)
def min(input, dim=None, keepdim=False, *, other=None, out=None, axis=None, keepdims=False):
    """The smallest element of all, or along a dimension, or of two tensors.

    Args:
        input: a tensor of a real dtype.
        dim: a dimension, also under the name `axis`; all elements if None. With a tensor: ``minimum(input, other)``.
        keepdim: whether the dimension that is gone stays with length one; also under the name `keepdims`.
        other: a tensor, by keyword.
        out: written to instead of a new tensor.

    Returns:
        A tensor without dimensions, whose gradient equal elements share; with `dim` a named tuple (values, indices).

    Raises:
        IndexError: no such dimension, or nothing to choose from in it.
        RuntimeError: there are no elements at all.

    Example:
        >>> gradlib.min(gradlib.tensor([3, 1, 2])), gradlib.min(gradlib.tensor([[3, 1], [2, 4]]), 1).values
        (tensor(1), tensor([1, 2]))
    """
    how = (min_all, minimum, min_dim, argmin_op)
    return _max_or_min(how, input, dim, keepdims or keepdim, other, out, axis)
