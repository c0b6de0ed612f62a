"""Square matrices: determinants, inverses, linear systems, Cholesky; the parts of torch.linalg built on them."""

from __future__ import annotations

from numpy.linalg import LinAlgError as SingularError  # CuPy raises NumPy's too

from .. import return_types
from ..core import dtypes
from ..core.formulas import formula_function
from ..core.op import declare
from ..core.tensor import Tensor
from .expose import PUBLIC, function, method, write_out

LINALG: dict = {}  # gradlib.linalg.<name>


class LinAlgError(RuntimeError):
    """A matrix for which the decomposition or solution does not exist or did not converge."""


def linalg(*names: str, also: str = "", methods: str = ""):
    """Publish as ``gradlib.linalg.<name>``; also as ``gradlib.<name>`` and as Tensor methods where names are given."""

    def publish(fn):
        for name in names or (fn.__name__,):
            LINALG[name] = fn
        for name in also.split():
            PUBLIC[name] = fn
        if methods:
            method(*methods.split())(fn)
        return fn

    return publish


# -- checks ------------------------------------------------------------------------------------------------------


def check_matrix(name: str, A: Tensor, argument: str = "A") -> None:
    """RuntimeError unless A is a floating or complex tensor (not half) of at least 2 dimensions."""
    if not isinstance(A, Tensor):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(A).__name__}")
    if A._array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")
    if A.dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {A.dtype.tensor_type.removesuffix('Tensor')}"
        )
    if A._array.dtype not in dtypes.DIFFERENTIABLE:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{A.dtype.tensor_type.removesuffix('Tensor')}"
        )


def check_square(name: str, A: Tensor, argument: str = "A") -> None:
    """The same, and square."""
    check_matrix(name, A, argument)
    n, m = A._array.shape[-2:]
    if n != m:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {n} by {m} matrices"
        )


def first_bad(bad, text: str, name: str) -> LinAlgError:
    """The error for the first true element of a boolean array over the batch."""
    if bad.ndim == 0:
        return LinAlgError(f"{name}: {text}")
    return LinAlgError(f"{name}: (Batch element {int(bad.reshape(-1).argmax())}): {text}")


# -- small linear maps that formulas need ------------------------------------------------------------------------


triangle = declare(
    "triangle", lambda xp, self, *, lower, diagonal: (xp.tril if lower else xp.triu)(self, diagonal), jvp="linear",
    self=lambda F, g, lower, diagonal: F.triangle(g, lower, diagonal), complex=True,
    node="TrilBackward0", samples=lambda t: [(t(3, 4), True, 0), (t(2, 3, 3), False, 1)],
)  # fmt: skip


def _fill_diagonal(xp, self, *, value):
    out = self.copy()
    i = xp.arange(min(self.shape[-2:]))
    out[..., i, i] = value
    return out


fill_diagonal = declare(
    "fill_diagonal", _fill_diagonal, complex=True, self=lambda F, g: F.fill_diagonal(g, 0.0),
    node="FillDiagonalBackward0",
    jvp=lambda F, self_t: F.fill_diagonal(self_t, 0.0), samples=lambda t: [(t(3, 3), 1.0), (t(2, 3, 2), 0.0)],
)  # fmt: skip


def _diag_matrix(xp, self, *, rows, columns):
    out = xp.zeros((*self.shape[:-1], rows, columns), self.dtype)
    i = xp.arange(self.shape[-1])
    out[..., i, i] = self
    return out


diag_vector = declare(
    "diag_vector", lambda xp, self: xp.diagonal(self, 0, -2, -1).copy(), jvp="linear", complex=True,
    node="DiagonalBackward0",
    self=lambda F, g, self_shape: F.diag_matrix(g, self_shape[-2], self_shape[-1]), samples=lambda t: [(t(3, 4),),
    (t(2, 3, 3),)],
)  # fmt: skip
diag_matrix = declare(
    "diag_matrix", _diag_matrix, jvp="linear", complex=True, self=lambda F, g: F.diag_vector(g),
    node="DiagEmbedBackward0",
    samples=lambda t: [(t(3), 3, 3), (t(2, 3), 4, 3)],
)  # fmt: skip


# -- determinants ------------------------------------------------------------------------------------------------


def _det(xp, self):
    return xp.asarray(xp.linalg.det(self), self.dtype)


