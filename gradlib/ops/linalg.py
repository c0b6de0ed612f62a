"""The rest of torch.linalg: matrix norms, powers, exponentials, products, tensor equations, Householder products."""

from __future__ import annotations

import math

from .. import return_types
from ..core.op import declare
from ..core.tensor import Tensor, wrap_dim
from .addmm import chain, linalg_cross
from .expose import PUBLIC, function, write_out
from .linalg_decompose import qr, svdvals
from .linalg_solve import LINALG, check_matrix, check_square, inv, linalg, solve
from .norm import vector_norm

linalg("vector_norm")(vector_norm)
linalg("cross")(linalg_cross)

# -- norms -------------------------------------------------------------------------------------------------------


def _two_dims(name: str, A: Tensor, dim) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(
            f"{name}: dim must be a 2-tuple. Got {dim if not isinstance(dim, (tuple, list)) else list(dim)}"
        )
    first, second = (wrap_dim(d, A.ndim) for d in dim)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


@linalg("matrix_norm")
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """A norm of matrices: "fro", "nuc", 2 or -2 (singular values), 1 or -1 (columns), inf or -inf (rows)."""
    check_dims(A)
    if dtype is not None:
        A = A.to(dtype)
    check_matrix("linalg.matrix_norm", A)
    rows, columns = _two_dims("linalg.matrix_norm", A, dim)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, out=out)
    if ord in (1, -1, math.inf, -math.inf):
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = A.abs().sum(summed, keepdim=True)
        result = sums.amax(kept, keepdim=True) if ord > 0 else sums.amin(kept, keepdim=True)
        return write_out(out, result if keepdim else result.squeeze((rows, columns)))
    if ord in ("nuc", 2, -2):
        S = svdvals(A.movedim((rows, columns), (-2, -1)))
        result = S.sum(-1) if ord == "nuc" else S.amax(-1) if ord == 2 else S.amin(-1)
        if keepdim:
            for d in sorted((rows, columns)):
                result = result.unsqueeze(d)
        return write_out(out, result)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")


def check_dims(A: Tensor) -> None:
    if A.ndim < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
        )


@linalg("norm")
def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector norm (one dim, or no `ord`) or a matrix norm (two dims or a 2-dim tensor) of order `ord`."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
            f"Got {A.ndim}D."
        )
    if (
        isinstance(ord, str)
        or (dim is None and A.ndim == 2)
        or (isinstance(dim, (tuple, list)) and len(dim) == 2)
    ):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype, out=out)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)


@linalg("cond")
def cond(A, p=None, *, out=None):
    """The condition number of matrices in the matrix norm `p` (None: 2)."""
    check_matrix("linalg.cond", A)
    if p is None or p in (2, -2):
        S = svdvals(A)
        large, small = S[..., 0], S[..., -1]
        return write_out(out, large / small if p != -2 else small / large)
    check_square("linalg.cond", A)
    return write_out(out, matrix_norm(A, p) * matrix_norm(inv(A), p))


# -- powers and products -----------------------------------------------------------------------------------------


def _eye_like(A: Tensor) -> Tensor:
    from .create import eye

    return eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)


@linalg("matrix_power", also="matrix_power", methods="matrix_power")
def matrix_power(A, n, *, out=None):
    """The n-th power of square matrices by repeated squaring; a negative n inverts first."""
    if A.ndim < 2:
        raise RuntimeError(
            "linalg.matrix_power: The input tensor A must have at least 2 dimensions."
        )
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{A.shape[-2]} by {A.shape[-1]} matrices"
        )
    if n == 0:
        return write_out(out, _eye_like(A).clone())
    if n < 0:
        A, n = inv(A), -n
    result, square = None, A
    while True:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if not n:
            return write_out(out, A.clone() if result is A else result)
        square = square @ square


# coefficients of the (13, 13) Pade approximant of exp, which is exact to rounding for norms up to 5.37
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


