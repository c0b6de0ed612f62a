"""What PyTorch keeps under ``torch._utils``: tensors as one vector, errors of other threads, pickled tensors."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from .devices.cuda.library import device_count, is_available
from .operators import public as ops
from .serialization._names import rebuild_meta as _rebuild_meta_tensor_no_storage
from .serialization._names import rebuild_parameter as _rebuild_parameter
from .serialization._names import rebuild_parameter_with_state as _rebuild_parameter_with_state
from .serialization._names import rebuild_tensor_v2 as _rebuild_tensor_v2
from .serialization._names import rebuild_tensor_v3 as _rebuild_tensor_v3
from .storage import TypedStorage
from .tape import dtypes
from .tape.device import device as Device
from .tape.tensor import Tensor

__all__ = [
    "ExceptionWrapper",
    "KeyErrorMessage",
    "_element_size",
    "_flatten_dense_tensors",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_device_index",
    "_import_dotted_name",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
    "_reorder_tensors_as",
    "_take_tensors",
    "_unflatten_dense_tensors",
    "classproperty",
    "is_compiling",
]


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of all tensors as one vector.

    Args:
        tensors: of one dtype.
    """
    return ops.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a vector with the shapes of `tensors`, the inverse of `_flatten_dense_tensors`.

    Args:
        flat: the vector.
        tensors: what gives the shapes.
    """
    parts = flat.split([t.numel() for t in tensors])
    return tuple([part.view(t.shape) for part, t in zip(parts, tensors, strict=True)])


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, each of at most `size_limit` bytes or of one tensor."""
    waiting: defaultdict[str, tuple[list[Tensor], int]] = defaultdict(lambda: ([], 0))
    for t in tensors:
        kind = t.type()
        held, size = waiting[kind]
        if held and size + t.nbytes > size_limit:
            yield held
            held, size = [], 0
        held.append(t)
        waiting[kind] = held, size + t.nbytes
    for held, _ in waiting.values():
        if held:
            yield held


def _reorder_tensors_as(
    tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]
) -> tuple[Tensor, ...]:
    """`tensors`, which come ordered within each type, in the order of types of `ordered_tensors`."""
    by_type: defaultdict[str, list[Tensor]] = defaultdict(list)
    for t in tensors:
        by_type[t.type()].append(t)
    each = {kind: iter(held) for kind, held in by_type.items()}
    return tuple([next(each[t.type()]) for t in ordered_tensors])


def _element_size(dtype: dtypes.dtype) -> int:
    """The bytes of an element of a dtype."""
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _rebuild_tensor(storage: TypedStorage, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor on the memory of a storage."""
    return _rebuild_tensor_v2(storage, storage_offset, size, stride)


# -- devices -----------------------------------------------------------------------------------------------------------


def _get_available_device_type() -> str | None:
    """ "cuda" if there is such a device, else None."""
    return "cuda" if is_available() else None


def _get_all_device_indices() -> list[int] | None:
    """The numbers of all devices; None if there are none."""
    return list(range(device_count())) if is_available() else None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """The number of a device.

    Args:
        device: a device, its name or number; None with `optional`: the current one.
        optional: whether it may be left out.
        allow_cpu: whether it may be the CPU, whose number is -1.

    Raises:
        ValueError: there is no number.
    """
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if device.type == "cpu":
            if not allow_cpu:
                raise ValueError(f"Expected a non cpu device, but got: {device}")
            return -1
        device = device.index
    if device is None:
        if not optional:
            raise ValueError(
                f"Expected a torch.device with a specified index or an integer, but got:{device}"
            )
        return (
            importlib.import_module(f"{_PACKAGE}.cuda").current_device() if is_available() else None
        )
    return int(device)


_PACKAGE = __name__.rpartition(".")[0]


# -- errors of other threads and processes -----------------------------------------------------------------------------


class KeyErrorMessage(str):
    """The text of a KeyError, which shows its line breaks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception as its type and text, to be raised again in another thread or process.

    Args:
        exc_info: as ``sys.exc_info()`` gives it; None: the exception that is being handled.
        where: said in the text, "in thread 3".
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        info: Any = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise it: the same type, with the first traceback in its text."""
        assert self.exc_type is not None
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        made: Any = self.exc_type
        if getattr(made, "message", None):
            raise made(message=text)
        try:
            exception = made(text)
        except Exception:  # it takes other arguments
            raise RuntimeError(text) from None
        raise exception


# -- Python ------------------------------------------------------------------------------------------------------------


def _import_dotted_name(name: str) -> Any:
    """What ``module.name`` says; the module must be imported already or importable."""
    parts = name.split(".")
    value: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        value = getattr(value, part)
    return value


class _ClassProperty:
    def __init__(self, fget: Any) -> None:
        self.fget = fget

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.fget.__get__(instance, owner or type(instance))()


def classproperty(func: Any) -> Any:
    """A property of a class."""
    return _ClassProperty(
        func if isinstance(func, (classmethod, staticmethod)) else classmethod(func)
    )


def is_compiling() -> bool:
    """False: nothing is compiled."""
    return False
