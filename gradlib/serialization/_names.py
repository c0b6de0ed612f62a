"""The names that checkpoints refer to, in PyTorch's spelling, and what stands for them here.

`Global` is something that the writer spells as `module name`; the tables are what readers find.
"""

from __future__ import annotations

import collections
import importlib
import pickle
import re
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from .. import storage
from ..operators.sparse.make import sparse_compressed_tensor, sparse_coo_tensor
from ..storage import TypedStorage
from ..tape import dtypes, generator, layout, sparse
from ..tape.arrays import backend_for
from ..tape.attributes import INTERNAL
from ..tape.device import device
from ..tape.lazy import BITS, wrap
from ..tape.memory import bytes_needed, view_of
from ..tape.tensor import Size, Tensor
from ..tape.untyped import UntypedStorage

SET_BY_NOBODY = INTERNAL | frozenset("_array _fn _grad _nr _rg _ver _view".split())
"""Attributes of a Tensor that no file sets."""


class Global:
    """A name in a pickle: written as `module name`, without looking for such an object here."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        """Never called: the pickler only asks that what it writes as a function is callable."""
        raise TypeError(f"{self.module}.{self.name} stands for a name only")


# --------------------------------------------------------------------------------------------
# Storages


def storage_dtype(pid: tuple[Any, ...]) -> dtypes.dtype:
    """The element type in a reference to a storage; bytes for one without a type."""
    kind = pid[1]
    if kind is UntypedStorage:
        return dtypes.uint8
    if not (isinstance(kind, type) and issubclass(kind, TypedStorage) and hasattr(kind, "dtype")):
        raise pickle.UnpicklingError(f"unknown kind of storage in {pid!r}")
    return kind.dtype


def typed(memory: UntypedStorage, dtype: dtypes.dtype) -> TypedStorage:
    """A storage with the element type that the reference to it named."""
    return TypedStorage(wrap_storage=memory, dtype=dtype, _internal=True)


# --------------------------------------------------------------------------------------------
# Tensors


def of_nn(name: str) -> Any:
    """A class of `gradlib.nn.parameter`, which is above this floor: imported, as pickles do, when a file names it."""
    return getattr(importlib.import_module("gradlib.nn.parameter"), name)


def rebuild_tensor_v3(
    storage: TypedStorage,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    dtype: dtypes.dtype,
    metadata: Any = None,
) -> Tensor:
    """A tensor on a storage, with a dtype of its own."""
    if not isinstance(storage, TypedStorage) or not isinstance(dtype, dtypes.dtype):
        raise ValueError("a tensor must be made from a storage and a dtype")
    array = view_of(storage._untyped_storage._bytes(), dtype, offset, size, stride)
    bits = sum([BITS[name] for name in ("conj", "neg") if metadata and metadata.get(name)])
    made = Tensor._make(wrap(Tensor._make(array), bits))
    made.requires_grad = bool(requires_grad)
    return made


def rebuild_tensor_v2(
    storage: TypedStorage,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A tensor on a storage, with the dtype of the storage."""
    if not isinstance(storage, TypedStorage):
        raise ValueError("a tensor must be made from a storage with a dtype")
    args = (storage, offset, size, stride, requires_grad, backward_hooks, storage.dtype, metadata)
    return rebuild_tensor_v3(*args)


def rebuild_meta(dtype: dtypes.dtype, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """A tensor of the meta device, which has no storage in a file."""
    if not isinstance(dtype, dtypes.dtype):
        raise ValueError("a meta tensor must be made from a dtype")
    size, stride = tuple(map(int, size)), tuple(map(int, stride))
    count = bytes_needed(1, 0, size, stride)
    memory = backend_for("meta").empty(count, dtype.np)
    steps = tuple([s * dtype.itemsize for s in stride])
    return Tensor._make(memory.as_strided(size, steps, 0), bool(requires_grad))


def rebuild_sparse(kind: layout.layout, data: Any) -> Tensor:
    """A sparse tensor from the tensors that it is made of; all that they say is checked."""
    if kind is sparse.COO:
        indices, values, size = data[:3]
        made = sparse_coo_tensor(indices, values, size)
        if len(data) > 3 and data[3]:  # files do not know it of tensors of early versions
            made = sparse_coo_tensor(indices, values, size, is_coalesced=True)
        return made
    return sparse_compressed_tensor(*data, layout=kind)


def rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any = None) -> Any:
    """A parameter on the memory of `data`."""
    return of_nn("Parameter")(data.detach(), bool(requires_grad))


def rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Any:
    """A parameter on the memory of `data`, with attributes."""
    return set_state(rebuild_parameter(data, requires_grad), state)


def rebuild_from_type_v2(function: Any, kind: type, args: tuple[Any, ...], state: Any) -> Any:
    """An instance of a Tensor subclass, or a tensor with attributes."""
    if function not in (
        rebuild_tensor_v2,
        rebuild_tensor_v3,
        rebuild_meta,
        rebuild_parameter,
        rebuild_sparse,
    ):
        raise ValueError(f"{function!r} does not make a tensor")
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise ValueError(f"{kind!r} is not a subclass of Tensor")
    made = function(*args)
    if type(made) is not kind:
        made = Tensor._make_subclass(kind, made.detach(), made.requires_grad)
    return set_state(made, state)


_unfinished = threading.local()


