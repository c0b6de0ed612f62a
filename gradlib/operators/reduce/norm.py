"""Vector norms and distances: vector_norm, dist, cdist, pdist, renorm, cosine similarity, pairwise distance."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ...op.declare import declare
from ...op.expose import PUBLIC, function, method, need_tensor, write_out, write_same
from ...op.formulas import formula_function
from ...op.plain_numbers import python_number
from ...tape import dtypes
from ...tape.arrays import backend_of
from ...tape.errors import check_broadcast
from ...tape.modes import AUTOCAST, made_of_numbers, state
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import named, narrow, same_dtype, unsupported
from .sums import count, dims_of, kept

# -- the vector norm ---------------------------------------------------------------------------------------------


def _vector_norm(xp, self, *, ord, dim, keepdim):
    wide = xp.wide(self)
    axis = dim or None
    if ord == 2:
        if axis is None and not keepdim and wide.dtype.kind == "f" and wide.flags.c_contiguous:
            flat = wide.reshape(-1)
            out = xp.sqrt(xp.sum_of_squares(flat))
        else:
            square = (
                wide * wide
                if wide.dtype.kind == "f"
                else wide.real * wide.real + wide.imag * wide.imag
            )
            out = xp.sqrt(xp.add_up(square, dim, keepdim))
    elif ord in (math.inf, -math.inf):
        size = xp.absolute(wide)
        if not size.size and not count(self.shape, dim):
            if ord < 0:
                raise RuntimeError(
                    "linalg.vector_norm of an empty tensor has no identity for order -inf"
                )
            return xp.zeros(
                kept(self.shape, dim)
                if keepdim
                else [n for i, n in enumerate(self.shape) if dim and i not in dim],
                size.dtype,
            ).astype(self.dtype if self.dtype.kind != "c" else size.dtype)
        out = (size.max if ord > 0 else size.min)(axis, None, keepdim)
    elif ord == 0:
        out = xp.add.reduce(wide != 0, axis, wide.real.dtype, None, keepdim)
    elif ord == 1:
        out = xp.add_up(xp.absolute(wide), dim, keepdim)
    else:
        out = xp.add_up(xp.absolute(wide) ** ord, dim, keepdim) ** (1.0 / ord)
    return out if wide is self else narrow(out, self.dtype)


@formula_function()
def norm_gradient(F, g, self, result, ord, dim, keepdim):
    """The gradient of a vector norm: the one of least size (0 at 0) where the norm is not differentiable."""
    if ord == 0:
        return None
    shape = self.shape
    g, norm = F.keep_dims(g, shape, dim, keepdim), F.keep_dims(result, shape, dim, keepdim)
    if ord == 1:
        return F.sgn(self) * g
    if ord == 2:
        zero = norm == 0
        safe = F.where(zero, 1, norm)
        if (
            self.dtype.itemsize == 2
        ):  # whose range g / norm leaves where a small vector is normalised
            return F.where(zero, 0, g) * (self / safe)
        return self * F.where(zero, 0, g / safe)
    size = F.abs(self)
    if ord in (math.inf, -math.inf):
        return F.sgn(self) * (g * F.even_share((size == norm) | F.isnan(size), g, dim))
    none = (size == 0) | (norm == 0)
    ratio = F.where(none, 1, size) / F.where(norm == 0, 1, norm)
    return F.sgn(self) * F.where(none, 0, F.pow_number(ratio, ord - 1) * g)


vector_norm_op = declare(
    "vector_norm", _vector_norm, autocast="cuda:float32", public="linalg_vector_norm",
    row_major=True, node="LinalgVectorNormBackward0", complex=True,
    # as `vjp`, since that may be None
    vjp=lambda F, g, self, result, ord, dim, keepdim: (F.norm_gradient(g, self, result, ord, dim, keepdim),),
    samples=lambda t: [
        (t(3, 4), 2, (), False), (t(3, 4), 2, (1,), True), (t(3, 4), 1, (0,), False), (t(2, 3, 2), 3, (0, 2), False),
        (t(3, 4), 0.5, (1,), False), (t(3, 4), math.inf, (1,), False), (t(), 2, (), False), (t(0, 3), 2, (1,), False),
    ],
    batch="same_rank",
)  # fmt: skip


def narrowing(name: str, have: dtypes.dtype, want: dtypes.dtype) -> RuntimeError:
    """The error for a dtype `want` that does not hold all numbers of the dtype `have`."""
    return RuntimeError(
        f"{name}: the dtype of the input ({have.scalar_type}) should be convertible without narrowing to "
        f"the specified dtype ({want.scalar_type})"
    )


def _check_norm_dtypes(input, dtype, out) -> None:
    """TypeError or RuntimeError for an input, a dtype or a result that a norm cannot be computed in."""
    if not isinstance(input, Tensor):
        raise need_tensor("linalg_vector_norm", input)
    have, want = input.dtype.to_real(), (dtype or input.dtype).to_real()
    if have.category == dtypes.FLOATING and dtypes.promote(have, want) is not want:
        raise narrowing("linalg.vector_norm", input.dtype, dtype or input.dtype)
    if out is not None and out.dtype is not want:
        raise RuntimeError(
            f"linalg.vector_norm expected out tensor dtype {want.name} but got: {out.dtype.name}"
        )


def vector_norm(input, ord: float = 2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of order `ord` (a number, inf or -inf) of vectors along `dim`; all elements are one vector by default.

    The gradient at 0 is 0; ties of inf norms share it. Complex input gives a real result.
    Raises RuntimeError for integer input.
    """
    _check_norm_dtypes(input, dtype, out)
    x = input if dtype is None else input.to(dtype)
    if input._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{input.dtype.scalar_type}"
        )
    if ord.__class__ is not int and ord.__class__ is not float:
        ord = python_number(ord, "linalg_vector_norm(): argument 'ord'")
    dims = dims_of(dim, x.ndim)
    if not x._array.size and (ord < 0 or ord == math.inf) and not count(x._array.shape, dims):
        if not dims:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not "
                "have an identity"
            )
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on the dimension {dims[0]} because this dimension is "
            "empty and the operation does not have an identity"
        )
    result = vector_norm_op.call(x, ord, dims, keepdim)
    return result if out is None else write_out(out, result)


