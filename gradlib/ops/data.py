"""Tensors from data: numbers, nested sequences, NumPy arrays, DLPack; with inference of the dtype."""

from __future__ import annotations

import warnings

import numpy as np

from ..backends import backend_for
from ..core import device as devices
from ..core import dtypes
from ..core.geometry import storage_for
from ..core.memory import adopt
from ..core.tensor import Size, Tensor, to_host
from ..core.untyped import storage_in
from .cast import check_device
from .create import empty, finish
from .expose import PUBLIC, function, method

# -- values and their dtype --------------------------------------------------------------------------------------

_NUMBERS = frozenset((int, float, bool, complex))


def _is_sequence(data) -> bool:
    kind = type(data)
    return kind in (list, tuple) or (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not issubclass(kind, (str, bytes, dict, Tensor, np.generic))
        and getattr(data, "ndim", 1) > 0
    )


def infer(data) -> dtypes.dtype:
    """The dtype of ``tensor(data)``."""
    if isinstance(data, Tensor):
        return data.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return dtypes.from_np(data.dtype)
    if _is_sequence(data):
        found = None
        for item in data:
            found = dtypes.promote(found, infer(item))
        return found or dtypes.get_default_dtype()
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    try:
        return dtypes.of_scalar(data)
    except TypeError:
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}") from None


def to_array(data, kind: dtypes.dtype | None) -> np.ndarray:
    """A fresh NumPy array with the values of nested sequences, numbers, arrays or tensors."""
    if isinstance(data, Tensor):
        return np.array(to_host(data._array), dtype=kind.np if kind else None)
    if isinstance(data, (np.ndarray, np.generic)):
        return _converted(np.array(data, order="C"), kind or dtypes.from_np(data.dtype))
    if isinstance(data, (range, bytearray)):
        data = list(data)
    if isinstance(data, (list, tuple)) and _leaf_types(data) <= _NUMBERS:
        try:
            array = np.array(data)
        except ValueError:
            array = None  # ragged
        if array is not None and array.size and array.dtype.kind in "bifc":
            return _converted(array, kind or _kind_of(array))
    shape = _shape_of(data)
    kind = kind or infer(data)
    flat: list = []
    _collect(data, shape, 0, kind, flat)
    whole = kind.category == dtypes.INTEGER and not any([isinstance(v, float) for v in flat])
    wide = np.int64 if whole else None
    try:
        array = np.array(flat, wide if whole else kind.np if not kind.category else None)
    except (OverflowError, TypeError):
        if not whole:  # bfloat16 takes no integers of more than 64 bits
            return _converted(np.array(flat, np.float64), kind).reshape(shape)
        raise ValueError("Overflow when unpacking long long") from None
    return _converted(array, kind).reshape(shape)


def _leaf_types(data) -> set:
    """The types of the items of nested lists and tuples."""
    found = set(map(type, data))
    if list in found or tuple in found:
        for item in data:
            if isinstance(item, (list, tuple)):
                found |= _leaf_types(item)
        found -= {list, tuple}
    return found


def _kind_of(array: np.ndarray) -> dtypes.dtype:
    """The dtype of what NumPy made of Python numbers."""
    default = dtypes.get_default_dtype()
    return {"b": dtypes.bool_, "i": dtypes.int64, "f": default, "c": default.to_complex()}[
        array.dtype.kind
    ]


def _converted(array: np.ndarray, kind: dtypes.dtype) -> np.ndarray:
    """`array` in the dtype `kind`; RuntimeError for whole numbers out of its range."""
    if array.dtype == kind.np:
        return array
    if array.dtype.kind == "c" and kind.category < dtypes.COMPLEX:
        if kind.category:
            raise TypeError("must be real number, not complex")
    elif kind.category == dtypes.INTEGER and array.size and array.dtype.kind in "iuf":
        info = np.iinfo(kind.np)
        low, high = array.min(), array.max()
        wraps = not kind.is_signed and array.dtype.kind != "f"  # negative integers, not fractions
        if not (-info.max if wraps else info.min) <= low <= high <= info.max:
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
    return array.astype(kind.np)


def _shape_of(data) -> tuple[int, ...]:
    """The shape that the first items of nested sequences have."""
    shape: list[int] = []
    while _is_sequence(data):
        shape.append(len(data))
        if not len(data):
            return tuple(shape)
        data = data[0]
    if isinstance(data, Tensor):
        return (*shape, *data._array.shape)
    if isinstance(data, (str, bytes)) and shape:
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    return tuple(shape)


