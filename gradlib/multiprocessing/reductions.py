"""How tensors and storages go to another process: their memory as a file, and where in it they lie.

The memory of a tensor that is sent is moved into a file without a name (``tape.memory``). Its descriptor is passed to
the receiver ("file_descriptor"), or the file gets a name until the receiver has opened it ("file_system", which needs
no open file for each message on its way). Both processes map the file, so that they have the same bytes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import uuid
import weakref
from multiprocessing import reduction, util
from typing import Any

import numpy as np

from .._refused import refuse
from ..serialization._copies import reduce_tensor as plain_reduce
from ..tape import memory
from ..tape.tensor import Tensor
from ..tape.untyped import UntypedStorage, storage_of

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "reduce_storage",
    "reduce_tensor",
    "set_sharing_strategy",
]
__getattr__ = refuse(__name__)

_strategy = "file_descriptor"
_mapped: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


def get_all_sharing_strategies() -> set[str]:
    """The ways in which memory can go to another process on this system.

    Example:
        >>> "file_descriptor" in get_all_sharing_strategies()
        True
    """
    return {"file_descriptor", "file_system"} if memory.CAN_NAME else {"file_descriptor"}


def get_sharing_strategy() -> str:
    """The way in which memory goes to another process now; see `set_sharing_strategy`.

    Example:
        >>> get_sharing_strategy()
        'file_descriptor'
    """
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory goes to another process.

    Args:
        new_strategy: "file_descriptor", where each message on its way keeps a file open in its sender, or
            "file_system", where it has a name under /dev/shm.

    Raises:
        AssertionError: not in `get_all_sharing_strategies`.

    Example:
        >>> set_sharing_strategy("file_descriptor")
    """
    global _strategy
    assert new_strategy in get_all_sharing_strategies(), new_strategy
    _strategy = new_strategy


# -- memory --------------------------------------------------------------------------------------------------------


_MANY = 4096  # names; those that were received are forgotten then


class _Names:
    """The names of files that this process has made. A child made by fork begins with none."""

    def __init__(self) -> None:
        self.process = 0
        self.kept: set[str] = (
            set()
        )  # one for each memory, while it lives: a file without any gets no new one
        self.sent: set[str] = set()  # one for each message: who opens it removes it

    def make(self, file: int, names: set[str]) -> str:
        """Another name of a file."""
        if self.process != os.getpid():
            self.process = os.getpid()
            self.kept.clear()
            self.sent.clear()
            util.Finalize(None, self.remove_all, exitpriority=-10)  # once children have ended
        path = os.path.join(memory.SHARED_FOLDER, f"gradlib-{uuid.uuid4().hex}")
        os.link(f"/proc/self/fd/{file}", path, src_dir_fd=file)  # follows it
        if len(names) >= _MANY:
            names.intersection_update([n for n in names if os.path.exists(n)])
        names.add(path)
        return path

    def remove(self, path: str) -> None:
        """Remove a name, if it is still there."""
        self.kept.discard(path)
        with contextlib.suppress(OSError):
            os.unlink(path)

    def remove_all(self) -> None:
        """At the end: what nobody will receive, too, if nobody else is left."""
        alone = multiprocessing.parent_process() is None
        for path in (*self.kept, *(self.sent if alone else ())):
            self.remove(path)


_names = _Names()


def _send(root: np.ndarray) -> tuple[Any, ...]:
    """What makes the memory of a shared owner again in another process."""
    file = memory.descriptor_of(root)
    if file is None:
        raise NotImplementedError("gradlib passes memory to other processes on Unix systems only")
    status = os.fstat(file)
    _mapped[status.st_dev, status.st_ino] = root
    if _strategy == "file_system":
        with contextlib.suppress(OSError):  # all its names are gone: it gets none again
            if not status.st_nlink:
                weakref.finalize(root, _names.remove, _names.make(file, _names.kept))
            return _from_name, (_names.make(file, _names.sent), root.nbytes)
    return _from_descriptor, (reduction.DupFd(file), root.nbytes)


def _receive(descriptor: int, nbytes: int) -> np.ndarray:
    """The memory of an open file: the same object as long as this process has it mapped."""
    status = os.fstat(descriptor)
    root = _mapped.get((status.st_dev, status.st_ino))
    if root is None:
        root = memory.shared_bytes(nbytes, descriptor)
        _mapped[status.st_dev, status.st_ino] = root
    else:
        os.close(descriptor)
    return root


def _from_descriptor(sent: Any, nbytes: int) -> np.ndarray:
    try:
        descriptor = sent.detach()
    except (EOFError, OSError) as error:
        raise type(error)(
            "the process that has sent a tensor is gone: it must live until the tensor is received, or send it with "
            "set_sharing_strategy('file_system')"
        ) from error
    return _receive(descriptor, nbytes)


def _from_name(path: str, nbytes: int) -> np.ndarray:
    descriptor = os.open(path, os.O_RDWR)
    os.unlink(path)
    return _receive(descriptor, nbytes)


class _Sent:
    """Stands for the memory of a tensor in what plain pickle would write."""

    def __init__(self, root: np.ndarray) -> None:
        self.root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return _send(self.root)


# -- tensors and storages ------------------------------------------------------------------------------------------


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """What a queue or pipe writes of a tensor: its memory, which is shared from now on, and its geometry.

    Args:
        tensor: a tensor on the CPU, without history; gradient and hooks stay.

    Raises:
        RuntimeError: it was made by an operation that is recorded.
        NotImplementedError: it is on CUDA.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if (
        type(tensor).__reduce_ex__ is not Tensor.__reduce_ex__
    ):  # a parameter sends its data; a lazy one nothing
        return tensor.__reduce_ex__(5)  # type: ignore[return-value]
    if tensor.device.type != "cpu":
        raise NotImplementedError(
            f"a tensor on {tensor.device} cannot go to another process: send tensor.cpu()"
        )
    tensor.share_memory_()
    make, args, *state = plain_reduce(tensor, 5)
    root = memory.owner(tensor._array)
    return make, (args[0], _Sent(root), *args[2:]), *state


def reduce_storage(storage: UntypedStorage) -> tuple[Any, ...]:
    """What a queue or pipe writes of a storage: its memory, which is shared from now on.

    Args:
        storage: a storage on the CPU.

    Raises:
        NotImplementedError: it is on CUDA.
    """
    if storage.is_cuda:
        raise NotImplementedError(
            f"memory on {storage.device} cannot go to another process: send storage.cpu()"
        )
    return storage_of, (_Sent(storage.share_memory_()._root),)


def _reduce(pickler: Any, value: Any) -> Any:
    """What `ForkingPickler` asks before anything else: subclasses of tensors are met, too."""
    if isinstance(value, Tensor):
        return reduce_tensor(value)
    return reduce_storage(value) if isinstance(value, UntypedStorage) else NotImplemented


def init_reductions() -> None:
    """Let the picklers of multiprocessing share the memory of tensors and storages.

    Importing ``gradlib.multiprocessing`` does this.
    """
    pickler: Any = reduction.ForkingPickler
    pickler.reducer_override = _reduce
