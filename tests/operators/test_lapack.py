"""Linear algebra by the library, called directly, beside the formulas."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import gradlib as gl
from gradlib.devices.numpy import lapack
from gradlib.op.overlays import off

pytestmark = pytest.mark.host  # NumPy's kernels

KINDS = {"float32": 1e-4, "float64": 1e-11, "complex64": 1e-4, "complex128": 1e-11}


def normal(*shape, kind):
    random = np.random.default_rng(3)
    array = random.normal(size=shape) + 1j * random.normal(size=shape)
    return gl.from_numpy(np.asarray(array if kind.startswith("c") else array.real, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (40, 40), (9, 5), (4, 9), (3, 20, 17), (2, 3, 5, 5)])
def test_lu(shape, kind):
    A = normal(*shape, kind=kind)
    LU, pivots = gl.linalg.lu_factor(A)
    with off():
        wanted = gl.linalg.lu_factor(A)
    assert LU.mT.is_contiguous() and pivots.dtype is gl.int32 and gl.equal(pivots, wanted.pivots)
    assert LU.stride() == wanted.LU.stride()
    np.testing.assert_allclose(LU.numpy(), wanted.LU.numpy(), atol=KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unitriangular", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(
    ("batch", "right"), [((), (30, 4)), ((3,), (30, 4)), ((), (2, 30, 1)), ((3, 1), (2, 30, 2))]
)
def test_triangular(batch, right, upper, unitriangular, kind):
    A, B = normal(*batch, 30, 30, kind=kind) / 30 + gl.eye(30), normal(*right, kind=kind)
    for a, b in ((A, B), (A.mT, B.mT.contiguous().mT)):
        X = gl.linalg.solve_triangular(a, b, upper=upper, unitriangular=unitriangular)
        with off():
            wanted = gl.linalg.solve_triangular(a, b, upper=upper, unitriangular=unitriangular)
        assert X.mT.is_contiguous() and wanted.mT.is_contiguous() and X.shape == wanted.shape
        np.testing.assert_allclose(X.numpy(), wanted.numpy(), atol=KINDS[kind])


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(40, 40), (50, 33), (33, 50), (2, 3, 36, 34), (0, 40, 40)])
def test_qr(shape, mode, kind):
    A = normal(*shape, kind=kind)
    for matrix in (A, A.mT.contiguous().mT):
        Q, R = gl.linalg.qr(matrix, mode)
        with off():
            wanted = gl.linalg.qr(A, mode)
        for found, given in zip((Q, R), wanted, strict=True):
            assert found.stride() == given.stride() and found.dtype is given.dtype
            np.testing.assert_allclose(found.numpy(), given.numpy(), atol=KINDS[kind])
        assert gl.equal(R, R.triu())


def test_qr_of_what_is_no_number_gives_none():
    A = normal(40, 40, kind="float32")
    A[3, 4] = math.nan
    assert all(part.isnan().any() for part in gl.linalg.qr(A))


def test_the_gradient_of_a_large_qr():
    A, g = normal(40, 35, kind="float64").requires_grad_(), normal(40, 35, kind="float64")
    found = gl.autograd.grad((gl.linalg.qr(A).Q * g).sum(), A)[0]
    with off():
        wanted = gl.autograd.grad((gl.linalg.qr(A).Q * g).sum(), A)[0]
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-9)


def test_the_library_is_there():
    """NumPy's wheels bring it; all four kinds of numbers."""
    assert all(lapack.available(char) and lapack.lapack("getrf", char) for char in "fdFD")


@pytest.mark.parametrize("number", [0.0, 1e-310, math.nan])
def test_numbers_of_no_reciprocal_go_to_the_formulas(number):
    A = gl.eye(3, dtype=gl.float64) * 2
    A[1, 1] = number
    A[2, 1] = number
    found = gl.lu(A)
    with off():
        wanted = gl.lu(A)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("number", [0.0, 1e-310, math.nan])