def _collect(data, shape: tuple, dim: int, kind: dtypes.dtype, flat: list) -> None:
    """Append all values of `data` to `flat`; errors for what does not have the shape."""
    if dim == len(shape):
        flat.append(_scalar(data, kind))
        return
    if isinstance(data, Tensor) and data._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if not (_is_sequence(data) or isinstance(data, Tensor)):
        raise TypeError("not a sequence")
    if isinstance(data, Tensor):
        flat.append(_scalar(data, kind))
        return
    if len(data) != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})")
    for item in data:
        _collect(item, shape, dim + 1, kind, flat)


def _scalar(value, kind: dtypes.dtype):
    """One item as a Python number of the category of `kind`."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        value = value.item()
    if not isinstance(value, (int, float, complex)):
        name = type(value).__name__
        if kind.category == dtypes.INTEGER:
            raise TypeError(f"'{name}' object cannot be interpreted as an integer")
        raise TypeError(f"must be real number, not {name}")
    if isinstance(value, complex) and kind.category in (dtypes.INTEGER, dtypes.FLOATING):
        raise TypeError("must be real number, not complex")
    if kind.category == dtypes.INTEGER:
        return value
    return bool(value) if not kind.category else value


# -- tensors -----------------------------------------------------------------------------------------------------


@function("tensor")
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of `data`: numbers, nested sequences, NumPy arrays.

    The dtype is inferred: Python floats give the default dtype, ints int64, bools bool.

    Example:
        >>> gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        device = data.device if device is None else device
    made = _copied(data, dtype, device, requires_grad)
    return made.detach().pin_memory().requires_grad_(requires_grad) if pin_memory else made


def _copied(data, dtype, device, requires_grad: bool) -> Tensor:
    """A new tensor with a copy of `data`."""
    array = to_array(data, dtypes.of(dtype) if dtype is not None else None)
    if device is None and devices.default is not devices.CPU:
        device = devices.default
    if device is not None:
        target = check_device(device)
        if target.type != "cpu":
            array = backend_for(target.type).to_backend(array, target)
    return finish(array, requires_grad)


@function("as_tensor")
def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, sharing memory where dtype and device allow it."""
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if isinstance(data, Tensor):
        return (
            data.to(dtype=dtype, device=device) if dtype is not None or device is not None else data
        )
    return tensor(data, dtype=dtype, device=device)


@function("asarray")
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """`obj` as a tensor: itself or sharing its memory where that can be, unless `copy` is true.

    copy=False raises ValueError where a copy would be needed.
    """
    shares = isinstance(obj, (Tensor, np.ndarray)) or hasattr(obj, "__dlpack__")
    if not shares:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    given = as_tensor(obj) if isinstance(obj, (Tensor, np.ndarray)) else from_dlpack(obj)
    out = given.to(dtype=dtype, device=device, copy=bool(copy))
    if copy is False and out is not given:
        kinds = [x.dtype.tensor_type.removesuffix("Tensor") for x in (given, out)]
        raise ValueError(
            f"can't alias tensor with dtype '{kinds[0]}' into dtype '{kinds[1]}'."
            if kinds[0] != kinds[1]
            else f"can't alias tensor on device '{given.device}' to device '{out.device}'."
        )
    if requires_grad and not out._rg:
        return out.detach().requires_grad_()
    return out


@function("from_numpy")
def from_numpy(ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().)"
        )
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    kind = dtypes.from_np(ndarray.dtype)
    return Tensor._make(adopt(ndarray if ndarray.dtype is kind.np else ndarray.view(kind.np)))


@function("from_dlpack")
def from_dlpack(ext_tensor) -> Tensor:
    """A tensor that shares memory with any object that speaks DLPack (NumPy, CuPy, PyTorch, JAX)."""
    kind, _ = ext_tensor.__dlpack_device__()
    if kind == 2:
        return Tensor._make(backend_for("cuda").from_dlpack(ext_tensor))
    return Tensor._make(np.from_dlpack(ext_tensor))


