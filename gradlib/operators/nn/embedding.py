"""Embedding: rows of a table by index, sums of such rows (embedding_bag), one_hot."""

from __future__ import annotations

import math
import warnings

import numpy as np

from ...op import vmap_texts
from ...op.declare import Op, declare
from ...op.expose import function
from ...op.formulas import formula_function, register
from ...op.vmap import Logical, each_entry
from ...tape import dtypes
from ...tape.arrays import backend_of, kernels_of
from ...tape.device import beside_first
from ...tape.errors import check_room
from ...tape.interop import host_reads
from ...tape.lazy import raw_values
from ...tape.modes import made_of_numbers, unrecorded
from ...tape.sparse import COO, Pattern
from ...tape.storage import before_write, bump
from ...tape.tensor import Tensor, to_host
from ..create.base import wrap_like
from ..kinds import raw

MODES = {"sum": 0, "mean": 1, "max": 2}
_FEW = 32  # rows of a table for which a product with indicators beats adding at indices


# -- kernels -----------------------------------------------------------------------------------------------------------


def _index_error(position: int, indices) -> RuntimeError:
    return RuntimeError(
        f"Expected tensor for argument #{position} 'indices' to have one of the following scalar types: Long, Int; but "
        f"got torch.{dtypes.BY_NP[indices.dtype].tensor_type} instead (while checking arguments for embedding)"
    )


def _embedding(xp, weight, indices, *, padding_idx, scale_grad_by_freq):
    if indices.dtype.kind != "i" or indices.dtype.itemsize < 4:
        raise _index_error(1, indices)
    if indices.size and not xp.waits:
        # negative indices are large unsigned ones: one test serves for both ends
        top = indices.astype(np.int64, copy=False).view(np.uint64).max()
        if top >= weight.shape[0]:
            raise IndexError("index out of range in self")
    return weight.take(indices, axis=0)


def _embedding_grad(xp, grad, indices, *, rows):
    """Rows of `grad` (*indices, D...) added up by index: (rows, D...)."""
    shape = grad.shape[indices.ndim :]
    values = xp.wide(grad).reshape(indices.size, math.prod(shape))
    width, flat = values.shape[1], indices.reshape(-1)
    if rows <= _FEW and values.dtype.kind == "f" and flat.size:
        hot = xp.zeros((rows, flat.size), values.dtype)
        hot[flat, xp.arange(flat.size)] = 1
        out = xp.dot(hot, values)
        # an infinite or nan row times the zeros of the matrix makes others nan
        added = xp.waits or math.isfinite(xp.add_up(out, ()))
    else:
        out, added = values, False
    if not added:
        out = xp.zeros((rows, width), values.dtype)
        xp.add_at(out, (flat,), values)
    return out.reshape(rows, *shape).astype(grad.dtype, copy=False)


@formula_function()
def embedding_rows(F, g, indices, shape, padding_idx, scale_grad_by_freq):
    """The gradient of a table as a sparse tensor: a row of values for each index, uncoalesced."""
    flat = raw(indices)
    if flat.__class__ is Logical and flat.batched:
        raise RuntimeError(
            vmap_texts.NO_BATCHES.format("the gradient of embedding(sparse=True)", "sparse=False")
        )
    flat = flat.reshape(-1)
    values = F.row_scaled(g, indices, shape[0], -1, scale_grad_by_freq)
    values = F.reshape(values, (flat.shape[0], *shape[1:]))
    if padding_idx >= 0:
        kept = backend_of(flat).nonzero(flat != padding_idx)[0]
        if kept.shape[0] < flat.shape[0]:
            flat = flat[kept]
            values = F.index_select(values, kept if values is raw(values) else wrap_like(kept), 0)
    places = flat.astype(np.int64)[None]
    return F.sparse_from(values, Pattern(COO, tuple(shape), places, flat.shape[0] < 2))


@formula_function()
def row_scaled(F, g, indices, rows, padding_idx, scale_grad_by_freq):
    """The gradient of each looked-up row: none for the padding index, divided by the frequency if so asked."""
    if padding_idx < 0 and not scale_grad_by_freq:
        return g
    where = raw(indices)
    scale = (where != padding_idx).astype(raw(g).dtype)
    if scale_grad_by_freq and where.size:
        flat = where.reshape(-1)
        counts = kernels_of(flat).bincount(flat, minlength=rows)
        scale = scale / counts[where].astype(raw(g).dtype)
    return g * scale.reshape(where.shape + (1,) * (g.ndim - where.ndim))


