"""Tensors on memory of others: NumPy arrays, DLPack, buffers, files."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import numpy as np

from ...op import spreading
from ...op.expose import function
from ...tape import device as devices
from ...tape import dtypes, handed
from ...tape.arrays import backend_for
from ...tape.layout import check_layout
from ...tape.memory import adopt
from ...tape.tensor import Tensor
from ...tape.untyped import mapped_file
from .base import finish

NEGATIVE_STRIDE = (
    "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently "
    "supported. (You can probably work around this by making a copy of your array  with array.copy().) "
)


def check_array(array: np.ndarray) -> dtypes.dtype:
    """The dtype for a NumPy array.

    Raises ValueError for negative strides, strides that are no whole elements and a foreign byte order, TypeError for
    a dtype that tensors do not have.
    """
    if min(array.strides, default=0) < 0:
        raise ValueError(NEGATIVE_STRIDE)
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    kind = dtypes.from_np(array.dtype)
    if any([s % array.itemsize for s in array.strides]):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
            "memory."
        )
    return kind


@function("from_numpy")
def from_numpy(ndarray) -> Tensor:
    """A tensor that shares memory with a NumPy array.

    Args:
        ndarray: the array; what is written to one of both is written to the other.

    Returns:
        A leaf on the CPU that does not require grad.

    Raises:
        TypeError: no array, or one of a dtype that tensors do not have.
        ValueError: negative strides, strides that are no whole elements, or a foreign byte order.

    Example:
        >>> a = numpy.zeros(2)
        >>> gradlib.from_numpy(a).fill_(7.0)
        tensor([7., 7.], dtype=torch.float64)
        >>> a
        array([7., 7.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {_type_name(ndarray)})")
    kind = check_array(ndarray)
    if not ndarray.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and tensors cannot be read-only: writing to this tensor fails. "
            "Copy the array, or make it writable before converting it to a tensor.",
            UserWarning,
            stacklevel=2,
        )
    spreading.met(ndarray.size)
    return Tensor._make(adopt(ndarray if ndarray.dtype is kind.np else ndarray.view(kind.np)))


def _type_name(value: Any) -> str:
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


# -- DLPack ------------------------------------------------------------------------------------------------------------

# Where the type of the elements is in what a capsule holds: DLManagedTensor, DLManagedTensorVersioned.
_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
_UINT, _BFLOAT = 1, 4  # codes of types
_CPU, _CUDA = 1, 2  # codes of devices

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Exporter:
    """A capsule as an object that speaks the protocol."""

    def __init__(self, capsule: Any, device: tuple[int, int]):
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **kwargs) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class _Writable:
    """The memory of an array that NumPy holds for read-only, to be written to."""

    def __init__(self, array: np.ndarray):
        place = array.__array_interface__
        self.__array_interface__ = {**place, "data": (place["data"][0], False)}
        self.array = array  # which keeps the memory


def _element_code(capsule: Any) -> ctypes.c_uint8:
    """The byte that says of what kind the elements in a capsule are; RuntimeError if it is none, or was used."""
    try:
        name = _capsule_name(capsule)
        at = _TYPE_AT[name]
    except (ValueError, KeyError, SystemError):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you "
            "might have already constructed a tensor from it once."
        ) from None
    return ctypes.c_uint8.from_address(_capsule_pointer(capsule, name) + at)


def export(array: np.ndarray, **kwargs) -> Any:
    """The capsule of a NumPy array, which may hold bfloat16."""
    if array.dtype.kind != "V":
        return array.__dlpack__(**kwargs)
    capsule = array.view(np.uint16).__dlpack__(**kwargs)  # NumPy does not know the type
    _element_code(capsule).value = _BFLOAT
    return capsule


@function("from_dlpack")
def from_dlpack(ext_tensor, *, device=None, copy=None) -> Tensor:
    """A tensor that shares memory with any object that speaks DLPack (NumPy, CuPy, PyTorch, JAX), or with a capsule.

    Args:
        ext_tensor: the object, with ``__dlpack__``, or a capsule.
        device: where the result is to be; as it is if None.
        copy: True: always copy; False: never; None: where it is needed.

    Returns:
        A leaf.

    Example:
        >>> gradlib.from_dlpack(numpy.arange(3))
        tensor([0, 1, 2])
    """
    if device is not None and not isinstance(device, (str, devices.device)):
        raise AssertionError(f"from_dlpack: unsupported device type: {type(device)}")
    if not hasattr(ext_tensor, "__dlpack__"):
        _element_code(ext_tensor)
        ext_tensor = _Exporter(ext_tensor, (_CPU, 0))
    kind, _ = ext_tensor.__dlpack_device__()
    if kind == _CUDA:
        made = Tensor._make(backend_for("cuda").from_dlpack(ext_tensor))
    else:
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
        code = _element_code(capsule)
        old_form = _capsule_name(capsule) == b"dltensor"  # which cannot say that nobody may write
        half = code.value == _BFLOAT
        code.value = _UINT if half else code.value
        array = np.from_dlpack(_Exporter(capsule, (_CPU, 0)))
        if min(array.strides, default=0) < 0:
            raise ValueError(NEGATIVE_STRIDE)
        if old_form:
            array = np.asarray(_Writable(array))
        made = Tensor._make(adopt(array.view(dtypes.bfloat16.np) if half else array))
    target = made.device if device is None else devices.device(device)
    moved = made.to(target, copy=copy is True)
    if copy is False and moved is not made:
        raise ValueError(f"cannot move (copy=False) from {made.device} to {target} without copying")
    return moved


@function("to_dlpack")
def to_dlpack(tensor) -> Any:
    """A capsule for another library's `from_dlpack`, which takes the tensor itself, too.

    Example:
        >>> type(gradlib.to_dlpack(gradlib.ones(2))).__name__
        'PyCapsule'
    """
    return tensor.__dlpack__()


# -- buffers and files -------------------------------------------------------------------------------------------------


@function("frombuffer")
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A vector that shares memory with an object of the buffer protocol (bytearray, mmap, array...).

    Args:
        buffer: the object.
        dtype: of the elements.
        count: how many; all that there are if negative.
        offset: how many bytes of the buffer come before them.
        requires_grad: whether the vector requires grad.

    Returns:
        A leaf.

    Raises:
        ValueError: the buffer is empty, or too short.

    Example:
        >>> gradlib.frombuffer(bytearray([1, 2]), dtype=gradlib.uint8)
        tensor([1, 2], dtype=torch.uint8)
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if not view.c_contiguous:
        raise RuntimeError("could not retrieve buffer from object")
    memory = view.cast("B") if view.nbytes else memoryview(b"")
    kind = dtypes.of(dtype)
    length, item = len(memory), kind.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % item:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({item})"
        )
    if count > 0 and offset + count * item > length:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    if memory.readonly:
        warnings.warn(
            "The given buffer is not writable, and tensors cannot be read-only: writing to this tensor fails. Copy the "
            "buffer (for instance into a bytearray) to be able to write.",
            UserWarning,
            stacklevel=2,
        )
    return finish(np.frombuffer(memory, kind.np, max(count, -1), offset), requires_grad)


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
    if layout is not None:
        check_layout(layout)
    kind = dtypes.of(dtype) if dtype is not None else dtypes.get_default_dtype()
    array = mapped_file(filename, bool(shared), size * kind.itemsize).view(kind.np)
    return finish(np.asarray(array), requires_grad)


handed.over(export)
