"""Products of vectors and matrices: matmul and its special cases."""

from __future__ import annotations

import math

from numpy import ndarray

from ...op import costs
from ...op.declare import declare
from ...op.expose import c_type, function, method, write_out, write_same
from ...op.formulas import formula_function
from ...tape import dtypes
from ...tape.errors import check_broadcast, size
from ...tape.modes import AUTOCAST, shared, state
from ...tape.tensor import Tensor
from ..kinds import narrow, unsupported

F4, F8 = dtypes.float32.np, dtypes.float64.np


# -- kernels -----------------------------------------------------------------------------------------------------


def product(xp, a, b):
    """``a @ b``: rows of a stack times one matrix are one matrix product; half types are multiplied in float32."""
    d = a.dtype
    if (
        a.__class__ is not ndarray and d.kind != "b"
    ):  # on a device half types are multiplied as they are
        return xp.matmul(a, b)
    if d is not F4 and d is not F8:
        if d.kind in "fV" and d.itemsize == 2:
            return narrow(product(xp, xp.wide(a), xp.wide(b)), d)
        if d.kind == "b" and a.size and b.size:
            raise _no_bool(a, b)
    if b.ndim <= 2:
        if a.ndim <= 2:
            return a.dot(b)
        return rows_of(a).dot(b).reshape(a.shape[:-1] + b.shape[1:])
    return xp.matmul(a, b)


def rows_of(a):
    """A stack of matrices as one matrix, also where some size is 0."""
    n = a.shape[-1]
    return a.reshape(-1, n) if n else a.reshape(math.prod(a.shape[:-1]), 0)


def _no_bool(a, b) -> NotImplementedError:
    """The error for a product of truth values, under the name of what would compute it."""
    name = (
        "dot"
        if a.ndim == b.ndim == 1
        else "addmv_impl_cpu"
        if b.ndim == 1
        else "bmm"
        if a.ndim == b.ndim == 3
        else "addmm_impl_cpu_"
    )
    return unsupported(name, dtypes.bool_)


def rows_product(xp, a, b):
    """``a^T @ b`` summed over all leading dimensions: (..., n), (..., m) -> (n, m)."""
    d = a.dtype
    if a.__class__ is not ndarray:
        return xp.matmul(rows_of(a).T, rows_of(b))
    if d.itemsize == 2 and d.kind in "fV":
        return narrow(rows_product(xp, xp.wide(a), xp.wide(b)), d)
    if a.ndim != 2:
        a, b = rows_of(a), rows_of(b)
    return a.T.dot(b)


# -- formulas ----------------------------------------------------------------------------------------------------


@formula_function()
def mT(F, x):
    """The last two dimensions swapped."""
    return x.T if x.ndim == 2 else F.transpose(x, x.ndim - 2, x.ndim - 1)


@formula_function()
def conj_of(F, x):
    """`x` conjugated; a real array as it is, of which NumPy makes a copy where it is of a half type."""
    return x if x.__class__ is ndarray and x.dtype.kind != "c" else x.conjugate()


@formula_function()
def mH(F, x):
    """The last two dimensions swapped, conjugated."""
    return F.mT(F.conj_of(x))


@formula_function()
def column(F, x):
    """`x` with a last dimension of size 1."""
    return F.unsqueeze(x, x.ndim) if hasattr(x, "_array") else x[..., None]


def _matmul_self(F, g, other, self_shape):
    if other.ndim == 1:
        return (F.column(g) if len(self_shape) > 1 else g) * F.conj_of(other)
    if len(self_shape) == 1:
        if other.ndim == 2:
            return F.mv(F.conj_of(other), g)
        stack = F.matmul(F.conj_of(other), F.column(g))
        return F.sum_to_size(F.squeeze(stack, (stack.ndim - 1,)), self_shape)
    return F.sum_to_size(F.matmul(g, F.mH(other)), self_shape)


def _matmul_other(F, g, self, other_shape):
    if len(other_shape) == 1:
        if self.ndim == 1:
            return g * F.conj_of(self)
        return F.squeeze(F.rows_product(F.conj_of(self), F.column(g)), (1,))
    if self.ndim == 1:
        if g.ndim == 1:
            return F.column(F.conj_of(self)) * g
        return F.sum_to_size(F.column(F.conj_of(self)) * F.unsqueeze(g, g.ndim - 1), other_shape)
    if len(other_shape) == 2:
        return F.rows_product(F.conj_of(self), g)
    return F.sum_to_size(F.matmul(F.mH(self), g), other_shape)


