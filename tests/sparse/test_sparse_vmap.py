"""Sparse tensors inside vmap: products with one for all entries are right; what would be a batch of them is refused."""

from __future__ import annotations

import pytest

import gradlib as gl
from gradlib import nn
from gradlib.func import grad, jvp, vmap
from tests.sparse.matrices import LAYOUTS, close, matrix, thin


def batch(*shape: int) -> gl.Tensor:
    return gl.randn(3, *shape, dtype=gl.float64)


RIGHT = {
    "mm": (lambda s, x: s @ x, (6, 2)),
    "sparse.mm": (lambda s, x: (gl.sparse.mm if s.layout is not gl.strided else gl.mm)(s, x), (6, 2)),
    "left": (lambda s, x: x @ s, (2, 4)),
    "mv": (lambda s, x: s @ x, (6,)),
    "addmm": (lambda s, x: gl.addmm(x[:4], s, x), (6, 2)),
    "linear": (lambda s, x: nn.functional.linear(s, x), (2, 6)),
    "dense + sparse": (lambda s, x: x + s, (4, 6)),
    "to_dense": (lambda s, x: s.to_dense() * x.sum(), (2,)),
    "gradient": (lambda s, x: grad(lambda x: (s @ x).sin().sum())(x), (6, 2)),
    "forward mode": (lambda s, x: jvp(lambda x: s @ x.sin(), (x,), (x * 2,))[1], (6, 2)),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RIGHT)
def test_a_sparse_tensor_of_all_entries(name, layout):
    function, shape = RIGHT[name]
    x, dense = batch(*shape), matrix()
    want = gl.stack([function(dense, entry) for entry in x])
    close(vmap(lambda entry: function(thin(dense, layout), entry))(x), want)


REFUSED = {
    "a batch of sparse tensors": lambda s: vmap(lambda row: row.sum())(s),
    "beside a dense one": lambda s: vmap(lambda row, x: row * x)(s, gl.ones(4, 6, dtype=gl.float64)),
    "values times a number of the batch": lambda s: vmap(lambda x: (s * x).to_dense())(batch()),
    "values times an entry": lambda s: vmap(lambda x: (s * x).to_dense())(batch(4, 6)),
    "a result": lambda s: vmap(lambda x: s)(batch()),
    "a result that is computed": lambda s: vmap(lambda x: s * 2)(batch()),
    "places of each entry": lambda s: vmap(lambda x: x.to_sparse().to_dense())(batch(2, 2)),
    "values of each entry": lambda s: vmap(
        lambda v: gl.sparse_coo_tensor([[0, 1]], v, (3,)).to_dense()
    )(batch(2)),
    "indices of each entry": lambda s: vmap(
        lambda i: gl.sparse_coo_tensor(i, gl.ones(2), (3,)).to_dense()
    )(gl.tensor([[[0, 1]], [[1, 2]]])),
    "rows of each entry": lambda s: vmap(
        lambda i, x: gl.sparse_csr_tensor(i, [0, 1], [1.0, 2.0], (2, 3)).to_dense() * x
    )(gl.tensor([[0, 1, 2], [0, 2, 2]]), gl.ones(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_what_is_refused_names_the_dense_way(name, layout):
    with pytest.raises((NotImplementedError, RuntimeError), match="dense"):
        REFUSED[name](thin(matrix(), layout))


def test_embeddings_with_sparse_gradients():
    """Forward as ever; the gradient of each entry would have rows of its own."""
    table, rows = gl.randn(5, 2), gl.tensor([[0, 1], [3, 3]])

    def loss(table, rows):
        return nn.functional.embedding(rows, table, sparse=True).sin().sum()

    want = gl.stack([loss(table, r) for r in rows])
    assert gl.allclose(vmap(loss, (None, 0))(table, rows), want)
    with pytest.raises(RuntimeError, match=r"embedding\(sparse=True\).*use sparse=False"):
        vmap(grad(loss), (None, 0))(table, rows)
    whole = vmap(loss, (None, 0))
    assert gl.allclose(  # the gradient of all entries together is there
        grad(lambda table: whole(table, rows).sum())(table).to_dense(),
        grad(lambda table: nn.functional.embedding(rows, table).sin().sum())(table),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_tensors_that_are_made_inside(layout):
    """Copies, sums, detached and coalesced ones, and what is selected of one, are of all entries, too."""
    x, dense = batch(6), matrix()

    def function(x):
        s = thin(dense, layout)
        s = gl.sparse_coo_tensor(
            gl.tensor([[0], [1]]), gl.tensor([2.0], dtype=gl.float64), (4, 6)
        ) + (s.to_sparse_coo().coalesce().detach() + s.clone().to_sparse_coo())
        return s.index_select(0, gl.tensor([1, 3])) @ x

    twice = 2 * dense
    twice[0, 1] += 2
    close(vmap(function)(x), x @ twice[[1, 3]].t())


def test_as_strided_of_entries_that_lie_otherwise_says_so():
    """The text is its own: that of sparse tensors has other gaps to fill."""
    from gradlib.op import vmap_texts

    assert vmap_texts.PLACES.format("as_strided").startswith("vmap: as_strided counts places")
    assert "{}" not in vmap_texts.NO_BATCHES.format("to_sparse", "the dense tensor")
