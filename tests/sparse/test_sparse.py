"""Sparse tensors: each op against the same op on dense tensors, values and gradients of first and second order."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.autograd.gradcheck import GradcheckError
from gradlib.op import overlays
from tests.sparse.matrices import DTYPES, LAYOUTS, close, doubled, full, matrix, thin

# -- what they are -----------------------------------------------------------------------------------------------------


def test_made_of_indices_and_values():
    s = gl.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
    assert s.layout is gl.sparse_coo and s.is_sparse and not s.is_sparse_csr and s.shape == (2, 3)
    assert s._nnz() == 3 and s.sparse_dim() == 2 and s.dense_dim() == 0 and not s.is_coalesced()
    assert s.to_dense().tolist() == [[0, 0, 3], [9, 0, 0]]
    c = s.coalesce()
    assert (
        c.is_coalesced()
        and c.indices().tolist() == [[0, 1], [2, 0]]
        and c.values().tolist() == [3, 9]
    )
    assert c.coalesce() is c and s._indices().shape == (2, 3) and s._values().tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        s.indices()
    assert gl.sparse_coo_tensor([[1, 2]], [1, 2]).shape == (3,)
    assert gl.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]
    hybrid = gl.sparse_coo_tensor([[1, 1]], gl.ones(2, 3), (2, 3))
    assert hybrid.dense_dim() == 1 and hybrid.to_dense().tolist() == [[0, 0, 0], [2, 2, 2]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_go_into_each_other(layout, dtype):
    dense = matrix(dtype=dtype)
    s = thin(dense, layout)
    assert s.layout is layout and s.dtype is dtype and gl.equal(s.to_dense(), dense)
    for other in LAYOUTS:
        t = s.to_sparse(
            layout=other, blocksize=(2, 3) if other in (gl.sparse_bsr, gl.sparse_bsc) else None
        )
        assert t.layout is other and gl.equal(t.to_dense(), dense)
    assert gl.equal(s.t().to_dense(), dense.t()) and gl.equal((s * 2).to_dense(), dense * 2)


def test_compressed_parts():
    dense = gl.tensor([[0.0, 1, 0], [2, 0, 3]])
    s = dense.to_sparse_csr()
    assert s.is_sparse_csr and not s.is_sparse
    assert s.crow_indices().tolist() == [0, 1, 3] and s.col_indices().tolist() == [1, 0, 2]
    s = dense.to_sparse_csc()
    assert s.ccol_indices().tolist() == [0, 1, 2, 3] and s.row_indices().tolist() == [1, 0, 1]
    s = gl.sparse_csr_tensor(
        gl.tensor([0, 1, 3]), gl.tensor([1, 0, 2]), gl.tensor([1.0, 2, 3]), (2, 3)
    )
    assert gl.equal(s.to_dense(), dense)
    with pytest.raises(
        RuntimeError,
        match=r"crow_indices expected sparse row compressed tensor layout but got Sparse$",
    ):
        dense.to_sparse().crow_indices()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: gl.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)),
            "for dim 0, size is 3 but found index 5",
        ),
        (lambda: gl.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), "found negative index -1 for dim 0"),
        (lambda: gl.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0]), "must have same nnz"),
        (lambda: gl.sparse_coo_tensor([0, 1], [1.0, 2.0]), "indices must be sparse_dim x nnz"),
        (
            lambda: gl.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True),
            "distinct and in order",
        ),
        (
            lambda: gl.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 3)),
            "0 <= col_indices < ncols",
        ),
        (lambda: gl.sparse_csr_tensor([1, 1, 2], [0, 1], [1.0, 2.0], (2, 3)), r"\[..., 0\] == 0"),
        (
            lambda: gl.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 3)),
            "sorted and distinct",
        ),
        (lambda: gl.sparse_csr_tensor([0, 1], [1, 0], [1.0, 2.0], (2, 3)), "number of rows"),
        (lambda: gl.ones(3, 3).to_sparse_bsr((2, 2)), "not made of whole blocks"),
    ],
)
def test_bad_input_is_named(make, text):
    with pytest.raises(RuntimeError, match=text):
        make()


@pytest.mark.host  # a device is printed, too
def test_printing():
    s = gl.sparse_coo_tensor(
        [[0, 1], [1, 2]], [1.0, 2.0], (2, 3), dtype=gl.float64, requires_grad=True
    )
    assert repr(s) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [1, 2]]),\n"
        "       values=tensor([1., 2.]),\n"
        "       size=(2, 3), nnz=2, dtype=torch.float64, layout=torch.sparse_coo,\n"
        "       requires_grad=True)"
    )
    assert repr(s.detach().to_sparse_csr().float()) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n"
        "       col_indices=tensor([1, 2]),\n"
        "       values=tensor([1., 2.]), size=(2, 3), nnz=2, layout=torch.sparse_csr)"
    )
    assert "indices=tensor([], size=(2, 0))" in repr(gl.zeros(2, 3).to_sparse())


def test_what_is_not_there_names_the_op_the_layout_and_the_way_out():
    s = thin(matrix())
    for call, name in (
        (lambda: s.exp(), "exp"),
        (lambda: s.max(), "max"),
        (lambda: s.cumsum(0), "cumsum"),
        (lambda: gl.linalg.inv(thin(matrix(4, 4))), ""),
        (lambda: s.view(24), ""),
        (lambda: s == s, "eq"),
        (lambda: gl.equal(s, s), "eq"),
        (lambda: s.data_ptr(), ""),
        (lambda: s.copy_(gl.ones(4, 6)), "copy"),
        (lambda: gl.func.vmap(lambda row: row.sum())(s), ""),
        (lambda: s.stride(), ""),
        (lambda: gl.conv1d(s[None].to_dense(), s[None]), ""),
    ):
        with pytest.raises(
            NotImplementedError, match=rf"{name}.*torch\.sparse_coo.*\.to_dense\(\)"
        ):
            call()
    with pytest.raises(
        TypeError,
        match=r"can't convert Sparse layout tensor to numpy. Use Tensor.to_dense\(\) first",
    ):
        s.numpy()
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        s + gl.ones(4, 6)


# -- ops against dense -------------------------------------------------------------------------------------------------

OPS = {
    "to_dense": lambda s, d: s.to_dense(),
    "mm": lambda s, d: s @ d["right"],
    "mm function": lambda s, d: gl.mm(s, d["right"]),
    "dense @ sparse": lambda s, d: d["left"] @ s,
    "mv": lambda s, d: s @ d["vector"],
    "addmm": lambda s, d: gl.addmm(d["sum"], s, d["right"], beta=0.5, alpha=2.0),
    "sparse @ sparse": lambda s, d: s @ s.t(),
    "mul dense": lambda s, d: s * d["same"],
    "mul row": lambda s, d: s * d["row"],
    "mul sparse": lambda s, d: s * (s * 2),
    "mul number": lambda s, d: s * 2.5,
    "number mul": lambda s, d: 2.5 * s,
    "div": lambda s, d: s / 4.0,
    "neg": lambda s, d: -s,
    "add": lambda s, d: s + s * 2,
    "sub": lambda s, d: s - s * 3,
    "alpha": lambda s, d: gl.add(s, s, alpha=2),
    "dense + sparse": lambda s, d: d["same"] + s,
    "sum": lambda s, d: s.sum(),
    "t": lambda s, d: s.t(),
    "transpose": lambda s, d: s.transpose(0, 1),
    "sin": lambda s, d: s.sin(),
    "square": lambda s, d: s**2,
    "clone": lambda s, d: s.clone(),
    "linear": lambda s, d: gl.nn.functional.linear(s, d["right"].t()),
}
COO_OPS = {
    "sum 0": lambda s, d: s.sum(0),
    "sum 1": lambda s, d: s.sum(dim=1),
    "index_select": lambda s, d: s.index_select(1, gl.tensor([2, 0, 2, 5])),
    "row": lambda s, d: s[1],
    "rows": lambda s, d: s[1:3],
    "cat": lambda s, d: gl.cat([s, s * 2], 1),
    "stack": lambda s, d: gl.stack([s, s * 2]),
    "unsqueeze": lambda s, d: s.unsqueeze(1),
    "squeeze": lambda s, d: s.unsqueeze(1).squeeze(1),
    "permute": lambda s, d: s.permute(1, 0),
    "iteration": lambda s, d: next(iter(s)),
}


def dense_gradient(op) -> bool:
    """Whether the gradient of the sparse operand is that of the whole sum, as in PyTorch."""
    return op is OPS["dense + sparse"]


def dense_operands(dtype) -> dict[str, gl.Tensor]:
    sizes = {
        "right": (6, 3),
        "left": (3, 4),
        "vector": (6,),
        "sum": (4, 3),
        "same": (4, 6),
        "row": (6,),
    }
    draw = np.random.default_rng(5)
    return {
        name: gl.tensor(draw.normal(size=size), dtype=dtype).requires_grad_()
        for name, size in sizes.items()
    }


def checked_against_dense(op, layout, dtype, make=thin) -> None:
    """Value, gradient at the places of the sparse tensor, and gradients of the dense operands."""
    dense, operands = matrix(dtype=dtype), dense_operands(dtype)
    s = (make(dense, layout) if make is thin else make(dense)).requires_grad_()
    d = dense.clone().requires_grad_()
    have, want = op(s, operands), op(d, operands)
    close(have, want, dtype)
    weight = gl.tensor(np.random.default_rng(9).normal(size=tuple(want.shape)), dtype=dtype)
    used = list(operands.values())
    (a, *rest) = gl.autograd.grad(full(have), [s, *used], weight, allow_unused=True)
    (b, *other) = gl.autograd.grad(want, [d, *used], weight, allow_unused=True)
    assert a.layout is (gl.strided if dense_gradient(op) else layout) and a.shape == s.shape
    close(a, b if dense_gradient(op) else b * (dense != 0), dtype)
    for x, y in zip(rest, other, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            close(x, y, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*OPS, *COO_OPS])
def test_coo(name, dtype):
    op = (OPS | COO_OPS)[name]
    checked_against_dense(op, gl.sparse_coo, dtype)
    checked_against_dense(op, gl.sparse_coo, dtype, doubled)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("name", OPS)
def test_compressed(name, layout):
    if name == "add" and layout in (gl.sparse_bsr, gl.sparse_bsc):
        layout = gl.sparse_csr  # the sum of blocks has blocks
    op = OPS[name]
    dense = matrix()
    s = thin(dense, layout).requires_grad_()
    d, operands = dense.clone().requires_grad_(), dense_operands(gl.float64)
    have, want = op(s, operands), op(d, operands)
    close(have, want)
    (a,) = gl.autograd.grad(full(have).sum(), [s])
    (b,) = gl.autograd.grad(want.sum(), [d])
    places = thin(dense, layout)
    there = gl.sparse_compressed_tensor(
        *((places.crow_indices(), places.col_indices()) if layout in (gl.sparse_csr, gl.sparse_bsr)
          else (places.ccol_indices(), places.row_indices())),
        gl.ones_like(places.values()), dense.shape, layout=layout,
    ).to_dense()  # fmt: skip
    close(a, b if dense_gradient(op) else b * there)


DIFFERENTIATED = {
    **{name: OPS[name] for name in OPS},
    **COO_OPS,
    "softmax": lambda s, d: gl.sparse.softmax(s, 1),
    "log_softmax": lambda s, d: gl.sparse.log_softmax(s, 0),
    "sparse.sum": lambda s, d: gl.sparse.sum(s, 0),
    "values": lambda s, d: s.coalesce().values(),
    "norm": lambda s, d: s.norm(),
    "sampled_addmm": lambda s, d: gl.sparse.sampled_addmm(
        s, d["sum"], d["right"].t(), beta=0.5, alpha=2.0
    ),
    "sparse_mask": lambda s, d: d["same"].sparse_mask(s) + s,
    "csr": lambda s, d: s.to_sparse_csr() @ d["right"],
    "bsr": lambda s, d: s.to_sparse_bsr((2, 2)) @ d["right"],
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_of_first_and_second_order_and_forward_mode(name):
    op, operands = DIFFERENTIATED[name], dense_operands(gl.float64)
    used = [n for n in operands if n in op.__code__.co_consts or name == "norm"]
    given = [operands[n] for n in operands if n in used]

    def function(s, *rest):
        return op(s, {**operands, **dict(zip(used, rest, strict=True))})

    s = thin(matrix()).requires_grad_()
    assert gradcheck(function, (s, *given), masked=True, check_forward_ad=True)
    assert gradgradcheck(function, (s, *given), masked=True)


def test_gradcheck_varies_what_is_not_there_unless_masked():
    s, right = thin(matrix()).requires_grad_(), gl.rand(6, 2, dtype=gl.float64).requires_grad_()
    with pytest.raises(GradcheckError):
        gradcheck(gl.sparse.mm, (s, right), masked=False)
    assert gradcheck(lambda x: x.to_dense(masked_grad=False), (s,))
    assert not gradcheck(lambda x: x.to_dense(), (s,), raise_exception=False)
    assert gradcheck(lambda x: x.to_dense(), (s,), masked=True, fast_mode=True)


def test_softmax_is_over_what_is_there():
    s = gl.sparse_coo_tensor([[0, 0, 2], [0, 2, 1]], [1.0, 2.0, 5.0], (3, 3))
    want = gl.softmax(gl.tensor([1.0, 2.0]), 0).tolist()
    have = gl.sparse.softmax(s, 1)
    np.testing.assert_allclose(have.values().tolist(), [*want, 1.0], 1e-6)
    np.testing.assert_allclose(
        gl.sparse.log_softmax(s, 1).values().exp().tolist(), [*want, 1.0], 1e-6
    )
    hybrid = gl.sparse_coo_tensor([[1]], [[1.0, 2.0]], (2, 2))
    np.testing.assert_allclose(gl.sparse.softmax(hybrid, 1).values()[0].tolist(), want, 1e-6)


def test_sums_of_hybrid_tensors():
    dense = gl.rand(3, 4, 2, dtype=gl.float64)
    s = dense.to_sparse(2)
    assert s.dense_dim() == 1
    close(gl.sparse.sum(s, 2), dense.sum(2))
    close(gl.sparse.sum(s, (0, 1)), dense.sum((0, 1)))
    close(gl.sparse.sum(s, -1), dense.sum(-1))
    assert not gl.sparse.sum(s, (0, 1)).is_sparse and gl.sparse.sum(s, 0).is_sparse
    close(s[1], dense[1])
    close(s.transpose(0, 1), dense.transpose(0, 1))


def test_numbers():
    """Tensors without dimensions, sparse ones too."""
    for value in (3.0, 0.0):
        x = gl.tensor(value, requires_grad=True)
        s = x.to_sparse()
        assert s.sparse_dim() == 0 and s._nnz() == (value != 0) and s.to_dense().item() == value
        (s * 2).to_dense().backward()
        assert x.grad.item() == 2 * (value != 0)
    opt = gl.optim.SparseAdam([x], lr=0.5)
    x.grad = gl.tensor(4.0).to_sparse()
    opt.step()
    np.testing.assert_allclose(x.item(), -0.5, 1e-6)


def test_sparse_without_values():
    s = gl.zeros(3, 4).to_sparse().requires_grad_()
    (s @ gl.ones(4, 2)).sum().backward()
    assert s.grad.to_dense().tolist() == gl.zeros(3, 4).tolist()
    assert (s * 2).sum().item() == 0 and gl.sparse.softmax(s, 1)._nnz() == 0 and (s + s)._nnz() == 0
    assert s.detach().coalesce().t().shape == (4, 3) and (s @ s.t())._nnz() == 0


def test_half_types():
    for dtype in (gl.float16, gl.bfloat16):
        dense = matrix().to(dtype)
        s = doubled(dense)
        right = gl.ones(6, 2, dtype=dtype)
        assert (s @ right).dtype is dtype
        np.testing.assert_allclose(
            (s @ right).float().tolist(), (dense @ right).float().tolist(), 0.03, 0.03
        )


def test_large_products_go_in_pieces_and_agree():
    draw = np.random.default_rng(0)
    n, k = 3000, 400
    indices = gl.tensor(draw.integers(0, [[500], [700]], (2, n)))
    values = gl.tensor(draw.normal(size=n)).requires_grad_()
    right = gl.tensor(draw.normal(size=(700, k))).requires_grad_()
    s = gl.sparse_coo_tensor(indices, values, (500, 700))
    out = s @ right
    close(out, s.to_dense() @ right)
    out.square().sum().backward()
    have = values.grad, right.grad
    values.grad = right.grad = None
    (s.to_dense() @ right).square().sum().backward()
    np.testing.assert_allclose(have[0], values.grad, 1e-9)
    np.testing.assert_allclose(have[1], right.grad, 1e-9, 1e-9)


@pytest.mark.parametrize("missing", [True, False])
def test_products_without_scipy_are_the_same(missing, monkeypatch):
    """Where it is not installed, and where the formulas alone run."""
    s, right = thin(matrix()), gl.rand(6, 3, dtype=gl.float64)
    if missing:
        monkeypatch.setitem(sys.modules, "scipy", None)
    with nullcontext() if missing else overlays.off():
        close(s @ right, s.to_dense() @ right)
        close(right.t() @ s.t(), right.t() @ s.t().to_dense())


def test_transforms_of_functions_that_use_sparse_matrices():
    s = thin(matrix())
    x = gl.rand(3, 6, 2, dtype=gl.float64)
    close(gl.func.vmap(lambda row: s @ row)(x), gl.stack([s.to_dense() @ row for row in x]))
    value, slope = gl.func.jvp(lambda y: s @ y, (x[0],), (x[1],))
    close(slope, s.to_dense() @ x[1])
    close(gl.func.grad(lambda y: (s @ y).square().sum())(x[0]), 2 * s.to_dense().t() @ value)
    weight = x[0].clone().requires_grad_()
    out = gl.utils.checkpoint.checkpoint(lambda w: (s @ w).sum(), weight, use_reentrant=False)
    out.backward()
    close(weight.grad, s.to_dense().sum(0)[:, None].expand(6, 2))
    with gl.autocast(s.device.type, dtype=gl.bfloat16):
        assert (s.float() @ gl.ones(6, 2)).dtype is gl.bfloat16