def _samples(t):
    index = {"dtype": dtypes.int64, "low": 0, "high": 4}
    return [
        (t(4, 3), t(5, **index), -1, False), (t(4, 3), t(2, 3, **index), -1, False),
        (t(4, 2), t(**index), -1, False), (t(4, 2), t(0, **index), -1, False), (t(40, 2), t(3, **index), -1, False),
    ]  # fmt: skip


def _grad_samples(t):
    index = {"dtype": dtypes.int64, "low": 0, "high": 4}
    return [
        (t(5, 3), t(5, **index), 4),
        (t(2, 3, 2), t(2, 3, **index), 40),
        (t(0, 2), t(0, **index), 3),
    ]


embedding_op = declare(
    "embedding_op", _embedding, public="embedding", promote="free", node="EmbeddingBackward0", complex=True,
    aten="(weight, indices)",
    weight=lambda F, g, indices, weight_shape, padding_idx, scale_grad_by_freq: F.embedding_grad(
        F.row_scaled(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq), indices, weight_shape[0]
    ),
    jvp=lambda F, weight_t, indices, padding_idx, scale_grad_by_freq: F.embedding_op(weight_t, indices, -1, False),
    samples=_samples,
    batch="embedding",
)  # fmt: skip
# not among the declared ops: no generated test knows sparse gradients; see tests/sparse
sparse_embedding_op = Op(
    "sparse_embedding_op", _embedding, public="embedding", promote="free", node="EmbeddingBackward0", complex=True,
    aten="(weight, indices)",
    weight=lambda F, g, indices, weight_shape, padding_idx, scale_grad_by_freq: F.embedding_rows(
        g, indices, weight_shape, padding_idx, scale_grad_by_freq
    ),
    jvp=lambda F, weight_t, indices, padding_idx, scale_grad_by_freq: F.embedding_op(weight_t, indices, -1, False),
    batch="embedding",
)  # fmt: skip
register(sparse_embedding_op)
embedding_grad_op = declare(
    "embedding_grad", _embedding_grad, public="embedding_dense_backward",
    promote="free", node="EmbeddingDenseBackwardBackward0", complex=True,
    grad=lambda F, g, indices: F.embedding_op(g, indices, -1, False),
    jvp="linear",
    samples=_grad_samples,
)  # fmt: skip


# -- public ------------------------------------------------------------------------------------------------------------


@beside_first
def _renorm(weight, indices, max_norm: float, norm_type: float) -> None:
    """Scale the rows in use down to `max_norm`, in place and outside the graph."""
    if raw(indices).dtype.kind != "i" or raw(indices).dtype.itemsize < 4:
        raise _index_error(2, raw(indices))
    if not (weight.is_floating_point() or weight.is_complex()):
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {weight.dtype.scalar_type} instead."
        )
    array, used = weight._array, np.unique(raw(indices).reshape(-1))
    rows = array[used]
    size = _sizes(abs(rows), norm_type)
    long = size > max_norm
    if long.any():
        before_write(weight)
        array[used[long]] = rows[long] * (max_norm / (size[long] + 1e-7))[:, None]
        bump(weight)


def _sizes(rows, order: float):
    """The norm of each row of numbers that are not negative; in float32 for half types, whose squares overflow."""
    if rows.dtype.itemsize == 2:
        rows = rows.astype(np.float32)
    if order == 0:
        return (rows != 0).sum(axis=-1)
    if math.isinf(order) and rows.size:
        return rows.max(axis=-1) if order > 0 else rows.min(axis=-1)
    return (rows**order).sum(axis=-1) ** (1.0 / order)


def _padding(padding_idx, rows: int) -> int:
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False,
):  # fmt: skip
    """The rows of a matrix that indices name.

    Args:
        input: an integer tensor (...), each in [0, rows).
        weight: a matrix (rows, d).
        padding_idx: a row that gets no gradient.
        max_norm: rows in use are first scaled down to this norm, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: whether gradients are divided by how often a row occurs.
        sparse: whether the gradient of `weight` is a sparse tensor, of the rows in use alone.

    Returns:
        A tensor (..., d).

    Raises:
        IndexError: an index is out of range.
        RuntimeError: `weight` is no matrix, or the indices are not integers.

    Example:
        >>> F.embedding(gradlib.tensor([1, 1]), gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [3., 4.]])
    """
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    padding = -1 if padding_idx is None else _padding(padding_idx, weight._array.shape[0])
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    op = sparse_embedding_op if sparse else embedding_op
    return op.call(weight, input, padding, scale_grad_by_freq)


@function("embedding")
def _embedding_public(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The rows of a matrix that `indices` names; see ``nn.functional.embedding``.

    Args:
        weight: a matrix (n, d).
        indices: an integer tensor (...), each in [0, n).
        padding_idx: a row that gets no gradient; none if negative.
        scale_grad_by_freq: whether the gradient of a row is divided by how often it is named.
        sparse: whether the gradient of `weight` is a sparse tensor, of the rows in use alone.

    Returns:
        A tensor (..., d).

    Raises:
        IndexError: an index is out of range.
        RuntimeError: `indices` is not of integers.

    Example:
        >>> gradlib.embedding(gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.tensor([1, 1]))
        tensor([[3., 4.],
                [3., 4.]])
    """
    return embedding(
        indices,
        weight,
        padding_idx if padding_idx >= 0 else None,
        None,
        2.0,
        scale_grad_by_freq,
        sparse,
    )


@function("embedding_renorm_")
@each_entry
def embedding_renorm_(weight, indices, max_norm, norm_type):
    """Scale the rows of `weight` that `indices` names down until their norm is at most `max_norm`, in place.

    Args:
        weight: a matrix (n, d).
        indices: an integer tensor.
        max_norm: the bound.
        norm_type: the order of the norm.

    Returns:
        `weight`.

    Example:
        >>> gradlib.embedding_renorm_(gradlib.tensor([[3.0, 4.0], [3.0, 4.0]]), gradlib.tensor([0]), 1.0, 2.0)
        tensor([[0.6000, 0.8000],
                [3.0000, 4.0000]])
    """
    _renorm(weight, indices, max_norm, norm_type)
    return weight


def _constant(like, array) -> Tensor:
    """A host array as a tensor where `like` is."""
    return made_of_numbers(wrap_like(backend_of(raw(like)).array(array)))


def _bag_numbers(input, offsets, include_last_offset: bool):
    """For flat indices and offsets: the bag of each index (on the host), and the number of bags.

    The bags may end before the indices do, where the last offset says so.
    """
    starts = to_host(raw(offsets))
    if starts.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if include_last_offset and not len(starts):
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if (starts[1:] < starts[:-1]).any():
        raise RuntimeError("offsets must not decrease")
    if len(starts) and int(starts[0]) != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            "position 0. However, got "
            f"{int(starts[0])}"
        )
    if len(starts) and int(starts[-1]) > input.shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {input.shape[0]} but got "
            f"offsets[-1] of {int(starts[-1])}"
        )
    count = len(starts) - 1 if include_last_offset else len(starts)
    positions = np.arange(int(starts[-1]) if include_last_offset else input.shape[0])
    return np.searchsorted(starts[:count], positions, side="right") - 1, count


def _check_weights(per_sample_weights, input) -> None:
    if per_sample_weights is not None and per_sample_weights.size() != input.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )


@each_entry
def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type: float = 2, scale_grad_by_freq=False, mode="mean",
    sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """The sum, mean or maximum of the rows of a matrix in each bag of indices, without the rows in between.

    Args:
        input: integers (bags, length), or all in a row with `offsets`.
        weight: a matrix (rows, d).
        offsets: where each bag starts.
        max_norm: rows in use are first scaled down to this norm, in place.
        norm_type: the order of that norm.
        scale_grad_by_freq: whether gradients are divided by how often a row occurs.
        mode: "sum", "mean" or "max".
        sparse: whether the gradient of `weight` is a sparse tensor, of the rows in use alone.
        per_sample_weights: a factor for each index (mode "sum").
        include_last_offset: whether `offsets` ends with the end of the last bag.
        padding_idx: an index that counts for nothing.

    Returns:
        (bags, d). Empty bags give zeros.

    Raises:
        ValueError: `offsets` is missing, or there where it must not be.

    Example:
        >>> F.embedding_bag(gradlib.tensor([[0, 1]]), gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[2., 3.]])
    """
    if weight.dtype is dtypes.int64 and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            UserWarning,
            stacklevel=2,
        )
        weight, input = input, weight
    if mode not in MODES:
        raise ValueError("mode has to be one of sum or mean" if mode != "max" else "")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        count, length = input.shape
        bags = np.repeat(np.arange(count), length)
        _check_weights(per_sample_weights, input)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        host_reads("embedding_bag", offsets)
        bags, count = _bag_numbers(input, offsets, include_last_offset)
        _check_weights(per_sample_weights, input)
        if len(bags) < input.shape[0]:
            input = input[: len(bags)]
            per_sample_weights = (
                None if per_sample_weights is None else per_sample_weights[: len(bags)]
            )
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if not (weight.is_floating_point() or weight.is_complex()):
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got {weight.type()} instead (while checking arguments for embedding_bag)"
        )
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}'). Please open a feature request on GitHub."
        )
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        kinds = [t.dtype.tensor_type for t in (weight, per_sample_weights)]
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type torch.{kinds[0]} does not equal torch.{kinds[1]} (while checking "
            "arguments for embedding_bag)"
        )
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    if padding_idx is not None:
        host_reads("embedding_bag", input)
        keep = np.flatnonzero(to_host(raw(input)) != _padding(padding_idx, weight.shape[0]))
        bags, where = bags[keep], _constant(input, keep)
        input = input[where]
        per_sample_weights = per_sample_weights[where] if per_sample_weights is not None else None
    try:
        rows = embedding(input, weight, None, None, 2.0, scale_grad_by_freq, sparse)
    except IndexError:
        at, wrong = next(
            (k, i) for k, i in enumerate(input.tolist()) if not 0 <= i < weight.shape[0]
        )
        raise RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {wrong}"
            if mode == "max"
            else f"Index {at} of input takes value {wrong} which is not in the valid range [0, {weight.shape[0]})"
        ) from None
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    return _by_bag(rows, bags, count, mode)


def _by_bag(rows: Tensor, bags, count: int, mode: str) -> Tensor:
    """Rows combined by bag number (ascending)."""
    sizes = np.bincount(bags, minlength=count)
    if mode != "max":
        total = embedding_grad_op.call(rows, _constant(rows, bags), count)
        if mode == "sum":
            return total
        scale = (1.0 / np.maximum(sizes, 1)).astype(raw(rows).dtype)
        return total * _constant(rows, scale[:, None])
    longest = int(sizes.max()) if sizes.size else 0
    if not longest:
        return rows.new_zeros(count, rows.shape[-1])
    starts = np.cumsum(sizes) - sizes
    table = starts[:, None] + np.minimum(np.arange(longest), np.maximum(sizes - 1, 0)[:, None])
    table = np.minimum(table, len(bags) - 1)
    best = rows[_constant(rows, table)].max(1)[
        0
    ]  # the first of equal maxima, so repeats of the last row add nothing
    return best * _constant(rows, (sizes > 0).astype(raw(rows).dtype)[:, None])


@each_entry
@beside_first
def one_hot(tensor, num_classes=-1):
    """For each class number a row of zeros with a one in its place.

    Args:
        tensor: an int64 tensor (...), 0 or more.
        num_classes: the length of the rows; -1 takes the largest class plus 1.

    Returns:
        An int64 tensor (..., num_classes).

    Raises:
        RuntimeError: negative classes, too few of them, or another dtype.

    Example:
        >>> F.one_hot(gradlib.tensor([0, 2]))
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    array = raw_values(tensor)
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not array.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return tensor.new_zeros(*tensor.shape, num_classes)
    if num_classes == -1:  # a shape that depends on values
        return wrap_like(_encoded(array, int(array.max()) + 1))
    return wrap_like(unrecorded(_encoded, array, num_classes))


def _encoded(array, num_classes: int):
    if array.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    if array.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    xp = backend_of(array)
    check_room(xp, (*array.shape, num_classes), 8)
    return (array[..., None] == xp.arange(num_classes)).astype(np.int64)
