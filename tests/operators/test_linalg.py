"""Linear algebra: decompositions put together again, singular matrices, empty batches, named results, out=."""

import numpy as np
import pytest

import gradlib as torch
from gradlib.autograd import gradcheck

rng = np.random.default_rng(8)
L = torch.linalg


def normal(*shape, grad=False, kind="float64"):
    array = rng.normal(size=shape)
    if kind.startswith("complex"):
        array = array + 1j * rng.normal(size=shape)
    return torch.from_numpy(array.astype(kind)).requires_grad_(grad)


def close(a, b, atol=1e-9):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=atol)


# -- LDL -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
@pytest.mark.parametrize(
    ("kind", "hermitian"), [("float64", False), ("complex128", False), ("complex128", True)]
)
def test_ldl_solves(n, kind, hermitian):
    A = normal(4, n, n, kind=kind)
    A = A + (A.mH if hermitian else A.mT)
    B = normal(n, 2, kind=kind)
    LD, pivots = L.ldl_factor(A, hermitian=hermitian)
    assert pivots.dtype is torch.int32 and pivots.shape == (4, n)
    close(A @ L.ldl_solve(LD, pivots, B, hermitian=hermitian), B.expand(4, n, 2), atol=1e-8)


def test_ldl_takes_blocks_of_two_where_the_diagonal_is_zero():
    A = torch.tensor([[0.0, 2.0], [2.0, 0.0]])
    LD, pivots, info = L.ldl_factor_ex(A)
    assert pivots.tolist() == [-2, -2] and info.item() == 0
    close(L.ldl_solve(LD, pivots, torch.eye(2)), torch.tensor([[0.0, 0.5], [0.5, 0.0]]))


def test_ldl_reads_the_lower_triangle_and_has_no_derivative():
    A = normal(3, 3, grad=True)
    LD, _ = L.ldl_factor(A)
    close(LD, L.ldl_factor(A.detach().tril())[0])
    with pytest.raises(
        RuntimeError, match="derivative for aten::linalg_ldl_factor_ex is not implemented"
    ):
        LD.sum().backward()
    with pytest.raises(RuntimeError, match="block 1 of D is zero"):
        L.ldl_factor(torch.zeros(2, 2))


# -- LU ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (80, 70), (70, 80), (2, 40, 40)])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_lu_of_blocks(shape, kind):
    A = normal(*shape, kind=kind)
    P, lower, upper = L.lu(A)
    close(P @ lower @ upper, A, atol=1e-10)
    close(lower, lower.tril())
    assert float(lower.abs().max()) <= 2**0.5 + 1e-12  # pivots are the largest by |re| + |im|


def test_lu_without_pivoting():
    A = normal(5, 5) + 10 * torch.eye(5, dtype=torch.float64)
    P, lower, upper = L.lu(A, pivot=False)
    assert P.shape == (0,)
    close(lower @ upper, A)


def test_lu_of_singular_matrices():
    A = torch.zeros(2, 2)
    found = L.lu_factor_ex(A)
    assert found.info.item() == 1 and type(found).__name__ == "linalg_lu_factor_ex"
    with pytest.raises(RuntimeError, match=r"U\[1,1\] is zero and using it on lu_solve"):
        L.lu_factor(A)
    assert torch.lu(A, get_infos=True).info.item() == 1


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(left, adjoint):
    A, B = normal(4, 4, kind="complex128"), normal(4, 4, kind="complex128")
    X = L.lu_solve(*L.lu_factor(A), B, left=left, adjoint=adjoint)
    matrix = A.mH if adjoint else A
    close(matrix @ X if left else X @ matrix, B)


# -- least squares, ranks, tolerances ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "residuals", "rank", "values"),
    [(None, 0, 1, 0), ("gels", 2, 0, 0), ("gelsd", 2, 1, 3), ("gelss", 2, 1, 3)],
)
def test_lstsq_fills_what_its_driver_knows(driver, residuals, rank, values):
    A, B = normal(5, 3), normal(5, 2)
    found = L.lstsq(A, B, driver=driver)
    assert found._fields == ("solution", "residuals", "rank", "singular_values")
    close(A.mT @ (A @ found.solution), A.mT @ B)
    assert found.residuals.shape == (residuals,) and found.singular_values.shape == (values,)
    assert found.rank.numel() == rank and found.rank.dtype is torch.int64
    if residuals:
        close(found.residuals, (A @ found.solution - B).square().sum(0))