def _matrix_exp(xp, self):
    """Scaling and squaring with a Pade approximant."""
    if not self.size:
        return self.copy()
    n = self.shape[-1]
    size = xp.abs(self).sum(-2).max(-1)
    halvings = xp.maximum(xp.ceil(xp.log2(xp.where(size > 0, size, 1) / 5.37)), 0)
    A = self / xp.exp2(halvings)[..., None, None].astype(self.real.dtype)
    b, one = [float(c) for c in _PADE], xp.eye(n, dtype=self.dtype)
    A2 = xp.matmul(A, A)
    A4 = xp.matmul(A2, A2)
    A6 = xp.matmul(A4, A2)
    odd = (
        xp.matmul(A6, b[13] * A6 + b[11] * A4 + b[9] * A2)
        + b[7] * A6
        + b[5] * A4
        + b[3] * A2
        + b[1] * one
    )
    even = (
        xp.matmul(A6, b[12] * A6 + b[10] * A4 + b[8] * A2)
        + b[6] * A6
        + b[4] * A4
        + b[2] * A2
        + b[0] * one
    )
    odd = xp.matmul(A, odd)
    result = xp.linalg.solve(even - odd, even + odd)
    for i in range(int(halvings.max())):
        result = xp.where((halvings > i)[..., None, None], xp.matmul(result, result), result)
    return result.astype(self.dtype)


def _frechet(F, A, E):
    """The derivative of exp at A in the direction E: a block of the exponential of a matrix of twice the size."""
    n, rows, columns = A.shape[-1], A.ndim - 2, A.ndim - 1
    top = F.cat([A, E], columns)
    bottom = F.cat([F.zeros_like(A), A], columns)
    whole = F.linalg_matrix_exp(F.cat([top, bottom], rows))
    return F.slice(F.slice(whole, rows, 0, n, 1), columns, n, 2 * n, 1)


matrix_exp_op = declare(
    "linalg_matrix_exp", _matrix_exp, complex=True, node="LinalgMatrixExpBackward0",
    self=lambda F, g, self: _frechet(F, F.mH(self), g), jvp=lambda F, self, self_t: _frechet(F, self, self_t),
    samples=lambda t: [(t(3, 3),), (t(2, 2, 2),), (t(0, 0),)],
)  # fmt: skip


@linalg("matrix_exp", also="matrix_exp", methods="matrix_exp")
def matrix_exp(A):
    """The exponential of square matrices."""
    check_square("linalg.matrix_exp", A)
    return matrix_exp_op.call(A)


@linalg("multi_dot")
def multi_dot(tensors, *, out=None):
    """The product of two or more matrices in the cheapest order; the first and last may be vectors."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for i, t in enumerate(tensors):
        if t.ndim != 2:
            kind = "1D or 2D" if i in (0, len(tensors) - 1) else "2D"
            raise RuntimeError(f"multi_dot(): tensor {i} must be {kind} but got {t.ndim}D")
        if i and tensors[i - 1].shape[1] != t.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(tensors[i - 1].shape)} and {list(t.shape)} "
                "cannot be multiplied"
            )
    result = chain(tensors)
    if row:
        result = result.squeeze(0)
    return write_out(out, result.squeeze(-1) if column else result)


@linalg("vecdot")
def vecdot(x, y, *, dim=-1, out=None):
    """Dot products of vectors along `dim`, those of `x` conjugated."""
    return write_out(out, (x.conjugate() * y).sum(dim))


@linalg("matmul")
def matmul(input, other, *, out=None):
    """See ``gradlib.matmul``."""
    return PUBLIC["matmul"](input, other, out=out)


@linalg("diagonal")
def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """``gradlib.diagonal`` of the last two dimensions."""
    return PUBLIC["diagonal"](A, offset, dim1, dim2)


@linalg("vander")
def vander(x, N=None):
    """Rows of powers 0, 1, ..., N - 1 of the elements of x."""
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand((*x.shape, n - 1)).cumprod(-1)
    return PUBLIC["cat"]([powers.new_ones((*x.shape, 1)), powers], -1)


# -- tensor equations --------------------------------------------------------------------------------------------


@linalg("tensorinv")
def tensorinv(A, ind=2, *, out=None):
    """The inverse of A as a map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{math.prod(last)} != {math.prod(first)}"
        )
    return write_out(out, inv(A.reshape((math.prod(first), -1))).reshape((*last, *first)))


