"""Functions on sparse tensors under PyTorch's names: ``gradlib.sparse.mm`` and the others."""

from __future__ import annotations

import warnings as _warnings
from typing import Any

import numpy as np

from ._refused import refuse
from .op.expose import overridable as _overridable
from .operators.create.data import TypedTensor as _TypedTensor
from .operators.create.data import as_tensor as _as_tensor
from .operators.linalg.matmul import mm as _mm
from .operators.sparse import base as _base
from .operators.sparse import methods as _methods
from .operators.sparse import products as _products
from .operators.sparse import rules as _rules
from .operators.sparse.make import sparse_coo_tensor as _sparse_coo_tensor
from .tape import dtypes as _dtypes
from .tape.dtypes import dtype as _dtype
from .tape.dtypes import int64 as _int64
from .tape.layout import layout as _layout
from .tape.sparse import COO as _COO
from .tape.sparse import is_sparse as _is_sparse
from .tape.tensor import Tensor

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
__getattr__ = refuse(
    __name__,
    why="Structured sparsity has no kernels here: use gradlib.sparse_csr_tensor or dense tensors.",
)


def _must_be_sparse(name: str, argument: str, tensor: Any) -> None:
    if not _is_sparse(tensor):
        raise RuntimeError(
            f"{name}: expected '{argument}' to be a sparse tensor, but got a dense one: use .to_sparse(), or "
            f"gradlib.{name.rpartition('.')[2]}"
        )


