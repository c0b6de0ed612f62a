"""Copies of a state dict that a save can write while training goes on with the tensors."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ...autograd.grad_mode import no_grad
from ...tape.sizes import Size
from ...tape.tensor import Tensor
from ._shards import chunks, coordinate, is_sharded, is_tensor, local
from .metadata import STATE_DICT_TYPE, ChunkStorageMetadata, MetadataIndex

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy that `async_save` writes.

    Example:
        >>> isinstance(BlockingAsyncStager(), AsyncStager)
        True
    """

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` is called when the save is under way.

        Returns:
            True unless a class says otherwise.
        """
        return True

    def stage(self, state_dict: STATE_DICT_TYPE) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        """Copy a state dict to host memory.

        Args:
            state_dict: with tensors that training will change.

        Returns:
            The copy, or a future of it.
        """
        ...

    def synchronize_staging(self) -> None:
        """Wait until the copy is made: then the tensors may be changed.

        Nothing is to be done where `stage` has made it already.
        """
        ...

    def close(self) -> None:
        """Let go of threads and memory.

        It is called by whoever has made the stager.
        """
        ...


class BlockingAsyncStager(AsyncStager):
    """Copies before `stage` returns; only the writing goes on beside the training.

    Args:
        cache_staged_state_dict: whether the memory of a copy is used for the next.
        type_check: accepted.

    Example:
        >>> w = gradlib.ones(2)
        >>> copy = BlockingAsyncStager().stage({"w": w})
        >>> _ = w.zero_()
        >>> copy["w"]
        tensor([1., 1.])
    """

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False):
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self._cache: Any = None

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `synchronize_staging` is called when the save is under way.

        False: the copy is made when `stage` returns.
        """
        return False

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """Copy a state dict to host memory, at once."""
        staged = copied(state_dict, self._cache)
        if self.cache_staged_state_dict:
            self._cache = staged
        return staged

    def synchronize_staging(self) -> None:
        """Nothing is to be waited for."""

    def close(self) -> None:
        """Let go of the memory that was kept."""
        self._cache = None


@dataclass
class StagingOptions:
    """How `DefaultStager` copies.

    Args:
        use_pinned_memory: accepted; copies from a device go through the memory pool of the engine.
        use_shared_memory: accepted; nothing is handed to another process.
        use_async_staging: whether the copy is made in a thread. The tensors must then not change until it is done:
            `DefaultStager.synchronize_staging`, or ``staging_completion`` of what `async_save` returns.
        use_non_blocking_copy: accepted.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies in a thread of its own, if its options say so.

    Args:
        config: the options.

    Example:
        >>> stager = DefaultStager()
        >>> stager.stage({"w": gradlib.ones(2)}).result()
        {'w': tensor([1., 1.])}
        >>> stager.close()
    """

    def __init__(self, config: StagingOptions | None = None):
        self._config = config or StagingOptions()
        wanted = self._config.use_async_staging
        self._thread = ThreadPoolExecutor(1, "staging") if wanted else None
        self._last: Future[STATE_DICT_TYPE] | None = None

    def stage(
        self, state_dict: STATE_DICT_TYPE, **kwargs: Any
    ) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        """Copy a state dict to host memory."""
        if self._thread is None:
            return copied(state_dict)
        self._last = self._thread.submit(copied, state_dict)
        return self._last

    def synchronize_staging(self) -> None:
        """Wait until the last copy is made."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """End the thread, after the copy that it is making."""
        if self._thread is not None:
            self._thread.shutdown()


class Piece:
    """The copy of a process's piece of a DTensor: what a save needs of one, on the host."""

    def __init__(self, of: Any, values: Tensor):
        self.shape, self.dtype, self.requires_grad = Size(of.shape), of.dtype, of.requires_grad
        self.placements, self.device_mesh = of.placements, of.device_mesh
        self._local_tensor = values
        self._chunks = chunks("", of)

    def to_local(self) -> Tensor:
        """The values."""
        return self._local_tensor

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return self._chunks

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        return self._local_tensor


def copied(value: Any, into: Any = None) -> Any:
    """A state dict with copies of its tensors on the host; `into`, an earlier copy, lends its memory.

    Other objects are not copied: numbers and text cannot change, and what can is pickled when it is written.
    """
    with no_grad():
        return _copied(value, into)


def _copied(value: Any, into: Any) -> Any:
    if isinstance(value, Mapping):
        lent = into if isinstance(into, Mapping) else {}
        return {key: _copied(inner, lent.get(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        lent = (
            into
            if isinstance(into, type(value)) and len(into) == len(value)
            else [None] * len(value)
        )
        inner = [_copied(v, old) for v, old in zip(value, lent)]
        if isinstance(value, list):
            return inner
        return type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)
    if not is_tensor(value):
        return value
    if not is_sharded(value):
        return _copy_of(value.detach(), into).requires_grad_(value.requires_grad)
    if coordinate(value) is None:
        return value  # nothing of it lies here
    return Piece(value, _copy_of(local(value), getattr(into, "_local_tensor", None)))


def _copy_of(tensor: Tensor, into: Any) -> Tensor:
    same = isinstance(into, Tensor) and (into.shape, into.dtype) == (tensor.shape, tensor.dtype)
    if same:
        return into.detach().copy_(tensor)
    return tensor.to("cpu", copy=True)