def _cofactor(xp, self):
    """The derivative of the determinant by each element, also of singular matrices."""
    n = self.shape[-1]
    if not self.size:
        return self.copy()
    try:
        inverse = xp.linalg.inv(self)
        condition = xp.abs(inverse).max() * xp.abs(self).max()
        if condition * n < 1.0 / xp.sqrt(xp.finfo(self.dtype).eps):
            return xp.linalg.det(self)[..., None, None].astype(self.dtype) * xp.swapaxes(
                inverse, -1, -2
            )
    except SingularError:
        pass
    U, S, Vh = xp.linalg.svd(self)
    others = xp.stack([xp.prod(xp.delete(S, i, -1), -1) for i in range(n)], -1)
    phase = (xp.linalg.det(U) * xp.linalg.det(Vh))[..., None, None]
    return (phase * xp.matmul(U.conj() * others[..., None, :], Vh.conj())).astype(self.dtype)


def _cofactor_self(F, g, self):
    inverse = F.mT(F.linalg_inv(self)).conjugate()
    det = F.unsqueeze(F.unsqueeze(F.linalg_det(self), self.ndim - 2), self.ndim - 2).conjugate()
    # cofactor = det * inv^T, a product: the change of det, and the change of the inverse
    total = F.sum(g * F.mT(F.linalg_inv(self)).conjugate(), (self.ndim - 2, self.ndim - 1), True)
    return det * (total * inverse - F.matmul(F.matmul(inverse, F.mT(g)), inverse))


cofactor_op = declare(
    "cofactor", _cofactor, complex=True, self=_cofactor_self, node="LinalgDetBackward0",
    samples=lambda t: [(t(3, 3),), (t(2, 2, 2),)],
)  # fmt: skip
det_op = declare(
    "linalg_det", _det, complex=True, node="LinalgDetBackward0",
    self=lambda F, g, self: F.unsqueeze(F.unsqueeze(g, g.ndim), g.ndim + 1) * F.cofactor(self).conjugate(),
    samples=lambda t: [(t(3, 3),), (t(2, 3, 3),), (t(1, 1),), (t(0, 3, 3),)],
)  # fmt: skip


def _slogdet(xp, self):
    sign, log = xp.linalg.slogdet(self)
    return xp.asarray(sign, self.dtype), xp.asarray(log, self.real.dtype)


def _slogdet_self(F, gs, self, result0):
    weight = gs[1]
    if F.is_complex(self) and gs[0] is not None:
        turn = F.imag(gs[0] * result0.conjugate()) * 1j
        weight = turn if weight is None else weight + turn
    if weight is None:
        return F.zeros_like(self)
    return F.unsqueeze(F.unsqueeze(weight, weight.ndim), weight.ndim + 1) * F.mH(F.linalg_inv(self))


slogdet_op = declare(
    "linalg_slogdet", _slogdet, n_out=2, complex=True, self=_slogdet_self, samples=lambda t: [(t(3, 3),),
    (t(2, 3, 3),)],
)  # fmt: skip


@linalg("det", also="det", methods="det")
def det(A, *, out=None):
    """The determinant of square matrices (..., n, n): (...). The gradient exists for singular matrices too."""
    check_square("linalg.det", A)
    return write_out(out, det_op.call(A))


def _slogdet_pair(result_type):
    def slogdet(A, *, out=None):
        """(sign, logabsdet) of square matrices: ``det = sign * exp(logabsdet)`` without overflow."""
        check_square("linalg.slogdet", A)
        return write_out(out, result_type(*slogdet_op.call(A)))

    return slogdet


slogdet = linalg("slogdet")(_slogdet_pair(return_types.linalg_slogdet))
function("slogdet", method=True)(_slogdet_pair(return_types.slogdet))


@function("logdet", method=True)
def logdet(input):
    """The logarithm of the determinant: nan where it is negative, -inf where it is 0."""
    sign, log = slogdet(input)
    if input.is_complex():
        return log + sign.log()
    return log.where(sign != -1, float("nan"))


# -- inverse and solutions ---------------------------------------------------------------------------------------


def _zero_pivot(xp, A) -> int:
    """The number (from 1) of the pivot at which elimination of one matrix meets a zero."""
    A = A.copy()
    for k in range(A.shape[0]):
        p = k + int(xp.abs(A[k:, k]).argmax())
        if A[p, k] == 0:
            return k + 1
        A[[k, p]] = A[[p, k]]
        A[k + 1 :, k:] -= (A[k + 1 :, k] / A[k, k])[:, None] * A[k, k:]
    return A.shape[0]


