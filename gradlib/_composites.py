"""Functions of PyTorch under private or old names, made of public ones; and its loops and branches on tensors.

Example:
    >>> gradlib.cond(gradlib.tensor(True), lambda x: x + 1, lambda x: x - 1, (gradlib.zeros(1),))
    tensor([1.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .linalg import matrix_norm, vector_norm
from .operators import public as ops
from .tape import dtypes
from .tape.tensor import Tensor

# -- norms -----------------------------------------------------------------------------------------------------------


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which stay with the length 1; with `dim` -1 over all.

    Args:
        v: a tensor.
        pow: the order of the norm.
        dim: the first dimension or the last one; -1: none.

    Raises:
        IndexError: there is no such dimension.

    Example:
        >>> gradlib.norm_except_dim(gradlib.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    if not 0 <= dim < v.dim():
        raise IndexError(f"dim must be -1 or in [0, {v.dim() - 1}], but got {dim}")
    others = [d for d in range(v.dim()) if d != dim]
    return vector_norm(v, pow, others, keepdim=True) if others else v.abs()


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """The direction of `v`, along all dimensions but `dim`, with the length `g`."""
    return v * (g / norm_except_dim(v, 2, dim))


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The square root of the sum of the squares over `dim`.

    Args:
        input: a tensor.
        dim: one dimension, or several; an empty list: all.
        keepdim: whether they stay with the length 1.

    Example:
        >>> gradlib.frobenius_norm(gradlib.tensor([[3.0, 4.0]]), [0, 1])
        tensor(5.)
    """
    dims = [dim] if isinstance(dim, int) else list(dim)
    return vector_norm(input, 2, dims or None, keepdim=keepdim)


