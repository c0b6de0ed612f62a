"""What sparse tensors are asked, and how tensors change their layout."""

from __future__ import annotations

from typing import Any

from ...op.expose import function, method
from ...tape.layout import check_layout_name, strided
from ...tape.sparse import BLOCKED, BSC, BSR, BY_ROWS, COO, CSC, CSR, SPELLED, Pattern, is_sparse
from ...tape.tensor import Tensor
from ..elementwise.cast import convert
from . import base, make
from .base import as_coo, in_layout, layout_of, made, parts, values_of, wrap
from .make import of_coo


def wants(name: str, tensor: Tensor, what: str, layouts: tuple) -> Pattern:
    """The pattern of a tensor that has one of some layouts; RuntimeError for another."""
    kind = tensor.layout
    if kind not in layouts:
        raise RuntimeError(f"{name} expected {what} tensor layout but got {SPELLED[kind]}")
    return tensor._array.pattern


_ALL = (COO, CSR, CSC, BSR, BSC)
_COORDINATE = "sparse coordinate"


# -- questions ---------------------------------------------------------------------------------------------------------


@method("coalesce")
def coalesce(self):
    """Each place once, in order; the values of one place are added.

    Returns:
        A coalesced tensor: itself if it is that already. Gradients flow.

    Raises:
        RuntimeError: this is no ``sparse_coo`` tensor.

    Example:
        >>> gradlib.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).coalesce().values()
        tensor([5.])
    """
    wants("coalesce", self, _COORDINATE, (COO,))
    return base.coalesced(self)


@method("is_coalesced")
def is_coalesced(self) -> bool:
    """Whether each place is known to occur once, in order.

    Raises:
        RuntimeError: this is no ``sparse_coo`` tensor.

    Example:
        >>> gradlib.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,)).is_coalesced()
        False
    """
    return wants("is_coalesced", self, _COORDINATE, (COO,)).coalesced


@method("indices")
def indices(self):
    """The places of the values of a coalesced tensor: integers (sparse dimensions, n).

    Raises:
        RuntimeError: this is no ``sparse_coo`` tensor, or not coalesced.

    Example:
        >>> gradlib.eye(2).to_sparse().indices()
        tensor([[0, 1],
                [0, 1]])
    """
    pattern = wants("indices", self, _COORDINATE, (COO,))
    _check_coalesced("indices", pattern)
    return wrap(pattern.indices)


def _check_coalesced(name: str, pattern: Pattern) -> None:
    if pattern.layout is COO and not pattern.coalesced:
        raise RuntimeError(
            f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
        )


@method("values")
def values(self):
    """The values of a sparse tensor, which must be coalesced: (n, ...). Gradients flow.

    Raises:
        RuntimeError: this tensor is dense, or not coalesced.

    Example:
        >>> gradlib.eye(2).to_sparse().values()
        tensor([1., 1.])
    """
    _check_coalesced("values", wants("values", self, "sparse", _ALL))
    return values_of(self)


@method("_indices")
def _indices(self):
    """The places as they are kept, of a tensor that need not be coalesced."""
    return wrap(of_coo("_indices", self).indices)


@method("_values")
def _values(self):
    """The values as they are kept, outside of the graph, of a tensor that need not be coalesced."""
    of_coo("_values", self)
    return wrap(self._array.values)


@method("_nnz")
def _nnz(self) -> int:
    """How many values are kept (of BSR and BSC: blocks).

    Raises:
        NotImplementedError: the tensor is dense.

    Example:
        >>> gradlib.eye(2).to_sparse()._nnz()
        2
    """
    if not is_sparse(self):
        raise NotImplementedError(
            "Could not run '_nnz': it is for sparse tensors; use count_nonzero()"
        )
    return self._array.pattern.count


@method("dense_dim")
def dense_dim(self) -> int:
    """How many dimensions, the last ones, are dense: of a dense tensor all.

    Example:
        >>> gradlib.ones(2, 3).dense_dim(), gradlib.ones(2, 3).to_sparse(1).dense_dim()
        (2, 1)
    """
    return self.ndim - self._array.pattern.sparse_dim if is_sparse(self) else self.ndim


@method("sparse_dim")
def sparse_dim(self) -> int:
    """How many dimensions, the first ones, are sparse: of a dense tensor 0.

    Example:
        >>> gradlib.ones(2, 3).sparse_dim(), gradlib.ones(2, 3).to_sparse().sparse_dim()
        (0, 2)
    """
    return self._array.pattern.sparse_dim if is_sparse(self) else 0


@method("_dimI")
def _dim_i(self) -> int:
    """``sparse_dim()`` of a COO tensor."""
    return sparse_dim(_coo_only("_dimI", self))


@method("_dimV")
def _dim_v(self) -> int:
    """``dense_dim()`` of a COO tensor."""
    return dense_dim(_coo_only("_dimV", self))


