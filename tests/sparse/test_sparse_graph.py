"""Sparse tensors in the graph: accumulation, hooks, modes, writing in place, copies and files."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import gradlib as gl
from gradlib.autograd import gradcheck
from gradlib.serialization._names import rebuild_sparse
from tests.sparse.matrices import LAYOUTS, close, matrix, thin

# -- the graph ---------------------------------------------------------------------------------------------------------


def test_gradient_flows_to_values_and_indices_stay():
    values = gl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    s = gl.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], values, (2, 2))
    (s.to_dense() * gl.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert values.grad.tolist() == [2.0, 2.0, 3.0]  # values of one place are added
    assert not s.is_leaf and s.requires_grad
    leaf = gl.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), requires_grad=True)
    assert leaf.is_leaf and leaf.coalesce().values().requires_grad


def test_accumulation():
    """Sparse and dense gradients, in each order: dense takes sparse in place, sparse beside dense becomes dense."""
    weight = gl.ones(4, 2, requires_grad=True)

    def rows():
        gl.nn.functional.embedding(gl.tensor([1, 3, 1]), weight, sparse=True).sum().backward()

    rows()
    first = weight.grad
    assert first.is_sparse and first._nnz() == 3
    rows()
    assert weight.grad is first and weight.grad.is_sparse
    assert weight.grad.to_dense()[:, 0].tolist() == [0, 4, 0, 2]
    (weight * 2).sum().backward()
    assert not weight.grad.is_sparse and weight.grad[:, 0].tolist() == [2, 6, 2, 4]
    assert first.to_dense()[:, 0].tolist() == [0, 4, 0, 2]
    held = weight.grad
    rows()
    assert weight.grad is held and held[:, 0].tolist() == [2, 8, 2, 5]
    weight.grad = None
    both = (
        gl.nn.functional.embedding(gl.tensor([0]), weight, sparse=True).sum() + (weight * 2).sum()
    )
    both.backward()
    assert weight.grad[:, 0].tolist() == [3, 2, 2, 2]
    (g,) = gl.autograd.grad(
        gl.nn.functional.embedding(gl.tensor([2]), weight, sparse=True).sum(), weight
    )
    assert g.is_sparse and g.to_dense()[:, 0].tolist() == [0, 0, 1, 0]


@pytest.mark.filterwarnings("ignore:Using backward")  # a cycle of references
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("first", ["sparse", "dense", None])
@pytest.mark.parametrize("second", ["sparse", "dense", "sparse and dense", "dense and sparse"])
def test_accumulation_in_each_order_with_and_without_a_graph(first, second, create_graph):
    weight = gl.randn(4, 2, dtype=gl.float64, requires_grad=True)
    twin = weight.detach().clone().requires_grad_()

    def backward(kinds, create_graph, x, may_be_sparse):
        total = 0
        for kind in kinds.split(" and "):
            rows = gl.nn.functional.embedding(
                gl.tensor([1, 3, 1]), x, sparse=may_be_sparse and kind == "sparse"
            )
            total = total + (rows.pow(3).sum() if kind == "sparse" else x.pow(3).sum())
        total.backward(create_graph=create_graph)

    for x, may_be_sparse in ((weight, True), (twin, False)):
        if first:
            backward(first, False, x, may_be_sparse)
        backward(second, create_graph, x, may_be_sparse)
    alone = second == "sparse" and first != "dense"
    assert weight.grad.layout is (gl.sparse_coo if alone else gl.strided)
    close(weight.grad, twin.grad)
    if create_graph:
        assert weight.grad.requires_grad
        (a,) = gl.autograd.grad(weight.grad.to_dense().square().sum(), weight)
        close(a, gl.autograd.grad(twin.grad.square().sum(), twin)[0])


def test_accumulated_gradients_are_the_leaf_s_own():
    weight = gl.ones(3, 2, requires_grad=True)
    given = gl.ones(1, 2)
    out = gl.nn.functional.embedding(gl.tensor([1]), weight, sparse=True)
    out.backward(given)
    given.zero_()
    assert weight.grad.to_dense()[:, 0].tolist() == [0, 1, 0]


def test_create_graph_and_double_backward_through_an_embedding():
    weight = gl.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=gl.float64, requires_grad=True)
    index = gl.tensor([1, 1, 0])
    out = (gl.nn.functional.embedding(index, weight, sparse=True) ** 3).sum()
    (g,) = gl.autograd.grad(out, weight, create_graph=True)
    assert g.is_sparse and g.requires_grad
    np.testing.assert_allclose(
        g.to_dense().tolist(), (3 * weight**2 * gl.tensor([[1.0], [2.0]])).tolist()
    )
    (h,) = gl.autograd.grad(g.to_dense().sum(), weight)
    np.testing.assert_allclose(
        h.to_dense().tolist(), (6 * weight * gl.tensor([[1.0], [2.0]])).tolist()
    )
    assert gradcheck(lambda w: gl.nn.functional.embedding(index, w, sparse=True), (weight,))


def test_hooks_see_sparse_gradients():
    weight = gl.ones(3, 2, requires_grad=True)
    seen = []
    weight.register_hook(lambda g: seen.append(g.is_sparse) or g * 2)
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_sparse))
    gl.nn.functional.embedding(gl.tensor([1]), weight, sparse=True).sum().backward()
    assert seen == [True, True] and weight.grad.to_dense()[:, 0].tolist() == [0, 2, 0]


def test_anomaly_mode_profiler_and_saved_tensor_hooks():
    s = thin(matrix()).requires_grad_()
    right = gl.rand(6, 2, dtype=gl.float64).requires_grad_()
    packed = []
    hooks = gl.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t)
    with gl.autograd.set_detect_anomaly(True), hooks:
        (s @ right).sum().backward()
    assert packed and s.grad.layout is gl.sparse_coo
    with gl.profiler.profile(profile_memory=True, record_shapes=True) as prof:
        (s @ right).sum().backward()
    assert any("sparse" in e.key for e in prof.key_averages())


def test_version_counter_of_what_is_written():
    s = thin(matrix())
    right = gl.rand(6, 2, dtype=gl.float64).requires_grad_()
    out = (s @ right).sum()
    before = s._version
    s.mul_(2)
    assert s._version > before
    out.backward()  # saved are the values that were there
    values = s.values().requires_grad_()
    out = (gl.sparse_coo_tensor(s.indices(), values, s.shape) @ right).sum()
    with gl.no_grad():
        right.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_in_place():
    dense = matrix()
    s, d = thin(dense), dense.clone()
    same = s
    for write in (
        lambda x, y: x.mul_(3), lambda x, y: x.add_(y), lambda x, y: x.sub_(y, alpha=2), lambda x, y: x.div_(2),
        lambda x, y: x.neg_(), lambda x, y: x.copy_(y),
    ):  # fmt: skip
        write(s, thin(dense))
        write(d, dense)
        close(s, d)
    assert s is same
    alias = s.detach()
    s.zero_()
    assert alias._nnz() == 0
    d.add_(thin(dense), alpha=2)
    close(d, dense * 3)
    x = gl.ones(2, 2, requires_grad=True)
    y = x * 1
    y.add_(gl.eye(2).to_sparse())
    (y * y).sum().backward()
    assert x.grad.tolist() == [[4, 2], [2, 4]]
    leaf = thin(dense).requires_grad_()
    with pytest.raises(
        RuntimeError,
        match="a leaf Variable that requires grad is being used in an in-place operation",
    ):
        leaf.mul_(2)
    w = leaf * 1
    w.mul_(2)
    w.to_dense().sum().backward()
    close(leaf.grad, (dense != 0) * 2.0)


def test_resize():
    s = thin(matrix())
    assert s.clone().sparse_resize_((5, 7), 2, 0).shape == (5, 7)
    with pytest.raises(RuntimeError, match="does not shrink"):
        s.sparse_resize_((2, 2), 2, 0)
    assert s.clone().sparse_resize_and_clear_((2, 3, 4), 1, 2)._nnz() == 0


def test_zeros_like_and_conversions():
    s = thin(matrix())
    assert gl.zeros_like(s)._nnz() == 0 and gl.zeros_like(s).layout is gl.sparse_coo
    assert s.float().dtype is gl.float32 and s.to(gl.complex128).dtype is gl.complex128
    assert (
        s.detach().layout is gl.sparse_coo
        and s.data.layout is gl.sparse_coo
        and s.to(s.device) is s
    )
    assert s.clone()._values().data_ptr() != s._values().data_ptr()
    with pytest.raises(NotImplementedError):
        gl.ones_like(s)


# -- files and copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_and_files(layout):
    s = thin(matrix(), layout).requires_grad_()
    s.grad = s.detach() * 2
    for made in (copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert (
            made.layout is layout and made.requires_grad and gl.equal(made.to_dense(), s.to_dense())
        )
    assert gl.equal(copy.deepcopy(s).grad.to_dense(), s.to_dense() * 2)
    file = io.BytesIO()
    gl.save({"s": s, "again": [s], "none": gl.zeros(2, 2).to_sparse()}, file)
    file.seek(0)
    loaded = gl.load(file)
    assert loaded["s"] is loaded["again"][0] and loaded["s"].layout is layout
    assert gl.equal(loaded["s"].to_dense(), s.to_dense()) and loaded["none"]._nnz() == 0


def test_a_file_that_lies_about_its_indices_is_refused():
    parts = gl.tensor([[0, 9]]), gl.ones(2), (8,)
    with pytest.raises(RuntimeError, match="found index 9"):
        rebuild_sparse(gl.sparse_coo, (*parts, True))
    with pytest.raises(RuntimeError, match="distinct and in order"):
        rebuild_sparse(gl.sparse_coo, (gl.tensor([[1, 1]]), *parts[1:], True))
    with pytest.raises(RuntimeError, match="0 <= col_indices < ncols"):
        rebuild_sparse(gl.sparse_csr, (gl.tensor([0, 2]), gl.tensor([0, 9]), gl.ones(2), (1, 8)))


def test_gradients_that_are_summed_over_what_was_broadcast():
    """Over rows they become dense; over columns alone they stay sparse, as in PyTorch."""
    index = gl.tensor([1, 1, 3])
    for size, layout in (((1, 3), gl.strided), ((5, 1), gl.sparse_coo), ((), gl.strided)):
        weight = gl.randn(size, dtype=gl.float64, requires_grad=True)
        scale = gl.randn(5, 3, dtype=gl.float64)
        found = []
        for sparse in (True, False):
            rows = gl.nn.functional.embedding(index, scale * weight, sparse=sparse)
            found += gl.autograd.grad(rows.square().sum(), weight)
        assert found[0].layout is layout and found[0].shape == weight.shape
        close(*found)


def test_in_place_order_of_dimensions_and_out():
    s = thin(matrix())
    alias = s.detach()
    assert s.t_() is s and s.shape == alias.shape == (6, 4)
    close(s, matrix().t())
    out = gl.zeros(1, 1, dtype=gl.float64).to_sparse()
    assert gl.add(s, s, out=out) is out
    close(out, 2 * matrix().t())
    with pytest.raises(RuntimeError, match=r"add.*layout torch.sparse_coo.*\.to_dense\(\)"):
        gl.add(s, s, out=gl.zeros(6, 4, dtype=gl.float64))
    leaf = thin(matrix()).requires_grad_()
    made = leaf * 2
    made.t_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.t_()
    (made.to_dense() * gl.ones(6, 4)).sum().backward()
    close(leaf.grad, 2.0 * (matrix() != 0))


def test_a_mask_that_has_a_place_twice_counts_it_twice():
    mask = gl.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 1.0], (2, 2), dtype=gl.float64)
    x = gl.randn(2, 2, dtype=gl.float64, requires_grad=True)
    assert not x.sparse_mask(mask).is_coalesced()
    assert x.sparse_mask(mask).to_dense()[0, 1].item() == 2 * x[0, 1].item()
    assert gradcheck(lambda x: x.sparse_mask(mask).to_dense(), (x,), check_forward_ad=True)


@pytest.mark.parametrize("layout", [gl.sparse_coo, gl.sparse_csr, gl.sparse_csc])
def test_tensors_without_values_of_a_layout(layout):
    for made in (
        gl.zeros(2, 3, layout=layout), gl.zeros_like(gl.ones(2, 3), layout=layout),
        gl.eye(3).to_sparse(layout=layout).new_zeros((2, 3)), gl.empty((2, 3), layout=layout, requires_grad=True),
    ):  # fmt: skip
        assert made.layout is layout and made._nnz() == 0 and made.shape == (2, 3)
    assert made.is_leaf and made.requires_grad
    assert gl.zeros_like(made, layout=gl.strided).layout is gl.strided
    with pytest.raises(NotImplementedError, match="dense"):
        gl.ones(2, 3, layout=layout)
    with pytest.raises(NotImplementedError):
        gl.zeros(2, 3, layout=gl.sparse_bsr)