def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices.

    Args:
        input: a tensor of two dimensions, or of more with `dim`.
        dim: the two dimensions of the matrices; the last ones if left out.
        keepdim: whether they stay with the length 1.

    Example:
        >>> gradlib.nuclear_norm(gradlib.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor(7.)
    """
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)


# -- segments ----------------------------------------------------------------------------------------------------------

_IDENTITY = {
    "sum": 0.0,
    "prod": 1.0,
    "max": float("-inf"),
    "min": float("inf"),
    "mean": float("nan"),
}
_NAMES = {"amax": "max", "amin": "min"}


# -- products with sparse matrices, under old names --------------------------------------------------------------------


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """``mm``, under an old name: the product of a sparse matrix and a dense one.

    Args:
        input: a matrix, sparse or dense.
        mat2: a dense one.

    Example:
        >>> gradlib.spmm(gradlib.eye(2).to_sparse(), gradlib.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    return ops.mm(input, mat2)


dsmm = spmm


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse tensor: ``input.smm(mat)``.

    Args:
        input: a ``sparse_coo`` matrix.
        mat: a dense one.

    Raises:
        RuntimeError: `input` is dense.

    Example:
        >>> gradlib.smm(gradlib.eye(2).to_sparse(), gradlib.ones(2, 1)).layout
        torch.sparse_coo
    """
    if not input.is_sparse:
        raise RuntimeError("smm: expected 'input' to be a sparse tensor, but got a dense one")
    return input.smm(mat)


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse tensor of dense rows.

    Args:
        mat1: a ``sparse_coo`` matrix.
        mat2: a dense one.

    Raises:
        RuntimeError: `mat1` is dense.

    Example:
        >>> gradlib.hspmm(gradlib.eye(2).to_sparse(), gradlib.ones(2, 1)).dense_dim()
        1
    """
    if not mat1.is_sparse:
        raise RuntimeError("hspmm: expected 'mat1' to be a sparse tensor, but got a dense one")
    return (mat1 @ mat2).to_sparse(1)


hsmm = hspmm


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` as a sparse tensor: ``input.sspaddmm(mat1, mat2)``.

    Args:
        input, mat1: ``sparse_coo`` matrices.
        mat2: a dense one.
        beta, alpha: numbers.

    Raises:
        RuntimeError: `input` is dense.

    Example:
        >>> s = gradlib.eye(2).to_sparse()
        >>> gradlib.sspaddmm(s, s, gradlib.ones(2, 2)).layout
        torch.sparse_coo
    """
    if not input.is_sparse:
        raise RuntimeError("sspaddmm: expected 'input' to be a sparse tensor, but got a dense one")
    return input.sspaddmm(mat1, mat2, beta=beta, alpha=alpha)


saddmm = sspaddmm


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """The sum, mean, product, maximum or minimum of each of the segments that a dimension is cut into.

    Args:
        data: a floating tensor.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: int64, the lengths of the segments; of `axis` dimensions before that, those of `data`.
        indices: not supported.
        offsets: where segments begin, and where the last one ends: in the place of `lengths`.
        axis: the dimension.
        unsafe: whether not to look if the lengths fit.
        initial: what each reduction begins with; the result of an empty segment.

    Raises:
        RuntimeError: lengths that do not fit, or another reduction.
        NotImplementedError: `indices`.

    Example:
        >>> gradlib.segment_reduce(gradlib.arange(4.0), "sum", lengths=gradlib.tensor([1, 3]))
        tensor([0., 6.])
    """
    reduce = _NAMES.get(reduce, reduce)
    if reduce not in _IDENTITY:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise NotImplementedError("segment_reduce: indices are not supported; give lengths")
    if offsets is not None:
        lengths = offsets.diff(dim=-1)
    if lengths is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined")
    if lengths.dim() - 1 != axis:
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths.")
    if axis:
        parts = [
            segment_reduce(d, reduce, lengths=n, axis=axis - 1, unsafe=unsafe, initial=initial)
            for d, n in zip(data, lengths, strict=True)
        ]
        return ops.stack(parts)
    counts = lengths.tolist()
    if sum(counts) != data.shape[0]:
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )
    return ops.stack([_reduced(part, reduce, initial) for part in data.split(counts)])


def _reduced(part: Tensor, reduce: str, initial: float | None) -> Tensor:
    """The reduction of the first dimension of one segment."""
    n = part.shape[0]
    if not n:
        return part.new_full(part.shape[1:], _IDENTITY[reduce] if initial is None else initial)
    if reduce in ("max", "min"):
        found = part.amax(0) if reduce == "max" else part.amin(0)
        if initial is None:
            return found
        return found.clamp(min=initial) if reduce == "max" else found.clamp(max=initial)
    if reduce == "prod":
        return part.prod(0) * (1.0 if initial is None else initial)
    total = part.sum(0) + (0.0 if initial is None else initial)
    return total / n if reduce == "mean" else total


# -- branches and loops ------------------------------------------------------------------------------------------------


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    """``true_fn(*operands)`` or ``false_fn(*operands)``; the host waits for `pred`.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn: called if it is true.
        false_fn: called if it is not.
        operands: what the functions get.

    Example:
        >>> gradlib.cond(False, lambda x: x + 1, lambda x: x - 1, (gradlib.ones(1),))
        tensor([0.])
    """
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(
    cond_fn: Callable,
    body_fn: Callable,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] = (),
) -> Any:
    """``body_fn`` of what it gave before, as long as ``cond_fn`` of that is true; the host waits each time.

    Args:
        cond_fn: takes the carried and the additional inputs, and gives a bool or a tensor of one element.
        body_fn: takes the same and gives the next carried inputs.
        carried_inputs: those of the first call.
        additional_inputs: those of all calls.

    Example:
        >>> gradlib.while_loop(lambda x: x < 3, lambda x: (x + 1,), (gradlib.tensor(0),))
        (tensor(3),)
    """
    values = tuple(carried_inputs)
    while bool(cond_fn(*values, *additional_inputs)):
        made = body_fn(*values, *additional_inputs)
        values = (
            made if isinstance(made, tuple) else tuple(made) if isinstance(made, list) else (made,)
        )
    return values


# -- private names -----------------------------------------------------------------------------------------------------


def _softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """softmax; `half_to_float` gives float32 of half types on CUDA."""
    return ops.softmax(_widened(input, half_to_float, "softmax"), dim)


def _log_softmax(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """log_softmax; `half_to_float` gives float32 of half types on CUDA."""
    return ops.log_softmax(_widened(input, half_to_float, "log_softmax"), dim)


def _widened(input: Tensor, half_to_float: bool, name: str) -> Tensor:
    if half_to_float and input.is_cpu:
        raise RuntimeError(f"{name} with half to float conversion is not supported on CPU")
    return input.float() if half_to_float else input


def _int_mm(self: Tensor, mat2: Tensor) -> Tensor:
    """The product of two int8 matrices in int32."""
    for t in (self, mat2):
        if t.dtype not in (dtypes.int8, dtypes.uint8):
            raise RuntimeError(
                f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {t.dtype.cpp_name}"
            )
    return ops.mm(self.to(dtypes.int32), mat2.to(dtypes.int32))


def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """stack."""
    return ops.stack(tensors, dim)


def _aminmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the greatest element, or those along a dimension."""
    return tuple(ops.aminmax(self, dim=dim, keepdim=keepdim))  # type: ignore[return-value]


def _unique2(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The different elements, where each is among them, and how often; what is not asked for is empty."""
    values, inverse, counts = ops.unique(self, True, True, True)
    none = inverse.new_empty(0)
    return values, inverse if return_inverse else none, counts if return_counts else none


def _unique(
    self: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """The different elements, and where each is among them, if that is asked for."""
    return _unique2(self, sorted, return_inverse)[:2]


def _euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    """The distances between rows."""
    return ops.cdist(x1, x2)


def _dim_arange(like: Tensor, dim: int) -> Tensor:
    """The indices along a dimension."""
    return ops.arange(like.shape[dim], device=like.device)


def _is_all_true(self: Tensor) -> Tensor:
    """Whether all elements of a bool tensor are True."""
    return self._is_all_true()


def _is_any_true(self: Tensor) -> Tensor:
    """Whether one element of a bool tensor is True."""
    return self._is_any_true()


def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether the memory of one tensor may become that of the other: not between the meta device and another one."""
    return input.is_meta == from_.is_meta


def _cast(kind: dtypes.dtype) -> Callable[..., Tensor]:
    def cast(input: Tensor, non_blocking: bool = False) -> Tensor:
        return input.to(kind)

    cast.__doc__ = f"The tensor in {kind}."
    return cast


_CASTS = {
    "_cast_Byte": dtypes.uint8, "_cast_Char": dtypes.int8, "_cast_Short": dtypes.int16, "_cast_Int": dtypes.int32,
    "_cast_Long": dtypes.int64, "_cast_Half": dtypes.float16, "_cast_Float": dtypes.float32,
    "_cast_Double": dtypes.float64,
}  # fmt: skip
globals().update({name: _cast(kind) for name, kind in _CASTS.items()})
