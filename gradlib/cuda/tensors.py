"""FloatTensor and its kin on CUDA devices: the old names of tensors of one dtype there."""

from __future__ import annotations

from typing import Any

from ..devices.cuda.library import is_available
from ..operators.create.data import TypedTensor
from ..tape import dtypes
from ..tape.tensor import Tensor


class _OnDevice(TypedTensor):
    """Class of these names: calling one makes a tensor, ``isinstance`` asks for dtype and device."""

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        kind = self._on_device()
        return super().__call__(*args, device=kind if device is None else device)

    def _on_device(self) -> str:
        """The kind of device that has these tensors.

        Raises:
            TypeError: there is none.
        """
        if not is_available():
            raise TypeError(
                f"type torch.cuda.{self.__name__} not available: there is no CUDA device"
            )
        return "cuda"

    def __instancecheck__(self, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is self.dtype
            and instance.is_cuda
            and not instance.is_sparse
        )


def _make(kind: dtypes.dtype) -> Any:
    text = f"""Tensors of dtype {kind.name} on a CUDA device: the old form of ``tensor`` and ``empty``.

Raises:
    TypeError: there is no such device.

Example:
    >>> isinstance(gradlib.ones(1), gradlib.cuda.{kind.tensor_type})
    False
"""
    return _OnDevice(
        kind.tensor_type, (), {"dtype": kind, "__module__": "gradlib.cuda", "__doc__": text}
    )


BFloat16Tensor, HalfTensor = _make(dtypes.bfloat16), _make(dtypes.float16)
FloatTensor, DoubleTensor = _make(dtypes.float32), _make(dtypes.float64)
BoolTensor, ByteTensor, CharTensor = map(_make, (dtypes.bool_, dtypes.uint8, dtypes.int8))
ShortTensor, IntTensor, LongTensor = map(_make, (dtypes.int16, dtypes.int32, dtypes.int64))