def _inv(xp, self):
    try:
        return xp.linalg.inv(self)
    except SingularError:
        flat = self.reshape(-1, *self.shape[-2:])
        for i, one in enumerate(flat):
            try:
                xp.linalg.inv(one)
            except SingularError:
                where = f"(Batch element {i}): " if self.ndim > 2 else ""
                raise LinAlgError(
                    f"linalg.inv: {where}The diagonal element {_zero_pivot(xp, one)} is zero, the inversion could "
                    "not be "
                    "completed because the input matrix is singular."
                ) from None
        raise


inv_op = declare(
    "linalg_inv", _inv, complex=True, node="LinalgInvExBackward0",
    self=lambda F, g, result: -F.matmul(F.matmul(F.mH(result), g), F.mH(result)),
    jvp=lambda F, self_t, result: -F.matmul(F.matmul(result, self_t), result),
    samples=lambda t: [(t(3, 3),), (t(2, 3, 3),), (t(0, 0),)],
)  # fmt: skip


@linalg("inv", also="inverse", methods="inverse")
def inv(A, *, out=None):
    """The inverse of square matrices. Raises LinAlgError for a singular one."""
    check_square("linalg.inv", A)
    return write_out(out, inv_op.call(A))


def _minor(xp, one) -> int:
    """The order of the first leading minor of a matrix that is not positive-definite; 0 if there is none."""
    for k in range(1, one.shape[0] + 1):
        try:
            xp.linalg.cholesky(one[:k, :k])
        except SingularError:
            return k
    return 0


def with_info(fn, where, check_errors: bool, A: Tensor, *others: Tensor):
    """(fn(A, *others), info); where it fails the result is nan and info says ``where(xp, matrix)``."""
    from ..backends import backend_of

    xp = backend_of(A._array)
    try:
        return fn(A, *others), Tensor._make(xp.zeros(A._array.shape[:-2], "i4"))
    except LinAlgError:
        if check_errors:
            raise
    flat = A._array.reshape(-1, *A._array.shape[-2:])
    info = xp.asarray([where(xp, one) for one in flat], "i4")
    safe = flat.copy()
    safe[info != 0] = xp.eye(flat.shape[-1], dtype=flat.dtype)
    bad = Tensor._make((info != 0).reshape((*A._array.shape[:-2], 1, 1)))
    result = fn(Tensor._make(safe.reshape(A._array.shape)), *others)
    return result.masked_fill(bad, float("nan")), Tensor._make(info.reshape(A._array.shape[:-2]))


@linalg("inv_ex")
def inv_ex(A, *, check_errors=False, out=None):
    """(inverse, info): as ``inv``, but a singular matrix gives nan and the number of its zero pivot in info."""
    return write_out(
        out, return_types.linalg_inv_ex(*with_info(inv, _pivot_or_zero, check_errors, A))
    )


def _pivot_or_zero(xp, one) -> int:
    try:
        xp.linalg.inv(one)
    except SingularError:
        return _zero_pivot(xp, one)
    return 0


def _solve(xp, A, B):
    try:
        return xp.linalg.solve(A, B)
    except SingularError:
        where = ""
        if A.ndim > 2:
            singular = xp.linalg.det(A) == 0
            where = f"(Batch element {int(singular.reshape(-1).argmax())}): "
        raise LinAlgError(
            f"torch.linalg.solve: {where}The solver failed because the input matrix is singular."
        ) from None


@formula_function()
def times_h(F, a, b, shape):
    """``a @ b^H`` summed over what was broadcast, to `shape`."""
    return F.sum_to_size(F.matmul(a, F.mH(b)), shape)


def _solve_jvp(F, A, B, A_t, B_t, result):
    right = (
        B_t
        if A_t is None
        else -F.matmul(A_t, result)
        if B_t is None
        else B_t - F.matmul(A_t, result)
    )
    return F.linalg_solve(A, right)


solve_op = declare(
    "linalg_solve", _solve, promote="none", complex=True, node="LinalgSolveExBackward0", jvp=_solve_jvp,
    A=lambda F, g, A, result, A_shape: F.times_h(-F.linalg_solve(F.mH(A), g), result, A_shape),
    B=lambda F, g, A, B_shape: F.sum_to_size(F.linalg_solve(F.mH(A), g), B_shape),
    samples=lambda t: [(t(3, 3), t(3, 2)), (t(2, 3, 3), t(3, 2)), (t(3, 3), t(2, 3, 2)), (t(0, 0), t(0, 2))],
)  # fmt: skip


