"""Products added to a tensor (addmm and its relatives), outer products, and products of several tensors."""

from __future__ import annotations

import math

from ..core import dtypes
from ..core.errors import broadcast, size
from ..core.formulas import formula_function
from ..core.inplace import inplace
from ..core.op import Op, declare
from ..core.tensor import Tensor, wrap_dim
from .expose import function, method, write_out
from .matmul import check_batches, mm, product

# -- beta * input + alpha * (a product) --------------------------------------------------------------------------


def _sum_of_products(xp, a, b):
    """Batches (b, n, k) and (b, k, m) to the sum (n, m) of their products, as one matrix product."""
    n, m = a.shape[1], b.shape[2]
    return product(xp, a.transpose(1, 0, 2).reshape(n, -1), b.reshape(-1, m))


def _plus(xp, self, out, beta, alpha):
    """``beta * self + alpha * out``, written into `out`; with beta 0 nothing of self counts, not even nan."""
    if alpha != 1:
        out *= alpha
    if beta == 1:
        out += self
    elif beta != 0:
        out += self * beta
    return out


@formula_function()
def times(F, g, number):
    """g times the conjugate of a number, g itself for 1."""
    return g if number == 1 else g * number.conjugate()


def _self(F, g, self_shape, beta):
    return F.sum_to_size(F.times(g, beta), self_shape)


addmm_op = declare(
    "addmm", lambda xp, self, mat1, mat2, *, beta, alpha: _plus(xp, self, product(xp, mat1, mat2), beta, alpha),
    promote="none", complex=True, self=_self,
    mat1=lambda F, g, mat2, alpha: F.times(F.mm(g, F.mH(mat2)), alpha),
    mat2=lambda F, g, mat1, alpha: F.times(F.mm(F.mH(mat1), g), alpha),
    samples=lambda t: [(t(3, 2), t(3, 4), t(4, 2), 1, 1), (t(2), t(3, 4), t(4, 2), 0.5, 2.0), (t(), t(3, 0), t(0, 2),
    2.0, 1)],
)  # fmt: skip
addmv_op = declare(
    "addmv", lambda xp, self, mat, vec, *, beta, alpha: _plus(xp, self, product(xp, mat, vec), beta, alpha),
    promote="none", complex=True, self=_self,
    mat=lambda F, g, vec, alpha: F.times(F.unsqueeze(g, 1) * vec.conjugate(), alpha),
    vec=lambda F, g, mat, alpha: F.times(F.mv(F.mH(mat), g), alpha),
    samples=lambda t: [(t(3), t(3, 4), t(4), 1, 1), (t(1), t(3, 4), t(4), 0.5, 2.0)],
)  # fmt: skip
addr_op = declare(
    "addr", lambda xp, self, vec1, vec2, *, beta, alpha: _plus(xp, self, vec1[:, None] * vec2, beta, alpha),
    promote="none", complex=True, self=_self,
    vec1=lambda F, g, vec2, alpha: F.times(F.mv(g, vec2.conjugate()), alpha),
    vec2=lambda F, g, vec1, alpha: F.times(F.mv(g.T, vec1.conjugate()), alpha),
    samples=lambda t: [(t(3, 2), t(3), t(2), 1, 1), (t(2), t(3), t(2), 0.5, 2.0)],
)  # fmt: skip
addbmm_op = declare(
    "addbmm", lambda xp, self, batch1, batch2, *, beta, alpha: _plus(xp, self, _sum_of_products(xp, batch1, batch2),
    beta, alpha),
    promote="none", complex=True, self=_self,
    batch1=lambda F, g, batch2, alpha: F.times(F.matmul(g, F.mH(batch2)), alpha),
    batch2=lambda F, g, batch1, alpha: F.times(F.matmul(F.mH(batch1), g), alpha),
    samples=lambda t: [(t(3, 2), t(2, 3, 4), t(2, 4, 2), 1, 1), (t(2), t(2, 3, 4), t(2, 4, 2), 0.5, 2.0)],
)  # fmt: skip
baddbmm_op = declare(
    "baddbmm", lambda xp, self, batch1, batch2, *, beta, alpha: _plus(xp, self, product(xp, batch1, batch2),
    beta, alpha),
    promote="none", complex=True, self=_self,
    batch1=lambda F, g, batch2, alpha: F.times(F.bmm(g, F.mH(batch2)), alpha),
    batch2=lambda F, g, batch1, alpha: F.times(F.bmm(F.mH(batch1), g), alpha),
    samples=lambda t: [(t(2, 3, 2), t(2, 3, 4), t(2, 4, 2), 1, 1), (t(3, 1), t(2, 3, 4), t(2, 4, 2), 0.5, 2.0)],
)  # fmt: skip


