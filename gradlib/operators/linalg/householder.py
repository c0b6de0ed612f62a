"""Householder reflections: geqrf, and the products of reflections that it describes."""

from __future__ import annotations

from ... import return_types
from ...op import captures
from ...op.declare import declare
from ...op.expose import function, write_out
from ...tape.tensor import Tensor
from ..kinds import widened
from .base import check_kernel, eye_like, full_precision, linalg, without_derivative

# -- Householder reflections -------------------------------------------------------------------------------------


def _reflect(A, tau, Q, adjoint: bool):
    """Q with the reflections of ``geqrf`` (or, adjoint, their reverse) applied from the left."""
    k = tau.shape[-1]
    vectors = A[..., :, :k].tril(-1) + eye_like(A, A.shape[-2], k)
    for i in range(k) if adjoint else reversed(range(k)):
        v = vectors[..., i : i + 1]
        t = tau[..., i : i + 1].unsqueeze(-1)
        Q = Q - (t.conjugate() if adjoint else t) * (v @ (v.mT.conjugate() @ Q))
    return Q


@linalg("householder_product", also="orgqr", methods="orgqr")
def householder_product(A, tau, *, out=None):
    """The first columns of the product of the reflections that ``geqrf`` returns: Q of a QR decomposition."""
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
    if A.dtype is not tau.dtype:
        kinds = [t.dtype.tensor_type.removesuffix("Tensor") for t in (tau, A)]
        raise RuntimeError(
            f"torch.linalg.householder_product: tau dtype {kinds[0]} does not match input dtype {kinds[1]}"
        )
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
    return write_out(out, _reflect(A, tau, start, False))


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
        if t.dtype is not input.dtype:
            kinds = [x.dtype.tensor_type.removesuffix("Tensor") for x in (input, t)]
            raise RuntimeError(
                f"{name}: Expected input and {what} to have the same dtype, but input has dtype{kinds[0]} and {what} "
                f"has dtype {kinds[1]}"
            )


@function("ormqr", method=True)
def ormqr(input, tau, other, left=True, transpose=False, *, out=None):
    """`other` multiplied by the full Q (or Q^H) that ``geqrf`` describes."""
    _check_ormqr(input, tau, other, left)
    input, tau, other = widened(input, tau, other)
    check_kernel("ormqr_cpu", input)
    if out is not None and out.dtype is not input.dtype:
        kinds = [x.dtype.tensor_type.removesuffix("Tensor") for x in (input, out)]
        raise RuntimeError(
            f"torch.ormqr: Expected input and result to have the same dtype, but input has dtype{kinds[0]} and result "
            f"has dtype {kinds[1]}"
        )
    if left:
        return write_out(out, _reflect(input, tau, other, transpose))
    return write_out(out, _reflect(input, tau, other.mT.conjugate(), not transpose).mT.conjugate())


def _geqrf(xp, self):
    h, tau = xp.linalg.qr(self, "raw")
    return xp.swapaxes(h, -1, -2).copy(), tau


geqrf_op = declare(
    "geqrf", full_precision("geqrf_cpu", _geqrf),
    captures=captures.SOLVER,
    autocast="cpu:float32", n_out=2, nondifferentiable="not in PyTorch either: use linalg.qr",
    samples=lambda t: [(t(4, 3),), (t(3, 3),)],
)  # fmt: skip


@function("geqrf", method=True)
def geqrf(input, *, out=None):
    """(a, tau): R above the diagonal and the Householder vectors below it, and their factors. No derivative."""
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    (input,) = widened(input)
    check_kernel("geqrf_cpu", input)
    found = (without_derivative("geqrf", t, input) for t in geqrf_op.call(input.detach()))
    return write_out(out, return_types.geqrf(*found))