def check_types(name: str, A: Tensor, B: Tensor) -> None:
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{A.dtype.tensor_type.removesuffix('Tensor')} and B of type "
            f"{B.dtype.tensor_type.removesuffix('Tensor')} instead"
        )


@linalg("solve")
def solve(A, B, *, left=True, out=None):
    """X with ``A @ X = B`` (``X @ A = B`` if not `left`) for square A.

    A is (..., n, n); B is (..., n, k) or (..., k, n), or (n) or (*batch of A, n) for vectors. LinAlgError if singular.
    """
    check_square("linalg.solve", A)
    check_types("linalg.solve", A, B)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    rows = B.unsqueeze(-1) if vector else B
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
            "linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    n, m = A.shape[-1], rows.shape[-2 if left else -1]
    if n != m:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({n}x{n} and {rows.shape[-2]}x{rows.shape[-1]})"
        )
    result = solve_op.call(A, rows) if left else solve_op.call(A.mT, rows.mT).mT
    return write_out(out, result.squeeze(-1) if vector else result)


@linalg("solve_ex")
def solve_ex(A, B, *, left=True, check_errors=False, out=None):
    """(result, info): as ``solve``, but a singular matrix gives nan and the number of its zero pivot in info."""

    def run(matrix, right):
        return solve(matrix, right, left=left)

    return write_out(
        out, return_types.linalg_solve_ex(*with_info(run, _pivot_or_zero, check_errors, A, B))
    )


# -- triangular systems ------------------------------------------------------------------------------------------

_BLOCK = 48


def _substitute(xp, A, B, lower: bool):
    """Block substitution: small systems on the diagonal, matrix products for the rest."""
    n = A.shape[-1]
    if n <= _BLOCK:
        return xp.linalg.solve(A, B)
    h = n // 2
    one, two = (slice(0, h), slice(h, n)) if lower else (slice(h, n), slice(0, h))
    first = _substitute(xp, A[..., one, one], B[..., one, :], lower)
    rest = B[..., two, :] - xp.matmul(A[..., two, one], first)
    second = _substitute(xp, A[..., two, two], rest, lower)
    return xp.concatenate([first, second] if lower else [second, first], -2)


def _solve_triangular(xp, self, B, *, upper, unitriangular):
    A = (xp.triu if upper else xp.tril)(self)
    if unitriangular:
        A = _fill_diagonal(xp, A, value=1)
    batch = xp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    B = xp.broadcast_to(B, batch + B.shape[-2:])
    if not B.size:
        return B.copy()
    try:
        return _substitute(xp, A, B, not upper)
    except SingularError:
        # a zero on the diagonal: division by it gives inf or nan, as in back substitution
        return _divide_rows(xp, A, B, upper)


def _divide_rows(xp, A, B, upper: bool):
    n = A.shape[-1]
    X = xp.zeros(xp.broadcast_shapes(A.shape[:-2], B.shape[:-2]) + B.shape[-2:], B.dtype)
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        X[..., i, :] = (
            B[..., i, :] - xp.matmul(A[..., i : i + 1, known], X[..., known, :])[..., 0, :]
        ) / A[..., i, i, None]
    return X


def _triangular_self(F, g, self, result, self_shape, upper, unitriangular):
    gB = F.linalg_solve_triangular(F.mH(self), g, not upper, unitriangular)
    full = F.times_h(-gB, result, self_shape)
    return F.triangle(full, not upper, (1 if upper else -1) if unitriangular else 0)


solve_triangular_op = declare(
    "linalg_solve_triangular", _solve_triangular, promote="none", complex=True, self=_triangular_self,
    B=lambda F, g, self, B_shape, upper, unitriangular: F.sum_to_size(
        F.linalg_solve_triangular(F.mH(self), g, not upper, unitriangular), B_shape
    ),
    samples=lambda t: [(t(3, 3), t(3, 2), True, True), (t(2, 3, 3), t(3, 2), False, True), (t(0, 0), t(0, 2),
    True, False)],
)  # fmt: skip


