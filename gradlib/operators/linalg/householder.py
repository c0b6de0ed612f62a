"""Householder reflections: geqrf, and the products of reflections that it describes."""

from __future__ import annotations

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_out, write_same
from ...tape.tensor import Tensor
from ..kinds import same_dtype, widened
from .base import check_kernel, column_major, eye_like, full_precision, linalg, without_derivative
from .triangular import solve_triangular_op

# -- Householder reflections -------------------------------------------------------------------------------------


def _reflect(A, tau, Q, adjoint: bool, columns: bool):
    """Q with the reflections of ``geqrf`` (or, adjoint, their reverse) applied from the left, all at once.

    Their product is I - V D (I + S D)^-1 V^H: V has their vectors, D their factors on its diagonal, and S is the part
    of V^H V above its diagonal. The inverse has ones on its diagonal, so nothing is divided.

    columns: whether the matrices are to lie in columns, as LAPACK leaves them, or in rows.
    """
    k = tau.shape[-1]
    if not k:
        return Q
    V = (A if A.shape[-1] == k else A[..., :, :k]).tril(-1) + eye_like(A, A.shape[-2], k)
    turned = V.mT
    rows = turned.conjugate()
    factors, inner, column = (rows @ V) * tau.unsqueeze(-2), rows @ Q, -tau.unsqueeze(-1)
    if adjoint:
        right = column.conjugate() * inner
        inner = solve_triangular_op.call(factors.mT.conjugate(), right, False, True)
    else:
        inner = column * solve_triangular_op.call(factors, inner, True, True)
    return (inner.mT @ turned + Q.mT).mT if columns else V @ inner + Q


@linalg("householder_product", also="orgqr", methods="orgqr")
def householder_product(A, tau, *, out=None):
    """The first columns of the product of the reflections that ``geqrf`` returns: Q of a QR decomposition.

    Args:
        A: matrices (..., m, n), m >= n, with the vectors of the reflections below the diagonal.
        tau: their factors (..., k), k <= n.
        out: written to instead of a new tensor.

    Returns:
        Matrices (..., m, n) with orthonormal columns.

    Raises:
        RuntimeError: the shapes or dtypes do not fit.

    Example:
        >>> gradlib.linalg.householder_product(gradlib.zeros(2, 2), gradlib.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if A.ndim < 2:
        raise RuntimeError(
            "torch.linalg.householder_product: input must have at least 2 dimensions."
        )
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if n < tau.shape[-1]:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    text = "torch.linalg.householder_product: tau dtype {} does not match input dtype {}"
    same_dtype(tau, A, text)
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(
            "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim "
            f"equal to {tau.ndim} and input.ndim is equal to {A.ndim}"
        )
    if tuple(tau.shape[:-1]) != tuple(A.shape[:-2]):
        raise RuntimeError(
            "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2], but "
            f"got {list(tau.shape[:-1])}"
        )
    A, tau = widened(A, tau)
    check_kernel("orgqr_cpu", A)
    # no reflections: still a result that depends on A
    start = (
        eye_like(A, m, n).expand(A.shape)
        if tau.shape[-1]
        else A[..., :0] @ A[..., :0, :] + eye_like(A, m, n)
    )
    return write_out(out, _reflect(A, tau, start, False, True))


def _check_ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool) -> None:
    name = "torch.ormqr"
    if input.ndim < 2 or other.ndim < 2:
        which = "input" if input.ndim < 2 else "other"
        raise RuntimeError(f"{name}: {which} must have at least 2 dimensions.")
    size, k, side = other.shape[-2 if left else -1], tau.shape[-1], "-2" if left else "-1"
    if k != min(size, input.shape[-1]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    if size != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    for what, t, less in (("tau", tau, 1), ("other", other, 0)):
        if input.ndim - t.ndim != less:
            relation = "one dimension less than" if less else "the same number of dimensions as"
            raise RuntimeError(
                f"{name}: Expected {what} to have {relation} input, but got {what}.ndim equal to {t.ndim} and "
                f"input.ndim is equal to {input.ndim}"
            )
        if tuple(t.shape[: input.ndim - 2]) != tuple(input.shape[:-2]):
            raise RuntimeError(
                f"{name}: Expected batch dimensions of {what} to be equal to input.shape[:-2], but got "
                f"{list(t.shape[: input.ndim - 2])}"
            )
    for what, t in (("tau", tau), ("other", other)):
        text = f"{name}: Expected input and {what} to have the same dtype, but input has dtype{{}} and {what} "
        same_dtype(input, t, text + "has dtype {}")


@function("ormqr", method=True)
def ormqr(input, tau, other, left=True, transpose=False, *, out=None):
    """`other` multiplied by the full Q, or its conjugate transpose, that ``geqrf`` describes.

    Args:
        input, tau: the reflections (..., m, k) and their factors (..., k), as ``geqrf`` returns them.
        other: matrices (..., m, n), or (..., n, m) if not `left`.
        left: whether Q stands on the left.
        transpose: whether Q^H stands there.
        out: written to instead of a new tensor.

    Returns:
        Matrices of the shape of `other`.

    Raises:
        RuntimeError: the shapes do not fit.

    Example:
        >>> gradlib.ormqr(gradlib.zeros(2, 2), gradlib.zeros(2), gradlib.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    _check_ormqr(input, tau, other, left)
    input, tau, other = widened(input, tau, other)
    check_kernel("ormqr_cpu", input)
    if left:
        result = _reflect(input, tau, other, transpose, True)
    else:
        rows = _reflect(input, tau, other.mT.conjugate(), not transpose, False)
        result = rows.mT.conjugate()
    return write_same(
        out,
        result,
        "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{Want} and result has dtype "
        "{Got}",
    )


def _geqrf(xp, self):
    h, tau = xp.linalg.qr(self, "raw")
    return column_major(xp, xp.swapaxes(h, -1, -2)), tau


geqrf_op = declare(
    "geqrf", full_precision("geqrf_cpu", _geqrf),
    captures=captures.SOLVER,
    autocast="cpu:float32", n_out=2, nondifferentiable="not in PyTorch either: use linalg.qr",
    samples=lambda t: [(t(4, 3),), (t(3, 3),)],
)  # fmt: skip


@function("geqrf", method=True)
def geqrf(input, *, out=None):
    """The QR decomposition as the reflections that it is made of; without derivative.

    Args:
        input: matrices (..., m, n).
        out: a tuple of tensors, written to instead of new ones.

    Returns:
        A named tuple (a, tau): (..., m, n) with R on and above the diagonal and the vectors of the reflections below
            it, and their factors (..., min(m, n)).

    Raises:
        RuntimeError: fewer than two dimensions.

    Example:
        >>> gradlib.geqrf(gradlib.tensor([[3.0], [4.0]])).tau
        tensor([1.6000])
    """
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    (input,) = widened(input)
    check_kernel("geqrf_cpu", input)
    found = (without_derivative("geqrf", t, input) for t in geqrf_op.call(input.detach()))
    return write_out(out, return_types.geqrf(*found))