@linalg("tensorsolve")
def tensorsolve(A, B, dims=None, *, out=None):
    """X with ``tensordot(A, X, X.ndim) = B``; `dims` of A are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != math.prod(A.shape[: B.ndim]):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {math.prod(shape)} != {math.prod(A.shape[: B.ndim])}"
        )
    return write_out(out, solve(A.reshape((-1, math.prod(shape))), B.reshape((-1,))).reshape(shape))


# -- Householder reflections -------------------------------------------------------------------------------------


def _reflect(A, tau, Q, adjoint: bool):
    """Q with the reflections of ``geqrf`` (or, adjoint, their reverse) applied from the left."""
    k = tau.shape[-1]
    vectors = A[..., :, :k].tril(-1) + PUBLIC["eye"](A.shape[-2], k, dtype=A.dtype, device=A.device)
    for i in range(k) if adjoint else reversed(range(k)):
        v = vectors[..., i : i + 1]
        t = tau[..., i : i + 1].unsqueeze(-1)
        Q = Q - (t.conjugate() if adjoint else t) * (v @ (v.mH @ Q))
    return Q


@linalg("householder_product", also="orgqr", methods="orgqr")
def householder_product(A, tau, *, out=None):
    """The first columns of the product of the reflections that ``geqrf`` returns: Q of a QR decomposition."""
    check_matrix("torch.linalg.householder_product", A, "input")
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if n < tau.shape[-1]:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    start = PUBLIC["eye"](m, n, dtype=A.dtype, device=A.device).expand(A.shape)
    return write_out(out, _reflect(A, tau, start, False))


@function("ormqr", method=True)
def ormqr(input, tau, other, left=True, transpose=False, *, out=None):
    """`other` multiplied by the full Q (or Q^H) that ``geqrf`` describes."""
    if left:
        return write_out(out, _reflect(input, tau, other, transpose))
    return write_out(out, _reflect(input, tau, other.mH, not transpose).mH)


def _geqrf(xp, self):
    h, tau = xp.linalg.qr(self, "raw")
    return xp.swapaxes(h, -1, -2).copy(), tau


geqrf_op = declare(
    "geqrf", _geqrf, n_out=2, nondifferentiable="not in PyTorch either: use linalg.qr",
    samples=lambda t: [(t(4, 3),), (t(3, 3),)],
)  # fmt: skip


@function("geqrf", method=True)
def geqrf(input, *, out=None):
    """(a, tau): R above the diagonal and the Householder vectors below it, and their factors. No derivative."""
    check_matrix("geqrf", input, "input")
    return write_out(out, return_types.geqrf(*geqrf_op.call(input)))


# -- low rank ----------------------------------------------------------------------------------------------------


def _range_finder(A, q: int, niter: int):
    """Orthonormal columns that nearly span the range of A, by subspace iteration from random vectors."""
    start = PUBLIC["randn"](A.shape[-1], q, dtype=A.dtype, device=A.device)
    Q = qr(A @ start)[0]
    for _ in range(niter):
        Q = qr(A @ qr(A.mH @ Q)[0])[0]
    return Q


@function("svd_lowrank")
def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of rank q, nearly the largest singular values of A (of ``A - M`` with M)."""
    A = A if M is None else A - M
    q = 6 if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}"
        )
    wide = A.shape[-2] < A.shape[-1]
    X = A.mH if wide else A
    Q = _range_finder(X, q, niter)
    U, S, Vh = LINALG["svd"](Q.mH @ X, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


@function("pca_lowrank")
def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of rank q of the rows of A, with the mean of each column taken out if `center`."""
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