@linalg("solve_triangular")
def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """X with ``A @ X = B`` (``X @ A = B`` if not `left`) for triangular A; the other triangle is not read.

    A zero on the diagonal gives inf or nan.
    """
    check_square("linalg.solve_triangular", A)
    check_matrix("linalg.solve_triangular", B, "B")
    check_types("linalg.solve_triangular", A, B)
    n, m = A.shape[-1], B.shape[-2 if left else -1]
    if n != m:
        raise RuntimeError(
            f"linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} "
            f"({n}x{n} and {B.shape[-2]}x{B.shape[-1]})"
        )
    if left:
        return write_out(out, solve_triangular_op.call(A, B, upper, unitriangular))
    return write_out(out, solve_triangular_op.call(A.mT, B.mT, not upper, unitriangular).mT)


@function("triangular_solve", method=True)
def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    """(solution, A): the older form of ``linalg.solve_triangular``."""
    matrix = A.mT if transpose else A
    solution = solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return write_out(out, return_types.triangular_solve(solution, A.clone()))


# -- Cholesky ----------------------------------------------------------------------------------------------------


def _not_positive(xp, A, name: str) -> LinAlgError:
    text = "The factorization could not be completed because the input is not positive-definite"
    for i, one in enumerate(A.reshape(-1, *A.shape[-2:])):
        k = _minor(xp, one)
        if k:
            where = f"(Batch element {i}): " if A.ndim > 2 else ""
            return LinAlgError(
                f"{name}: {where}{text} (the leading minor of order {k} is not positive-definite)."
            )
    return LinAlgError(f"{name}: {text}.")


def _cholesky(xp, self):
    try:
        return xp.linalg.cholesky(self)
    except SingularError:
        raise _not_positive(xp, self, "linalg.cholesky") from None


def _cholesky_self(F, g, result):
    """L^-H phi(L^H g) L^-1 made Hermitian; phi keeps the lower triangle and halves the diagonal."""
    inner = F.triangle(F.matmul(F.mH(result), g), True, 0)
    inner = 0.5 * (inner + F.mH(F.triangle(inner, True, -1)) + F.diag_real(inner))
    left = F.linalg_solve_triangular(F.mH(result), inner, True, False)
    return F.mH(F.linalg_solve_triangular(F.mH(result), F.mH(left), True, False))


@formula_function()
def diag_real(F, x):
    """What makes ``tril + strict^H`` Hermitian: minus the imaginary part of the diagonal; nothing for real x."""
    if not F.is_complex(x):
        return 0.0
    d = F.diag_vector(x)
    return F.diag_matrix(d.conjugate() - d, x.shape[-2], x.shape[-1]) * 0.5


cholesky_op = declare(
    "linalg_cholesky", _cholesky, complex=True, self=_cholesky_self, node="LinalgCholeskyExBackward0",
    # one triangle is read but both get a gradient, which a difference quotient of larger samples would not see
    samples=lambda t: [] if t.dtype.is_complex else [(t(1, 1, low=0.5),), (t(2, 1, 1, low=0.5),)],
)  # fmt: skip


@linalg("cholesky")
def cholesky(A, *, upper=False, out=None):
    """The lower triangular L with ``A = L @ L^H`` (or the upper U with ``A = U^H @ U``).

    Only the lower triangle of A is read; the gradient is Hermitian. Raises LinAlgError if A is not positive-definite.
    """
    check_square("linalg.cholesky", A)
    L = cholesky_op.call(A)
    return write_out(out, L.mH if upper else L)


@linalg("cholesky_ex")
def cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """(L, info): as ``cholesky``, but failure gives nan and the order of the bad leading minor in info (int32)."""

    def run(matrix):
        return cholesky(matrix, upper=upper)

    return write_out(out, return_types.linalg_cholesky_ex(*with_info(run, _minor, check_errors, A)))


@function("cholesky", method=True)
def _cholesky_function(input, upper=False, *, out=None):
    """See ``linalg.cholesky``."""
    return cholesky(input, upper=upper, out=out)


@function("cholesky_solve", method=True)
def cholesky_solve(B, L, upper=False, *, out=None):
    """X with ``A @ X = B``, where A is given by its Cholesky factor."""
    L = L.mH if upper else L
    half = solve_triangular(L, B, upper=False)
    return write_out(out, solve_triangular(L.mH, half, upper=True))


@function("cholesky_inverse", method=True)
def cholesky_inverse(L, upper=False, *, out=None):
    """The inverse of the matrix that a Cholesky factor was made from."""
    from .create import eye

    return write_out(
        out,
        cholesky_solve(eye(L.shape[-1], dtype=L.dtype, device=L.device).expand(L.shape), L, upper),
    )
