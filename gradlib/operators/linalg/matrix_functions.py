"""Powers and exponentials of matrices, and matrices of powers."""

from __future__ import annotations

import math

from ...op import captures
from ...op.declare import declare
from ...op.expose import PUBLIC, need_tensor, write_same
from ...op.plain_numbers import python_number
from ...tape import dtypes
from ...tape.tensor import Tensor
from .base import check_dims, check_lengths, check_square, eye_like, full_precision, linalg
from .solve import inv


@linalg("matrix_power", also="matrix_power", methods="matrix_power")
def matrix_power(A, n, *, out=None):
    """The n-th power of square matrices by repeated squaring.

    Args:
        A: matrices (..., m, m).
        n: an int; a negative one inverts first, 0 gives unit matrices.
        out: written to instead of a new tensor.

    Returns:
        Matrices (..., m, m).

    Raises:
        RuntimeError: the matrices are not square.
        LinAlgError: `n` is negative and a matrix singular.

    Example:
        >>> gradlib.linalg.matrix_power(gradlib.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
    """
    check_dims("linalg.matrix_power", A)
    check_lengths("linalg.matrix_power", A)
    n = python_number(n)
    if not isinstance(n, int):
        raise TypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    if n == 0:
        return write_same(out, A.clone().copy_(eye_like(A)))
    if n < 0:
        A, n = inv(A), -n
    result, square = None, A
    while True:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        if not n:
            return write_same(out, A.clone() if result is A else result)
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
    if self.shape[-1] == 1:
        return xp.exp(self)
    size = xp.abs(self).sum(-2).max(-1)
    unbounded = ~xp.isfinite(size)
    if xp.may(unbounded):
        kept = xp.where(unbounded[..., None, None], self.dtype.type(0), self)
        result = (
            self
            if xp.surely(unbounded.all())
            else _exponential(xp, kept, xp.where(unbounded, 0, size))
        )
        return xp.where(unbounded[..., None, None], self.dtype.type(math.nan), result)
    return _exponential(xp, self, size)


def _exponential(xp, self, size):
    """The same for finite matrices, of known norms."""
    n = self.shape[-1]
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
    "linalg_matrix_exp", full_precision("linalg_matrix_exp", _matrix_exp),
    captures=captures.SOLVER, autocast="cpu:float32", complex=True,
    self=lambda F, g, self: _frechet(F, F.mH(self), g), jvp=lambda F, self, self_t: _frechet(F, self, self_t),
    samples=lambda t: [(t(3, 3),), (t(2, 2, 2),), (t(0, 0),)],
    batch="leading",
)  # fmt: skip


@linalg("matrix_exp", also="matrix_exp", methods="matrix_exp")
def matrix_exp(A):
    """The exponential of square matrices, ``1 + A + A @ A / 2 + ...``.

    Args:
        A: floating or complex matrices (..., n, n).

    Returns:
        Matrices (..., n, n) of the same dtype.

    Raises:
        RuntimeError: the matrices are not square, or of integers.

    Example:
        >>> gradlib.linalg.matrix_exp(gradlib.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    if not isinstance(A, Tensor):
        raise need_tensor("matrix_exp", A)
    half = A.dtype in (dtypes.float16, dtypes.bfloat16)
    wide = A.float() if half else A
    check_square("linalg.matrix_exp", wide)
    result = matrix_exp_op.call(wide)
    return result.to(A.dtype) if half else result


@linalg("vander")
def vander(x, N=None):
    """Rows of the powers 0, 1, ..., N - 1 of numbers.

    Args:
        x: a tensor (..., n).
        N: how many powers; n if None.

    Returns:
        Matrices (..., n, N).

    Raises:
        RuntimeError: `N` is less than 2.

    Example:
        >>> gradlib.linalg.vander(gradlib.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    if x.dtype in (dtypes.bool_, dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{x.dtype.scalar_type}"
        )
    x = x.reshape((1,)) if not x.ndim else x
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    powers = x.unsqueeze(-1).expand((*x.shape, n - 1)).cumprod(-1)
    return PUBLIC["cat"]([powers.new_ones((*x.shape, 1)), powers], -1)