def test_lstsq_results_depend_on_the_input():
    found = L.lstsq(normal(2, 3, grad=True), normal(2, 2))
    assert found.solution.requires_grad and found.residuals.requires_grad
    assert not found.rank.requires_grad and found.residuals.shape == (0,)


def test_tolerances_may_differ_within_the_batch():
    A = torch.diag_embed(torch.tensor([[4.0, 1.0, 0.1], [4.0, 1.0, 0.1]]))
    assert L.matrix_rank(A, atol=torch.tensor([0.5, 2.0])).tolist() == [2, 1]
    inverse = L.pinv(A, rtol=torch.tensor([0.01, 0.1]))
    close(inverse.diagonal(0, -2, -1), torch.tensor([[0.25, 1, 10], [0.25, 1, 0]]), atol=1e-5)


# -- factors and reflections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_solve_and_inverse(upper):
    A = normal(2, 3, 3, kind="complex128")
    A = A @ A.mH + torch.eye(3)
    factor = torch.cholesky(A, upper)
    B = normal(3, 2, kind="complex128")
    close(A @ torch.cholesky_solve(B, factor, upper), B.expand(2, 3, 2))
    close(torch.cholesky_inverse(factor, upper) @ A, torch.eye(3, dtype=A.dtype).expand(2, 3, 3))


def test_gradient_of_a_triangular_argument_is_that_of_a_full_one():
    factor = L.cholesky(torch.eye(2) * 4 + 1).requires_grad_()
    torch.cholesky_inverse(factor).sum().backward()
    assert factor.grad[0, 1] != 0


def test_householder_product_without_reflections_still_depends_on_its_input():
    A = normal(3, 2, grad=True)
    Q = L.householder_product(A, normal(0))
    close(Q, torch.eye(3, 2, dtype=torch.float64))
    Q.sum().backward()
    assert A.grad is not None and not A.grad.any()


def test_ormqr_applies_the_q_of_geqrf():
    A, B = normal(4, 3), normal(4, 2)
    h, tau = torch.geqrf(A)
    close(torch.ormqr(h, tau, torch.ormqr(h, tau, B), transpose=True), B)
    close(L.householder_product(h, tau) @ h[:3].triu(), A)


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: L.inv_ex(torch.zeros(2, 2), check_errors=True), r"linalg.inv_ex: The diagonal element 1 is zero"),
        (lambda: L.solve(torch.zeros(3, 2, 2), torch.ones(2, 1)), r"torch.linalg.solve: \(Batch element 0\)"),
        (lambda: torch.cholesky(-torch.eye(2)), "^cholesky: The factorization could not be completed"),
        (lambda: L.cholesky_ex(-torch.eye(2), check_errors=True), "linalg.cholesky_ex: .* minor of order 1"),
        (lambda: L.svd(torch.full((2, 2), float("nan"))), "linalg.svd: .* contained non-finite values"),
    ],
)  # fmt: skip
def test_singular_and_bad_matrices_raise_linalg_error(call, text):
    with pytest.raises(L.LinAlgError, match=text):
        call()


@pytest.mark.host  # to look at values on a device means to wait for it
def test_functions_of_arbitrary_phases_have_no_derivative():
    A = normal(3, 3, grad=True, kind="complex128")
    hermitian = A + A.mH
    with pytest.raises(
        RuntimeError, match="linalg_eigh_backward: The eigenvectors in the complex case"
    ):
        L.eigh(hermitian).eigenvectors.sum().real.backward()
    with pytest.raises(
        RuntimeError, match="svd_backward: The singular vectors in the complex case"
    ):
        L.svd(A, full_matrices=False).U.sum().real.backward()
    L.eigh(hermitian).eigenvectors.abs().sum().backward()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=torch.zeros(0, dtype=torch.float64)), RuntimeError,
         "Expected out tensor to have dtype float, but got double instead"),
        (lambda: L.inv(torch.eye(2), out=torch.zeros(0, dtype=torch.int64)), RuntimeError, "but got long int instead"),
        (lambda: torch.addmm(torch.ones(2), torch.ones(2, 2), torch.ones(2, 2).double()), RuntimeError,
         "self and mat2 must have the same dtype, but got Float and Double"),
        (lambda: torch.einsum("ij,jk", torch.ones(2, 2), torch.ones(2, 2).double()), RuntimeError,
         "expected scalar type Float but found Double"),
        (lambda: torch.cov(torch.ones(2, 3), fweights=torch.tensor([1, -1, 2])), RuntimeError, "cannot be negative"),
        (lambda: L.matrix_power(torch.eye(2), 0.5), TypeError, "argument 'n' .* must be int, not float"),
        (lambda: L.qr(torch.eye(2).half()), NotImplementedError, "\"geqrf_cpu\" not implemented for 'Half'"),
    ],
)  # fmt: skip
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# -- shapes and dtypes at the edge ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)])
def test_empty_matrices(shape):
    A = torch.zeros(shape)
    assert L.inv(A).shape == shape and L.svdvals(A).shape == shape[:-1]
    assert [t.shape for t in L.lu(A)] == [shape] * 3
    assert L.ldl_factor(A)[0].shape == shape and L.eigh(A)[1].shape == shape
    assert L.det(A).tolist() == torch.ones(shape[:-2]).tolist()