def _whole_numbers(op: Op, input: Tensor, beta, alpha):
    """Factors of integer tensors: addr refuses fractions, the others cut them off."""
    if input.dtype.category >= dtypes.FLOATING:
        return beta, alpha
    if op is addr_op:
        which = "beta" if isinstance(beta, float) else "alpha"
        raise RuntimeError(
            f"For integral input tensors, argument {which} must not be a floating point number."
        )
    return int(beta), int(alpha)


def _check_fits(input: Tensor, shape: tuple) -> None:
    """RuntimeError unless `input` can be expanded to `shape`."""
    have = input._array.shape
    if have == shape:
        return
    pairs = zip(reversed(have), reversed(shape))
    if len(have) > len(shape) or any(n not in (1, m) for n, m in pairs):
        if len(have) > len(shape):
            raise RuntimeError(
                f"expand(torch.{input.dtype.tensor_type}{{{size(have)}}}, size={list(shape)}): the number of sizes "
                f"provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor "
                f"({len(have)})"
            )
        at = next(i for i in range(1, len(have) + 1) if have[-i] not in (1, shape[-i]))
        raise RuntimeError(
            f"The expanded size of the tensor ({shape[-at]}) must match the existing size ({have[-at]}) at "
            "non-singleton "
            f"dimension {len(shape) - at}.  Target sizes: {size(shape)}.  Tensor sizes: {size(have)}"
        )


def _shape_mm(a: Tensor, b: Tensor) -> tuple:
    x, y = a._array.shape, b._array.shape
    if len(x) != 2 or len(y) != 2:
        which, bad = ("mat1", x) if len(x) != 2 else ("mat2", y)
        raise RuntimeError(f"{which} must be a matrix, got {len(bad)}-D tensor")
    if x[1] != y[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({x[0]}x{x[1]} and {y[0]}x{y[1]})"
        )
    return (x[0], y[1])


def _shape_mv(a: Tensor, b: Tensor) -> tuple:
    x, y = a._array.shape, b._array.shape
    if len(x) != 2 or len(y) != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {len(x)}, {len(y)}")
    if x[1] != y[0]:
        raise RuntimeError(f"size mismatch, got input ({x[0]}), mat ({x[0]}x{x[1]}), vec ({y[0]})")
    return (x[0],)


def _shape_addr(a: Tensor, b: Tensor) -> tuple:
    for k, t in (("vec1", a), ("vec2", b)):
        if t._array.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {k}, but got {t._array.ndim}-D")
    return (a._array.shape[0], b._array.shape[0])


def _shape_addbmm(a: Tensor, b: Tensor) -> tuple:
    check_batches(a, b)
    return (a._array.shape[1], b._array.shape[2])


def _shape_baddbmm(a: Tensor, b: Tensor) -> tuple:
    check_batches(a, b)
    return (a._array.shape[0], a._array.shape[1], b._array.shape[2])


def _product_shape(op: Op, shape_of, input, a, b) -> tuple:
    """The shape of the product; TypeError or RuntimeError for arguments that do not fit."""
    try:
        return shape_of(a, b)
    except AttributeError:
        for t, name in zip((input, a, b), ("input", *op.tensors[1:])):
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"{op.name}(): argument '{name}' must be Tensor, not {type(t).__name__}"
                ) from None
        raise