def test_a_triangular_system_is_divided_by_numbers_of_no_reciprocal(number, upper, columns):
    A, B = gl.eye(3, dtype=gl.float64) * 2, gl.ones(3, columns, dtype=gl.float64) * 1e-310
    A[1, 1] = A[2, 1] = A[0, 1] = number
    quotient = np.float64(1e-310) / np.float64(number)
    last = (1e-310 - number * quotient) / 2
    wanted = np.array([last, quotient, 5e-311] if upper else [5e-311, quotient, last])
    for matrix in (A, A.mT.contiguous().mT, A[None]):
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                X = gl.linalg.solve_triangular(matrix, B, upper=upper).reshape((3, columns))
                np.testing.assert_array_equal(X.numpy(), wanted[:, None].repeat(columns, 1))
                stack.enter_context(off())


def test_without_the_library_the_formulas_run(monkeypatch):
    monkeypatch.setattr(lapack, "available", lambda char: False)
    monkeypatch.setattr(lapack, "stacked", lambda name: None)
    A = gl.tensor([[0.0, 2.0], [4.0, 4.0]])
    assert gl.lu(A)[0].tolist() == [[4.0, 4.0], [0.0, 2.0]]
    assert gl.linalg.solve_triangular(A.mT, A, upper=True)[1].tolist() == [1.0, 1.0]


def test_an_infinite_divisor_gives_zero_and_an_infinite_factor_of_it_no_number():
    A = gl.eye(3) * 2
    A[1, 1] = A[2, 1] = math.inf
    X = gl.linalg.solve_triangular(A, gl.ones(3, 1), upper=False)
    assert X[:2].tolist() == [[0.5], [0.0]] and X[2].isnan()


def test_a_matrix_that_is_one_entry_spread_over_a_batch():
    """Where a dimension has one element, a contiguous array may have the stride 0 there."""
    A = gl.tensor([[[2.0]]]).expand(1, 1, 1)
    assert gl.linalg.solve_triangular(A, gl.ones(1, 1, 1), upper=False).tolist() == [[[0.5]]]
    A = (gl.eye(3) * 2).expand(1, 3, 3)
    B = gl.ones(3, 2).expand(1, 3, 2)
    assert gl.linalg.solve_triangular(A, B, upper=True).tolist() == [[[0.5] * 2] * 3]
    assert gl.linalg.lu_factor(A)[0].tolist() == A.tolist()


# -- vectors that are defined up to a sign, values alone, factors that are kept ------------------------------------

WITHOUT_SIGNS = {
    "eigh": lambda A: ((v := gl.linalg.eigh(A + A.mT))[1] * v[0].tanh()[..., None, :]) @ v[1].mT,
    "eigh of U": lambda A: gl.linalg.eigh(A + A.mT, UPLO="U")[1].square(),
    "eigvalsh": lambda A: gl.linalg.eigvalsh(A + A.mT).tanh(),
    "svd": lambda A: ((v := gl.linalg.svd(A[..., :7]))[0][..., :7] * v[1].tanh()[..., None, :]) @ v[2],
    "svdvals": lambda A: gl.linalg.svdvals(A[..., :7]).tanh(),
    "eig": lambda A: gl.linalg.eig(A)[1].abs().square().sum(-1),
    "eigvals": lambda A: gl.linalg.eigvals(A).abs().sum(-1),
    "qr": lambda A: gl.linalg.qr(A)[0].square() * gl.linalg.qr(A)[1].abs(),
    "qr of tall": lambda A: gl.linalg.qr(A[..., :5])[0].square(),
    "R of tall": lambda A: gl.linalg.qr(A[..., :5])[1].square(),
    "cholesky": lambda A: gl.linalg.cholesky(A @ A.mT),
    "lu": lambda A: gl.linalg.lu_factor(A)[0],
    "solve": lambda A: gl.linalg.solve(A, A[..., :3].sin()),
    "det": lambda A: gl.linalg.det(A),
    "slogdet": lambda A: gl.linalg.slogdet(A)[1],
    "lstsq": lambda A: gl.linalg.lstsq(A[..., :5], A[..., 5:7]).solution,
    "cholesky_solve": lambda A: gl.cholesky_solve(A[..., :3], gl.linalg.cholesky(A @ A.mT)),
    "cholesky_inverse": lambda A: gl.cholesky_inverse(gl.linalg.cholesky(A @ A.mT, upper=True), upper=True),
    "triangular_solve": lambda A: gl.triangular_solve(A[..., :3], A.triu(), transpose=True).solution,
    "wide lstsq": lambda A: gl.linalg.lstsq(A[..., :5, :], A[..., :5, :2]).solution,
}  # fmt: skip