def _coo_only(name: str, tensor: Tensor) -> Tensor:
    if tensor.layout is not COO:
        raise NotImplementedError(
            f"{name} is for sparse COO tensors, not layout {tensor.layout}: use .dim()"
        )
    return tensor


def _publish(name: str, field: str, of: str, kinds: tuple) -> None:
    def asked(self):
        return wrap(getattr(wants(name, self, f"sparse {of} compressed", kinds), field))

    asked.__name__ = asked.__qualname__ = name
    layout = "csr" if of == "row" else "csc"
    what = f"where the values of each {of} begin, and where the last end"
    if field == "plain":
        what = f"the {'column' if of == 'row' else 'row'} of each value"
    shown = "0, 1, 2" if field == "compressed" else "0, 1"
    asked.__doc__ = f"""Of a matrix compressed by {of}s: {what}.

Raises:
    RuntimeError: the tensor has another layout.

Example:
    >>> gradlib.eye(2).to_sparse_{layout}().{name}()
    tensor([{shown}])
"""
    method()(asked)


_publish("crow_indices", "compressed", "row", BY_ROWS)
_publish("col_indices", "plain", "row", BY_ROWS)
_publish("ccol_indices", "compressed", "column", (CSC, BSC))
_publish("row_indices", "plain", "column", (CSC, BSC))


# -- layouts -----------------------------------------------------------------------------------------------------------


@method("to_dense")
def to_dense(self, dtype=None, *, masked_grad=None):
    """The dense tensor of the same numbers: itself if it is dense.

    Args:
        dtype: converted to it, if it is given.
        masked_grad: False: the gradient of a sparse tensor is dense where the result's is; otherwise it stands at the
            places of the tensor.

    Returns:
        A dense tensor; gradients flow.

    Example:
        >>> gradlib.sparse_coo_tensor([[1]], [2.0], (3,)).to_dense()
        tensor([0., 2., 0.])
    """
    if is_sparse(self):
        self = base.whole_op.call(self) if masked_grad is False else base.to_dense(self)
    return self if dtype is None else convert(self, dtype)


def _from_dense(self: Tensor, sparse_dim: int) -> Tensor:
    pattern = make.from_dense(self, sparse_dim)
    return made(pattern, base.pick_op.call(self, pattern, False))


@method("to_sparse", "to_sparse_coo")
def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """The sparse tensor of the same numbers.

    Args:
        sparse_dim: how many dimensions, the first ones, are sparse; all without it.
        layout: ``sparse_coo`` (the default) or a compressed layout, for a matrix.
        blocksize: (height, width) of the blocks of ``sparse_bsr`` and ``sparse_bsc``; one number for both.
        dense_dim: 0; dense dimensions of compressed layouts are not supported.

    Returns:
        A coalesced tensor; gradients flow.

    Raises:
        RuntimeError: the number of dimensions, or of blocks, does not fit.

    Example:
        >>> gradlib.eye(2).to_sparse()._nnz()
        2
    """
    if isinstance(sparse_dim, str):
        sparse_dim, layout = None, sparse_dim
    kind = COO if layout is None else layout
    check_layout_name(kind)
    if kind is strided:
        return to_dense(self)
    if dense_dim:
        raise NotImplementedError(
            "to_sparse: dense_dim is not supported; use to_sparse(sparse_dim)"
        )
    if kind is not COO:
        return compressed(self, kind, blocksize)
    if is_sparse(self):
        if sparse_dim is not None and sparse_dim != self._array.pattern.sparse_dim:
            return _from_dense(to_dense(self), sparse_dim)
        return as_coo(self)
    n = self.ndim if sparse_dim is None else sparse_dim
    if not 0 <= n <= self.ndim or (not n and self.ndim):
        raise RuntimeError(
            f"to_sparse: sparse_dim must be between 1 and the number of dimensions {self.ndim}, but got {n}"
        )
    return _from_dense(self, n)


def compressed(tensor: Tensor, kind: Any, block: Any = None) -> Tensor:
    """A matrix in a compressed layout."""
    name = f"to_{str(kind)[6:]}"
    if tensor.ndim != 2:
        raise NotImplementedError(
            f"{name}: {kind} tensors are matrices here, but got size {list(tensor.shape)}: use to_sparse() for others"
        )
    if kind in BLOCKED:
        block = (block, block) if isinstance(block, int) else block
        if block is None or len(block) != 2 or any([n < 1 for n in block]):
            raise RuntimeError(f"{name}: blocksize must be two numbers above 0, but got {block}")
        if any([n % b for n, b in zip(tensor.shape, block, strict=True)]):
            raise RuntimeError(
                f"{name}: tensor of size {list(tensor.shape)} is not made of whole blocks of {list(block)}"
            )
        block = (int(block[0]), int(block[1]))
    if is_sparse(tensor) and layout_of(tensor) == (kind, block):
        return tensor
    tensor = tensor if is_sparse(tensor) else _from_dense(tensor, 2)
    if tensor._array.pattern.sparse_dim != 2:
        raise NotImplementedError(
            f"{name}: dense dimensions are not supported; use .to_dense() first"
        )
    return in_layout(*parts(tensor), kind, block)


