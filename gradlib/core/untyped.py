"""UntypedStorage: the memory behind a tensor, as bytes. Only what asks about sharing is offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .geometry import extent, owner

if TYPE_CHECKING:
    from .tensor import Tensor


class UntypedStorage:
    """The buffer that a tensor and its views share: ``data_ptr()``, ``nbytes()``, ``device``."""

    __slots__ = ("_root", "_tensor")

    def __init__(self, tensor: Tensor):
        self._tensor = tensor
        self._root = owner(tensor._array)

    def data_ptr(self) -> int:
        """The address of the first byte: equal for tensors that share memory."""
        return extent(self._root)[0]

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._root.nbytes

    size = __len__ = nbytes

    @property
    def device(self):
        """Where the memory is."""
        return self._tensor.device

    def is_shared(self) -> bool:
        """Whether other processes see this memory: never."""
        return False

    def __repr__(self) -> str:
        return f"UntypedStorage({self.nbytes()} bytes on {self.device})"
