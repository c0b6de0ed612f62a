"""Matrices that tests of sparse tensors share."""

from __future__ import annotations

import numpy as np

import gradlib as gl

LAYOUTS = [gl.sparse_coo, gl.sparse_csr, gl.sparse_csc, gl.sparse_bsr, gl.sparse_bsc]
DTYPES = [gl.float32, gl.float64, gl.complex64, gl.complex128]


def matrix(rows=4, cols=6, dtype=gl.float64, seed=0) -> gl.Tensor:
    """A dense matrix with about half of its elements zero."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(rows, cols)) + (
        1j * draw.normal(size=(rows, cols)) if dtype.is_complex else 0
    )
    values[draw.random((rows, cols)) < 0.5] = 0
    return gl.tensor(values, dtype=dtype)


def thin(dense: gl.Tensor, layout=gl.sparse_coo) -> gl.Tensor:
    """The sparse tensor of a dense matrix."""
    blocks = (2, 2) if layout in (gl.sparse_bsr, gl.sparse_bsc) else None
    return dense.to_sparse(layout=layout, blocksize=blocks)


def doubled(dense: gl.Tensor) -> gl.Tensor:
    """An uncoalesced COO tensor of the same numbers."""
    s = dense.to_sparse()
    indices = gl.cat([s.indices(), s.indices().flip(1)], 1)
    values = gl.cat([s.values() * 0.25, s.values().flip(0) * 0.75])
    return gl.sparse_coo_tensor(indices, values, dense.shape)


def full(x: gl.Tensor) -> gl.Tensor:
    return x.to_dense()


def close(a, b, dtype=gl.float64) -> None:
    tolerance = 1e-5 if dtype in (gl.float32, gl.complex64) else 1e-12
    np.testing.assert_allclose(
        full(a).detach().numpy(), full(b).detach().numpy(), tolerance, tolerance
    )
