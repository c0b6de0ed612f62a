"""Outer and Kronecker products, products of several matrices, tensordot, traces, diagonals and cross products."""

from __future__ import annotations

import math
import warnings

from ...op.declare import declare
from ...op.expose import PUBLIC, c_type, function, need_tensor, write_out, write_same
from ...tape import dtypes
from ...tape.errors import check_broadcast
from ...tape.tensor import Tensor, wrap_dim
from ..kinds import refuse, same_dtype, unsupported
from ..shape.reshape import dims_once
from .base import linalg
from .matmul import TENSORDOT_OUT, dot, mm

# -- outer and Kronecker products --------------------------------------------------------------------------------


@function("outer", "ger", method=True)
def outer(input, vec2, *, out=None):
    """All products of an element of `input` (n) and one of `vec2` (m): (n, m).

    Raises RuntimeError: not two vectors.

    Example:
        >>> gradlib.outer(gradlib.tensor([1, 2]), gradlib.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
    if not isinstance(vec2, Tensor):
        raise need_tensor("outer", vec2, "vec2", 2)
    for k, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {k}, but got {t.ndim}-D")
    return write_out(out, input.unsqueeze(1) * vec2)


@function("kron", method=True)
def kron(input, other, *, out=None):
    """The Kronecker product: every element of `input` times `other`, as blocks.

    Raises RuntimeError: the dtypes have no common one.

    Example:
        >>> gradlib.kron(gradlib.tensor([1, 2]), gradlib.tensor([1, 10]))
        tensor([ 1, 10,  2, 20])
    """
    for name, place, value in (("input", 1, input), ("other", 2, other)):
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise TypeError(
                f"kron(): argument '{name}' (position {place}) must be Tensor, not {kind}"
            )
    n = max(input.ndim, other.ndim)
    a = input.reshape((1,) * (n - input.ndim) + tuple(input.shape))
    b = other.reshape((1,) * (n - other.ndim) + tuple(other.shape))
    a, b = (
        x.reshape(tuple(s for m in x.shape for s in pair(m)))
        for x, pair in ((a, lambda m: (m, 1)), (b, lambda m: (1, m)))
    )
    result = a * b
    shape = result.shape
    return write_out(out, result.reshape(tuple(shape[2 * i] * shape[2 * i + 1] for i in range(n))))


# -- matmul and vecdot of torch.linalg ---------------------------------------------------------------------------


@linalg("matmul")
def matmul(input, other, *, out=None):
    """The matrix product: ``gradlib.matmul``, with its shapes and errors.

    Args:
        input, other: (..., n, k) and (..., k, m) of one dtype; the batches broadcast. Vectors count as a row and a
            column.
        out: written to instead of a new tensor.

    Returns:
        (..., n, m).

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.linalg.matmul(gradlib.tensor([[1.0, 2.0]]), gradlib.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    return PUBLIC["matmul"](input, other, out=out)


@linalg("vecdot")
def vecdot(x, y, *, dim=-1, out=None):
    """Dot products of vectors along a dimension, those of `x` conjugated.

    Args:
        x, y: tensors of one dtype whose shapes broadcast.
        dim: the dimension of the vectors.
        out: written to instead of a new tensor.

    Returns:
        A tensor without that dimension.

    Raises:
        RuntimeError: the shapes do not broadcast.
        IndexError: no such dimension.

    Example:
        >>> gradlib.linalg.vecdot(gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    kinds = [t.dtype.scalar_type for t in (x, y)]
    if x._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {kinds[0]}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {kinds[0]} and y of type "
            f"{kinds[1]} instead"
        )
    if x.ndim == 1 and y.ndim == 1:
        return PUBLIC["vdot"](x, y, out=out)
    return write_same(
        out,
        (x.conjugate() * y).sum(dim),
        "linalg.vecdot: Expected out of dtype{Want} but found {Got}",
    )


# -- several matrices --------------------------------------------------------------------------------------------


def chain_order(sizes: list[int]):
    """The cheapest order to multiply matrices of sizes[i] x sizes[i + 1]: split[i][j] of the product i..j."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


def _multiply_chain(matrices, split, i: int, j: int):
    if i == j:
        return matrices[i]
    k = split[i][j]
    return mm(_multiply_chain(matrices, split, i, k), _multiply_chain(matrices, split, k + 1, j))


def chain(matrices):
    """The product of matrices in the order that needs the fewest multiplications."""
    sizes = [matrices[0].shape[0], *(m.shape[1] for m in matrices)]
    return _multiply_chain(matrices, chain_order(sizes), 0, len(matrices) - 1)


@function("chain_matmul")
def chain_matmul(*matrices, out=None):
    """The product of several matrices, multiplied in the cheapest order; deprecated, as ``linalg.multi_dot`` does it.

    Args:
        matrices: one matrix or more, whose shapes fit.
        out: written to instead of a new tensor.

    Returns:
        A matrix.

    Raises:
        RuntimeError: the shapes do not fit, or a tensor is no matrix.
    """
    if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)):
        matrices = tuple(matrices[0])
    for m in matrices:
        if m.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {m.ndim}, expected 2 instead.")
    return write_out(out, matrices[0] if len(matrices) == 1 else chain(matrices))


def _check_chain(tensors: list) -> None:
    """RuntimeError unless the tensors are matrices (the outer ones perhaps vectors) that can be multiplied."""
    last = len(tensors) - 1
    for i, t in enumerate(tensors):
        if i in (0, last) and t.ndim not in (1, 2):
            which = "first" if i == 0 else "last"
            raise RuntimeError(
                f"multi_dot(): the {which} tensor must be 1D or 2D but got {t.ndim}D"
            )
        if 0 < i < last and t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{tensors[0].dtype.scalar_type.lower()} and tensor {i} {t.dtype.scalar_type.lower()}"
            )
        if i and tensors[i - 1].shape[-1] != t.shape[0]:
            before = (
                (1, *tensors[i - 1].shape) if tensors[i - 1].ndim == 1 else tensors[i - 1].shape
            )
            here = (*t.shape, 1) if t.ndim == 1 else t.shape
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(before)} and {list(here)} cannot be multiplied"
            )


@linalg("multi_dot")
def multi_dot(tensors, *, out=None):
    """The product of two or more matrices, multiplied in the cheapest order.

    Args:
        tensors: a sequence of matrices whose shapes fit; the first and the last may be vectors.
        out: written to instead of a new tensor.

    Returns:
        A matrix, a vector, or of two vectors at the ends a tensor without dimensions.

    Raises:
        RuntimeError: fewer than two, or shapes that do not fit.

    Example:
        >>> gradlib.linalg.multi_dot([gradlib.ones(1, 3), gradlib.ones(3, 2), gradlib.ones(2)])
        tensor([6.])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    _check_chain(tensors)
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    if out is not None and out.dtype is not tensors[0].dtype:
        raise RuntimeError(
            f"multi_dot(): expected out tensor to have dtype {c_type(tensors[0])} but got {c_type(out)}"
        )
    result = chain(tensors)
    if row:
        result = result.squeeze(0)
    return write_out(out, result.squeeze(-1) if column else result)


@function("tensordot")
def tensordot(a, b, dims=2, out=None):
    """Products summed over pairs of dimensions: the last `dims` of `a` with the first of `b`, or ``(of_a, of_b)``.

    Raises RuntimeError: the summed dimensions differ in length.

    Example:
        >>> gradlib.tensordot(gradlib.ones(2, 3), gradlib.ones(3, 4), 1).shape
        torch.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        of_a, of_b = list(range(-dims, 0)), list(range(dims))
    elif not isinstance(dims, (tuple, list)) or len(dims) != 2:
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    else:
        of_a, of_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if len(of_a) != len(of_b):
        raise RuntimeError("both dimension lists should have same length")
    for i, j in zip(of_a, of_b):
        n, m = a.shape[wrap_dim(i, a.ndim)], b.shape[wrap_dim(j, b.ndim)]
        if n != m and n != 1 and m != 1:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {i} and "
                f"second has size {m} in dim {j}"
            )
        if n != m:
            a, b = (
                (a.sum(i, True, dtype=a.dtype), b) if m == 1 else (a, b.sum(j, True, dtype=b.dtype))
            )
    of_a, of_b = list(dims_once(of_a, a.ndim)), list(dims_once(of_b, b.ndim))
    free_a = [i for i in range(a.ndim) if i not in of_a]
    free_b = [j for j in range(b.ndim) if j not in of_b]
    inner = math.prod(a.shape[i] for i in of_a)
    shape = [a.shape[i] for i in free_a] + [b.shape[j] for j in free_b]
    left = a.permute((*free_a, *of_a)).reshape((math.prod(a.shape[i] for i in free_a), inner))
    right = b.permute((*of_b, *free_b)).reshape((inner, math.prod(b.shape[j] for j in free_b)))
    product = mm(left, right) if shape else dot(left.reshape(-1), right.reshape(-1))
    return write_same(out, product.reshape(shape), TENSORDOT_OUT)


# -- trace, diagonal, cross product ------------------------------------------------------------------------------


@function("trace", method=True)
def trace(input):
    """The sum of the main diagonal of a matrix.

    Args:
        input: a matrix (n, m).

    Returns:
        A tensor without dimensions, int64 of integers.

    Raises:
        RuntimeError: no matrix.

    Example:
        >>> gradlib.trace(gradlib.tensor([[1, 2], [3, 4]]))
        tensor(5)
    """
    if input.ndim != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(input.ndim))
    return trace_op.call(input)


def _trace(xp, self):
    refuse("trace", self, "b")
    diagonal = xp.wide(self.diagonal())
    d = self.dtype
    return xp.add.reduce(diagonal, None, dtypes.int64.np if d.kind in "iub" else None).astype(
        dtypes.int64.np if d.kind in "iub" else d
    )


trace_op = declare(
    "trace", _trace, autocast="cpu:float32", jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.scaled_eye(g, tuple(self_shape)),
    samples=lambda t: [(t(3, 3),), (t(2, 4),), (t(0, 0),)],
)  # fmt: skip
scaled_eye_op = declare(
    "scaled_eye", lambda xp, self, *, shape: xp.where(xp.eye(*shape, dtype=bool), self, xp.zeros((), self.dtype)),
    jvp="linear", complex=True, self=lambda F, g: F.trace(g), samples=lambda t: [(t(), (3, 3)), (t(), (2, 4))],
)  # fmt: skip


@linalg("diagonal")
def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """A diagonal of matrices, by default of the last two dimensions: ``gradlib.diagonal`` with other defaults.

    Args:
        A: a tensor of at least two dimensions.
        offset: which diagonal: 0 the main one, above it positive, below it negative.
        dim1, dim2: the two dimensions that it lies in.

    Returns:
        A view with the diagonal as its last dimension.

    Raises:
        RuntimeError: twice the same dimension.
        IndexError: no such dimension.

    Example:
        >>> gradlib.linalg.diagonal(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return PUBLIC["diagonal"](A, offset, dim1, dim2)


def _cross(xp, self, other, *, dim):
    a, b = xp.moveaxis(self, dim, 0), xp.moveaxis(other, dim, 0)
    out = xp.empty((3, *xp.broadcast_shapes(a.shape[1:], b.shape[1:])), self.dtype)
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        out[i] = a[j] * b[k] - a[k] * b[j]
    return xp.moveaxis(out, 0, dim)


cross_op = declare(
    "linalg_cross", _cross,
    autocast="cuda:promote", row_major=True, jvp="multilinear", complex=True,
    self=lambda F, g, other, self_shape, dim: F.sum_to_size(F.linalg_cross(other.conjugate(), g, dim), self_shape),
    other=lambda F, g, self, other_shape, dim: F.sum_to_size(F.linalg_cross(g, self.conjugate(), dim), other_shape),
    samples=lambda t: [(t(2, 3), t(2, 3), 1), (t(3, 2), t(3, 1), 0), (t(0, 3), t(0, 3), 1)],
)  # fmt: skip


@linalg("cross")
def linalg_cross(input, other, *, dim=-1, out=None):
    """The cross product of vectors of 3 elements along a dimension.

    Args:
        input, other: tensors of as many dimensions whose shapes broadcast, of length 3 there.
        dim: the dimension of the vectors.
        out: written to instead of a new tensor.

    Returns:
        A tensor of the shape that both broadcast to and of their common dtype.

    Raises:
        RuntimeError: another length there, or shapes that do not broadcast.
        IndexError: no such dimension.

    Example:
        >>> gradlib.linalg.cross(gradlib.tensor([1.0, 0.0, 0.0]), gradlib.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = wrap_dim(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    same_dtype(input, other)
    if input.dtype is dtypes.bool_:
        raise unsupported("cross", dtypes.bool_)
    check_broadcast(input._array.shape, other._array.shape)
    result = cross_op.call(input, other, d)
    return write_same(out, result, row_major=True)


@function("cross", method=True)
def cross(input, other, dim=None, *, axis=None, out=None):
    """``linalg.cross``; without `dim`, along the first dimension of length 3.

    Raises RuntimeError: the length is not 3, or the shapes do not broadcast.

    Example:
        >>> gradlib.cross(gradlib.tensor([1.0, 0.0, 0.0]), gradlib.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    dim = dim if axis is None else axis
    if dim is None:
        warnings.warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross "
            "in a future release.",
            stacklevel=2,
        )
        dim = next((i for i, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=dim, out=out)