@function("frombuffer")
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A vector that shares memory with an object of the buffer protocol (bytearray, mmap, array...)."""
    memory = memoryview(buffer).cast("B")
    item = dtypes.of(dtype).itemsize
    if not len(memory):
        raise ValueError(f"both buffer length ({len(memory)}) and count ({count}) must not be 0")
    if not 0 <= offset < len(memory):
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({len(memory)} bytes) - 1"
        )
    if count < 0 and (len(memory) - offset) % item:
        raise ValueError(
            f"buffer length ({len(memory) - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({item})"
        )
    if count > 0 and offset + count * item > len(memory):
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({len(memory)} bytes)"
        )
    if memory.readonly:
        warnings.warn(
            "The given buffer is not writable, and tensors cannot be read-only: writing to this tensor fails. Copy the "
            "buffer (for instance into a bytearray) to be able to write.",
            UserWarning,
            stacklevel=2,
        )
    return finish(np.frombuffer(memory, dtypes.of(dtype).np, count, offset), requires_grad)


@function("from_file")
def from_file(
    filename,
    shared=None,
    size=0,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """A vector of `size` elements that is the beginning of a file, read as they are needed.

    shared: what is written to the tensor is written to the file, which is made or made longer where need be.
    """
    kind = dtypes.of(dtype) if dtype is not None else dtypes.get_default_dtype()
    if shared:
        with open(filename, "ab") as file:
            file.truncate(max(file.tell(), size * kind.itemsize))
    array = np.memmap(filename, kind.np, "r+" if shared else "c", shape=(size,))
    return finish(np.asarray(array), requires_grad)


@method("new_tensor")
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """``tensor(data)`` with the dtype and device of this tensor."""
    return _copied(data, dtype or self.dtype, device or self.device, requires_grad)


@method("new")
def _new(self, *args, device=None):
    """``Tensor(*args)`` with the dtype of this tensor: a size, a sequence of numbers, or nothing."""
    return _legacy(args, self.dtype, device or self.device)


# -- constructors by type ----------------------------------------------------------------------------------------


def _legacy(args: tuple, kind: dtypes.dtype, device) -> Tensor:
    """``Type()``, ``Type(2, 3)``, ``Type([1, 2])``, ``Type(tensor)``, ``Type(storage)``."""
    if not args:
        return empty(0, dtype=kind, device=device)
    first = args[0]
    if storage_in(first) is not None:
        memory = storage_for(first, kind, kind.tensor_type.removesuffix("Tensor"))
        return empty(0, dtype=kind, device=memory.device).set_(memory)
    if len(args) > 1 or isinstance(first, (int, np.integer, Size)):
        return empty(*args, dtype=kind, device=device)
    if isinstance(first, Tensor):
        if first.dtype is not kind:
            raise TypeError(
                f"expected a tensor of type torch.{kind.tensor_type}, got torch.{first.dtype.tensor_type}"
            )
        return first.detach()
    if not _is_sequence(first):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return _copied(first, kind, device, False)


def legacy_constructor(cls, *args, device=None, **kwargs) -> Tensor:
    """``Tensor()``, ``Tensor(2, 3)``, ``Tensor([1, 2])``, ``Tensor(tensor)``."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        made = args[0].detach()
    else:
        made = _legacy(args, dtypes.get_default_dtype(), device)
    return made if cls is Tensor else Tensor._make_subclass(cls, made)


class _TypedTensor(type):
    """Class of the names that stand for tensors of one dtype: FloatTensor, LongTensor...

    Calling one makes a tensor; ``isinstance(x, FloatTensor)`` asks for its dtype.
    """

    dtype: dtypes.dtype

    def __call__(cls, *args, device=None):
        return _legacy(args, cls.dtype, device)

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.is_cpu


for _kind in dtypes.ALL:
    if not _kind.name.startswith(("uint16", "uint32", "uint64", "complex")):
        PUBLIC[_kind.tensor_type] = _TypedTensor(
            _kind.tensor_type, (), {"dtype": _kind, "__module__": "gradlib"}
        )


@function("set_default_tensor_type")
def set_default_tensor_type(t):
    """Make the dtype of a floating tensor type, or of its name ("torch.DoubleTensor"), the default dtype."""
    name = (t if isinstance(t, str) else getattr(t, "__name__", "")).rpartition(".")[2]
    found = [kind for kind in dtypes.ALL if kind.tensor_type == name]
    if not found:
        raise TypeError(f"invalid type object: expected a tensor type, got {t!r}")
    dtypes.set_default_dtype(found[0])
