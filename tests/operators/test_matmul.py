"""Matrix products, einsum and linear algebra: known values, layouts, saved tensors, errors."""

import numpy as np
import pytest

import gradlib as torch
from gradlib.operators.linalg.linear import linear_op

rng = np.random.default_rng(3)


def normal(*shape, grad=False):
    return torch.from_numpy(rng.normal(size=shape)).requires_grad_(grad)


@pytest.mark.parametrize(
    ("a", "b", "node"),
    [
        ((3, 4), (4, 2), "MmBackward0"),
        ((4,), (4,), "DotBackward0"),
        ((3, 4), (4,), "MvBackward0"),
        ((2, 3, 4), (4, 2), "UnsafeViewBackward0"),
        ((5, 1, 3, 4), (2, 4, 2), "UnsafeViewBackward0"),
    ],
)
def test_matmul_shapes_and_nodes(a, b, node):
    x, y = normal(*a, grad=True), normal(*b)
    out = x @ y
    np.testing.assert_allclose(
        out.detach().numpy(), np.matmul(x.detach().numpy(), y.numpy()), rtol=1e-12
    )
    assert out.grad_fn.name() == node


def test_only_what_is_needed_is_saved():
    x, w = normal(2, 3), normal(3, 2, grad=True)
    node = (x @ w).grad_fn
    assert node._saved_self is x and node._saved_mat2 is None


def test_linear_flattens_leading_dimensions():
    x, w, b = normal(2, 5, 3, grad=True), normal(4, 3, grad=True), normal(4, grad=True)
    out = linear_op.call(x, w, b)
    assert out.shape == (2, 5, 4) and out.grad_fn.name() == "AddmmBackward0"
    g = normal(2, 5, 4)
    gx, gw, gb = torch.autograd.grad(out, (x, w, b), g)
    np.testing.assert_allclose(gx.numpy(), g.numpy() @ w.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(
        gw.numpy(), np.einsum("abi,abj->ij", g.numpy(), x.detach().numpy()), rtol=1e-12
    )
    np.testing.assert_allclose(gb.numpy(), g.numpy().sum((0, 1)), rtol=1e-12)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_products_accumulate_in_float32(name):
    d = getattr(torch, name)
    a, b = torch.ones(2, 3000, dtype=d), torch.ones(3000, 2, dtype=d)
    assert (a @ b).dtype is d and float((a @ b)[0, 0]) == pytest.approx(3000, rel=4e-3)
    assert torch.bmm(a[None], b[None]).dtype is d and linear_op.call(a, b.t(), None).dtype is d


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bhqd,bkhd->bhqk", [(2, 2, 3, 4), (2, 5, 2, 4)]),
        ("...ij,jk", [(2, 2, 3), (3, 2)]),
        ("ij,j->", [(3, 4), (4,)]),
        ("ii->i", [(3, 3)]),
        ("i,j,k->kij", [(2,), (3,), (4,)]),
        ("ij,jk,kl->li", [(2, 3), (3, 4), (4, 2)]),
        ("abc,bc->a", [(2, 3, 4), (1, 4)]),
    ],
)
def test_einsum_equals_numpy(equation, shapes):
    arrays = [rng.normal(size=s) for s in shapes]
    got = torch.einsum(equation, *(torch.from_numpy(a) for a in arrays))
    if equation.startswith("abc"):
        arrays[1] = np.broadcast_to(arrays[1], (3, 4))
    np.testing.assert_allclose(got.numpy(), np.einsum(equation, *arrays), rtol=1e-10, atol=1e-12)


def test_einsum_of_one_operand_is_a_view():
    x = normal(2, 3)
    assert torch.einsum("ij->ji", x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a, v: a @ a, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"),
        (lambda a, v: v.dot(a[0, :2]), "inconsistent tensor size"),
        (lambda a, v: a @ v.float(), "same dtype"),
        (lambda a, v: torch.einsum("ij,jk", a, a), "does not broadcast"),
        (lambda a, v: torch.einsum("ij", a, a), "more operands were provided"),
    ],
)
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call(normal(2, 3), normal(3))


def test_wrong_kind_of_argument():
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        torch.matmul(normal(2, 2), 3)
    with pytest.raises(TypeError):
        normal(2, 2) @ 3


def test_addmm_in_place_and_beta_zero():
    out = torch.full((2, 2), float("nan"), dtype=torch.float64)
    assert torch.addmm(out, normal(2, 3), normal(3, 2), beta=0).isfinite().all()
    c = torch.zeros(2, 2, dtype=torch.float64)
    assert c.addmm_(torch.eye(2, dtype=c.dtype), torch.eye(2, dtype=c.dtype), alpha=3) is c
    assert c.tolist() == [[3, 0], [0, 3]]


# -- linalg ------------------------------------------------------------------------------------------------------


def test_determinant_of_a_singular_matrix_has_a_gradient():
    A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    torch.linalg.det(A).backward()
    np.testing.assert_allclose(A.grad.numpy(), [[4, -2], [-2, 1]], rtol=1e-5)


def test_singular_matrices_raise():
    A = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(torch.linalg.LinAlgError, match="The diagonal element 2 is zero"):
        torch.linalg.inv(A)
    with pytest.raises(torch.linalg.LinAlgError, match="The solver failed"):
        torch.linalg.solve(A, A)
    with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 1"):
        torch.linalg.cholesky(-A)
    assert torch.linalg.inv_ex(torch.stack([torch.eye(2), A])).info.tolist() == [0, 2]
    assert torch.linalg.cholesky_ex(A).info.item() == 2


def test_eigenvalues_that_coincide_have_gradients():
    A = torch.eye(3, dtype=torch.float64, requires_grad=True)
    torch.linalg.eigvalsh(A).sum().backward()
    np.testing.assert_allclose(A.grad.numpy(), np.eye(3), atol=1e-12)
    (g,) = torch.autograd.grad(torch.linalg.svdvals(A).sum(), A)
    np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-12)


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("n", [5, 130])
def test_triangular_solution_reads_one_triangle(n, upper):
    A, B = normal(n, n) + 20 * torch.eye(n, dtype=torch.float64), normal(n, 3)
    X = torch.linalg.solve_triangular(A, B, upper=upper)
    T = A.triu() if upper else A.tril()
    np.testing.assert_allclose((T @ X).numpy(), B.numpy(), rtol=1e-9, atol=1e-9)


def test_matrix_exp_of_large_and_zero_matrices():
    A = torch.stack([torch.zeros(2, 2), torch.tensor([[0.0, 30.0], [-30.0, 0.0]])]).double()
    E = torch.linalg.matrix_exp(A)
    np.testing.assert_allclose(E[0].numpy(), np.eye(2), atol=1e-15)
    np.testing.assert_allclose(E[1, 0].numpy(), [np.cos(30), np.sin(30)], atol=1e-10)


def test_low_rank():
    A = normal(20, 3) @ normal(3, 10)
    U, S, V = torch.svd_lowrank(A, q=3)
    np.testing.assert_allclose(((U * S) @ V.mT).numpy(), A.numpy(), atol=1e-9)
    assert torch.linalg.matrix_rank(A).item() == 3


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_linear_of_integers(dtype):
    x = torch.tensor([[1, 2, 3], [4, 5, 6]]).to(getattr(torch, dtype))
    bias = torch.ones(2, dtype=x.dtype)
    F = torch.nn.functional
    for found in (F.linear(x, x, bias), F.linear(x[None], x, bias)[0], F.linear(x[0], x, bias)):
        assert found.dtype is x.dtype
        assert found.reshape(-1)[:2].tolist() == [15, 33]
