"""LU and QR decompositions and triangular systems by the library beside their formulas."""

from __future__ import annotations

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
    return gl.from_numpy((array if kind.startswith("c") else array.real).astype(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (40, 40), (9, 5), (4, 9), (3, 20, 17), (2, 3, 5, 5)])
def test_lu(shape, kind):
    A = normal(*shape, kind=kind)
    LU, pivots = gl.linalg.lu_factor(A)
    with off():
        wanted = gl.linalg.lu_factor(A)
    assert LU.is_contiguous() and pivots.dtype is gl.int32 and gl.equal(pivots, wanted.pivots)
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
        assert X.is_contiguous() and X.shape == wanted.shape
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
    assert all(lapack._trsm(char) and lapack._getrf(char) for char in "fdFD")


@pytest.mark.parametrize("number", [0.0, 1e-310, math.nan])
def test_numbers_of_no_reciprocal_go_to_the_formulas(number):
    A, B = gl.eye(3, dtype=gl.float64) * 2, gl.ones(3, 1, dtype=gl.float64) * 1e-310
    A[1, 1] = number
    A[2, 1] = number
    found = [*gl.lu(A), gl.linalg.solve_triangular(A, B, upper=False)]
    with off():
        wanted = [*gl.lu(A), gl.linalg.solve_triangular(A, B, upper=False)]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_without_the_library_the_formulas_run(monkeypatch):
    monkeypatch.setattr(lapack, "_getrf", lambda char: None)
    monkeypatch.setattr(lapack, "_trsm", lambda char: None)
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
