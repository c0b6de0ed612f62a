"""Storages: the memory behind tensors, as bytes (UntypedStorage) or as numbers of one dtype (TypedStorage and its kin).

PyTorch keeps the typed ones for old programs only, and says so once a process.
"""

from __future__ import annotations

import collections.abc
import copy
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .operators.create.data import tensor
from .tape import dtypes, memory
from .tape.device import device as Device
from .tape.tensor import Tensor
from .tape.untyped import UntypedStorage

if TYPE_CHECKING:  # the classes of one dtype each are made below, from a table

    def __getattr__(name: str) -> Any: ...


_warned = False


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    """Say once a process that typed storages are deprecated."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
            "directly, use tensor.untyped_storage() instead of tensor.storage()",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


_FORMS = (
    "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:\n"
    " * (*, torch.device device, torch.dtype dtype)\n"
    " * (int size, *, torch.device device, torch.dtype dtype)\n"
    " * (Sequence data, *, torch.device device, torch.dtype dtype)\n"
    " * (*, UntypedStorage wrap_storage, torch.dtype dtype)"
)


class TypedStorage:
    """The memory behind a tensor as a sequence of numbers of one dtype: ``x.storage()``. Deprecated in PyTorch.

    ``TypedStorage()``, ``TypedStorage(size)``, ``TypedStorage([1, 2])``, each with `dtype` and `device`;
    ``TypedStorage(wrap_storage=untyped, dtype=dtype)`` on given memory.
    """

    dtype: dtypes.dtype
    _untyped_storage: UntypedStorage
    is_sparse = False

    def __init__(self, *args, device=None, dtype=None, wrap_storage=None, _internal=False):
        if not _internal:
            _warn_typed_storage_removal()
        if wrap_storage is not None:
            _check_wrapped(args, device, dtype, wrap_storage)
            self._untyped_storage = wrap_storage
        elif len(args) > 1:
            raise RuntimeError(_FORMS + "\nToo many positional arguments")
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            return
        given = args[0] if args else 0
        where = Device("cpu" if device is None else device)
        if isinstance(given, (int, np.integer)):
            self._untyped_storage = UntypedStorage(int(given) * self.dtype.itemsize, device=where)
        elif isinstance(given, collections.abc.Sequence):
            self._untyped_storage = tensor(given, dtype=self.dtype, device=where).untyped_storage()
        else:
            raise TypeError(_FORMS + f"\nArgument type not recognized: {type(given)}")

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a CUDA device."""
        return self._untyped_storage.is_cuda

    is_hpu = False

    @property
    def filename(self) -> str | None:
        """The file that this memory is, if it is one."""
        return self._untyped_storage.filename

    def size(self) -> int:
        """The number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = _size = size

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def get_device(self) -> int | None:
        """The number of the device, None for the CPU."""
        return self._untyped_storage.get_device()

    def is_shared(self) -> bool:
        """Whether processes share this memory."""
        return self._untyped_storage.is_shared()

    def is_pinned(self, device=None) -> bool:
        """Whether the memory is page-locked."""
        return self._untyped_storage.is_pinned(device)

    def resizable(self) -> bool:
        """Whether `resize_` may be used."""
        return self._untyped_storage.resizable()

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        _warn_typed_storage_removal()
        return self._untyped_storage

    def pickle_storage_type(self) -> str:
        """The name of the class under which files keep this storage; KeyError where there is none."""
        try:
            return NAMES[self.dtype.name]
        except KeyError:
            raise KeyError(f"dtype {self.dtype} is not recognized") from None

    _pickle_storage_type = pickle_storage_type

    def _get_legacy_storage_class(self) -> type | None:
        name = NAMES.get(self.dtype.name)
        return None if name is None or self.is_cuda else globals()[name]

    def type(self, dtype=None, non_blocking: bool = False):
        """The name of the class; with a class of storages (or its name): the bytes as one of those."""
        _warn_typed_storage_removal()
        if dtype is not None:
            return self._untyped_storage.type(dtype, non_blocking)
        name = NAMES.get(self.dtype.name)
        return (
            f"torch.{'cuda.' if self.is_cuda else ''}{name}"
            if name
            else "torch.storage.TypedStorage"
        )

    def __repr__(self) -> str:
        _warn_typed_storage_removal()
        values = " " + "\n ".join([str(v) for v in self.tolist()])
        return f"{values}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    # -- elements ----------------------------------------------------------------------------------------------------

    def _tensor(self) -> Tensor:
        """The elements as a tensor on the same memory."""
        flat = self._untyped_storage._bytes()
        return Tensor._make(memory.view_of(flat, self.dtype, 0, (self.size(),), (1,)))

    def __getitem__(self, idx):
        _warn_typed_storage_removal()
        if isinstance(idx, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(idx, int):
            raise RuntimeError(_cannot_index(idx))
        n = self.size()
        if not -n <= idx < n:
            raise IndexError(f"index {idx} out of range for storage of size {n}")
        return self._tensor()[idx].item()

    def __setitem__(self, idx, value) -> None:
        _warn_typed_storage_removal()
        if not isinstance(idx, (int, slice)):
            raise RuntimeError(_cannot_index(idx))
        if isinstance(value, (TypedStorage, UntypedStorage)):
            raise RuntimeError(f"cannot set item with value type {value.__class__}")
        self._tensor()[idx] = value

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self) -> list:
        """The elements as numbers."""
        _warn_typed_storage_removal()
        return self._tensor().tolist()

    def fill_(self, value) -> TypedStorage:
        """Write one number to all elements."""
        self[:] = value
        return self

    def copy_(self, source, non_blocking=None) -> TypedStorage:
        """Write the bytes of another storage with as many bytes. Its dtype does not count."""
        _warn_typed_storage_removal()
        self._untyped_storage.copy_(source, non_blocking)
        return self

    def resize_(self, size: int) -> None:
        """Change the number of elements; see ``UntypedStorage.resize_``."""
        _warn_typed_storage_removal()
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    _resize_ = resize_

    # -- copies ------------------------------------------------------------------------------------------------------

    def _new_wrapped_storage(self, untyped_storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=untyped_storage, dtype=self.dtype, _internal=True)

    def clone(self) -> TypedStorage:
        """A copy."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.clone())

    __copy__ = clone

    def __deepcopy__(self, memo) -> TypedStorage:
        return self._new_wrapped_storage(copy.deepcopy(self._untyped_storage, memo))

    _deepcopy = __deepcopy__

    def __reduce__(self):
        return _rebuild, (self._untyped_storage, self.dtype)

    def to(self, *, device=None, non_blocking: bool = False) -> TypedStorage:
        """The elements on `device`."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.to(device, non_blocking))

    def cpu(self) -> TypedStorage:
        """The elements on the CPU."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking: bool = False) -> TypedStorage:
        """The elements on a CUDA device."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.cuda(device, non_blocking))

    def pin_memory(self, device=None) -> TypedStorage:
        """A copy in page-locked memory."""
        _warn_typed_storage_removal()
        return self._new_wrapped_storage(self._untyped_storage.pin_memory(device))

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that processes share."""
        _warn_typed_storage_removal()
        self._untyped_storage.share_memory_()
        return self

    _share_memory_ = share_memory_

    # -- other sources -----------------------------------------------------------------------------------------------

    @classmethod
    def from_buffer(cls, *args, dtype=None, device=None, **kwargs) -> TypedStorage:
        """A copy of numbers of a buffer; see ``UntypedStorage.from_buffer``."""
        _warn_typed_storage_removal()
        kind = getattr(cls, "dtype", None)
        for name, given in (("dtype", dtype), ("device", device)):
            if kind is not None and given is not None:
                raise RuntimeError(
                    f"from_buffer: '{name}' can only be specified in UntypedStorage.from_buffer and "
                    "TypedStorage.from_buffer"
                )
        if device is not None and Device(device).type != "cpu":
            raise RuntimeError(
                f"TypedStorage.from_buffer: Not available for device {Device(device).type}"
            )
        kind = kind or dtype or dtypes.get_default_dtype()
        untyped = UntypedStorage.from_buffer(*args, dtype=kind, **kwargs)
        return TypedStorage(wrap_storage=untyped, dtype=kind, _internal=True)

    @classmethod
    def from_file(cls, filename, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first `size` elements of a file; called on FloatStorage and its kin, which say of what dtype."""
        _warn_typed_storage_removal()
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        untyped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype, _internal=True)


def _cannot_index(idx: Any) -> str:
    return f"can't index a <class 'torch.storage.TypedStorage'> with {type(idx)}"


def _rebuild(untyped: UntypedStorage, dtype: dtypes.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _check_wrapped(args: tuple, device: Any, dtype: Any, wrapped: Any, forms: str = _FORMS) -> None:
    """Refuse what does not go with ``wrap_storage=``."""
    if args:
        raise RuntimeError(
            forms + "\nNo positional arguments should be given when using 'wrap_storage'"
        )
    if dtype is None:
        raise RuntimeError(forms + "\nArgument 'dtype' must be specified")
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(forms + f"\nArgument 'dtype' must be torch.dtype, not {type(dtype)}")
    if device is not None:
        raise RuntimeError(
            forms + "\nArgument 'device' should not be specified when 'wrap_storage' is given"
        )
    if not isinstance(wrapped, UntypedStorage):
        raise TypeError(
            forms + f"\nArgument 'wrap_storage' must be UntypedStorage, but got {type(wrapped)}"
        )


# -- one name for each dtype -------------------------------------------------------------------------------------------


class _LegacyStorageMeta(type):
    """Class of FloatStorage and its kin: calling one makes a TypedStorage, ``isinstance`` asks for the dtype."""

    dtype: dtypes.dtype

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        cls.__doc__ = (
            f"Makes storages of {cls.dtype.name}; ``isinstance`` asks for the dtype. Deprecated in PyTorch.\n\n"
            "Args: nothing, a number of elements, a sequence of numbers, or ``wrap_storage=`` an UntypedStorage.\n\n"
            "Raises:\n    RuntimeError: several of them, or memory on CUDA.\n    TypeError: something else.\n\n"
            f"Example:\n    >>> gradlib.{name}([1]).tolist() == [1]\n    True\n"
        )

    def __call__(cls, *args, wrap_storage=None, dtype=None, device=None):
        _warn_typed_storage_removal()
        forms = (
            f"<class 'torch.{cls.__name__}'>.__new__ received an invalid combination of arguments. Expected one of:\n"
            " * no arguments\n * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)"
        )
        for name, given in (("device", device), ("dtype", dtype)):
            if given is not None:
                raise RuntimeError(forms + f"\nKeyword argument '{name}' cannot be specified")
        if wrap_storage is not None:
            _check_wrapped(args, None, cls.dtype, wrap_storage, forms)
            if wrap_storage.is_cuda:
                raise RuntimeError(forms + "\nDevice of 'wrap_storage' must be cpu, but got cuda")
        elif len(args) > 1:
            raise RuntimeError(forms + "\nToo many positional arguments")
        elif args and not isinstance(args[0], (int, np.integer, collections.abc.Sequence)):
            raise TypeError(forms + f"\nArgument type not recognized: {type(args[0])}")
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype, _internal=True)

    def __instancecheck__(cls, instance) -> bool:
        return (
            type(instance) is TypedStorage and instance.dtype is cls.dtype and not instance.is_cuda
        )


_KINDS = {
    "Float": dtypes.float32, "Double": dtypes.float64, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16,
    "Long": dtypes.int64, "Int": dtypes.int32, "Short": dtypes.int16, "Char": dtypes.int8, "Byte": dtypes.uint8,
    "Bool": dtypes.bool_, "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
}  # fmt: skip
NAMES = {dtype.name: f"{kind}Storage" for kind, dtype in _KINDS.items()}
"""dtype -> FloatStorage and its kin."""
for _dtype in _KINDS.values():
    _name = NAMES[_dtype.name]
    _body = {"__module__": __name__, "dtype": _dtype, "_dtype": _dtype}
    globals()[_name] = _LegacyStorageMeta(_name, (TypedStorage,), _body)


def _cast(kind: dtypes.dtype):
    def cast(self) -> TypedStorage:
        made = self._tensor().to(kind, copy=True)
        return TypedStorage(wrap_storage=made.untyped_storage(), dtype=kind, _internal=True)

    cast.__doc__ = (
        f"The elements as numbers of dtype {kind.name}, in new memory.\n\n"
        "They are converted as ``Tensor.to`` does it; those of an UntypedStorage are its bytes, 0 to 255.\n"
    )
    return cast


_CASTS = {
    "double": dtypes.float64, "float": dtypes.float32, "half": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "long": dtypes.int64, "int": dtypes.int32, "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8,
    "bool": dtypes.bool_, "complex_double": dtypes.complex128, "complex_float": dtypes.complex64,
    "float8_e4m3fn": dtypes.float8_e4m3fn, "float8_e5m2": dtypes.float8_e5m2,
    "float8_e4m3fnuz": dtypes.float8_e4m3fnuz, "float8_e5m2fnuz": dtypes.float8_e5m2fnuz,
}  # fmt: skip
for _name, _kind in _CASTS.items():
    for _class in (TypedStorage, UntypedStorage):
        setattr(_class, _name, _cast(_kind))

__all__ = ["TypedStorage", "UntypedStorage", *NAMES.values()]  # pyright: ignore