@pytest.mark.parametrize("n", [8, 20])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("name", WITHOUT_SIGNS)
def test_values_and_gradients_are_those_of_the_formulas(name, batch, n):
    function = WITHOUT_SIGNS[name]
    A = (normal(*batch, n, n, kind="float64") / n**0.5 + 2 * gl.eye(n)).requires_grad_()
    g = None
    found: list = []
    for where in (contextlib.nullcontext(), off()):
        with where:
            for matrix in (A, A.mT.contiguous().mT):
                out = function(matrix)
                g = normal(*out.shape, kind="float64") if g is None else g
                with gl.no_grad():  # where values alone may be computed
                    np.testing.assert_allclose(
                        function(matrix).numpy(), out.detach().numpy(), atol=1e-10
                    )
                found.append((out.detach().numpy(), gl.autograd.grad(out, A, g)[0].numpy()))
    for values, gradient in found[:-1]:
        np.testing.assert_allclose(values, found[-1][0], atol=1e-10)
        np.testing.assert_allclose(gradient, found[-1][1], atol=1e-8)


@pytest.mark.parametrize("name", WITHOUT_SIGNS)
def test_derivatives_in_every_mode(name):
    """Of single matrices for which the library is called, and for values alone under vmap."""
    n = 17 if name in ("solve", "det", "slogdet") else 7
    function = WITHOUT_SIGNS[name]
    A = (
        normal(n, n, kind="float64") / n + 2 * gl.eye(n) + gl.diag(gl.arange(n) / n)
    ).requires_grad_()
    assert gl.autograd.gradcheck(function, (A,), check_forward_ad=True, fast_mode=True)
    assert gl.autograd.gradgradcheck(function, (A,), fast_mode=True)
    many = gl.stack([A.detach(), A.detach() * 1.5])
    np.testing.assert_allclose(
        gl.func.vmap(function)(many).numpy(), function(many).numpy(), atol=1e-9
    )
    one = gl.func.vmap(gl.func.grad(lambda a: function(a).sum()))(many)[0]
    np.testing.assert_allclose(
        one.numpy(), gl.autograd.grad(function(A).sum(), A)[0].numpy(), atol=1e-8
    )


def test_float32_is_computed_in_float32_as_exactly_as_its_rounding_allows():
    A = normal(30, 30, kind="float64")
    S = A @ A.mT + 30 * gl.eye(30)
    for call in (gl.linalg.eigvalsh, gl.linalg.svdvals, gl.linalg.inv, gl.linalg.cholesky):
        found, wanted = call(S.float()), call(S)
        assert found.dtype is gl.float32
        np.testing.assert_allclose(
            found.numpy(), wanted.numpy(), atol=3e-6 * wanted.abs().max().item()
        )


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_gradient_of_a_large_determinant(kind):
    """Beyond what float32 holds, and with a condition that it does not invert."""
    A = (normal(60, 60, kind=kind) * 3).requires_grad_()
    wide = A.detach().double()
    det = gl.linalg.det(A)
    (found,) = gl.autograd.grad(det, A)
    wanted = (gl.linalg.det(wide) * gl.linalg.inv(wide).mT).to(A.dtype)
    np.testing.assert_allclose(
        found.numpy(), wanted.numpy(), rtol=1e-4 if kind == "float32" else 1e-9
    )
    assert det.isinf() == (kind == "float32")


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("n", [4, 20])
def test_pivots_below_the_normal_numbers_of_float32(n, columns):
    """The library does not divide by them."""
    M, b = normal(n, n, kind="float64"), normal(n, columns, kind="float64")
    A, B = (M * 1e-39).float(), (b * 1e-39).float()
    wanted = gl.linalg.solve(A.double() * 1e39, B.double() * 1e39).float().numpy()
    for matrix in (A, A.mT.contiguous().mT, A.expand(2, n, n)):
        found = gl.linalg.solve(matrix, B).numpy()
        np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-4)
    tiny = gl.linalg.inv((M * 1e-38 * 2).float()).double()
    wanted = gl.linalg.inv((M * 1e-38 * 2).float().double()).numpy()
    wanted[np.abs(wanted) > np.finfo(np.float32).max] = math.inf
    found = tiny.numpy()
    held = np.isfinite(wanted)
    np.testing.assert_allclose(found[held], wanted[held], rtol=1e-3)