def finish_states() -> None:
    """Give tensors whose attributes lead back to them those attributes: at the end of a pickle they are known."""
    for tensor, attributes in _unfinished.__dict__.pop("pairs", ()):
        if attributes:
            set_state(tensor, attributes)


def set_state(tensor: Any, state: Any) -> Any:
    """Give `tensor` the attributes in `state`: a dict, or a pair (dict, values of slots)."""
    attributes = state[0] if isinstance(state, tuple) else state
    if attributes == {}:  # the attributes of a tensor that they lead back to are still to come
        _unfinished.__dict__.setdefault("pairs", []).append((tensor, attributes))
    for name, value in (attributes or {}).items():
        if name not in SET_BY_NOBODY:
            tensor.__dict__[name] = value
    return tensor


def make_device(kind: str, index: int | None = None) -> device:
    """A device; its arguments come from a file."""
    return device(kind, index)


def make_size(lengths: Any = ()) -> Size:
    """A Size; its arguments come from a file."""
    return Size(lengths)


def make_generator(where: str, state: bytes) -> generator.Generator:
    """A random number generator in the state it was saved in."""
    return generator._rebuild(where, state)


# --------------------------------------------------------------------------------------------
# Values of Python and NumPy, made only from arguments that are what they claim to be


def encode(text: str, encoding: str = "latin1") -> bytes:
    """Bytes, as protocol 2 writes them."""
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"bytes in a checkpoint are latin1, not {encoding!r}")
    return text.encode("latin1")


def make_bytes(data: bytes = b"") -> bytes:
    """Bytes from bytes: a number would ask for that many zeros."""
    if not isinstance(data, bytes):
        raise ValueError("bytes in a checkpoint are made from bytes")
    return data


def make_bytearray(data: Any = b"", encoding: str = "latin1") -> bytearray:
    """A bytearray from bytes or latin1 text."""
    return bytearray(encode(data, encoding) if isinstance(data, str) else make_bytes(data))


def make_defaultdict(factory: Any = None, items: Any = ()) -> Any:
    """A defaultdict whose factory is a type of Python's own."""
    if factory not in (None, list, dict, set, int, float, str, tuple, bool):
        raise ValueError(f"the factory {factory!r} of a defaultdict is not a builtin type")
    return collections.defaultdict(factory, items)


def make_dtype(name: Any, align: Any = False, copy: Any = False) -> np.dtype:
    """A NumPy dtype of numbers."""
    if not isinstance(name, str) or not re.fullmatch(r"[<>|=]?[biufc]\d{1,2}", name):
        raise ValueError(f"the NumPy dtype {name!r} does not hold numbers")
    return np.dtype(name, copy=True)  # its byte order may be set afterwards


def make_scalar(dtype: np.dtype, data: bytes = b"") -> Any:
    """A NumPy scalar."""
    data = encode(data) if isinstance(data, str) else data
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufc" or len(data) != dtype.itemsize:
        raise ValueError("a NumPy scalar must be made from a dtype and its bytes")
    return np.frombuffer(data, dtype)[0]


def make_array(kind: Any, shape: Any, typecode: Any) -> np.ndarray:
    """An empty array, which its state fills."""
    if kind is not np.ndarray:
        raise ValueError(f"{kind!r} is not the array type of NumPy")
    return np.empty(0, np.uint8)


# --------------------------------------------------------------------------------------------
# The table


FUNCTIONS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_v3,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): rebuild_meta,
    ("torch._utils", "_rebuild_sparse_tensor"): rebuild_sparse,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter_with_state,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type_v2,
    ("torch", "device"): make_device,
    ("torch", "Size"): make_size,
    ("gradlib.tape.generator", "_rebuild"): make_generator,
    ("gradlib.tape.layout", "named"): layout.named,
    ("torch.serialization", "_get_layout"): layout.named,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): collections.Counter,
    ("collections", "deque"): collections.deque,
    ("collections", "defaultdict"): make_defaultdict,
    ("_codecs", "encode"): encode,
    ("numpy", "dtype"): make_dtype,
}
"""What a weights-only file may call."""

TYPES: dict[tuple[str, str], Any] = {
    ("torch", "Tensor"): Tensor,
    ("torch.storage", "UntypedStorage"): UntypedStorage,
    ("torch.storage", "TypedStorage"): TypedStorage,
    ("numpy", "ndarray"): np.ndarray,
}
"""What a weights-only file may mention but not call."""

for _name in storage.NAMES.values():
    TYPES["torch", _name] = getattr(storage, _name)
for _dtype in dtypes.ALL:
    TYPES["torch", _dtype.name] = _dtype
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    FUNCTIONS[_module, "scalar"] = make_scalar
    FUNCTIONS[_module, "_reconstruct"] = make_array
for _module in ("builtins", "__builtin__"):
    for _kind in (set, frozenset, list, dict, tuple, int, float, bool, str, complex, slice):
        FUNCTIONS[_module, _kind.__name__] = _kind
    FUNCTIONS[_module, "bytes"] = make_bytes
    FUNCTIONS[_module, "bytearray"] = make_bytearray


def find(module: str, name: str) -> Any:
    """What a weights-only file gets for a name; None for a name that is not known as safe."""
    if module == "torch.nn.parameter" and name in ("Parameter", "Buffer"):
        return of_nn(name)
    key = (module, name)
    return FUNCTIONS.get(key, TYPES.get(key))