def _publish_layout(name: str, kind: Any, of: str, blocks: bool) -> None:
    if blocks:

        def convert(self, blocksize, dense_dim=None):  # pyright: ignore[reportRedeclaration]
            return to_sparse(self, layout=kind, blocksize=blocksize, dense_dim=dense_dim)
    else:

        def convert(self, dense_dim=None):
            return to_sparse(self, layout=kind, dense_dim=dense_dim)

    convert.__name__ = convert.__qualname__ = f"to_sparse_{name}"
    given = "(1, 1)" if blocks else ""
    convert.__doc__ = f"""The same matrix compressed by {of}s. Gradients flow.

Args:
{"    blocksize: (height, width) of a block; one number for both." if blocks else ""}
    dense_dim: 0; dense dimensions are not supported.

Returns:
    A tensor of layout ``sparse_{name}``.

Raises:
    NotImplementedError: it is no matrix.

Example:
    >>> gradlib.eye(2).to_sparse_{name}({given}).layout
    torch.sparse_{name}
""".replace("Args:\n\n", "Args:\n")
    method()(convert)


_publish_layout("csr", CSR, "row", False)
_publish_layout("csc", CSC, "column", False)
_publish_layout("bsr", BSR, "block row", True)
_publish_layout("bsc", BSC, "block column", True)


@method("sparse_mask")
def sparse_mask(self, mask):
    """What stands at the places of a sparse tensor.

    Args:
        mask: a sparse tensor of the same size, of which the places count; coalesce it first, or what stands at a place
            that it has twice counts twice.

    Returns:
        A sparse tensor with the values of this tensor there. Gradients flow to this tensor.

    Raises:
        RuntimeError: the sizes differ, or `mask` is dense.

    Example:
        >>> gradlib.ones(2, 2).sparse_mask(gradlib.eye(2).to_sparse()).values()
        tensor([1., 1.])
    """
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask: expected mask to be a sparse tensor, but got a dense one")
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    kind, block = layout_of(mask)
    pattern = mask._array.pattern
    if kind is COO:
        return made(pattern, base.pick_op.call(self, pattern, is_sparse(self)))
    places, _ = pattern.coo()
    return in_layout(places, base.pick_op.call(self, places, is_sparse(self)), kind, block)


# -- products ----------------------------------------------------------------------------------------------------------


@function("smm", method=True)
def smm(input, mat):
    """The product of a sparse matrix and a dense one, as a sparse tensor.

    Args:
        input: a sparse matrix (n, k).
        mat: a dense matrix (k, m).

    Returns:
        A ``sparse_coo`` tensor (n, m).

    Raises:
        RuntimeError: the sizes or dtypes do not fit.

    Example:
        >>> gradlib.smm(gradlib.eye(2).to_sparse(), gradlib.ones(2, 1)).to_dense()
        tensor([[1.],
                [1.]])
    """
    return to_sparse(input @ mat)


@function("hspmm")
def hspmm(mat1, mat2):
    """The product of a sparse matrix and a dense one, as a sparse tensor whose values are rows.

    Args:
        mat1: a ``sparse_coo`` matrix (n, k).
        mat2: a dense matrix (k, m).

    Returns:
        A ``sparse_coo`` tensor (n, m) with one sparse and one dense dimension.

    Raises:
        RuntimeError: the sizes or dtypes do not fit.

    Example:
        >>> gradlib.hspmm(gradlib.eye(2).to_sparse(), gradlib.ones(2, 3)).dense_dim()
        1
    """
    return to_sparse(mat1 @ mat2, 1)


@function("sspaddmm", method=True)
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """``beta * input + alpha * (mat1 @ mat2)`` as a sparse tensor; `mat1` is sparse, `mat2` dense.

    Args:
        input: a sparse matrix (n, m).
        mat1: a sparse matrix (n, k).
        mat2: a dense matrix (k, m).
        beta, alpha: numbers.

    Returns:
        A ``sparse_coo`` tensor.

    Raises:
        RuntimeError: the sizes or dtypes do not fit.

    Example:
        >>> s = gradlib.eye(2).to_sparse()
        >>> gradlib.sspaddmm(s, s, gradlib.ones(2, 2)).to_dense()
        tensor([[2., 1.],
                [1., 2.]])
    """
    return input * beta + to_sparse(mat1 @ mat2) * alpha