@pytest.mark.parametrize("n", [3, 20])
def test_the_gradient_of_the_determinant_of_a_singular_matrix(n):
    A = gl.eye(n)
    A[1, 1] = 0
    A.requires_grad_()
    (found,) = gl.autograd.grad(gl.linalg.det(A), A)
    wanted = gl.zeros(n, n)
    wanted[1, 1] = 1
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-6)


def test_singular_matrices_are_named_for_one_and_for_many():
    for n in (3, 20):
        A = gl.ones(n, n)
        with pytest.raises(gl.linalg.LinAlgError, match=r"^torch.linalg.solve: The solver failed"):
            gl.linalg.solve(A, gl.ones(n, 2))
        with pytest.raises(
            gl.linalg.LinAlgError, match=r"^linalg.inv: The diagonal element 2 is zero"
        ):
            gl.linalg.inv(A)
        with pytest.raises(gl.linalg.LinAlgError, match=r"\(Batch element 1\)"):
            gl.linalg.inv(gl.stack([gl.eye(n), A]))
        with pytest.raises(
            gl.linalg.LinAlgError, match=r"\(Batch element 1\): The factorization .* order 2 is"
        ):
            gl.linalg.cholesky(gl.stack([gl.eye(n), A - gl.diag(gl.ones(n) * 0.5)]))


def test_a_program_that_wants_exceptions_for_invalid_numbers_gets_the_same_errors():
    with np.errstate(all="raise"):
        with pytest.raises(gl.linalg.LinAlgError):
            gl.linalg.inv(gl.ones(3, 3))
        with pytest.raises(gl.linalg.LinAlgError):
            gl.linalg.cholesky(-gl.eye(3))


def test_read_only_memory_is_read():
    array = np.tril(np.ones((20, 20))) + np.eye(20)
    array.setflags(write=False)
    with pytest.warns(UserWarning, match="not writable"):
        A = gl.from_numpy(array)
    X = gl.linalg.solve_triangular(A, gl.ones(20, 1, dtype=gl.float64), upper=False)
    np.testing.assert_allclose((A @ X).numpy(), np.ones((20, 1)))