def mm(sparse: Tensor, dense: Tensor, reduce: str | None = None) -> Tensor:
    """The product of a sparse matrix (n, k) and a matrix (k, m), dense or sparse.

    Args:
        sparse: a sparse matrix; one of both may be dense, or both.
        dense: a matrix of the same dtype.
        reduce: "sum" (as without it), "mean", "amax" or "amin": what becomes of the products of one row with a column,
            of the elements that are there; 0 where there are none.

    Returns:
        (n, m): dense, or sparse if both are. The gradient of a sparse matrix stands at its places.

    Raises:
        RuntimeError: the sizes or dtypes do not fit, or there is no such reduction.

    Example:
        >>> gradlib.sparse.mm(gradlib.eye(2).to_sparse(), gradlib.ones(2, 3))
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    if reduce is not None:
        return _products.reduced_mm(sparse, dense, reduce)
    return _mm(sparse, dense)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)`` with a sparse `mat1`.

    Args:
        mat: a dense matrix (n, m), or a sparse one if `mat2` is sparse.
        mat1: a sparse matrix (n, k).
        mat2: a matrix (k, m).
        beta, alpha: numbers.

    Returns:
        (n, m); gradients flow to all three.

    Raises:
        RuntimeError: the sizes or dtypes do not fit.

    Example:
        >>> gradlib.sparse.addmm(gradlib.ones(2, 2), gradlib.eye(2).to_sparse(), gradlib.eye(2))
        tensor([[2., 1.],
                [1., 2.]])
    """
    if not _is_sparse(mat1) and not _is_sparse(mat2):
        _must_be_sparse("sparse.addmm", "mat1", mat1)
    out = _rules.addmm(mat, mat1, mat2, beta, alpha)
    if out is NotImplemented:
        raise NotImplementedError(
            "sparse.addmm: a sparse 'mat' beside a dense product: use .to_dense() on it"
        )
    return out


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` at the places of the sparse matrix `input` alone.

    Args:
        input: a sparse matrix (n, m).
        mat1, mat2: dense matrices (n, k) and (k, m).
        beta, alpha: numbers.
        out: not supported.

    Returns:
        A sparse matrix of the layout of `input`; gradients flow to all three.

    Raises:
        RuntimeError: `input` is dense, or the sizes do not fit.

    Example:
        >>> s = gradlib.eye(2).to_sparse_csr()
        >>> gradlib.sparse.sampled_addmm(s, gradlib.ones(2, 3), gradlib.ones(3, 2)).values()
        tensor([4., 4.])
    """
    if out is not None:
        raise NotImplementedError("sparse.sampled_addmm: out= is not supported for sparse tensors")
    _must_be_sparse("sparse.sampled_addmm", "input", input)
    if mat1.shape[-1] != mat2.shape[0] or (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
        raise RuntimeError(
            f"sampled_addmm: sizes {list(input.shape)}, {list(mat1.shape)} and {list(mat2.shape)} do not fit together"
        )
    kind, block = _base.layout_of(input)
    pattern, values = _base.parts(input)
    product = _base.dots_op.call(mat1, mat2.t(), pattern)
    return _base.in_layout(pattern, values * beta + product * alpha, kind, block)


def sum(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor:
    """The sum of a sparse tensor over dimensions.

    Args:
        input: a sparse tensor.
        dim: a dimension or several; all without it.
        dtype: the values are converted to it first.

    Returns:
        A dense tensor if no sparse dimension is left, else a sparse one. Its gradient stands at the places of `input`.

    Raises:
        RuntimeError: `input` is dense.

    Example:
        >>> gradlib.sparse.sum(gradlib.eye(2).to_sparse(), 0).to_dense()
        tensor([1., 1.])
    """
    _must_be_sparse("sparse.sum", "input", input)
    if dtype is not None:
        input = input.to(dtype)
    if dim is None:
        return _base.parts(input)[1].sum()
    return _rules.sum_over(input, (dim,) if isinstance(dim, int) else tuple(dim))


def softmax(input: Tensor, dim: int, *, dtype: _dtype | None = None) -> Tensor:
    """softmax along a dimension over the values that are there: what is not there counts as -inf.

    Args:
        input: a sparse tensor.
        dim: the dimension.
        dtype: the values are converted to it first.

    Returns:
        A sparse tensor of the same places.

    Raises:
        RuntimeError: `input` is dense.

    Example:
        >>> gradlib.sparse.softmax(gradlib.eye(2).to_sparse(), 1).values()
        tensor([1., 1.])
    """
    _must_be_sparse("sparse.softmax", "input", input)
    return _rules.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: _dtype | None = None) -> Tensor:
    """The logarithm of ``softmax``.

    Args:
        input: a sparse tensor.
        dim: the dimension.
        dtype: the values are converted to it first.

    Returns:
        A sparse tensor of the same places.

    Raises:
        RuntimeError: `input` is dense.

    Example:
        >>> gradlib.sparse.log_softmax(gradlib.eye(2).to_sparse(), 1).values()
        tensor([0., 0.])
    """
    _must_be_sparse("sparse.log_softmax", "input", input)
    return _rules.softmax(input if dtype is None else input.to(dtype), dim, log=True)


def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: Any, layout: _layout | None = None
) -> Tensor:
    """A sparse matrix with the rows of a matrix along its diagonals.

    Element j of a row goes to column j, as far as it falls into the matrix.

    Args:
        diagonals: (d, n), or (n,) for one.
        offsets: (d,) distinct integers: 0 is the main diagonal, positive ones are above it.
        shape: (rows, columns).
        layout: of the result; ``sparse_coo`` without it.

    Returns:
        A sparse matrix; gradients flow to `diagonals`.

    Raises:
        ValueError: the shapes do not fit, or an offset occurs twice.

    Example:
        >>> gradlib.sparse.spdiags(gradlib.ones(2, 2), gradlib.tensor([0, -1]), (2, 2)).to_dense()
        tensor([[1., 0.],
                [1., 1.]])
    """
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    where = _as_tensor(offsets).reshape(-1)
    given = where.tolist()
    if rows.ndim != 2 or len(given) != rows.shape[0] or len(shape) != 2:
        raise ValueError(
            f"spdiags: diagonals must be (d, n), offsets (d,) and shape (rows, columns), but got "
            f"{list(diagonals.shape)}, {list(where.shape)} and {list(shape)}"
        )
    if len(set(given)) != len(given):
        raise ValueError(f"spdiags: offsets must be distinct, but got {given}")
    height, width = shape
    columns = np.arange(min(rows.shape[1], width))
    column = np.tile(columns, len(given))
    which = np.repeat(np.arange(len(given)), len(columns))
    row = column - np.asarray(given, np.int64)[which]
    inside = (row >= 0) & (row < height)
    places = np.stack([row[inside], column[inside]])
    source = (which * rows.shape[1] + column)[inside]
    values = rows.reshape(-1)[Tensor._make(source).to(rows.device)]
    made = _sparse_coo_tensor(Tensor._make(places), values, (height, width))
    return made if layout in (None, _COO) else _methods.to_sparse(made, layout=layout)


class check_sparse_tensor_invariants:  # PyTorch's name
    """A block, or a decorator, in which invariants of sparse tensors are checked. Here they always are.

    Args:
        enable: what ``is_enabled()`` tells within the block.

    Example:
        >>> with gradlib.sparse.check_sparse_tensor_invariants():
        ...     gradlib.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._wanted, self._before = enable, []

    @staticmethod
    def is_enabled() -> bool:
        """What was asked for last; indices are checked in any case.

        Example:
            >>> gradlib.sparse.check_sparse_tensor_invariants.is_enabled()
            False
        """
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Ask for the checks.

        Example:
            >>> checks = gradlib.sparse.check_sparse_tensor_invariants
            >>> checks.enable()
            >>> checks.is_enabled()
            True
            >>> checks.disable()
        """
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Ask for no checks. Without effect: a wrong index would give wrong numbers.

        Example:
            >>> checks = gradlib.sparse.check_sparse_tensor_invariants
            >>> checks.disable()
            >>> checks.is_enabled()
            False
        """
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before.append(check_sparse_tensor_invariants._enabled)
        check_sparse_tensor_invariants._enabled = self._wanted

    def __exit__(self, *exc: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()

    def __call__(self, function: Any) -> Any:
        def checked(*args: Any, **kwargs: Any) -> Any:
            with check_sparse_tensor_invariants(self._wanted):
                return function(*args, **kwargs)

        checked.__name__, checked.__doc__ = function.__name__, function.__doc__
        return checked


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """`gradcheck` itself: it takes sparse tensors as it is.

    Args:
        gradcheck: ``gradlib.autograd.gradcheck`` or ``gradgradcheck``.

    Example:
        >>> from gradlib.autograd import gradcheck
        >>> gradlib.sparse.as_sparse_gradcheck(gradcheck) is gradcheck
        True
    """
    return gradcheck


_overridable(globals())


# -- the old names of sparse tensors of one dtype ----------------------------------------------------------------------


class _Typed(_TypedTensor):
    """Class of these names: calling one makes a sparse tensor, ``isinstance`` asks for layout and dtype."""

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        _warnings.warn(
            "torch.sparse.SparseTensor(indices, values, shape, *, device=) is deprecated.  Please use "
            "torch.sparse_coo_tensor(indices, values, shape, dtype=, device=).",
            stacklevel=2,
        )
        if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            if args[0].dtype is not _int64:
                kind = args[0].dtype.scalar_type
                raise RuntimeError(f"expected scalar type Long but found {kind}")
            return _sparse_coo_tensor(*args, device=device)
        size = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        if not all(isinstance(n, int) for n in size):
            got = ", ".join(type(a).__name__ for a in args)
            raise TypeError(
                f"new() received an invalid combination of arguments - got ({got}): a {self.__name__} is made of "
                "indices, values and perhaps a size, or of a size alone"
            )
        return _sparse_coo_tensor(tuple(size) or (0,), dtype=self.dtype, device=device)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.is_sparse and instance.dtype is self.dtype


def _typed(kind: _dtype) -> Any:
    text = f"""Sparse tensors of dtype {kind.name}: the old form of ``sparse_coo_tensor``, which warns.

``isinstance(x, gradlib.sparse.{kind.tensor_type})`` asks for layout and dtype of a tensor.

Args:
    args: indices (dimensions, n) of int64, values and perhaps a size; or a size alone.

Raises:
    TypeError: other arguments.
    RuntimeError: the indices are not of int64, or a place lies outside.

Example:
    >>> isinstance(gradlib.eye(2).to_sparse(), gradlib.sparse.{kind.tensor_type})
    {kind.name == "float32"}
"""
    return _Typed(
        kind.tensor_type, (), {"dtype": kind, "__module__": "gradlib.sparse", "__doc__": text}
    )


HalfTensor, BFloat16Tensor = _typed(_dtypes.float16), _typed(_dtypes.bfloat16)
FloatTensor, DoubleTensor = _typed(_dtypes.float32), _typed(_dtypes.float64)
ByteTensor, CharTensor, ShortTensor = map(_typed, (_dtypes.uint8, _dtypes.int8, _dtypes.int16))
IntTensor, LongTensor = _typed(_dtypes.int32), _typed(_int64)