def _add(op: Op, shape_of, input, a, b, beta, alpha, out):
    shape = _product_shape(op, shape_of, input, a, b)
    if beta.__class__ is float or alpha.__class__ is float:
        beta, alpha = _whole_numbers(op, input, beta, alpha)
    if input._array.shape != shape:
        _check_fits(input, shape)
    result = op.call(input, a, b, beta, alpha)
    return result if out is None else write_out(out, result)


def _add_inplace(op: Op, shape_of, self, a, b, beta, alpha):
    shape = _product_shape(op, shape_of, self, a, b)
    beta, alpha = (
        _whole_numbers(op, self, beta, alpha) if isinstance(beta * alpha, float) else (beta, alpha)
    )
    if self._array.shape != shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {size(self._array.shape)} and output tensor "
            f"size {size(shape)} should match"
        )
    return inplace(op, self, (a, b), (beta, alpha))


@function("addmm", method=True)
def addmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat1 @ mat2)``; `input` is broadcast, and ignored with beta 0."""
    return _add(addmm_op, _shape_mm, input, mat1, mat2, beta, alpha, out)


@method("addmm_")
def addmm_(self, mat1, mat2, *, beta=1, alpha=1):
    """In-place version of ``addmm``."""
    return _add_inplace(addmm_op, _shape_mm, self, mat1, mat2, beta, alpha)


@function("addmv", method=True)
def addmv(input, mat, vec, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (mat @ vec)``; `input` is broadcast, and ignored with beta 0."""
    return _add(addmv_op, _shape_mv, input, mat, vec, beta, alpha, out)


@method("addmv_")
def addmv_(self, mat, vec, *, beta=1, alpha=1):
    """In-place version of ``addmv``."""
    return _add_inplace(addmv_op, _shape_mv, self, mat, vec, beta, alpha)


@function("addr", method=True)
def addr(input, vec1, vec2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * outer(vec1, vec2)``; `input` is broadcast, and ignored with beta 0."""
    return _add(addr_op, _shape_addr, input, vec1, vec2, beta, alpha, out)


@method("addr_")
def addr_(self, vec1, vec2, *, beta=1, alpha=1):
    """In-place version of ``addr``."""
    return _add_inplace(addr_op, _shape_addr, self, vec1, vec2, beta, alpha)


@function("addbmm", method=True)
def addbmm(input, batch1, batch2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * sum(batch1 @ batch2)``, summed over the batch; with beta 0 `input` is ignored."""
    return _add(addbmm_op, _shape_addbmm, input, batch1, batch2, beta, alpha, out)


@method("addbmm_")
def addbmm_(self, batch1, batch2, *, beta=1, alpha=1):
    """In-place version of ``addbmm``."""
    return _add_inplace(addbmm_op, _shape_addbmm, self, batch1, batch2, beta, alpha)


@function("baddbmm", method=True)
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1, out=None):
    """``beta * input + alpha * (batch1 @ batch2)``; `input` is broadcast, and ignored with beta 0."""
    return _add(baddbmm_op, _shape_baddbmm, input, batch1, batch2, beta, alpha, out)


@method("baddbmm_")
def baddbmm_(self, batch1, batch2, *, beta=1, alpha=1):
    """In-place version of ``baddbmm``."""
    return _add_inplace(baddbmm_op, _shape_baddbmm, self, batch1, batch2, beta, alpha)


# -- outer and Kronecker products --------------------------------------------------------------------------------


