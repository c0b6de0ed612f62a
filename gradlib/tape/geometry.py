"""Geometry: where the elements of a tensor lie in memory, and changing that in place."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import dtypes, handed
from .arrays import backend_of
from .errors import LEAF_INPLACE, check_room
from .layout import empty_in, has_layout, preserve_format, settled
from .lazy import Lazy, bits_of, wrap
from .memory import (
    address,
    address_of_memory,
    bytes_needed,
    enlarged,
    flat_bytes,
    pointer,
    resizable,
    size_of,
    view_of,
    whole,
)
from .modes import is_grad_enabled, shared
from .sizes import Size, wrap_dim
from .storage import before_write, bump
from .untyped import UntypedStorage, storage_in, storage_of

if TYPE_CHECKING:
    from .tensor import Tensor


NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"


def in_memory(array: Any) -> Any:
    """The raw array on the memory itself: of a lazy tensor (see tape/lazy.py) that of what it is a view of."""
    if not shared.lazy:
        return array
    return array.physical._array if array.__class__ is Lazy else array


def on_memory(tensor: Any, array: Any) -> Any:
    """`array` as the raw array of `tensor`, which stays lazy if it is: see tape/lazy.py."""
    if not shared.lazy:
        return array
    return wrap(handed.Tensor._make(array), bits_of(tensor))


class Geometry:
    """The part of Tensor that knows strides and memory."""

    __slots__ = ()

    if TYPE_CHECKING:
        _array: Any
        _rg: bool
        is_leaf: bool
        is_cuda: bool

    @overload
    def stride(self) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None):
        """Strides in elements."""
        array = self._array
        if array.size:
            strides = tuple(s // array.itemsize for s in array.strides)
        else:  # NumPy leaves them arbitrary
            lengths = [max(n, 1) for n in array.shape]
            strides = tuple(Size(lengths[i + 1 :]).numel() for i in range(array.ndim))
        return strides if dim is None else strides[wrap_dim(dim, len(strides))]

    def storage_offset(self) -> int:
        """The place of the first element in the memory, in elements."""
        array = self._array
        return (address(array) - address_of_memory(array)) // array.itemsize

    def data_ptr(self) -> int:
        """Address of the first element."""
        if hasattr(self._array, "level"):  # inside vmap
            raise RuntimeError(NO_STORAGE)
        return pointer(self._array) - getattr(self._array, "nowhere", 0)

    def untyped_storage(self):
        """The memory of this tensor and its views as bytes: the same object for all of them."""
        return storage_of(self._array)

    def is_contiguous(self, memory_format=None) -> bool:
        """Whether the elements lie in memory in the order of the dimensions (of `memory_format`), without gaps.

        Example:
            >>> gradlib.zeros(2, 3).t().is_contiguous()
            False
        """
        if self._array.__class__ is shared.sparse:
            return False  # its elements do not lie in memory
        if memory_format is not None:
            return has_layout(self._array, memory_format)
        return self._array.flags.c_contiguous

    def is_set_to(self, tensor: Tensor) -> bool:
        """Whether `tensor` is the same part of the same memory: storage, offset, shape and strides.

        Example:
            >>> x = gradlib.zeros(4)
            >>> x.is_set_to(x.view(4)), x.is_set_to(x[1:])
            (True, False)
        """
        a, b = self._array, tensor._array
        flips = getattr(a, "bits", 0) == getattr(b, "bits", 0)
        return flips and (pointer(a), a.shape, a.strides) == (pointer(b), b.shape, b.strides)

    def _refuse_metadata(self, what: str) -> None:
        handed.refuse_inference(self)  # type: ignore[arg-type]
        if self._detached:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"{what} is not allowed on a Tensor created from .data or .detach().\n"
                "If your intent is to change the metadata of a Tensor (such as sizes / strides / storage / "
                "storage_offset) without autograd tracking the change, remove the .data / .detach() call and wrap "
                "the change in a `with torch.no_grad():` block."
            )

    def storage(self):
        """The memory of this tensor as a sequence of numbers of its dtype; deprecated in PyTorch."""
        handed._warn_typed_storage_removal()
        return self._typed_storage()

    def _typed_storage(self):
        kind = dtypes.BY_NP[self._array.dtype]
        return handed.TypedStorage(wrap_storage=storage_of(self._array), dtype=kind, _internal=True)

    def storage_type(self):
        """The class of ``storage()``: FloatStorage and its kin."""
        return self._typed_storage()._get_legacy_storage_class()

    def set_(self, source=None, storage_offset=0, size=None, stride=None) -> Tensor:
        """Let this tensor use the memory of `source` (a tensor or a storage): all of it, or a strided part.

        storage_offset, size, stride: as of ``as_strided``. Without `source` the tensor becomes empty. A storage that
        is too small grows.

        Raises:
            RuntimeError: the dtype of `source` is another one, the offset or a stride is negative, or the memory is
                too small and not ours to exchange; this tensor or `source` requires grad where that is recorded.
        """
        self._refuse_metadata("set_storage")
        if is_grad_enabled() and (self._rg or getattr(source, "_rg", False)):
            raise RuntimeError(
                LEAF_INPLACE
                if self._rg and self.is_leaf
                else "derivative for set_ is not implemented"
            )
        before_write(self)
        made = _array_of(in_memory(self._array), source, storage_offset, size, stride)
        self._array = on_memory(self, made)
        bump(self)
        return self  # type: ignore[return-value]

    def resize_(self, *sizes, memory_format=None) -> Tensor:
        """Change the shape in place; elements stay at their places in memory, and new ones are undefined.

        The memory stays the same while it is large enough. RuntimeError for a tensor that requires grad.
        """
        self._refuse_metadata("set_sizes_contiguous")
        if self._rg:
            raise RuntimeError("cannot resize variables that require grad")
        if not sizes:
            raise TypeError('resize_() missing 1 required positional arguments: "size"')
        given = sizes[0] if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else sizes
        shape = tuple([int(n) for n in given])
        if any([n < 0 for n in shape]):
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
            )
        if shape != self._array.shape or memory_format is not None:
            if shared.batches and handed.is_logical(self):
                return handed.resize_entries(self, shape, memory_format)  # type: ignore[arg-type]
            self._array = on_memory(self, _resized(self, shape, memory_format))  # type: ignore[arg-type]
            bump(self)
        return self  # type: ignore[return-value]

    def resize_as_(self, tensor: Tensor, memory_format=None) -> Tensor:
        """``resize_`` to the shape of `tensor`."""
        return self.resize_(tensor._array.shape, memory_format=memory_format)

    def dim_order(self, ambiguity_check=False) -> tuple[int, ...]:
        """The dimensions from the one with the longest to the one with the shortest stride."""
        strides = self.stride()
        return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


def _array_of(like, source, offset: int, size, stride) -> Any:
    """The raw array for ``set_``; `like` has the dtype and is of the right kind."""

    kind = dtypes.BY_NP[like.dtype]
    if source is None:
        return backend_of(like).empty(0, like.dtype)
    given = in_memory(getattr(source, "_array", None))
    if given is not None:
        if given.dtype != like.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {dtypes.BY_NP[given.dtype].cpp_name} to a tensor of type {kind.cpp_name}"
            )
        if size is None:
            return given
        storage = storage_of(given)
    else:
        storage = storage_for(source, kind, kind.cpp_name)
    if size is None:
        size = (storage.nbytes() // kind.itemsize - offset,)
    size = tuple([int(n) for n in size])
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if stride is None:
        stride = [Size(size[i + 1 :]).numel() for i in range(len(size))]
    stride = tuple([int(s) for s in stride])
    if min((*size, *stride), default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}"
        )
    need = bytes_needed(kind.itemsize, offset, size, stride)
    if need > storage.nbytes():
        storage.resize_(need)
    return view_of(storage._bytes(), kind, offset, size, stride)


def storage_for(source: Any, kind: dtypes.dtype, name: str) -> UntypedStorage:
    """The memory of a storage object, which must be untyped or of dtype `kind`, for something called `name`."""
    storage = storage_in(source)
    if storage is None:
        raise TypeError(
            f"set_() received an invalid combination of arguments - got ({type(source).__name__}), but expected one "
            "of:\n * ()\n * (torch.Storage source)\n * (torch.Storage source, int storage_offset, tuple of ints size, "
            "tuple of ints stride = None)\n * (Tensor source)\n * (Tensor source, int storage_offset, tuple of ints "
            "size, tuple of ints stride = None)\n"
        )
    own = getattr(source, "dtype", kind)
    if own is not kind:
        raise RuntimeError(
            f"Expected a Storage of type {name} or an UntypedStorage, but got type "
            f"{own.scalar_type} for argument 1 'storage'"
        )
    return storage


def _resized(tensor: Tensor, shape: tuple, memory_format) -> Any:
    """The elements of `tensor` read in another shape.

    Where its memory is too small it grows, for all tensors on it; what is new is zero.
    """

    array = in_memory(tensor._array)
    kind, lengths = dtypes.BY_NP[array.dtype], [max(n, 1) for n in shape]
    strides = tuple([Size(lengths[i + 1 :]).numel() for i in range(len(shape))])
    if not (memory_format is None or memory_format == preserve_format):
        steps = empty_in(np, shape, array.dtype, memory_format).strides
        strides = tuple([s // array.itemsize for s in steps])
    offset = tensor.storage_offset()
    need, root = bytes_needed(kind.itemsize, offset, shape, strides), whole(array)
    if need > (size := size_of(root)):
        have = size // kind.itemsize
        check_room(backend_of(array), shape, array.itemsize)
        if not resizable(root):
            raise RuntimeError("Trying to resize storage that is not resizable")
        del array
        counted = root is tensor._array and isinstance(root, np.ndarray)
        if counted and sys.getrefcount(root) <= 3:  # `root`, the tensor and the call
            root = enlarged(root, need)
        else:
            root = storage_of(tensor._array).resize_(need)._root
        settled(view_of(flat_bytes(root), kind, 0, (need // kind.itemsize,), (1,))[have:])
    return view_of(flat_bytes(root), kind, offset, shape, strides)
