"""Device objects: where a tensor's memory is."""

from __future__ import annotations

import functools
import threading
from contextlib import nullcontext
from typing import Any

from numpy import ndarray

from .modes import shared

# All of these can be named and compared, as programs do that run on each of them; tensors are on three kinds.
_KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, "
    "mtia, privateuseone"
)
_TYPES = frozenset(_KNOWN.split(", "))


_set = object.__setattr__


class device:
    """``device("cuda:1")``, ``device("cuda", 1)``, ``device("cpu")``; compares by value, usable as a dict key."""

    __slots__ = ("index", "type")

    def __init__(self, type, index: int | None = None):
        if isinstance(type, device):
            if index is not None:
                raise TypeError(
                    "device(): argument 'type' (position 1) must be str, not torch.device"
                )
            type, index = type.type, type.index
        elif hasattr(type, "__index__") and not isinstance(type, bool):
            type, index = "cuda", int(type)
        elif not isinstance(type, str):
            raise TypeError(
                "device() received an invalid combination of arguments - got "
                f"({type.__class__.__name__}), but expected one of:\n * (torch.device device)\n"
                "      didn't match because some of the arguments have invalid types: "
                f"(!{type.__class__.__name__}!)\n * (str type, int index = -1)\n"
            )
        elif not type:
            raise RuntimeError("Device string must not be empty")
        elif ":" in type:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            type, _, number = type.partition(":")
            if not number.isdigit() or (number[0] == "0" and number != "0"):
                raise RuntimeError(f"Invalid device string: '{type}:{number}'")
            index = int(number)
        if type not in _TYPES:
            raise RuntimeError(
                f"Expected one of {_KNOWN} device type at start of device string: {type}"
            )
        if index is not None:
            if not hasattr(index, "__index__"):
                raise TypeError(
                    f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}"
                )
            if index < 0:
                raise RuntimeError("Device index must not be negative")
        _set(self, "type", type)
        _set(self, "index", index)

    type: str
    index: int | None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __eq__(self, other) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        tail = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{tail})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self):
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        """Tensors that this thread makes in the block are made on this device, unless another one is named."""
        default.outer.append(default.device)
        default.device = self
        return self

    def __exit__(self, *exc) -> None:
        default.device = default.outer.pop()


CPU = device("cpu")


class Default(threading.local):
    """Where a thread makes tensors when nothing is said, and the defaults that it goes back to."""

    device = CPU

    def __init__(self) -> None:
        self.outer: list[device] = []


default = Default()


@functools.cache
def on_cuda(index: int) -> device:
    """The device object of a CUDA device."""
    return device("cuda", index)


# -- the current device of CUDA ----------------------------------------------------------------------------------------

HERE = nullcontext()


def stored(array: Any) -> Any:
    """The array that has the values of `array`: itself, of an entry of a vmap's batch that of the batch, of a sparse
    one that of its values.
    """
    while (physical := getattr(array, "physical", None)) is not None:
        array = physical._array
    return array.values if array.__class__ is shared.sparse else array


def beside(array: Any) -> Any:
    """A context in which the device of a raw array is the current one: for code outside of ops that works on arrays."""
    if shared.cuda is None:
        return HERE
    array = stored(array)
    if isinstance(array, ndarray):
        return HERE
    return shared.cuda.elsewhere(array) or HERE


def beside_first(function: Any) -> Any:
    """A function whose first argument is a tensor, or a list of some, run with the device of the first one current."""

    @functools.wraps(function)
    def call(tensor, *args, **kwargs):
        one = tensor[0] if tensor.__class__ in (tuple, list) and tensor else tensor
        array = getattr(one, "_array", None)
        with HERE if array is None else beside(array):
            return function(tensor, *args, **kwargs)

    return call


def copied(array: Any, order: str = "C") -> Any:
    """A copy of a raw array on its own device; CuPy's ``copy`` makes one on the current device."""
    with beside(array):
        return array.copy(order)
