"""The raw arrays that engines work on: contiguous and flat, of types that they know; and the way back into tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..op import tangents
from ..op import vmap as batched
from ..tape import dtypes, lazy
from ..tape.arrays import backend_of
from ..tape.device import stored
from ..tape.modes import FORWARD_AD, shared, state
from ..tape.storage import before_write, bump
from ..tape.tensor import Tensor

__all__ = ["Buffer", "check_plain", "read", "wire"]

_INTO_FLOATS = {np.dtype(np.complex64): np.float32, np.dtype(np.complex128): np.float64}


def check_plain(op: str, tensors: Sequence[Tensor]) -> None:
    """RuntimeError for tensors that have no values of their own, or more than values.

    Args:
        op: what was called.
        tensors: its arguments.
    """
    if not shared.active:
        return
    for tensor in tensors:
        if batched.is_logical(tensor):
            raise RuntimeError(
                f"{op} inside vmap: a collective moves whole tensors between processes, and has no meaning for one "
                "entry of a batch. Call it outside of vmap, on the tensor with all entries."
            )
        if state.bits & FORWARD_AD and tangents.any_tangent((tensor,)):
            raise RuntimeError(
                f"{op} of a tensor with a tangent: collectives have no forward-mode derivative. Call it on the primal "
                "and the tangent apart."
            )


def wire(array: Any) -> Any:
    """A flat view of a contiguous array, of a type that engines know: complex as floats, bool and float8 as bytes."""
    flat = array.reshape(-1)
    dtype = flat.dtype
    if dtype.kind == "c":
        return flat.view(_INTO_FLOATS[dtype])
    if dtype.kind == "b" or dtype in dtypes.FLOAT8:
        return flat.view(np.uint8)
    return flat


def read(tensor: Tensor) -> Any:
    """The values of a tensor as a flat array for an engine: in its memory if that is contiguous, else a copy."""
    array = lazy.raw_values(tensor) if shared.lazy else tensor._array
    if not array.flags.c_contiguous:
        array = backend_of(array).ascontiguousarray(array)
    return wire(array)


class Buffer:
    """Where an engine writes what is to be in a tensor: its memory if that is contiguous, else memory beside it.

    Args:
        tensor: the tensor.
        keep: its values are read, too.
    """

    __slots__ = ("_beside", "flat", "tensor")

    def __init__(self, tensor: Tensor, keep: bool = False) -> None:
        self.tensor = tensor
        array = tensor._array
        self._beside = None
        is_lazy = shared.lazy and lazy.is_lazy(tensor)
        if is_lazy or not array.flags.c_contiguous:
            if keep:
                array = lazy.raw_values(tensor) if is_lazy else array
                self._beside = backend_of(array).array(array, order="C", copy=True)
            else:
                self._beside = backend_of(stored(array)).empty(array.shape, array.dtype)
        self.flat = wire(array if self._beside is None else self._beside)

    def put_back(self) -> None:
        """Copy what was written beside the tensor into it."""
        if self._beside is None:
            return
        if shared.lazy and lazy.is_lazy(self.tensor):
            lazy.store(self.tensor, self._beside)
        else:
            self.tensor._array[...] = self._beside


def written(tensors: Sequence[Tensor], site: Any, by: str) -> None:
    """Note that tensors were written to, for those who saved them."""
    for tensor in tensors:
        if shared.active:
            before_write(tensor)
        bump(tensor, site, by)