def _product_name(self, other) -> str:
    if other.ndim == 1:
        return "dot" if self.ndim == 1 else "mv"
    return "bmm" if self.ndim > 2 and other.ndim > 2 else "mm"


matmul_op = declare(
    "matmul", lambda xp, self, other: product(xp, self, other),
    flops=costs.product, autocast="lower", promote="none", jvp="multilinear", complex=True,
    self=_matmul_self, other=_matmul_other, node="UnsafeViewBackward0", known_as=_product_name,
    samples=lambda t: [
        (t(3, 4), t(4, 2)), (t(2, 3, 4), t(4, 2)), (t(2, 3, 4), t(2, 4, 2)), (t(3, 4), t(2, 4, 2)), (t(4), t(4)),
        (t(2, 3, 4), t(4)), (t(4), t(2, 4, 3)), (t(2, 1, 3, 4), t(5, 4, 2)), (t(3, 0), t(0, 2)), (t(0, 3), t(3, 2)),
    ],
    batch="matmul",
)  # fmt: skip
rows_product_op = declare(
    "rows_product", lambda xp, self, other: rows_product(xp, self, other), flops=costs.product, public="mm",
    promote="none", jvp="multilinear",
    complex=True, node="MmBackward0",
    self=lambda F, g, other: F.matmul(other.conjugate(), g.T),
    other=lambda F, g, self: F.matmul(self.conjugate(), g),
    samples=lambda t: [(t(3, 4), t(3, 2)), (t(2, 3, 4), t(2, 3, 2))],
    batch="rows_product",
)  # fmt: skip
mm_op = declare(
    "mm", lambda xp, self, mat2: product(xp, self, mat2),
    flops=costs.product, autocast="lower", promote="none", jvp="multilinear", complex=True,
    self=lambda F, g, mat2: F.mm(g, F.conj_of(mat2.T)),
    mat2=lambda F, g, self: F.mm(F.conj_of(self.T), g),
    samples=lambda t: [(t(3, 4), t(4, 2)), (t(3, 0), t(0, 2)), (t(0, 3), t(3, 2))],
    batch="matmul",
)  # fmt: skip
bmm_op = declare(
    "bmm", lambda xp, self, mat2: product(xp, self, mat2),
    flops=costs.product, autocast="lower", promote="none", jvp="multilinear", complex=True,
    self=lambda F, g, mat2: F.bmm(g, F.mH(mat2)),
    mat2=lambda F, g, self: F.bmm(F.mH(self), g),
    samples=lambda t: [(t(2, 3, 4), t(2, 4, 2)), (t(0, 3, 4), t(0, 4, 2)), (t(2, 3, 0), t(2, 0, 2))],
    batch="matmul",
)  # fmt: skip
mv_op = declare(
    "mv", lambda xp, self, vec: product(xp, self, vec),
    flops=costs.product, autocast="cuda:lower", promote="none", jvp="multilinear", complex=True,
    self=lambda F, g, vec: F.column(g) * vec.conjugate(),
    vec=lambda F, g, self: F.mv(self.T.conjugate(), g),
    samples=lambda t: [(t(3, 4), t(4)), (t(3, 0), t(0))],
    batch="matmul",
)  # fmt: skip
dot_op = declare(
    "dot", lambda xp, self, tensor: product(xp, self, tensor),
    flops=costs.product, autocast="cuda:promote", promote="none", jvp="multilinear", complex=True,
    self=lambda g, tensor: g * tensor.conjugate(),
    tensor=lambda g, self: g * self.conjugate(),
    samples=lambda t: [(t(4), t(4)), (t(0), t(0))],
    batch="matmul",
)  # fmt: skip


vdot_op = declare(
    "vdot", lambda xp, self, other: product(xp, self.conj(), other),
    flops=costs.product, autocast="cuda:promote", promote="none", jvp="multilinear", complex=True,
    self=lambda g, other: g.conjugate() * other,
    other=lambda g, self: g * self,
    samples=lambda t: [(t(4), t(4)), (t(0), t(0))],
    batch="vdot",
)  # fmt: skip


# -- public functions --------------------------------------------------------------------------------------------


def _both(name: str, a, b, second: str) -> None:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        which, bad = ("input", a) if not isinstance(a, Tensor) else (second, b)
        place = 1 if bad is a else 2
        raise TypeError(
            f"{name}(): argument '{which}' (position {place}) must be Tensor, not {type(bad).__name__}"
        )


TENSORDOT_OUT = "tensordot: Expected the output tensor to have dtype {Want}, but got an output tensor with dtype {Got}"


