"""Sparse tensors from indices and values: sparse_coo_tensor, sparse_csr_tensor and their like; other sizes in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import vmap_texts
from ...op.expose import function, method
from ...op.vmap import readable
from ...tape import dtypes, sparse
from ...tape.arrays import backend_on, kernels_of
from ...tape.device import beside, beside_first
from ...tape.layout import check_layout_name
from ...tape.lazy import raw_values
from ...tape.modes import is_grad_enabled
from ...tape.sparse import BLOCKED, BSC, BSR, BY_ROWS, COO, CSC, CSR, INT64, Pattern
from ...tape.storage import bump
from ...tape.tensor import Tensor
from ..create.data import as_tensor
from ..elementwise.cast import check_device
from .base import made, moved, wrap

_WHOLE = frozenset("iu")


def _values(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """The values as a tensor of the wanted dtype and device; of a leaf to be, without history."""
    given = as_tensor(values, dtype=dtype, device=device)
    return given.detach() if requires_grad else given


def _index_array(indices: Any, values: Tensor, name: str = "indices") -> Any:
    """Indices as a raw integer array beside the values."""
    given = as_tensor(indices)
    if given._array.dtype.kind not in _WHOLE:
        if given.numel() and not given.is_floating_point():
            raise RuntimeError(f"{name} must be an int64 tensor, but got: {given.dtype}")
        given = given.to(dtypes.int64)
    text = vmap_texts.NO_BATCHES.format(
        f"a sparse tensor with {name} of the batch", "dense tensors"
    )
    return readable(given.to(values.device), text)._array


def finished(pattern: Pattern, values: Tensor, requires_grad: bool) -> Tensor:
    """The sparse tensor; a leaf that requires grad if so asked."""
    out = made(pattern, values)
    return out.requires_grad_() if requires_grad else out


def _size(size: Any) -> tuple[int, ...]:
    return tuple([int(n) for n in size])


@function("sparse_coo_tensor")
def sparse_coo_tensor(
    indices, values=None, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
    check_invariants=None, is_coalesced=None,
):  # fmt: skip
    """A sparse tensor with `values` at the places that the columns of `indices` name.

    Values of the same place are added where it matters (``coalesce()``).

    Args:
        indices: integers (sparse dimensions, n); or, alone, the size of a tensor without values.
        values: (n, ...): a number for each place, or a dense part of the tensor.
        size: of the tensor; without it the smallest that has all places.
        dtype, device: of the values; those that `values` have if None.
        pin_memory: accepted for compatibility.
        requires_grad: whether it is a leaf whose gradient is wanted.
        check_invariants: whether to check what `is_coalesced` says; places are always checked.
        is_coalesced: whether each place occurs once, in order.

    Returns:
        A tensor of layout ``sparse_coo``; gradients flow to `values`.

    Raises:
        RuntimeError: the sizes do not fit, or a place lies outside.

    Example:
        >>> s = gradlib.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> s.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if values is None:
        shape = _size(indices if size is None else size)
        return empty_coo(shape, len(shape), dtype, device, requires_grad)
    held = _values(values, dtype, device, requires_grad)
    return _coo(held, indices, size, bool(is_coalesced), requires_grad)


@beside_first
def _coo(held: Tensor, indices: Any, size: Any, is_coalesced: bool, requires_grad: bool) -> Tensor:
    """`sparse_coo_tensor` of values that are a tensor, on their device."""
    places = _index_array(indices, held)
    xp = kernels_of(places)
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    n, count = places.shape
    if not held.ndim:
        raise RuntimeError(
            "values must have a dimension for the number of places, but got a 0-dim tensor"
        )
    if held.shape[0] != count:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: "
            f"{held.shape[0]}"
        )
    places = xp.array(places, INT64)  # a copy: patterns never change
    low = [int(row.min()) for row in places] if count else []
    for d, smallest in enumerate(low):
        if smallest < 0:
            raise RuntimeError(f"found negative index {smallest} for dim {d}")
    high = [int(row.max()) for row in places] if count else [-1] * n
    dense = tuple(held.shape[1:])
    if size is None:
        shape = (*[top + 1 for top in high], *dense)
    else:
        shape = _size(size)
        if len(shape) != n + len(dense):
            raise RuntimeError(
                f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {n}, "
                f"dense_dim = {len(dense)}"
            )
        for d, (length, top) in enumerate(zip(shape, high, strict=False)):
            if top >= length:
                raise RuntimeError(
                    f"size is inconsistent with indices: for dim {d}, size is {length} but found index {top}"
                )
        if shape[n:] != dense:
            raise RuntimeError(
                f"values has incorrect size, expected {[count, *shape[n:]]}, got {list(held.shape)}"
            )
    pattern = Pattern(COO, shape, places, is_coalesced or count < 2)
    if is_coalesced and count > 1:
        keys = pattern.keys()
        if not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError("is_coalesced=True, but the places are not distinct and in order")
    return finished(pattern, held, requires_grad)


