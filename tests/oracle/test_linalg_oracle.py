"""gradlib.linalg: the same as PyTorch's. What is defined up to a phase is compared through functions without it."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from expressions import check, check_error, evaluate, leaves

import gradlib as gl

SQUARE = """
torch.linalg.det(A) | torch.linalg.slogdet(A) | torch.linalg.inv(A) | torch.inverse(A)
torch.linalg.solve(A, B) | torch.linalg.solve(A, B.mT, left=False)
torch.linalg.solve(A, B[..., 0]) | torch.linalg.inv_ex(A) | torch.linalg.solve_ex(A, B)
torch.linalg.solve_triangular(A, B, upper=True)
torch.linalg.solve_triangular(A, B, upper=False, unitriangular=True)
torch.linalg.solve_triangular(A, B.mT, upper=True, left=False)
torch.linalg.matrix_exp(A) | torch.linalg.matrix_power(A, 5) | torch.linalg.matrix_power(A, -2)
torch.linalg.cond(A) | torch.linalg.eigvals(A).sum(-1, keepdim=True) | torch.linalg.lu(A)
torch.linalg.lu_factor(A) | torch.linalg.lu_solve(*torch.linalg.lu_factor(A), B)
torch.linalg.cholesky(A @ A.mH + I).abs() | torch.linalg.cholesky(A @ A.mH + I, upper=True).abs()
torch.linalg.eigvalsh(A + A.mH) | torch.linalg.multi_dot((A[0, :3] if A.ndim > 3 else sq, x, v))
L, V = torch.linalg.eigh(A + A.mH); out = (V * L.exp().unsqueeze(-2)) @ V.mH
L, V = torch.linalg.eig(A); out = (V * L.exp().unsqueeze(-2)) @ torch.linalg.inv(V)
L, V = torch.linalg.eig(A); out = (V.abs() ** 4).sum((-2, -1))
"""
RECTANGULAR = """
torch.linalg.svdvals(C) | torch.linalg.pinv(C) | torch.linalg.lu_factor(C)[0]
torch.linalg.lstsq(C, C[..., :1])[0] | torch.linalg.matrix_rank(C)
U, S, Vh = torch.linalg.svd(C, full_matrices=False); out = (U * S.exp().unsqueeze(-2)) @ Vh
U, S, Vh = torch.linalg.svd(C); k = S.shape[-1]; out = (U[..., :k] * S.sqrt().unsqueeze(-2)) @ Vh[..., :k, :]
Q, R = torch.linalg.qr(C); out = Q @ (R * R.abs())
Q, R = torch.linalg.qr(C); out = R.abs()
"""
OTHERS = """
torch.linalg.vecdot(z, z) | torch.linalg.vander(v) | torch.linalg.diagonal(y)
torch.linalg.tensorsolve(x.t() @ x + torch.eye(4, dtype=x.dtype), v)
torch.linalg.tensorinv((sq + 3 * torch.eye(3)).reshape(3, 3, 1), ind=1)
torch.linalg.householder_product(x.t(), w) | torch.ormqr(x.t(), w * 0.3, x.t().detach())
torch.logdet(sq @ sq.t())
torch.cholesky_solve(sq.detach(), torch.linalg.cholesky(sq @ sq.t() + torch.eye(3)).detach())
torch.geqrf(x.detach()) | torch.lu_unpack(*torch.linalg.lu_factor(x))
torch.linalg.matrix_power(sq, 0).detach()
"""
ERRORS = """
torch.linalg.inv(x) | torch.linalg.det(v) | torch.linalg.inv(n[:, :3])
torch.linalg.solve(sq, x.t()) | torch.linalg.eigh(x) | torch.linalg.slogdet(x)
torch.linalg.qr(x, 'foo') | torch.linalg.solve_triangular(sq, v, upper=True)
torch.linalg.matrix_norm(x, 'foo') | torch.linalg.multi_dot((x,)) | torch.linalg.matrix_exp(x)
"""
SINGULAR = """
torch.linalg.inv(sq * 0) | torch.linalg.inv(torch.zeros(2, 3, 3)) | torch.linalg.solve(sq * 0, sq)
torch.linalg.cholesky(-torch.eye(3))
torch.linalg.cholesky(torch.stack([torch.eye(3), -torch.eye(3)]))
"""


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


def run(code: str, setup: str) -> None:
    if "out =" not in code:
        code = f"out = {code}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(f"{setup}; {code}", names=False, rtol=1e-8)


REAL = "I = torch.eye(3, dtype=sq.dtype); A = sq + 2 * I; B = x"
COMPLEX = "I = torch.eye(3, dtype=z.dtype); A = zz + 2 * I; B = z"


@pytest.mark.parametrize("setup", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("code", cases(SQUARE))
def test_same_square(code, setup):
    run(code, setup)


@pytest.mark.parametrize("setup", ["C = x", "C = y.mT", "C = z", "C = zz[0]"])
@pytest.mark.parametrize("code", cases(RECTANGULAR))
def test_same_rectangular(code, setup):
    run(code, setup)


@pytest.mark.parametrize("code", cases(OTHERS))
def test_same_others(code):
    run(code, "pass")


@pytest.mark.parametrize("order", ["'fro'", "'nuc'", "2", "-2", "1", "-1", "float('inf')"])
@pytest.mark.parametrize("name", ["x", "z", "y"])
def test_same_matrix_norm(name, order):
    check(
        f"torch.linalg.matrix_norm({name}, {order})",
        names=False,
        second="1" not in order and "inf" not in order,
    )


@pytest.mark.parametrize("code", cases(ERRORS))
def test_same_error(code):
    check_error(code)


@pytest.mark.parametrize("code", cases(SINGULAR))
def test_same_singular(code):
    raised = []
    for lib in (gl, torch):
        with pytest.raises(lib.linalg.LinAlgError) as caught:
            evaluate(lib, code, leaves())
        raised.append(str(caught.value).split("\n")[0])
    assert raised[0] == raised[1]