def same_types(op, a: Tensor, b: Tensor) -> None:
    """RuntimeError if the dtypes of two matrices differ and nobody is going to cast them."""
    if a._array.dtype != b._array.dtype and not state.bits & AUTOCAST:
        if op is bmm_op or (a.ndim > 2 and b.ndim > 2):
            raise RuntimeError(
                f"expected scalar type {a.dtype.scalar_type} but found {b.dtype.scalar_type}"
            )
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {c_type(a)} != {c_type(b)}"
        )


def check_inner(a: tuple, b: tuple) -> None:
    """RuntimeError unless matrices of shapes `a` and `b` can be multiplied."""
    if a[1] != b[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})"
        )


def shape_mv(a: tuple, b: tuple) -> tuple[int]:
    """The shape of the product of a matrix and a vector; RuntimeError for shapes that do not fit."""
    if len(a) != 2 or len(b) != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {len(a)}, {len(b)}")
    if a[1] != b[0]:
        raise RuntimeError(f"size mismatch, got input ({a[0]}), mat ({a[0]}x{a[1]}), vec ({b[0]})")
    return (a[0],)


@function("matmul", method=True)
def matmul(input, other, *, out=None):
    """The matrix product: of vectors a dot product, of stacks of matrices a stack.

    Args:
        input: (..., n, k); a vector is a row.
        other: (..., k, m), of the same dtype; a vector is a column. The batch dimensions broadcast.
        out: written to instead of a new tensor.

    Returns:
        (..., n, m), without the dimension of a vector.

    Raises:
        RuntimeError: the shapes do not fit, or the dtypes differ.

    Example:
        >>> gradlib.matmul(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    try:
        x, y = input._array, other._array
        a, b = x.shape, y.shape
    except AttributeError:
        _both("matmul", input, other, "other")
        raise
    n, m = len(a), len(b)
    if not n or not m:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D"
        )
    if n == 2 and m == 2:
        check_inner(a, b)
        if x.dtype is not y.dtype:
            same_types(mm_op, input, other)
        result = mm_op.call(input, other)
    elif m == 2 and a[-1] == b[0] and x.dtype is y.dtype:
        result = matmul_op.call(input, other)
    elif m == 1:
        result = (
            _stacked(input, other)
            if n > 2 or (shared.active and state.bits & AUTOCAST)
            else dot(input, other)
            if n == 1
            else mv(input, other)
        )
    else:
        result = _stacked(input, other)
    return result if out is None else write_same(out, result, row_major=True)


def _stacked(input, other):
    """matmul with batch dimensions."""
    a, b = input._array.shape, other._array.shape
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        if len(b) > 2 and (len(a) > 2 or len(a) == 1):
            batch = math.prod(a[:-2] or b[:-2])
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a[-1]}] but got: "
                f"[{math.prod(b[:-2])}, {inner}]."
            )
        rows = math.prod(a[:-1])
        if len(b) == 1:
            raise RuntimeError(
                f"size mismatch, got input ({rows}), mat ({rows}x{a[-1]}), vec ({inner})"
            )
        check_inner((rows, a[-1]), (inner, b[-1]))
    if len(a) > 2 and len(b) > 2 and a[:-2] != b[:-2]:
        check_broadcast((*a[:-2], 1, 1), (*b[:-2], 1, 1))
    same_types(matmul_op, input, other)
    return matmul_op.call(input, other)


@function("mm", method=True)
def mm(input, mat2, *, out=None):
    """The product of two matrices: (n, k) times (k, m) gives (n, m).

    Raises RuntimeError: not two matrices, inner lengths or dtypes differ.

    Example:
        >>> gradlib.mm(gradlib.tensor([[1.0, 2.0]]), gradlib.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    try:
        a, b = input._array.shape, mat2._array.shape
    except AttributeError:
        _both("mm", input, mat2, "mat2")
        raise
    if len(a) != 2 or len(b) != 2:
        which = "self" if len(a) != 2 else "mat2"
        raise RuntimeError(f"{which} must be a matrix")
    check_inner(a, b)
    if input._array.dtype is not mat2._array.dtype:
        same_types(mm_op, input, mat2)
    result = mm_op.call(input, mat2)
    return result if out is None else write_same(out, result, row_major=True)


@function("bmm", method=True)
def bmm(input, mat2, *, out=None, out_dtype=None):
    """The products of two equally long lists of matrices: (b, n, k) times (b, k, m) gives (b, n, m).

    Raises RuntimeError: not three dimensions each, lengths or dtypes differ.

    Example:
        >>> gradlib.bmm(gradlib.ones(2, 1, 3), gradlib.ones(2, 3, 1)).shape
        torch.Size([2, 1, 1])
    """
    try:
        check_batches(input, mat2)
    except AttributeError:
        _both("bmm", input, mat2, "mat2")
        raise
    if input._array.dtype is not mat2._array.dtype:
        same_types(bmm_op, input, mat2)
    result = bmm_op.call(input, mat2)
    return result if out is None else write_same(out, result, row_major=True)


def check_batches(batch1, batch2) -> None:
    """RuntimeError unless two tensors are lists of matrices that can be multiplied one by one."""
    a, b = batch1._array.shape, batch2._array.shape
    if len(a) != 3 or len(b) != 3:
        raise RuntimeError(f"batch{1 if len(a) != 3 else 2} must be a 3D tensor")
    if b[0] != a[0] or b[1] != a[2]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: [{b[0]}, "
            f"{b[1]}]."
        )


@function("mv", method=True)
def mv(input, vec, *, out=None):
    """The product of a matrix (n, m) and a vector (m): (n).

    Raises RuntimeError: not a matrix and a vector, lengths or dtypes differ.

    Example:
        >>> gradlib.mv(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.ones(2))
        tensor([3., 7.])
    """
    try:
        a, b = input._array.shape, vec._array.shape
    except AttributeError:
        _both("mv", input, vec, "vec")
        raise
    shape_mv(a, b)
    if (
        input._array.dtype is not vec._array.dtype
        and input._array.dtype != vec._array.dtype
        and not state.bits & AUTOCAST
    ):
        v = vec.dtype.scalar_type
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {v}, {input.dtype.scalar_type}, and {v}"
        )
    result = mv_op.call(input, vec)
    return result if out is None else write_same(out, result, row_major=True)


