"""Products of batches, products whose terms are reduced, sums that keep dimensions: against dense ones."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib.autograd import gradcheck, gradgradcheck
from tests.sparse.matrices import DTYPES, LAYOUTS, close, matrix, thin


def stack(dtype=gl.float64) -> gl.Tensor:
    return gl.stack([matrix(dtype=dtype, seed=1), matrix(dtype=dtype, seed=2)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_bmm(dtype):
    dense, right = stack(dtype), gl.randn(2, 6, 3, dtype=dtype)
    left = gl.randn(2, 3, 4, dtype=dtype)
    close(gl.bmm(dense.to_sparse(), right), gl.bmm(dense, right), dtype)
    close(gl.bmm(left, dense.to_sparse()), gl.bmm(left, dense), dtype)


def test_gradients_of_bmm():
    s = stack().to_sparse().requires_grad_()
    right = gl.randn(2, 6, 3, dtype=gl.float64, requires_grad=True)
    assert gradcheck(gl.bmm, (s, right), masked=True, check_forward_ad=True)
    assert gradgradcheck(gl.bmm, (s, right), masked=True)
    (at_places,) = gl.autograd.grad(gl.bmm(s, right).sum(), s)
    assert at_places.is_sparse and at_places._nnz() == s._nnz()


def test_bmm_refuses_what_does_not_fit():
    s = stack().to_sparse()
    with pytest.raises(
        RuntimeError, match=r"dimensions of batch2 tensor to be: \[2, 6\] but got: \[2, 5\]"
    ):
        gl.bmm(s, gl.ones(2, 5, 3, dtype=gl.float64))
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        gl.bmm(s, gl.ones(2, 6, 3))
    with pytest.raises(RuntimeError, match="three sparse dimensions"):
        gl.bmm(stack().to_sparse(2), gl.ones(2, 6, 3, dtype=gl.float64))
    for call in (
        lambda: gl.bmm(s, s.transpose(1, 2)),
        lambda: gl.einsum("bij,bjk->bik", s, gl.ones(2, 6, 3, dtype=gl.float64)),
        lambda: gl.einsum("ij,jk->ik", s[0], gl.ones(6, 3, dtype=gl.float64)),
        lambda: s @ gl.ones(2, 6, 3, dtype=gl.float64),
        lambda: gl.baddbmm(
            gl.ones(2, 4, 3, dtype=gl.float64), s, gl.ones(2, 6, 3, dtype=gl.float64)
        ),
    ):
        with pytest.raises(NotImplementedError, match=r"\.to_dense\(\)"):
            call()


def reduced(dense: gl.Tensor, right: gl.Tensor, reduce: str) -> gl.Tensor:
    """Row by row, over the elements that are not zero."""
    rows = []
    for row in dense:
        terms = (row.unsqueeze(1) * right)[row != 0]
        take = {"sum": gl.sum, "mean": gl.mean, "amax": gl.amax, "amin": gl.amin}[reduce]
        rows.append(take(terms, 0) if len(terms) else right.new_zeros(right.shape[1]))
    return gl.stack(rows)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_products_that_are_reduced(reduce, layout):
    dense, right = matrix(), gl.randn(6, 3, dtype=gl.float64)
    dense[1] = 0  # a row without elements gives 0
    s = thin(dense, layout)
    close(gl.sparse.mm(s, right, reduce), reduced(dense, right, reduce))
    s, right = s.to_sparse().requires_grad_(), right.requires_grad_()
    assert gradcheck(lambda s, x: gl.sparse.mm(s, x, reduce=reduce), (s, right), masked=True)


def test_a_reduction_that_is_none():
    s = thin(matrix())
    with pytest.raises(RuntimeError, match="sum, mean, amax, amin, but got 'max'"):
        gl.sparse.mm(s, gl.ones(6, 2, dtype=gl.float64), "max")
    with pytest.raises(RuntimeError, match="a sparse matrix and a dense one"):
        gl.sparse.mm(gl.ones(2, 4, dtype=gl.float64), s, "mean")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [0, 1, (0, 1), -1])
def test_sums_that_keep_dimensions(layout, dim):
    if layout in LAYOUTS[3:]:
        layout = LAYOUTS[1]  # a row is no whole block
    dense = matrix()
    out = thin(dense, layout).sum(dim, keepdim=True)
    assert out.layout is (gl.strided if dim == (0, 1) else layout)
    close(out, dense.sum(dim, keepdim=True))


@pytest.mark.parametrize("dim", [0, 2, (0, 2), (0, 1)])
def test_sums_of_hybrid_tensors_that_keep_dimensions(dim):
    dense = stack()
    s = dense.to_sparse(2).requires_grad_()
    close(s.sum(dim, keepdim=True), dense.sum(dim, keepdim=True))
    assert gradcheck(lambda s: s.sum(dim, keepdim=True).to_dense(), (s,), masked=True)


def test_rounding():
    for layout in LAYOUTS:
        close(thin(matrix(), layout).round(), matrix().round())
    close(thin(matrix()).round(decimals=1), matrix().round(decimals=1))


def test_the_size_of_another():
    s = gl.eye(2).to_sparse()
    assert s.resize_as_sparse_(gl.eye(3).to_sparse()) is s
    assert s.to_dense().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    with pytest.raises(RuntimeError, match="does not shrink"):
        s.resize_as_sparse_(gl.eye(2).to_sparse())


BESIDE = {
    "vector @ sparse": (lambda s, x: x @ s, (4,)),
    "rows @ sparse": (lambda s, x: x @ s, (2, 3, 4)),
    "linear of a vector": (lambda s, x: gl.nn.functional.linear(x, s), (6,)),
    "linear of a batch": (lambda s, x: gl.nn.functional.linear(x, s), (2, 3, 6)),
    "einsum": (lambda s, x: gl.einsum("ij,ij->ji", s, x), (4, 6)),
    "einsum of a row": (lambda s, x: gl.einsum("j,ij->ij", x, s), (6,)),
    "einsum, summed": (lambda s, x: gl.einsum("ij,i->j", s, x), (4,)),
    "mul_": (lambda s, x: (x * 1).mul_(s), (4, 6)),
    "addmm_": (lambda s, x: (x * 1).addmm_(s, s.t() @ x, beta=0.5), (4, 3)),
}


@pytest.mark.parametrize("name", BESIDE)
def test_dense_operands_of_other_sizes(name):
    function, size = BESIDE[name]
    x = gl.randn(*size, dtype=gl.float64, requires_grad=True)
    s, dense = thin(matrix()).requires_grad_(), matrix()
    close(function(s.detach(), x), function(dense, x))
    assert gradcheck(
        lambda s, x: function(s, x).to_dense(), (s, x), masked=True, check_forward_ad=True
    )
    assert gradgradcheck(lambda s, x: function(s, x).to_dense(), (s, x), masked=True)


def test_vectors_under_autocast():
    s = thin(matrix()).float()
    with gl.autocast(s.device.type, dtype=gl.bfloat16):
        assert (s @ gl.ones(6)).dtype is gl.bfloat16


def test_results_that_are_sparse():
    s, right = thin(matrix()), gl.randn(6, 3, dtype=gl.float64)
    close(gl.smm(s, right), s @ right)
    rows = gl.hspmm(s, right)
    assert rows.sparse_dim() == rows.dense_dim() == 1
    close(rows, s @ right)
    close(gl.sspaddmm(gl.smm(s, right), s, right, beta=2.0, alpha=3.0), 5 * (s @ right))