def test_what_is_kept_for_backward_goes_through_the_hooks_for_it():
    A, B = normal(20, 20, kind="float64").requires_grad_(), normal(20, 3, kind="float64")
    wanted = gl.autograd.grad(gl.linalg.solve(A, B).sum() + gl.linalg.det(A), A)[0]
    packed = []

    def pack(t):
        packed.append(t)
        return t.detach().mT.contiguous().mT.clone() if t.ndim > 1 else t.detach().clone()

    with gl.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = gl.linalg.solve(A, B).sum() + gl.linalg.det(A)
    assert len(packed) >= 6
    np.testing.assert_allclose(gl.autograd.grad(loss, A)[0].numpy(), wanted.numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_eigenvalues_have_the_precision_of_the_matrix(kind):
    want = gl.complex64 if kind in ("float32", "complex64") else gl.complex128
    for A in (normal(5, 5, kind=kind), normal(2, 3, 3, kind=kind)):
        L, V = gl.linalg.eig(A)
        assert L.dtype is V.dtype is gl.linalg.eigvals(A).dtype is want
        np.testing.assert_allclose(
            (A.to(want) @ V).numpy(), (V * L[..., None, :]).numpy(), atol=1e-4
        )


# -- reflections -------------------------------------------------------------------------------------------------------


def reflections_one_by_one(A, tau):
    """The product of the reflections I - tau v v^H of one matrix, each as a matrix."""
    m, product = len(A), np.eye(len(A), dtype=A.dtype)
    for i, factor in enumerate(tau):
        v = np.concatenate([np.zeros(i), [1.0], A[i + 1 :, i]])
        product = product @ (np.eye(m) - factor * np.outer(v, v.conj()))
    return product


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 3, 3), (6, 5, 2), (4, 4, 4), (1, 1, 1), (7, 2, 0)])
def test_products_of_reflections(m, n, k, kind):
    """Also with factors that come of no decomposition, and with one that is 0."""
    A, tau = normal(2, m, n, kind=kind), normal(2, k, kind=kind) / 2
    tau[1, : k // 2] = 0
    wanted = [reflections_one_by_one(a, t) for a, t in zip(A.numpy(), tau.numpy(), strict=True)]
    found = gl.linalg.householder_product(A, tau)
    np.testing.assert_allclose(found.numpy(), np.stack(wanted)[..., :n], atol=1e-12)
    if k < min(m, n):
        return
    for left, transpose in ((True, False), (True, True), (False, False), (False, True)):
        other = normal(2, m, 3, kind=kind) if left else normal(2, 3, m, kind=kind)
        found = gl.ormqr(A, tau, other, left, transpose)
        full = np.stack([q.conj().T if transpose else q for q in wanted])
        given = other.numpy()
        product = full @ given if left else given @ full
        np.testing.assert_allclose(found.numpy(), product, atol=1e-12)
        assert m == 1 or found.mT.is_contiguous()


@pytest.mark.parametrize("size", [5, 60])
def test_reflections_of_a_decomposition_are_orthogonal(size):
    Q = gl.linalg.householder_product(*gl.geqrf(normal(size, size, kind="float32")))
    np.testing.assert_allclose((Q.mT @ Q).numpy(), np.eye(size), atol=1e-5)
    assert Q.mT.is_contiguous()


# -- strides -----------------------------------------------------------------------------------------------------------

IN_COLUMNS = {
    "cholesky": lambda A, B: [gl.linalg.cholesky(A), gl.linalg.cholesky(A, upper=True)],
    "svd": lambda A, B: gl.linalg.svd(B)[::2],
    "svd, reduced": lambda A, B: gl.linalg.svd(B, full_matrices=False)[::2],
    "svd, wide": lambda A, B: gl.linalg.svd(B.mT, full_matrices=False)[::2],
    "eigh": lambda A, B: [gl.linalg.eigh(A)[1], gl.linalg.eigh(A, UPLO="U")[1]],
    "eig": lambda A, B: [gl.linalg.eig(A)[1]],
    "geqrf": lambda A, B: [gl.geqrf(B)[0]],
    "qr": lambda A, B: gl.linalg.qr(B),
    "solve_triangular": lambda A, B: [gl.linalg.solve_triangular(A, B, upper=True)],
    "solve_triangular, right": lambda A, B: [
        gl.linalg.solve_triangular(A, B.mT.contiguous(), upper=True, left=False)
    ],
    "triangular_solve": lambda A, B: gl.triangular_solve(B, A),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", IN_COLUMNS)
def test_what_lapack_leaves_in_columns_lies_there(name, batch, kind):
    B = normal(*batch, 6, 4, kind=kind)
    A = normal(*batch, 6, 6, kind=kind)
    A = A @ A.mH + 6 * gl.eye(6)
    for found in IN_COLUMNS[name](A, B):
        assert found.mT.is_contiguous()
    with off():
        wanted = IN_COLUMNS[name](A, B)
    for found, same in zip(IN_COLUMNS[name](A, B), wanted, strict=True):
        assert found.stride() == same.stride()
        if not name.startswith(("svd", "eig")):  # whose vectors are known but for a factor
            np.testing.assert_allclose(found.numpy(), same.numpy(), atol=10 * KINDS[kind])