def _vectors(name: str, a, b, second: str) -> None:
    try:
        x, y = a._array, b._array
    except AttributeError:
        _both(name, a, b, second)
        raise
    if x.ndim != 1 or y.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")
    if x.dtype != y.dtype and not state.bits & AUTOCAST:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {a.dtype.scalar_type} and {b.dtype.scalar_type}"
        )
    if x.shape != y.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {size(x.shape)} and src {size(y.shape)} to have the same "
            "number "
            f"of elements, but got {x.size} and {y.size} elements respectively"
        )


@function("dot", method=True)
def dot(input, tensor, *, out=None):
    """The sum of products of two vectors of the same length (complex: nothing is conjugated).

    Raises RuntimeError: not two vectors, lengths or dtypes differ.

    Example:
        >>> gradlib.dot(gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    _vectors("dot", input, tensor, "tensor")
    result = dot_op.call(input, tensor)
    return result if out is None else write_same(out, result, row_major=True)


@function("vdot", method=True)
def vdot(input, other, *, out=None):
    """The sum of products of two vectors, the first one conjugated.

    Args:
        input, other: vectors of one length and dtype.
        out: written to instead of a new tensor.

    Returns:
        A tensor without dimensions.

    Raises:
        RuntimeError: no vectors, or other lengths or dtypes.

    Example:
        >>> gradlib.vdot(gradlib.tensor([1j, 1.0]), gradlib.tensor([1j, 2.0]))
        tensor(3.+0.j)
    """
    _vectors("vdot", input, other, "other")
    result = vdot_op.call(input, other)
    return result if out is None else write_same(out, result, row_major=True)


@function("inner", method=True)
def inner(input, other, *, out=None):
    """Products summed over the last dimension of both; tensors without dimensions just multiply.

    Args:
        input, other: (..., k) and (***, k) of one dtype.
        out: written to instead of a new tensor.

    Returns:
        A tensor (..., ***).

    Raises:
        RuntimeError: the last lengths or the dtypes differ.

    Example:
        >>> gradlib.inner(gradlib.tensor([1.0, 2.0]), gradlib.tensor([[3.0, 4.0], [5.0, 6.0]]))
        tensor([11., 17.])
    """
    _both("inner", input, other, "other")
    a, b = input._array.shape, other._array.shape
    if not a or not b:
        return write_out(out, input * other)
    if a[-1] != b[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {size(a)} and {size(b)}"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if len(a) == 1 and len(b) == 1:
        return write_same(out, dot(input, other), TENSORDOT_OUT)
    rows, columns = (
        input.reshape((math.prod(a[:-1]), a[-1])),
        other.reshape((math.prod(b[:-1]), b[-1])),
    )
    return write_same(out, mm(rows, columns.t()).reshape(a[:-1] + b[:-1]), TENSORDOT_OUT)


@method("__matmul__")
def _matmul_operator(self, other):
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


@method("__rmatmul__")
def _matmul_reflected(self, other):
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented
