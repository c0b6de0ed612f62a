"""Cutting a tensor into pieces: unbind, split, chunk and their relatives. All pieces are views."""

from __future__ import annotations

import builtins
import operator

import numpy as np

from ...op.declare import REGISTRY, declare
from ...op.expose import function, method
from ...op.formulas import formula_function
from ...tape import override
from ...tape.tensor import Tensor, wrap_dim
from .slicing import at, select_op, slice_op

# -- pieces ------------------------------------------------------------------------------------------------------


@formula_function()
def filled(F, gs, shapes):
    """Gradients of several outputs, zeros where none arrived."""
    like = next(g for g in gs if g is not None)
    return [F.new_zeros(like, s) if g is None else g for g, s in zip(gs, shapes)]


def _entries(xp, self, *, dim) -> list:
    if not dim and self.ndim > 1 and self.__class__ is np.ndarray:
        return list(self)
    return [self[at(dim, i)] for i in range(self.shape[dim])]


unbind_op = declare(
    "unbind", _entries, n_out=None,
    view=lambda i, attrs, self, outs: (select_op, (attrs[0], i)), jvp="linear", complex=True,
    self=lambda F, gs, self_shape, dim: F.stack(F.filled(gs, [self_shape[:dim] + self_shape[dim + 1 :]] * len(gs)),
        dim),
    samples=lambda t: [(t(3, 4), 0), (t(3, 4), 1), (t(2, 0), 0), (t(1), 0)],
    batch="same_rank",
)  # fmt: skip


def _pieces(self, sizes, dim) -> list:
    out, start = [], 0
    for n in sizes:
        out.append(self[at(dim, slice(start, start + n))])
        start += n
    return out


def _join_pieces(F, gs, shape, sizes, dim):
    some = next(g for g in gs if g is not None)
    if some.__class__ is np.ndarray and any([g is None for g in gs]):
        out, start = np.zeros(shape, some.dtype), 0
        for g, n in zip(gs, sizes):
            if g is not None:
                out[at(dim, slice(start, start + n))] = g
            start += n
        return out
    return F.cat(F.filled(gs, [(*shape[:dim], n, *shape[dim + 1 :]) for n in sizes]), dim)