def empty_coo(
    shape: tuple, sparse_dim: int, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    """A COO tensor without values."""
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.of(dtype)
    xp = backend_on(check_device("cpu" if device is None else device))
    pattern = Pattern(COO, shape, xp.zeros((sparse_dim, 0), INT64), True)
    return finished(pattern, wrap(xp.zeros(pattern.values_shape, kind.np)), requires_grad)


@function("sparse_compressed_tensor")
def sparse_compressed_tensor(
    compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False,
    requires_grad=False, check_invariants=None,
):  # fmt: skip
    """A sparse matrix in a compressed layout: CSR, CSC, BSR or BSC.

    Args:
        compressed_indices: where the values of each row (CSR, BSR) or column (CSC, BSC) begin, and where the last ends.
        plain_indices: the column (row) of each value, ascending within a row (column).
        values: (n,); of BSR and BSC (n, height, width).
        size: (rows, columns); without it the smallest that has all values.
        dtype, device: of the values; those that `values` have if None.
        layout: ``sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.
        pin_memory, check_invariants: accepted for compatibility; indices are always checked.
        requires_grad: whether it is a leaf whose gradient is wanted.

    Returns:
        A tensor of that layout; gradients flow to `values`.

    Raises:
        RuntimeError: the indices do not fit together.

    Example:
        >>> gradlib.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=gradlib.sparse_csr).to_dense()
        tensor([[0., 3.],
                [4., 0.]])
    """
    if layout is None:
        raise TypeError("sparse_compressed_tensor() missing the argument 'layout'")
    check_layout_name(layout)
    if layout not in (CSR, CSC, BSR, BSC):
        raise RuntimeError(
            "expected compressed sparse tensor layout (SparseCsr, SparseCsc, SparseBsr, SparseBsc) but got "
            f"{layout}"
        )
    held = _values(values, dtype, device, requires_grad)
    return _compressed(held, compressed_indices, plain_indices, size, layout, requires_grad)


@beside_first
def _compressed(
    held: Tensor,
    compressed_indices: Any,
    plain_indices: Any,
    size: Any,
    layout: Any,
    requires_grad: bool,
) -> Tensor:
    """`sparse_compressed_tensor` of values that are a tensor, on their device."""
    starts = _index_array(compressed_indices, held, "compressed_indices")
    plain = _index_array(plain_indices, held, "plain_indices")
    blocked, by_rows = layout in BLOCKED, layout in BY_ROWS
    compressed_name, plain_name = ("crow", "col") if by_rows else ("ccol", "row")
    if starts.ndim != 1 or plain.ndim != 1 or held.ndim != 1 + 2 * blocked:
        raise NotImplementedError(
            f"{layout} tensors have {compressed_name}_indices and {plain_name}_indices of one dimension and values of "
            f"{1 + 2 * blocked}, but got {starts.ndim}, {plain.ndim} and {held.ndim}: batches of matrices and values "
            "with dense dimensions are not supported, use a sparse_coo tensor or dense ones"
        )
    xp = kernels_of(plain)
    block = (held.shape[1], held.shape[2]) if blocked else (1, 1)
    top = int(plain.max()) if plain.shape[0] else -1
    across = 1 if by_rows else 0
    if size is None:
        found = [0, 0]
        found[1 - across] = (starts.shape[0] - 1) * block[1 - across]
        found[across] = (top + 1) * block[across]
        shape = tuple(found)
    else:
        shape = _size(size)
    if len(shape) != 2:
        raise NotImplementedError(f"{layout} tensors are matrices here, but got size {list(shape)}")
    if any([n % b for n, b in zip(shape, block, strict=True)]):
        raise RuntimeError(
            f"tensor of size {list(shape)} is not made of whole blocks of {list(block)}"
        )
    lines, length = shape[1 - across] // block[1 - across], shape[across] // block[across]
    count = held.shape[0]
    named = ("rows", "ncols") if by_rows else ("columns", "nrows")
    if starts.shape[0] != lines + 1:
        raise RuntimeError(
            f"{compressed_name}_indices.shape[-1] must be equal to the number of {named[0]} + 1 (={lines + 1}), but "
            f"got {starts.shape[0]}"
        )
    if plain.shape[0] != count:
        raise RuntimeError(
            f"{plain_name}_indices.shape[-1] must be equal to nnz (={count}) as defined by values.shape[0], but got "
            f"{plain.shape[0]}"
        )
    c, p = f"{compressed_name}_indices", f"{plain_name}_indices"
    if int(starts[0]):
        raise RuntimeError(f"`{c}[..., 0] == 0` is not satisfied.")
    if int(starts[-1]) != count:
        raise RuntimeError(f"`{c}[..., -1] == nnz` is not satisfied.")
    lengths = starts[1:] - starts[:-1]
    if lines and not bool(((lengths >= 0) & (lengths <= length)).all()):
        raise RuntimeError(f"`0 <= {c}[..., 1:] - {c}[..., :-1] <= {named[1]}` is not satisfied.")
    if count and (top >= length or int(plain.min()) < 0):
        raise RuntimeError(f"`0 <= {p} < {named[1]}` is not satisfied.")
    line = sparse.repeated(xp, lengths, count)
    if not bool(((plain[1:] > plain[:-1]) | (line[1:] != line[:-1])).all()):
        raise RuntimeError(
            f"`{p}[..., {c}[..., i - 1]:{c}[..., i]] for all i = 1, ..., {'nrows' if by_rows else 'ncols'} are sorted "
            "and distinct along the last dimension values` is not satisfied."
        )
    pattern = Pattern(
        layout, shape, None, False, starts.copy(), plain.copy(), block if blocked else None
    )
    return finished(pattern, held, requires_grad)


def _publish(name: str, kind: Any, first: str, second: str, of: str) -> None:
    def make(
        compressed, plain, values, size=None, *, dtype=None, device=None, pin_memory=False, requires_grad=False,
        check_invariants=None,
    ):  # fmt: skip
        return sparse_compressed_tensor(
            compressed,
            plain,
            values,
            size,
            dtype=dtype,
            layout=kind,
            device=device,
            requires_grad=requires_grad,
        )

    def published(*args, **kwargs):
        for mine, theirs in ((first, "compressed"), (second, "plain")):
            if mine in kwargs:
                kwargs[theirs] = kwargs.pop(mine)
        return make(*args, **kwargs)

    published.__name__ = published.__qualname__ = f"sparse_{name}_tensor"
    rows = name in ("csr", "bsr")
    blocks = "3.0]], [[4.0" if name[0] == "b" else "3.0, 4.0"
    values = f"[[[{blocks}]]]" if name[0] == "b" else f"[{blocks}]"
    published.__doc__ = f"""A matrix in compressed sparse {of} layout; see ``sparse_compressed_tensor``.

Args:
    args: {first}, {second}, values and, if wanted, size.
    kwargs: dtype, device, requires_grad.

Returns:
    A tensor of layout ``sparse_{name}``; gradients flow to the values.

Raises:
    RuntimeError: the indices do not fit together.

Example:
    >>> gradlib.sparse_{name}_tensor([0, 1, 2], [1, 0], {values}).to_dense()
    tensor([[0., {3 if rows else 4}.],
            [{4 if rows else 3}., 0.]])
"""
    function()(published)


_publish("csr", CSR, "crow_indices", "col_indices", "row")
_publish("csc", CSC, "ccol_indices", "row_indices", "column")
_publish("bsr", BSR, "crow_indices", "col_indices", "block row")
_publish("bsc", BSC, "ccol_indices", "row_indices", "block column")


@beside_first
def copied(tensor: Tensor) -> Tensor:
    """A leaf with copies of the values and the indices, for ``copy.deepcopy``."""
    array = tensor._array
    own = moved(array.pattern, lambda a: a.copy())
    return Tensor._make(sparse.Sparse(own, array.values.copy()))


def from_dense(tensor: Tensor, sparse_dim: int) -> Pattern:
    """The coalesced pattern of the elements that are not zero, over the first `sparse_dim` dimensions."""
    array = raw_values(
        readable(tensor, vmap_texts.NO_BATCHES.format("to_sparse", "the dense tensor"))
    )
    xp = kernels_of(array)
    with beside(array):
        there = array != xp.zeros((), array.dtype)
        if array.ndim > sparse_dim:
            there = there.any(tuple(range(sparse_dim, array.ndim)))
        indices = (
            xp.stack(xp.nonzero(there)) if sparse_dim else xp.zeros((0, int(bool(there))), np.int64)
        )
    return Pattern(COO, tuple(array.shape), indices.astype(INT64, copy=False), True)


def of_coo(name: str, self: Tensor) -> Pattern:
    """The pattern of a COO tensor; NotImplementedError with `name` for another."""
    if self.layout is not COO:
        raise NotImplementedError(
            f"Could not run '{name}': it is for tensors of layout {COO}, not {self.layout}"
        )
    return self._array.pattern


# -- in place ----------------------------------------------------------------------------------------------------------


@method("_coalesced_")
def _coalesced_(self, coalesced):
    """Say whether the tensor is coalesced; it is believed. Returns the tensor."""
    old = of_coo("_coalesced_", self)
    new = Pattern(COO, old.shape, old.indices, bool(coalesced))
    self._array.assign(sparse.Sparse(new, self._array.values))
    return self


def _resized(
    name: str, self: Tensor, size: Any, sparse_dim: int, dense_dim: int, clear: bool
) -> Tensor:
    old = of_coo(name, self)
    if self._rg and is_grad_enabled():
        raise RuntimeError(f"cannot {name} tensors that require grad")
    shape = tuple([int(n) for n in size])
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if clear or not old.count:
        self._array.assign(empty_coo(shape, sparse_dim, self.dtype, self.device, False)._array)
    else:
        same = sparse_dim == old.sparse_dim and dense_dim == self.ndim - old.sparse_dim
        if not same or any([a < b for a, b in zip(shape, old.shape, strict=True)]):
            raise RuntimeError(
                f"{name}: a tensor with values keeps its numbers of dimensions and does not shrink: size "
                f"{list(old.shape)}, sparse_dim {old.sparse_dim}, asked for {list(shape)}, {sparse_dim}"
            )
        if shape[sparse_dim:] != old.shape[sparse_dim:]:
            raise NotImplementedError(f"{name}: growing dense dimensions is not supported")
        new = Pattern(COO, shape, old.indices, old.coalesced)
        self._array.assign(sparse.Sparse(new, self._array.values))
    bump(self)
    return self


@method("sparse_resize_")
def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Give a COO tensor another size, in place; with values it only grows, in its sparse dimensions.

    Args:
        size: the new size.
        sparse_dim, dense_dim: how its dimensions are divided.

    Returns:
        This tensor.

    Raises:
        RuntimeError: the tensor would shrink, or requires grad.

    Example:
        >>> gradlib.eye(2).to_sparse().sparse_resize_((3, 3), 2, 0).shape
        torch.Size([3, 3])
    """
    return _resized("sparse_resize_", self, size, sparse_dim, dense_dim, False)


@method("sparse_resize_and_clear_")
def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Give a COO tensor another size and no values, in place.

    Args:
        size: the new size.
        sparse_dim, dense_dim: how its dimensions are divided.

    Returns:
        This tensor.

    Raises:
        RuntimeError: the tensor requires grad.

    Example:
        >>> gradlib.eye(2).to_sparse().sparse_resize_and_clear_((3, 4), 1, 1)._nnz()
        0
    """
    return _resized("sparse_resize_and_clear_", self, size, sparse_dim, dense_dim, True)


@method("resize_as_sparse_")
def resize_as_sparse_(self, the_template):
    """Give a COO tensor the size and the numbers of dimensions of another, in place; see ``sparse_resize_``.

    Args:
        the_template: a ``sparse_coo`` tensor.

    Returns:
        This tensor.

    Raises:
        RuntimeError: the tensor would shrink, or requires grad.

    Example:
        >>> s = gradlib.zeros(2, 2).to_sparse()
        >>> s.resize_as_sparse_(gradlib.eye(3).to_sparse()).shape
        torch.Size([3, 3])
    """
    like = of_coo("resize_as_sparse_", the_template)
    dense = len(like.shape) - like.sparse_dim
    return _resized("resize_as_sparse_", self, like.shape, like.sparse_dim, dense, False)