@function("outer", "ger", method=True)
def outer(input, vec2, *, out=None):
    """All products of an element of `input` (n) and one of `vec2` (m): (n, m)."""
    for k, t in (("self", input), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {k}, but got {t.ndim}-D")
    return write_out(out, input.unsqueeze(1) * vec2)


@function("kron", method=True)
def kron(input, other, *, out=None):
    """The Kronecker product: every element of `input` times `other`, as blocks."""
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
    """The product of several matrices, multiplied in the cheapest order."""
    if len(matrices) == 1 and isinstance(matrices[0], (tuple, list)):
        matrices = tuple(matrices[0])
    for m in matrices:
        if m.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {m.ndim}, expected 2 instead.")
    return write_out(out, matrices[0] if len(matrices) == 1 else chain(matrices))


@function("tensordot")
def tensordot(a, b, dims=2, out=None):
    """Products summed over pairs of dimensions: the last `dims` of `a` with the first of `b`, or ``(of_a, of_b)``."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        of_a, of_b = list(range(-dims, 0)), list(range(dims))
    else:
        of_a, of_b = ([d] if isinstance(d, int) else list(d) for d in dims)
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
            a, b = (a.sum(i, True), b) if m == 1 else (a, b.sum(j, True))
    of_a, of_b = [wrap_dim(d, a.ndim) for d in of_a], [wrap_dim(d, b.ndim) for d in of_b]
    free_a = [i for i in range(a.ndim) if i not in of_a]
    free_b = [j for j in range(b.ndim) if j not in of_b]
    inner = math.prod(a.shape[i] for i in of_a)
    shape = [a.shape[i] for i in free_a] + [b.shape[j] for j in free_b]
    left = a.permute((*free_a, *of_a)).reshape((math.prod(a.shape[i] for i in free_a), inner))
    right = b.permute((*of_b, *free_b)).reshape((inner, math.prod(b.shape[j] for j in free_b)))
    return write_out(out, mm(left, right).reshape(shape))


# -- trace and cross product -------------------------------------------------------------------------------------


@function("trace", method=True)
def trace(input):
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(input.ndim))
    return trace_op.call(input)


def _trace(xp, self):
    diagonal = xp.wide(self.diagonal())
    d = self.dtype
    return xp.add.reduce(diagonal, None, dtypes.int64.np if d.kind in "iub" else None).astype(
        dtypes.int64.np if d.kind in "iub" else d
    )


trace_op = declare(
    "trace", _trace, jvp="linear", complex=True,
    self=lambda F, g, self_shape: F.scaled_eye(g, tuple(self_shape)),
    samples=lambda t: [(t(3, 3),), (t(2, 4),), (t(0, 0),)],
)  # fmt: skip
scaled_eye_op = declare(
    "scaled_eye", lambda xp, self, *, shape: xp.where(xp.eye(*shape, dtype=bool), self, xp.zeros((), self.dtype)),
    jvp="linear", complex=True, self=lambda F, g: F.trace(g), samples=lambda t: [(t(), (3, 3)), (t(), (2, 4))],
)  # fmt: skip


def _cross(xp, self, other, *, dim):
    a, b = xp.moveaxis(self, dim, 0), xp.moveaxis(other, dim, 0)
    out = xp.empty((3, *xp.broadcast_shapes(a.shape[1:], b.shape[1:])), self.dtype)
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        out[i] = a[j] * b[k] - a[k] * b[j]
    return xp.moveaxis(out, 0, dim)


cross_op = declare(
    "linalg_cross", _cross, jvp="multilinear", complex=True, node="LinalgCrossBackward0",
    self=lambda F, g, other, self_shape, dim: F.sum_to_size(F.linalg_cross(other.conjugate(), g, dim), self_shape),
    other=lambda F, g, self, other_shape, dim: F.sum_to_size(F.linalg_cross(g, self.conjugate(), dim), other_shape),
    samples=lambda t: [(t(2, 3), t(2, 3), 1), (t(3, 2), t(3, 1), 0), (t(0, 3), t(0, 3), 1)],
)  # fmt: skip


def linalg_cross(input, other, *, dim=-1, out=None):
    """The cross product of vectors of 3 elements along `dim`; the shapes broadcast."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = wrap_dim(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    found = broadcast(input._array.shape, other._array.shape)
    if found is not None:
        raise found
    return write_out(out, cross_op.call(input, other, d))


@function("cross", method=True)
def cross(input, other, dim=None, *, out=None):
    """``linalg.cross``; without `dim`, along the first dimension of length 3."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=dim, out=out)
