"""Geometry: where the elements of a tensor lie in memory, and changing that in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from numpy import ndarray

from .device import beside
from .layout import empty_in, has_layout, preserve_format
from .sizes import Size, wrap_dim
from .storage import before_write, bump

if TYPE_CHECKING:
    from .tensor import Tensor


def pointer(array) -> int:
    if array.__class__ is ndarray:
        return array.__array_interface__["data"][0] if array.size else 0
    if hasattr(array, "physical"):  # inside vmap: that of the first entry
        return pointer(array.physical._array)
    return array.data.ptr


def owner(array) -> Any:
    """The raw array whose memory `array` is a part of."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


def extent(array) -> tuple[int, int]:
    """The address and the size in bytes of the memory that `array` is a part of; on a device, of the whole block."""
    if array.__class__ is ndarray:
        root = owner(array)
        return pointer(root), root.nbytes
    if hasattr(array, "physical"):
        return extent(array.physical._array)
    memory = array.data.mem  # a view made by address has no base
    return memory.ptr, memory.size


class Geometry:
    """The part of Tensor that knows strides and memory."""

    __slots__ = ()

    if TYPE_CHECKING:
        _array: Any
        _rg: bool
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
        return (self.data_ptr() - extent(self._array)[0]) // self._array.itemsize

    def data_ptr(self) -> int:
        """Address of the first element."""
        return pointer(self._array)

    def untyped_storage(self):
        from .untyped import UntypedStorage

        return UntypedStorage(self)  # type: ignore[arg-type]

    def is_contiguous(self, memory_format=None) -> bool:
        if memory_format is not None:
            return has_layout(self._array, memory_format)
        return self._array.flags.c_contiguous

    def is_set_to(self, tensor: Tensor) -> bool:
        a, b = self._array, tensor._array
        return (pointer(a), a.shape, a.strides) == (pointer(b), b.shape, b.strides)

    def _refuse_metadata(self, what: str) -> None:
        if self.__dict__.get("_detached"):
            raise RuntimeError(
                f"{what} is not allowed on a Tensor created from .data or .detach().\n"
                "If your intent is to change the metadata of a Tensor (such as sizes / strides / storage / "
                "storage_offset) without autograd tracking the change, remove the .data / .detach() call and wrap "
                "the change in a `with torch.no_grad():` block."
            )

    def set_(self, source=None, storage_offset=0, size=None, stride=None) -> Tensor:
        """Let this tensor use the memory of `source` (a tensor or its storage): all of it, or a strided part.

        storage_offset, size, stride: as of ``as_strided``. Without `source` the tensor becomes empty.
        """
        self._refuse_metadata("set_storage")
        before_write(self)
        self._array = _array_of(self._array, source, storage_offset, size, stride)
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
            self._array = _resized(self._array, shape, memory_format)
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
    from ..backends import backend_of

    xp = backend_of(like)
    if source is None:
        return xp.empty(0, like.dtype)
    if size is None and hasattr(source, "_array"):
        return source._array
    root = owner(source._array) if hasattr(source, "_array") else source._root
    memory = root.reshape(-1).view(like.dtype)
    if size is None:
        size = (memory.size - offset,)
    if stride is None:
        stride = [Size(size[i + 1 :]).numel() for i in range(len(size))]
    item = like.itemsize
    return xp.as_strided(memory, tuple(size), tuple([s * item for s in stride]), offset * item)


def _resized(array, shape: tuple, memory_format) -> Any:
    """`array` read in another shape; in new memory if its own is too small."""
    from ..backends import backend_of

    xp, n, (start, size) = backend_of(array), Size(shape).numel(), extent(array)
    room = (start + size - pointer(array)) // array.itemsize if array.size else 0
    if n > room:
        flat = xp.zeros(n, array.dtype)
        if room:
            with beside(array):
                flat[:room] = xp.as_strided(array, (room,), (array.itemsize,))
    else:
        flat = xp.as_strided(array, (n,), (array.itemsize,)) if n else xp.empty(0, array.dtype)
    if memory_format is None or memory_format == preserve_format:
        return flat.reshape(shape)
    like = empty_in(xp, shape, array.dtype, memory_format)
    return xp.as_strided(flat, shape, like.strides) if n else like