# -- distances ---------------------------------------------------------------------------------------------------


@function("dist", method=True)
def dist(input, other, p=2):
    """The norm of order `p` of ``input - other``, of all elements as one vector.

    Args:
        input, other: floating tensors whose shapes broadcast.
        p: a number, inf included.

    Returns:
        A tensor without dimensions.

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> gradlib.dist(gradlib.tensor([1.0, 1.0]), gradlib.tensor([4.0, 5.0]))
        tensor(5.)
    """
    if not isinstance(input, Tensor):
        raise need_tensor("dist", input)
    if not isinstance(other, Tensor):
        raise need_tensor("dist", other, "other", 2)
    return vector_norm(input - other, p)


_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


def _check_cdist(x1, x2, compute_mode: str) -> None:
    """Errors for dtypes that cdist does not take, for batches that do not broadcast, and for an unknown mode."""
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for k, x in enumerate((x1, x2)):
        if not x.is_floating_point():
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, X{k + 1} got: {named(x)}"
            )
        if x._array.dtype.itemsize == 2 and not state.bits & AUTOCAST:
            raise unsupported("cdist", x)
    if not state.bits & AUTOCAST:
        same_dtype(x1, x2)
    check_broadcast(x1._array.shape[:-2], x2._array.shape[:-2])