def test_products_over_nothing_are_zero():
    a, b = normal(2, 3, 0, grad=True), normal(0, 4, grad=True)
    out = a @ b
    assert out.shape == (2, 3, 4) and not out.any()
    out.sum().backward()
    assert a.grad is not None and a.grad.shape == a.shape
    assert b.grad is not None and b.grad.shape == b.shape
    assert torch.nn.functional.linear(a, normal(4, 0)).shape == (2, 3, 4)


@pytest.mark.parametrize("ord", ["nuc", 2, 1, float("inf")])
def test_norms_of_empty_matrices_are_zero(ord):
    assert L.matrix_norm(torch.zeros(0, 3), ord).item() == 0
    assert L.matrix_norm(torch.zeros(3, 0), ord).item() == 0


def test_einsum_promotes_products_and_refuses_sums():
    i, f = torch.ones(2, dtype=torch.int32), torch.ones(3)
    assert torch.einsum("i,j->ij", i, f).dtype is torch.float32
    with pytest.raises(RuntimeError, match="expected scalar type Int but found Float"):
        torch.einsum("i,i->", i, torch.ones(2))


def test_addr_of_truth_values():
    m, v = torch.tensor([[True, False], [False, False]]), torch.tensor([False, True])
    assert torch.addr(m, v, v).tolist() == [[True, False], [False, True]]
    assert torch.addr(m, v, v, beta=0, alpha=2).tolist() == [[False, False], [False, True]]


def test_addbmm_in_place_grows_its_tensor():
    x = torch.tensor(2.0)
    assert x.addbmm_(torch.ones(2, 2, 3), torch.ones(2, 3, 2)) is x
    assert x.tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_covariance_of_one_variable_is_a_number():
    assert torch.cov(torch.tensor([[1.0, 3.0]])).shape == ()
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        torch.cov(torch.tensor([[1.0, 3.0]]), correction=2)
    weights = torch.tensor([0.5, 1.5, 1.0], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, w: torch.cov(x, aweights=w), (normal(2, 3, grad=True), weights))


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_finds_the_outermost_pairs_of_a_generalised_problem(largest):
    A, B = normal(9, 9), normal(9, 9)
    A, B = A + A.mT, B @ B.mT + torch.eye(9, dtype=torch.float64)
    values, vectors = torch.lobpcg(A, k=2, B=B, largest=largest)
    close(A @ vectors, B @ vectors * values)
    every = L.eigvals(L.solve(B, A)).real
    limit = every.sort(descending=largest).values[:2]
    close(values, limit)
    with pytest.raises(ValueError, match="smaller than 3 x the number of requested"):
        torch.lobpcg(A, k=4)


def test_the_derivative_of_a_determinant_is_each_matrix_own():
    nan = float("nan")
    values = [[[1.0, 2.0], [3.0, 4.0]], [[nan, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 4.0]]]
    x = torch.tensor(values, requires_grad=True)
    L.det(x).sum().backward()
    wanted = [[[4.0, -3.0], [-2.0, 1.0]], [[nan] * 2] * 2, [[4.0, -2.0], [-2.0, 1.0]]]
    torch.testing.assert_close(x.grad, torch.tensor(wanted), equal_nan=True)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_the_rank_of_lstsq_is_that_of_the_matrix(dtype):
    random = np.random.default_rng(0)
    decades = 12 if dtype == "f8" else 4
    for trial in range(60):
        m, n = random.integers(1, 40, 2)
        left, _, right = np.linalg.svd(random.standard_normal((m, n)), full_matrices=False)
        values = np.logspace(0, -random.uniform(0, decades), min(m, n))
        rank = int(random.integers(1, len(values) + 1)) if trial % 2 else len(values)
        values[rank:] = 0
        A = torch.tensor(((left * values) @ right).astype(dtype))
        for columns in (2, 0):
            B = torch.zeros(m, columns, dtype=A.dtype)
            assert L.lstsq(A, B).rank.tolist() == (rank if columns else 0)
