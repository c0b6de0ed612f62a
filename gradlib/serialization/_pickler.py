"""Writing: objects to a pickle that refers to storages by key, and the list of those storages."""

from __future__ import annotations

import io
import pickle
import sys
from collections import OrderedDict
from typing import Any

import numpy as np

from ..storage import NAMES, TypedStorage
from ..tape import dtypes
from ..tape.device import device
from ..tape.lazy import BITS, bits_of, physical_of
from ..tape.memory import dense_bytes, flat_bytes, owner
from ..tape.sparse import COO, is_sparse
from ..tape.tensor import Size, Tensor, to_host
from ..tape.untyped import UntypedStorage
from ._copies import attributes_of, refuse_entry, warn_of_hooks
from ._names import Global
from ._storages import ALIGN, span, strides_of


class Entry:
    """One storage to be written: a part of the memory of one root array.

    Attributes:
        memory: uint8 array [nbytes of the root], where the root is.
        dtype: the element type it is written with: that of the first tensor.
        location: device, in words.
        key: name of the member in the archive.
        start, stop: the bytes of `memory` that are written.
        used: the bytes that tensors were seen to use.
    """

    __slots__ = ("dtype", "key", "location", "memory", "start", "stop", "used")

    def __init__(self, memory: Any, dtype: dtypes.dtype, location: str, key: str) -> None:
        self.memory = memory
        self.dtype = dtype
        self.location = location
        self.key = key
        self.start, self.stop = 0, memory.nbytes
        self.used: tuple[int, int] = (memory.nbytes, 0)

    @property
    def nbytes(self) -> int:
        """Size of the member: whole elements."""
        return -(-(self.stop - self.start) // self.dtype.itemsize) * self.dtype.itemsize

    def data(self) -> np.ndarray:
        """The member: uint8 [nbytes] on the host."""
        part = to_host(self.memory[self.start : self.stop])
        return np.pad(part, (0, self.nbytes - part.nbytes)) if part.nbytes < self.nbytes else part

    def trim(self) -> bool:
        """Keep only what tensors use; True if that is less than the whole."""
        start, stop = self.used[0] // ALIGN * ALIGN, self.used[1]
        if stop - start >= self.memory.nbytes:
            return False
        self.start, self.stop = start, stop
        return True


class Storages:
    """The storages that a pickle refers to. Tensors that share memory share a storage."""

    def __init__(self, legacy: bool) -> None:
        self.legacy = legacy  # the format before PyTorch 1.6 refers to a storage with one type only
        self.entries: list[Entry] = []
        self.by_root: dict[int, Entry] = {}
        self.alive: list[Any] = []  # whose ids must not be given away again
        self.attributes: dict[int, dict[str, Any]] = {}
        self.fixed = False

    def place(self, tensor: Tensor) -> tuple[Entry, int, tuple[int, ...]]:
        """The storage of a tensor, its offset there and its strides, both in elements."""
        refuse_entry(tensor)
        array = physical_of(tensor)._array
        where = span(array)
        root = owner(array)
        if where is None or dense_bytes(root) is None:
            return self._alone(tensor)
        entry = self._entry(root, tensor.dtype, tensor.device)
        entry.used = min(entry.used[0], where[0]), max(entry.used[1], where[1])
        if where[0] < entry.start or where[1] > entry.stop:
            return self._alone(tensor)  # it was not there when the sizes were taken
        return entry, (where[0] - entry.start) // array.itemsize, strides_of(array)

    def place_storage(self, storage: UntypedStorage, dtype: dtypes.dtype | None) -> Entry:
        """The entry of a storage that is saved as such, all of it."""
        entry = self._entry(storage._root, dtype or dtypes.uint8, storage.device)
        entry.used = 0, entry.memory.nbytes
        return entry

    def _entry(self, root: Any, dtype: dtypes.dtype, where: device) -> Entry:
        entry = self.by_root.get(id(root))
        if entry is None:
            entry = self.by_root[id(root)] = self._new(flat_bytes(root), dtype, where)
            self.alive.append(root)
        return entry

    def attributes_of(self, tensor: Tensor) -> dict[str, Any]:
        """The attributes of a tensor, always as the same dict: one that leads back to the tensor is written once."""
        if id(tensor) not in self.attributes:
            self.attributes[id(tensor)] = attributes_of(tensor)
            self.alive.append(tensor)
        return self.attributes[id(tensor)]

    def _alone(self, tensor: Tensor) -> tuple[Entry, int, tuple[int, ...]]:
        """A storage with a copy of the tensor's elements: they cannot be shared."""
        array = physical_of(tensor)._array
        strides = strides_of(array)
        if array.size:
            array = array.copy()
            strides = strides_of(array)
        memory = dense_bytes(array) if array.size else np.empty(0, np.uint8)
        return self._new(memory, tensor.dtype, tensor.device), 0, strides

    def _new(self, memory: Any, dtype: dtypes.dtype, where: device) -> Entry:
        entry = Entry(memory, dtype, str(where), str(len(self.entries)))
        self.entries.append(entry)
        return entry

    def refuse_two_types(self) -> None:
        """Raise because a storage cannot be saved with two element types."""
        raise RuntimeError(
            "Cannot save multiple tensors or storages that view the same data as different types"
        )

    def restart(self) -> bool:
        """Cut the storages down to what is used; True if that calls for a second pickle."""
        shared = list(self.by_root.values())
        if self.fixed or not any([entry.trim() for entry in shared]):
            return False
        self.fixed = True
        self.entries = shared
        for number, entry in enumerate(shared):
            entry.key = str(number)
        return True


class StorageRef:
    """What the pickle holds in place of a storage."""

    __slots__ = ("entry", "typed")

    def __init__(self, entry: Entry, typed: bool) -> None:
        self.entry = entry
        self.typed = typed


def refer(storage: Any, storages: Storages) -> StorageRef:
    """What stands for a storage that is saved as such."""
    dtype = storage.dtype if isinstance(storage, TypedStorage) else None
    entry = storages.place_storage(
        storage.untyped() if dtype is None else storage._untyped_storage, dtype
    )
    typed = entry.dtype is dtype and dtype is not None and dtype.name in NAMES
    if not typed and dtype is not None:
        storages.refuse_two_types()
    return StorageRef(entry, typed)


def reduce_storages(tensor: Tensor, storages: Storages) -> tuple[Any, tuple[Any, ...]]:
    """The name and the arguments that make `tensor`, without class and attributes."""
    if tensor.is_meta:
        args = (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
        return Global("torch._utils", "_rebuild_meta_tensor_no_storage"), args
    if is_sparse(tensor):
        return Global("torch._utils", "_rebuild_sparse_tensor"), sparse_parts(tensor)
    entry, offset, strides = storages.place(tensor)
    dtype = tensor.dtype
    typed = entry.dtype is dtype and dtype.name in NAMES
    if storages.legacy and entry.dtype is not dtype:
        storages.refuse_two_types()
    geometry = (offset, tuple(tensor._array.shape), strides, tensor.requires_grad, OrderedDict())
    args = (StorageRef(entry, typed), *geometry)
    marks = {name: True for name in ("neg", "conj") if bits_of(tensor) & BITS[name]}
    metadata = (marks,) if marks else ()
    if typed:
        return Global("torch._utils", "_rebuild_tensor_v2"), (*args, *metadata)
    return Global("torch._utils", "_rebuild_tensor_v3"), (*args, dtype, *metadata)


class LayoutName:
    """What stands for a layout in the pickle."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def sparse_parts(tensor: Tensor) -> tuple[Any, ...]:
    """The layout of a sparse tensor, and the tensors and sizes that it is made of."""
    pattern, values = tensor._array.pattern, Tensor._make(tensor._array.values)
    kind, size = LayoutName(str(pattern.layout)), Size(tensor.shape)
    if pattern.layout is COO:
        return kind, (Tensor._make(pattern.indices), values, size, pattern.coalesced)
    return kind, (Tensor._make(pattern.compressed), Tensor._make(pattern.plain), values, size)


def reduce_in_checkpoint(tensor: Tensor, storages: Storages) -> tuple[Any, tuple[Any, ...]]:
    """How a checkpoint makes a tensor, parameter or instance of another subclass."""
    warn_of_hooks(tensor)
    state = storages.attributes_of(tensor)
    kind = type(tensor)
    # where nn was never imported there are no parameters
    parameter = getattr(sys.modules.get("gradlib.nn.parameter"), "Parameter", None)
    if kind is parameter:
        data = tensor.data
        args = (data, tensor.requires_grad, OrderedDict())
        if not state:
            return Global("torch._utils", "_rebuild_parameter"), args
        return Global("torch._utils", "_rebuild_parameter_with_state"), (*args, state)
    function, args = reduce_storages(tensor, storages)
    if kind is Tensor and not state:
        return function, args
    written: Any = Global("torch", "Tensor") if kind is Tensor else kind
    return Global("torch._tensor", "_rebuild_from_type_v2"), (function, written, args, state)


def make_pickler(base: Any) -> Any:
    """A pickler class on top of `base`, the pure Python pickler of a pickle module."""

    class CheckpointPickler(base):
        """Writes tensors as references, and PyTorch's types under PyTorch's names."""

        dispatch = dict(base.dispatch)

        def __init__(self, file: io.BytesIO, protocol: int, storages: Storages) -> None:
            super().__init__(file, protocol=protocol)
            self.storages = storages
            self.globals: dict[tuple[str, str], Global] = {}

        def name(self, module: str, name: str) -> Global:
            """One object for each name, so that it is spelled out once."""
            return self.globals.setdefault((module, name), Global(module, name))

        def persistent_id(self, obj: Any) -> Any:
            if isinstance(obj, (TypedStorage, UntypedStorage)):
                obj = refer(obj, self.storages)
            if type(obj) is not StorageRef:
                return None
            entry, kind = obj.entry, self.name("torch.storage", "UntypedStorage")
            count = entry.nbytes
            if obj.typed:
                kind = self.name("torch", NAMES[entry.dtype.name])
                count //= entry.dtype.itemsize
            reference = ("storage", kind, entry.key, entry.location, count)
            return (*reference, None) if self.storages.legacy else reference

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, Tensor):
                reduce = type(obj).__reduce_ex__
                if obj.__class__.__name__.startswith("Uninitialized"):
                    return reduce(obj, self.proto)
                return reduce_in_checkpoint(obj, self.storages)
            if isinstance(obj, LayoutName):
                return self.name("torch.serialization", "_get_layout"), (obj.name,)
            if isinstance(obj, Size):
                return self.name("torch", "Size"), (tuple(obj),)
            if isinstance(obj, device):
                args = (obj.type,) if obj.index is None else (obj.type, obj.index)
                return self.name("torch", "device"), args
            return NotImplemented

        def save_name(self, obj: Global) -> None:
            """Write a name as a global."""
            known = self.name(obj.module, obj.name)
            if id(known) in self.memo:
                self.write(self.get(self.memo[id(known)][0]))
                return
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            self.memoize(known)

        def save_dtype(self, obj: dtypes.dtype) -> None:
            """Write a dtype as the attribute of the top module that it is."""
            self.save_name(self.name("torch", obj.name))

    CheckpointPickler.dispatch[Global] = CheckpointPickler.save_name
    CheckpointPickler.dispatch[dtypes.dtype] = CheckpointPickler.save_dtype
    return CheckpointPickler


def dump(
    obj: Any, pickle_module: Any, protocol: int, legacy: bool = False
) -> tuple[bytes, list[Entry]]:
    """Pickle `obj`.

    Args:
        obj: anything that pickles; tensors may be anywhere in it.
        pickle_module: pickle, or a module with the same classes.
        protocol: pickle protocol.
        legacy: write for the format before PyTorch 1.6.

    Returns:
        The pickle, and the storages that it refers to.

    Raises:
        TypeError: `pickle_module` has no pickler written in Python to build on.
    """
    base = getattr(pickle_module, "_Pickler", None) or pickle_module.Pickler
    if not hasattr(base, "dispatch"):
        raise TypeError(
            f"pickle_module {pickle_module.__name__!r} cannot write checkpoints: its Pickler must "
            "be, like that of dill, a subclass of the one that pickle has in Python"
        )
    pickler = make_pickler(base)
    storages = Storages(legacy)
    while True:
        file = io.BytesIO()
        pickler(file, protocol, storages).dump(obj)
        if not storages.restart():
            return file.getvalue(), storages.entries