@function("cdist")
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The distances in the p-norm of all pairs of rows.

    Args:
        x1, x2: (..., n, d) and (..., m, d), floating; the batches broadcast.
        p: a number, 0 or more, inf included.
        compute_mode: whether the 2-norm may be computed by a matrix product: "use_mm_for_euclid_dist_if_necessary",
            "use_mm_for_euclid_dist" or "donot_use_mm_for_euclid_dist".

    Returns:
        (..., n, m). The gradient where two rows are equal is 0.

    Raises:
        RuntimeError: the last lengths differ, or p is negative.

    Example:
        >>> gradlib.cdist(gradlib.tensor([[0.0, 0.0]]), gradlib.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2:
        bad, k = (x1, "X1") if x1.ndim < 2 else (x2, "X2")
        raise RuntimeError(f"cdist only supports at least 2D tensors, {k} got: {bad.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    p = python_number(p, "cdist(): argument 'p'")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    _check_cdist(x1, x2, compute_mode)
    return cdist_op.call(x1, x2, float(p))


def _rows(xp, x1, x2, p):
    """Blocks of rows of x1, so that the differences to x2 stay within about a million elements."""
    per_row = max(
        1, math.prod(x2.shape[-2:]) * math.prod(xp.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]))
    )
    return max(1, (1 << 20) // per_row)


def _cdist(xp, x1, x2, *, p):
    wide1, wide2 = xp.wide(x1), xp.wide(x2)
    n, d = x1.shape[-2:]
    if p == 2 and (n > 25 or x2.shape[-2] > 25) and d:
        out = _euclidean(xp, wide1, wide2)
    else:
        step = _rows(xp, x1, x2, p)
        parts = [
            _vector_norm(xp, wide1[..., i : i + step, None, :] - wide2[..., None, :, :], ord=p, dim=(-1,),
            keepdim=False)
            if d else xp.zeros((*xp.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), min(step, n - i), x2.shape[-2]),
            wide1.dtype)
            for i in range(0, max(n, 1), step)
        ]  # fmt: skip
        out = parts[0] if len(parts) == 1 else xp.concatenate(parts, -2)
    return out.astype(x1.dtype) if wide1 is not x1 else out


def _euclidean(xp, x1, x2):
    """Distances by a matrix product, with the mean taken out first so that less cancels."""
    centre = x2.mean(axis=-2, keepdims=True)
    centre = centre.reshape(-1, centre.shape[-1]).mean(axis=0)
    x1, x2 = x1 - centre, x2 - centre
    square = xp.matmul(x1, xp.swapaxes(x2, -1, -2))
    square *= -2.0
    square += xp.add.reduce(x1 * x1, -1, None, None, True)
    square += xp.swapaxes(xp.add.reduce(x2 * x2, -1, None, None, True), -1, -2)
    return xp.sqrt(xp.maximum(square, 0.0, out=square), out=square)


@formula_function()
def cdist_gradient(F, g, x1, x2, result, p):
    """The gradient of cdist with respect to x1; for p = 2 as matrix products, no array of differences."""
    shape = x1.shape
    if p == 2:
        zero = result == 0
        weight = F.where(zero, 0, g / F.where(zero, 1, result))
        total = F.sum(weight, (weight.ndim - 1,), True)
        return F.sum_to_size(total * x1 - F.matmul(weight, x2), shape)
    if p == 0:
        return F.zeros_like(x1)
    n = g.ndim
    difference = F.unsqueeze(x1, x1.ndim - 1) - F.unsqueeze(x2, x2.ndim - 2)
    part = F.norm_gradient(g, difference, result, p, (n,), False)
    return F.sum_to_size(F.sum(part, (n - 1,), False), shape)


cdist_op = declare(
    "cdist", _cdist, autocast="float32", promote="none",
    x1=lambda F, g, x1, x2, result, p: F.cdist_gradient(g, x1, x2, result, p),
    x2=lambda F, g, x1, x2, result, p: F.cdist_gradient(F.mT(g), x2, x1, F.mT(result), p),
    samples=lambda t: [
        (t(3, 4), t(2, 4), 2.0), (t(2, 3, 4), t(2, 2, 4), 1.0), (t(2, 1, 3, 2), t(4, 2, 2), 3.0), (t(3, 4), t(2, 4),
        math.inf),
        (t(30, 2), t(3, 2), 2.0), (t(0, 4), t(2, 4), 2.0),
    ],
)  # fmt: skip


