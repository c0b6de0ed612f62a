"""UntypedStorage: the memory behind a tensor and its views, as bytes."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from . import device as devices
from . import dtypes, handed, memory
from .arrays import to_host
from .device import beside, copied, device

_ORDERS = ("big", "little", "native")
# key of the memory -> its storage object, while somebody holds one: storages are compared by identity
_by_memory: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()


def storage_of(array: Any) -> UntypedStorage:
    """The storage of a raw array: the same object for all arrays on the same memory."""
    found = _by_memory.get(memory.key(array))
    if found is None:
        found = object.__new__(UntypedStorage)
        found._root = memory.whole(array)
        _by_memory[memory.key(array)] = found
    return found


def replace_root(root: Any, fresh: Any) -> None:
    """Let the storage object of the memory of `root`, if there is one, own that of `fresh` from now on."""
    storage = _by_memory.pop(memory.key(root), None)
    if storage is not None:
        storage._root = fresh
        _by_memory[memory.key(fresh)] = storage


class UntypedStorage:
    """The memory that a tensor and its views share, as a sequence of bytes.

    ``UntypedStorage()``, ``UntypedStorage(nbytes)``, ``UntypedStorage([1, 2, 3])``; of a tensor:
    ``x.untyped_storage()``. Writing to it changes the tensors, and the other way round. Positions give
    bytes, slices storages on a part of the memory.

    Raises:
        TypeError: several arguments.
        RuntimeError: a sequence of something else than whole numbers.

    Example:
        >>> x = gradlib.ones(2)
        >>> x.untyped_storage().fill_(0) is x.untyped_storage(), x
        (True, tensor([0., 0.]))
    """

    __slots__ = ("__weakref__", "_root")
    _root: Any
    is_sparse = False
    is_hpu = False

    def __new__(cls, *args, device=None, allocator=None):
        data = args[0] if len(args) == 1 else 0
        if len(args) > 1:
            kinds = ", ".join([type(a).__name__ for a in args])
            raise TypeError(
                f"torch.UntypedStorage() received an invalid combination of arguments - got ({kinds}), but expected "
                "one of:\n * (*, int allocator = None, torch.device device = None)\n"
                " * (int size, *, int allocator = None, torch.device device = None)\n"
                " * (object sequence, *, int allocator = None, torch.device device = None)\n"
            )
        if not isinstance(data, (int, np.integer)):
            data = _checked_bytes(data)
        elif data < 0:
            raise RuntimeError(
                f"Trying to create a storage with negative size: alloc_cpu() seems to have been called with {data}"
            )
        host = np.zeros(int(data), np.uint8) if isinstance(data, (int, np.integer)) else data
        where = devices.default.device if device is None else devices.device(device)
        made = storage_of(_moved(host, where))
        return made

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def device(self) -> device:
        """Where the memory is."""

        return handed.Tensor._make(self._root).device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def filename(self) -> str | None:
        """The file that this memory is, for one made by ``from_file(shared=True)``; else None."""
        root = self._root
        return str(root.filename) if getattr(root, "mode", None) == "r+" else None

    @property
    def _cdata(self) -> int:
        return memory.key(self._root)

    def nbytes(self) -> int:
        """The size in bytes: of all the memory, whatever part a tensor shows.

        Example:
            >>> gradlib.ones(10)[:2].untyped_storage().nbytes()
            40
        """
        return memory.size_of(self._root)

    size = __len__ = nbytes

    def element_size(self) -> int:
        """The size of an element, a byte: 1."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte: equal for tensors that share memory; 0 if there is none.

        Example:
            >>> x = gradlib.ones(3)
            >>> x[1:].untyped_storage().data_ptr() == x.data_ptr()
            True
        """
        if not self.nbytes():
            return 0
        return memory.extent(self._root)[0] - getattr(self._root, "nowhere", 0)

    def get_device(self) -> int | None:
        """The number of the device, None for the CPU."""
        return self.device.index

    def is_shared(self) -> bool:
        """Whether processes share this memory: after ``share_memory_``, and on a CUDA device.

        Example:
            >>> gradlib.ones(2).untyped_storage().is_shared()
            False
        """
        return self.is_cuda or memory.is_shared(self._root)

    def is_pinned(self, device=None) -> bool:
        """Whether the memory is page-locked."""
        return self._tensor().is_pinned(device)

    def resizable(self) -> bool:
        """Whether `resize_` may be used: not for memory of NumPy, of a buffer, or shared by processes.

        Example:
            >>> gradlib.ones(2).untyped_storage().resizable()
            True
        """
        return memory.resizable(self._root)

    def __repr__(self) -> str:
        if self.device.type == "meta":
            return f"...\n[torch.storage.UntypedStorage(device=meta) of size {self.nbytes()}]"
        values = " " + "\n ".join([str(v) for v in self.tolist()])
        return f"{values}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __iter__(self):
        return iter(self.tolist())

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    # -- bytes -------------------------------------------------------------------------------------------------------

    def _bytes(self) -> Any:
        return memory.flat_bytes(self._root)

    def _tensor(self) -> Any:
        """The bytes as a tensor on the same memory."""

        return handed.Tensor._make(self._bytes())

    def _key(self, idx: Any) -> Any:
        n = self.nbytes()
        if isinstance(idx, slice):
            if idx.step not in (None, 1):
                raise RuntimeError(
                    f"Trying to slice with a step of {idx.step}, but only a step of 1 is supported"
                )
            return idx
        if not isinstance(idx, (int, np.integer)):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(idx).__name__}")
        if not -n <= idx < n:
            raise IndexError(f"index {idx} out of range for storage of size {n}")
        return idx

    def __getitem__(self, idx):
        """A byte, or a storage on a part of this one's memory."""
        part = self._bytes()[self._key(idx)]
        if not isinstance(idx, slice):
            return int(part)
        if isinstance(part, np.ndarray):
            return storage_of(np.asarray(memory._Foreign(part, memory.pointer(part), part.nbytes)))
        out = object.__new__(UntypedStorage)
        out._root = part
        return out

    def __setitem__(self, idx, value) -> None:
        where = self._key(idx)
        if not isinstance(value, int):
            raise RuntimeError(
                f"can only set storage content with a int types, but got {type(value).__name__} instead"
            )
        with beside(self._root):
            self._bytes()[where] = value & 255

    def tolist(self) -> list[int]:
        """The bytes as a list of numbers, 0 to 255.

        Example:
            >>> gradlib.tensor([1, 2], dtype=gradlib.int16).untyped_storage().tolist()
            [1, 0, 2, 0]
        """
        return self._tensor().tolist()

    def fill_(self, value: int) -> UntypedStorage:
        """Write one number to all bytes; returns the storage.

        Args:
            value: 0 to 255.
        """
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None) -> UntypedStorage:
        """Write the bytes of another storage of the same size, on any device; returns this one.

        Args:
            source: a storage, also a typed one, whose dtype does not count.
            non_blocking: accepted as by ``Tensor.copy_``.

        Raises:
            TypeError: it is no storage.
            RuntimeError: another size.
        """
        given = getattr(source, "_untyped_storage", source)
        if not isinstance(given, UntypedStorage):
            raise TypeError(f"copy_ expects a storage, but got {type(source).__name__}")
        if given.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {given.nbytes()} bytes"
            )
        self._tensor().copy_(given._tensor(), non_blocking=bool(non_blocking))
        return self

    def byteswap(self, dtype: dtypes.dtype) -> None:
        """Reverse the bytes of each number, in place: little-endian to big-endian and back.

        Args:
            dtype: of the numbers.

        Raises:
            RuntimeError: the size is no multiple of theirs.

        Example:
            >>> storage = gradlib.tensor([1, 2], dtype=gradlib.int16).untyped_storage()
            >>> storage.byteswap(gradlib.int16)
            >>> storage.tolist()
            [0, 1, 0, 2]
        """
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        flat = self._bytes()
        if flat.nbytes % size:
            raise RuntimeError(f"the length of data is not a multiple of {size}")
        with beside(self._root):
            flat.reshape(-1, size)[...] = flat.reshape(-1, size)[:, ::-1].copy()

    def resize_(self, size: int) -> UntypedStorage:
        """Change the number of bytes; all tensors on this memory see the new one, with the same bytes at the start.

        Args:
            size: in bytes.

        Raises:
            RuntimeError: it is negative, or the memory is of NumPy, of a buffer, or shared by processes.
        """
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size < 0:
            raise RuntimeError("Expected a non-negative number of bytes")
        if size != self.nbytes():
            memory.resize(self._root, int(size))
        return self

    # -- copies ------------------------------------------------------------------------------------------------------

    def clone(self) -> UntypedStorage:
        """A copy of the bytes in memory of its own, on the same device.

        Example:
            >>> x = gradlib.ones(2)
            >>> x.untyped_storage().clone().data_ptr() == x.data_ptr()
            False
        """
        with beside(self._root):
            return storage_of(copied(self._bytes()))

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return UntypedStorage(device=self.device)

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo) -> UntypedStorage:

        return storage_of(handed.copy_memory(self._root, memo))

    def __reduce__(self):
        root = self._root if isinstance(self._root, np.ndarray) else to_host(self._bytes())
        return _rebuild, (root, str(self.device))

    def to(self, device=None, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a device: this object if they are there already, else a copy.

        Args:
            device: the device.
            non_blocking: accepted.

        Raises:
            RuntimeError: there is no such device.
        """
        moved = _moved(self._root, devices.device(device))
        return self if moved is self._root else storage_of(moved)

    def cpu(self) -> UntypedStorage:
        """The bytes on the CPU: this object if they are there already, else a copy.

        Waits for the device.
        """
        return self.to("cpu")

    def cuda(self, device=None, non_blocking: bool = False) -> UntypedStorage:
        """The bytes on a CUDA device: this object if they are there already, else a copy.

        Args:
            device: the device; the current one if None.
            non_blocking: accepted.

        Raises:
            RuntimeError: there is no CUDA device.
        """
        return self.to("cuda" if device is None else device)

    def pin_memory(self, device=None) -> UntypedStorage:
        """A copy in page-locked memory; this object if it is there already.

        Raises:
            RuntimeError: there is no CUDA device.
        """
        pinned = self._tensor().pin_memory()
        return self if self.is_pinned() else storage_of(pinned._array)

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes, and all tensors on them, to memory that processes share; returns the storage.

        Example:
            >>> x = gradlib.ones(2)
            >>> x.untyped_storage().share_memory_().is_shared(), x.is_shared()
            (True, True)
        """
        if not self.is_shared():
            memory.share(self._root)
        return self

    def untyped(self) -> UntypedStorage:
        """This object."""
        return self

    def type(self, dtype=None, non_blocking: bool = False):
        """The name of the class; with another class of storages: the bytes as one of those.

        Args:
            dtype: a class such as ``gradlib.FloatStorage``, or its name.
            non_blocking: accepted.

        Example:
            >>> gradlib.ones(2).untyped_storage().type()
            'torch.storage.UntypedStorage'
        """
        if dtype is None:
            return "torch.storage.UntypedStorage"
        kind = getattr(handed, dtype.rpartition(".")[2]) if isinstance(dtype, str) else dtype
        return self if kind is UntypedStorage else kind(self.nbytes()).copy_(self)

    # -- other sources -----------------------------------------------------------------------------------------------

    @classmethod
    def from_buffer(
        cls, buffer, byte_order=None, count=-1, offset=0, *, dtype: dtypes.dtype
    ) -> UntypedStorage:
        """A copy of numbers of a buffer, turned into this machine's byte order.

        Args:
            buffer: bytes, bytearray, memoryview...
            byte_order: "native", "little" or "big"; may be left out for numbers of one byte.
            count: how many numbers; -1 is all that there are.
            offset: the byte at which they begin.
            dtype: of the numbers.

        Raises:
            RuntimeError: `byte_order` is missing.
            ValueError: another order, or the buffer has not so many numbers.

        Example:
            >>> gradlib.UntypedStorage.from_buffer(b"ab", dtype=gradlib.uint8).tolist()
            [97, 98]
        """
        size = dtype.itemsize
        if byte_order is None and size > 1:
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order is not None and byte_order not in _ORDERS:
            raise ValueError(
                f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
            )
        data = memoryview(buffer).cast("B")
        if not 0 <= offset <= len(data):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({len(data)}) , but got {offset}"
            )
        if count < 0:
            if (len(data) - offset) % size:
                raise ValueError(
                    f"buffer size ({len(data)}) must be a multiple of element size ({size})"
                )
            count = (len(data) - offset) // size
        if offset + count * size > len(data):
            raise ValueError(
                f"buffer has only {len(data) - offset} elements after offset {offset}, but specified a size of {count}"
            )
        out = storage_of(np.frombuffer(data, np.uint8, count * size, offset).copy())
        if byte_order not in (None, "native", sys.byteorder):
            out.byteswap(dtype)
        return out

    @classmethod
    def from_file(cls, filename, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The beginning of a file as memory.

        Args:
            filename: the file.
            shared: what is written to the memory is written to the file, which is made, or made longer, where need be.
            nbytes: how much of it.

        Raises:
            FileNotFoundError: there is no such file, and it is not `shared`.
            ValueError: it is shorter.

        Example:
            >>> storage = gradlib.UntypedStorage.from_file("numbers.bin", shared=True, nbytes=4).fill_(7)
            >>> list(open("numbers.bin", "rb").read())
            [7, 7, 7, 7]
        """
        return storage_of(mapped_file(filename, shared, nbytes))


def mapped_file(filename, shared: bool, nbytes: int) -> np.memmap:
    """The beginning of a file, made or made longer where need be if `shared`, as an array of bytes."""
    if shared:
        with open(filename, "ab") as file:
            file.truncate(max(file.tell(), nbytes))
    return np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))


def _checked_bytes(data: Any) -> np.ndarray:
    """The bytes that a storage is made of; RuntimeError for what is no sequence of whole numbers."""
    for item in data:
        if not isinstance(item, (int, np.integer)):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(data).__name__}), but "
                f"one of the items was of type {type(item).__name__} instead of int"
            )
    return np.array([int(v) & 255 for v in data], np.uint8)


def _moved(root: Any, where: device) -> Any:
    """The memory of a raw array on another device."""

    if isinstance(root, np.ndarray) and where.type != "cpu":
        root = root.view(np.ndarray)  # a mapped file, which is of a class of its own
    moved = handed.Tensor._make(root).to(where)._array
    return root if moved is root else memory.flat_bytes(moved)


def _rebuild(root: np.ndarray, where: str) -> UntypedStorage:
    return storage_of(root).to(where)


def storage_in(value: Any) -> UntypedStorage | None:
    """The storage that a storage object of either kind stands for; None for anything else."""
    found = getattr(value, "_untyped_storage", value)
    return found if isinstance(found, UntypedStorage) else None


handed.over(replace_root)
