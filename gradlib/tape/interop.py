"""Interop: the values of a tensor as Python numbers, NumPy arrays, DLPack capsules and pickles."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from . import errors, handed, recording
from .arrays import to_host as to_host
from .device import copied
from .geometry import NO_STORAGE
from .lazy import CONJ, bits_of, refuse_bits
from .modes import NO_GRAD, PROFILE, is_captured, shared, state

DLDeviceType = enum.IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLOpenCL": 4, "kDLVulkan": 7, "kDLMetal": 8, "kDLVPI": 9,
        "kDLROCM": 10, "kDLROCMHost": 11, "kDLExtDev": 12, "kDLCUDAManaged": 13, "kDLOneAPI": 14, "kDLWebGPU": 15,
        "kDLHexagon": 16, "kDLMAIA": 17,
    },
    module="gradlib.utils.dlpack",
)  # fmt: skip
DLDeviceType.__doc__ = """The numbers that the protocol has for kinds of devices.

Example:
    >>> DLDeviceType(2)
    <DLDeviceType.kDLCUDA: 2>
"""


def host_reads(name: str, tensor: Any) -> None:
    """To be called before the function `name` reads values of `tensor` on the host: dry runs want to know."""
    if state.bits & PROFILE or is_captured():
        recording.host_reads(name, tensor)


def values_of(tensor: Any) -> Any:
    """``tensor.tolist()`` for code of the library."""
    if is_captured() and tensor._array.__class__ is ndarray and not tensor._array.ndim:
        return tensor.item()  # a plan is for what is found here
    array = to_host(tensor._array)  # of a lazy tensor, too, the values
    return (array.astype(np.float32) if array.dtype.kind == "V" else array).tolist()


def _real_part(value: complex, kind: str) -> float:
    """A complex number as a real one; RuntimeError if it is none."""
    if value.imag:
        raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
    return value.real


class Interop:
    """The part of Tensor that hands values over to others."""

    __slots__ = ()

    if TYPE_CHECKING:
        _array: Any
        _rg: bool
        is_cuda: bool
        device: Any
        dtype: Any
        conj: Any

    def __bool__(self) -> bool:
        if self._array.size != 1:
            if self._array.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if shared.batches:
            handed.readable(self, errors.BRANCH)
        return bool(self.item())

    def item(self):
        """The value of a tensor with one element as a Python number."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
            )
        value = (
            self._noticed_item()
            if shared.active or shared.batches or shared.lazy or shared.subclasses is not None
            else self._array.item()
        )
        if self._array.dtype.kind != "V":
            return value
        return float(value[0] if value.__class__ is tuple else value)

    def _noticed_item(self):
        """What `item` reads while some feature is on that wants to know."""
        if shared.subclasses is not None and shared.subclasses.among((self,)):
            return shared.subclasses.item(self)
        array = (handed.readable(self, errors.ITEM) if shared.batches else self)._array
        at_hand = array.__class__ is ndarray or self.device.type == "meta"
        read = array.item if at_hand else lambda: to_host(array).item()
        told = state.bits & PROFILE or is_captured()
        return recording.run_read("item", self, read) if told else read()

    def tolist(self):
        """The values as nested lists of Python numbers."""
        return values_of(handed.readable(self, NO_STORAGE) if shared.batches else self)

    def _number(self):
        """The value of the only element; ValueError if there are more."""
        if self._array.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def __float__(self) -> float:
        value = self._number()
        return float(_real_part(value, "double") if value.__class__ is complex else value)

    def __int__(self) -> int:
        value = self._number()
        return int(_real_part(value, "int64_t") if value.__class__ is complex else value)

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a NumPy array that shares memory with a CPU tensor.

        Raises RuntimeError if the tensor requires grad and TypeError if it is on a CUDA device, unless `force`; and
        RuntimeError inside `vmap`, and for what depends on the argument of `func.jvp`.

        Example:
            >>> gradlib.tensor([1.0, 2.0]).numpy()
            array([1., 2.], dtype=float32)
        """
        entry = self
        if shared.batches:
            self = handed.readable(entry, NO_STORAGE)
        if (
            state.of_transform
            and state.of_transform == state.dual_serial
            and (handed.tangent_of(self) is not None or handed.tangent_of(entry) is not None)
        ):  # whatever comes of the array would have the tangent 0
            raise RuntimeError(NO_STORAGE)
        if force:
            return to_host(self._array)
        if shared.lazy:
            refuse_bits(self)
        if (self._rg or entry._rg) and not state.bits & NO_GRAD:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self._array.__class__ is not ndarray and self.device.type != "cpu":
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                "host memory first."
            )
        if self._array.dtype.names is not None:
            kind = self.dtype.scalar_type
            raise TypeError(f"Got unsupported ScalarType {kind}")
        return to_host(self._array).view()  # whoever gets it may change its shape

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("Unable to avoid copy while creating an array as requested.")
            return array.astype(dtype)
        return copied(array) if copy else array

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """The DLPack capsule of this tensor; BufferError if it requires a gradient."""

        if self._rg:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if shared.lazy and (bits := bits_of(self)):  # type: ignore[arg-type]
            kind = "conjugate" if bits & CONJ else "negative"
            raise BufferError(f"Can't export tensors with the {kind} bit set")
        if stream is not None and type(stream) is not int:
            raise TypeError("stream must be ``int`` or ``none``")
        asked = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        options = {name: value for name, value in asked.items() if value is not None}
        if self._array.__class__ is ndarray:
            assert stream is None, "stream should be None on cpu."
            return handed.export(self._array, **options)
        return self._array.__dlpack__(stream=stream, **options)

    def __dlpack_device__(self):

        kind, index = self._array.__dlpack_device__()
        return DLDeviceType(int(kind)), index

    @property
    def __cuda_array_interface__(self):
        if not self.is_cuda:
            raise AttributeError(
                "Can't get __cuda_array_interface__ on non-CUDA tensor type: torch."
                f"{self.dtype.tensor_type} If CUDA data is required use tensor.cuda() to copy tensor to device memory."
            )
        if self._rg:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, "
                "use var.detach() to get Variable that doesn't require grad."
            )
        return self._array.__cuda_array_interface__

    def __reduce_ex__(self, protocol):

        return handed.reduce_tensor(self, protocol)  # type: ignore[arg-type]

    def __deepcopy__(self, memo):

        return handed.deepcopy_tensor(self, memo)  # type: ignore[arg-type]

    def __format__(self, spec: str) -> str:
        if self._array.ndim == 0 and self.device.type != "meta":
            return self.item().__format__(spec)
        return object.__format__(self, spec)