def pdist(input, p=2.0):
    """The distances in the p-norm of all pairs of rows, each pair once.

    Args:
        input: a floating matrix (n, d).
        p: a number, 0 or more, inf included.

    Returns:
        A vector of ``n * (n - 1) / 2`` distances, of rows (0, 1), (0, 2), ..., (1, 2), ...

    Raises:
        RuntimeError: no matrix, or a negative p.

    Example:
        >>> gradlib.pdist(gradlib.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
        tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    places = [backend_of(input._array).table(i) for i in _pairs(n)]
    first, second = (input[made_of_numbers(Tensor._make(i))] for i in places)
    distances = vector_norm(first - second, p, 1)
    if p == 0 and input._rg:  # counts have gradient zero, not none
        distances = distances + (first - second).nan_to_num(0.0, 0.0, 0.0).sum(1) * 0.0
    return distances


@lru_cache(8)
def _pairs(n: int) -> tuple[np.ndarray, ...]:
    """Which two of `n` rows each distance is of."""
    return np.triu_indices(n, 1)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension: distances of rows at the same place.

    Args:
        x1, x2: tensors (..., d) whose shapes broadcast.
        p: the order of the norm.
        eps: keeps the gradient finite where the rows are equal.
        keepdim: whether the last dimension stays with length one.

    Returns:
        A tensor (...).

    Raises:
        RuntimeError: the shapes do not broadcast.

    Example:
        >>> gradlib.pairwise_distance(gradlib.tensor([[3.0, 4.0]]), gradlib.zeros(1, 2))
        tensor([5.0000])
    """
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors.

    Args:
        x1, x2: floating tensors whose shapes broadcast; one of them may be of integers.
        dim: the dimension of the vectors.
        eps: what smaller norms count as.

    Returns:
        A tensor without that dimension.

    Raises:
        RuntimeError: the shapes do not broadcast.
        IndexError: no such dimension.

    Example:
        >>> gradlib.cosine_similarity(gradlib.tensor([[1.0, 0.0]]), gradlib.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """
    common = dtypes.promote(x1.dtype, x2.dtype)
    if common.category != dtypes.FLOATING:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common.scalar_type}"
        )
    if x1.shape != x2.shape:
        x1, x2 = PUBLIC["broadcast_tensors"](x1, x2)
    x1, x2 = x1.to(common), x2.to(common)
    d = wrap_dim(dim, x1.ndim) - x1.ndim
    n1, n2 = (vector_norm(x, 2, d, True).clamp_min(eps) for x in (x1, x2))
    return ((x1 / n1) * (x2 / n2)).sum(d)


@function("renorm", method=True)
def renorm(input, p, dim, maxnorm, *, out=None):
    """A copy of `input` with each slice along `dim` scaled down until its p-norm is at most `maxnorm`.

    Args:
        input: a floating or complex tensor of two dimensions or more.
        p: the order of the norm, positive.
        dim: the dimension whose entries are the slices.
        maxnorm: the bound, 0 or more; slices below it stay as they are.
        out: written to instead of a new tensor.

    Returns:
        A tensor like `input`.

    Raises:
        RuntimeError: fewer than two dimensions, `p` not positive, or a negative bound.

    Example:
        >>> gradlib.renorm(gradlib.tensor([[3.0, 4.0], [0.5, 0.0]]), 2, 0, 1.0)
        tensor([[0.6000, 0.8000],
                [0.5000, 0.0000]])
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    for name, number in (("p", p), ("maxnorm", maxnorm)):
        if isinstance(number, complex):
            raise RuntimeError(f"renorm: {name} must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    d = wrap_dim(dim, input.ndim)
    rest = tuple(i for i in range(input.ndim) if i != d)
    wide = input.float() if input.dtype.itemsize == 2 else input  # a norm may leave their range
    long = vector_norm(wide.detach(), p, rest, True) > maxnorm
    # slices that stay as they are have no part in it: the gradient of their norms may be nan
    norms = vector_norm(wide.where(long, 1.0), p, rest, True)
    scale = (maxnorm / (norms + 1e-7)).where(long, 1.0)
    return write_same(out, (wide * scale).to(input.dtype))


@method("renorm_")
def renorm_(self, p, dim, maxnorm):
    """In-place version of ``renorm``."""
    return self.copy_(renorm(self.clone(), p, dim, maxnorm))


for _fn in (cosine_similarity, pairwise_distance, pdist):
    function(_fn.__name__)(_fn)