def _equal(n: int, size: int) -> list[int]:
    """The lengths that `n` entries are cut into, `size` each."""
    if size == 0:
        return [0]
    return [size] * (n // size) + ([n % size] if n % size or n == 0 else [])


def _slice_of(self, i: int, size: int, dim: int):
    start = i * size
    return slice_op, (dim, start, min(start + size, self._array.shape[dim]), 1)


def _slice_step(sizes, dim: int, i: int):
    start = builtins.sum(sizes[:i])
    return slice_op, (dim, start, start + sizes[i], 1)


def _split_samples(t):
    return [(t(5, 4), 2, 0), (t(3, 4), 2, 1), (t(0, 2), 1, 0), (t(2), 3, 0)]


for _name in ("split", "unsafe_split"):
    declare(
        _name, lambda xp, self, *, split_size, dim: _pieces(self, _equal(self.shape[dim], split_size), dim),
        n_out=None, jvp="linear", complex=True, samples=_split_samples, batch="same_rank",
        view=False if _name == "unsafe_split" else lambda i, attrs, self, outs: _slice_of(self, i, *attrs),
        self=lambda F, gs, self_shape, split_size, dim: _join_pieces(
            F, gs, self_shape, _equal(self_shape[dim], split_size), dim
        ),
    )  # fmt: skip
for _name in ("split_with_sizes", "unsafe_split_with_sizes"):
    declare(
        _name, lambda xp, self, *, split_sizes, dim: _pieces(self, split_sizes, dim), n_out=None, jvp="linear",
        view=False if _name == "unsafe_split_with_sizes" else lambda i, attrs, self, outs: (
            _slice_step(attrs[0], attrs[1], i)
        ),
        self=lambda F, gs, self_shape, split_sizes, dim: _join_pieces(F, gs, self_shape, split_sizes, dim),
        samples=lambda t: [(t(5, 4), (2, 0, 3), 0), (t(2, 3), (1, 2), 1), (t(0), (0,), 0)], complex=True,
        batch="same_rank",
    )  # fmt: skip


split_op, split_with_sizes_op = REGISTRY["split"], REGISTRY["split_with_sizes"]


@function("unbind", method=True)
def unbind(input, dim=0, *, axis=None):
    """All entries of `dim`, as a tuple of views without that dimension.

    Raises IndexError: no such dimension.

    Example:
        >>> gradlib.unbind(gradlib.tensor([1, 2]))
        (tensor(1), tensor(2))
    """
    n = input._array.ndim
    if not n:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return REGISTRY["unbind"].call(input, wrap_dim(dim if axis is None else axis, n))


@method("__iter__")
def iterate(self):
    """Over the entries of the first dimension."""
    if not self._array.ndim:
        raise TypeError("iteration over a 0-d tensor")
    if override.overrides(type(self)):
        return iter(self.unbind(0))
    return iter(REGISTRY["unbind"].call(self, 0)) if self._array.shape[0] else iter(())


@method("split")
def _split_method(self, split_size, dim=0):
    """Views of pieces of this tensor along `dim`: ``gradlib.split``, with its errors.

    Args:
        split_size: the length of each piece, the last one may be shorter; or a list of their lengths.
        dim: the dimension.

    Returns:
        A tuple of views.

    Raises:
        RuntimeError: a negative length, or lengths whose sum is not that of `dim`.
        IndexError: no such dimension.

    Example:
        >>> gradlib.arange(5).split(2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return split(self, split_size, dim)


@function("split")
def split(tensor, split_size_or_sections=None, dim=0, *, split_size=None):
    """Pieces of `split_size` entries of `dim` (the last may be smaller), or of the given lengths.

    Raises RuntimeError: a negative size, or lengths that do not add up. The pieces are views.

    Example:
        >>> [len(p) for p in gradlib.split(gradlib.zeros(5), 2)]
        [2, 2, 1]
    """
    sizes = split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(sizes, Tensor) and not sizes._array.ndim:
        sizes = int(sizes.item())
    try:
        if not hasattr(sizes, "__index__") or isinstance(sizes, Tensor):
            return split_with_sizes(tensor, sizes, dim)
        return _split(tensor, sizes, dim, "split")
    except AttributeError:
        return override.again(split, tensor, sizes, dim)


def _split(tensor: Tensor, size, dim: int, name: str):
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim, size = wrap_dim(dim, len(shape)), operator.index(size)
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and shape[dim]:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {shape[dim]}"
        )
    return REGISTRY[name].call(tensor, size, dim)


@function("unsafe_split", method=True)
def unsafe_split(tensor, split_size, dim=0):
    """Pieces as of ``split``, but each may be written to in place where gradients are recorded.

    Use it only if the tensor itself is not used any more: such writes are not seen as changes of it.

    Args:
        split_size: the length of each piece, the last one may be shorter.
        dim: the dimension.

    Returns:
        A tuple of tensors on the memory of `tensor`.

    Raises:
        RuntimeError: a negative length.
        IndexError: no such dimension.

    Example:
        >>> gradlib.arange(5).unsafe_split(3)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _split(tensor, split_size, dim, "unsafe_split")


def _checked_sizes(input: Tensor, split_sizes, dim: int) -> tuple[tuple[int, ...], int]:
    """Lengths of pieces that add up to the size of `dim`, and `dim` as a non-negative int."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, len(shape))
    if not isinstance(split_sizes, (list, tuple)):
        raise TypeError(
            f"split_with_sizes(): argument 'split_sizes' (position 2) must be tuple of ints, not "
            f"{type(split_sizes).__name__}"
        )
    sizes = tuple([operator.index(n) for n in split_sizes])
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes="
            f"{list(sizes)}"
        )
    if builtins.sum(sizes) != shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {shape[dim]} (input tensor's size at dimension "
            f"{dim}), but got split_sizes={list(sizes)}"
        )
    return sizes, dim


@function("split_with_sizes", method=True)
def split_with_sizes(input, split_sizes, dim=0):
    """Views of pieces of given lengths along `dim`.

    Args:
        split_sizes: their lengths, 0 or more.
        dim: the dimension.

    Returns:
        A tuple of views.

    Raises:
        RuntimeError: the sum of the lengths is not that of `dim`, or one is negative.
        IndexError: no such dimension.

    Example:
        >>> gradlib.split_with_sizes(gradlib.arange(5), [2, 3])
        (tensor([0, 1]), tensor([2, 3, 4]))
    """
    return split_with_sizes_op.call(input, *_checked_sizes(input, split_sizes, dim))


@function("unsafe_split_with_sizes", method=True)
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """Pieces as of ``split_with_sizes``, but each may be written to in place where gradients are recorded.

    Use it only if the tensor itself is not used any more: such writes are not seen as changes of it.

    Args:
        split_sizes: their lengths, 0 or more.
        dim: the dimension.

    Returns:
        A tuple of tensors on the memory of `input`.

    Raises:
        RuntimeError: the sum of the lengths is not that of `dim`.

    Example:
        >>> gradlib.unsafe_split_with_sizes(gradlib.arange(5), [2, 3])
        (tensor([0, 1]), tensor([2, 3, 4]))
    """
    checked = _checked_sizes(input, split_sizes, dim)
    return REGISTRY["unsafe_split_with_sizes"].call(input, *checked)


def _chunk(x: Tensor, chunks: int, dim: int, name: str):
    shape = x._array.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, len(shape))
    if not shape[dim]:
        return REGISTRY[name + "_with_sizes"].call(x, (0,) * chunks, dim)
    return REGISTRY[name].call(x, -(-shape[dim] // chunks), dim)


@function("chunk", method=True)
def chunk(input, chunks, dim=0, *, axis=None):
    """At most `chunks` pieces of equal length along `dim` (the last may be smaller).

    Raises RuntimeError: `chunks` is not above 0. The pieces are views.

    Example:
        >>> [len(p) for p in gradlib.chunk(gradlib.zeros(5), 2)]
        [3, 2]
    """
    return _chunk(input, chunks, dim if axis is None else axis, "split")


@function("unsafe_chunk", method=True)
def unsafe_chunk(input, chunks, dim=0):
    """Pieces as of ``chunk``, but each may be written to in place where gradients are recorded.

    Use it only if the tensor itself is not used any more: such writes are not seen as changes of it.

    Args:
        chunks: how many pieces there are at most, 1 or more.
        dim: the dimension.

    Returns:
        A tuple of tensors on the memory of `input`.

    Raises:
        RuntimeError: `chunks` is not positive.
        IndexError: no such dimension.

    Example:
        >>> gradlib.unsafe_chunk(gradlib.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _chunk(input, chunks, dim, "unsafe_split")


@function("tensor_split", method=True)
def tensor_split(input, indices_or_sections=None, dim=0, *, indices=None, sections=None):
    """`sections` pieces whose lengths differ by at most one, or pieces cut before the given indices.

    Raises RuntimeError: a tensor without dimensions, `sections` not above 0. The pieces are views.

    Example:
        >>> [len(p) for p in gradlib.tensor_split(gradlib.zeros(5), 2)]
        [3, 2]
    """
    where = next(v for v in (indices_or_sections, indices, sections) if v is not None)
    shape = input._array.shape
    if not shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = wrap_dim(dim, len(shape))
    n = shape[dim]
    if isinstance(where, Tensor):
        if where._array.dtype != np.int64:
            kind = where.dtype.scalar_type
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {kind}"
            )
        where = where.tolist()
    if isinstance(where, (list, tuple)):
        cuts = [slice(None, operator.index(k)).indices(n)[1] for k in where]
    else:
        if where <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {where}")
        small, more = divmod(n, where)
        cuts = [i * small + min(i, more) for i in range(1, where)]
    starts, ends = [0, *cuts], [*cuts, n]
    return tuple([slice_op.call(input, dim, a, max(a, b), 1) for a, b in zip(starts, ends)])


def _directed(name: str, least: int, dim_of) -> None:
    def cut(input, indices_or_sections=None, *, indices=None, sections=None):
        where = next(v for v in (indices_or_sections, indices, sections) if v is not None)
        n = input._array.ndim
        if n < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a "
                f"tensor with {n} dimensions!"
            )
        dim = dim_of(n)
        size = input._array.shape[dim]
        if isinstance(where, int) and where and size % where:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {size} is not "
                f"divisible by the split_size {where}!"
            )
        return tensor_split(input, where, dim)

    cut.__name__ = cut.__qualname__ = name
    shape = "2, " * (least - 1) + "2"
    cut.__doc__ = f"""Views of pieces along the dimension that ``{name[0]}stack`` joins.

Args:
    input: a tensor of at least {least} dimension{"s" if least > 1 else ""}.
    indices_or_sections: how many pieces of equal length, or the indices before which it is cut; also under the names
        `indices` and `sections`.

Returns:
    A tuple of views.

Raises:
    RuntimeError: fewer dimensions, or a length that cannot be divided so.

Example:
    >>> len(gradlib.{name}(gradlib.zeros({shape}), 2))
    2
"""
    function(name, method=True)(cut)


_directed("hsplit", 1, lambda n: 0 if n == 1 else 1)
_directed("vsplit", 2, lambda n: 0)
_directed("dsplit", 3, lambda n: 2)
