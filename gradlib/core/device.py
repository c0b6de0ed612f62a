"""Device objects: where a tensor's memory is."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

from numpy import ndarray

from .modes import shared

_TYPES = ("cpu", "cuda", "meta")
_KNOWN = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, "
    "mtia, privateuseone"
)


class device:
    """``device("cuda:1")``, ``device("cuda", 1)``, ``device("cpu")``; compares by value, usable as a dict key."""

    __slots__ = ("index", "type")

    def __init__(self, type, index: int | None = None):
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif ":" in type:
            if index is not None:
                raise RuntimeError(
                    f"type (string) must not include an index because index was passed explicitly: {type}"
                )
            type, _, number = type.partition(":")
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}:{number}'")
            index = int(number)
        if type not in _TYPES:
            raise RuntimeError(
                f"Expected one of {_KNOWN} device type at start of device string: {type}"
            )
        if type == "meta":
            raise NotImplementedError(
                "gradlib has no 'meta' device; use device='cpu' or device='cuda'"
            )
        self.type: str = type
        self.index: int | None = index

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
        """Tensors made in the block are made on this device, unless another one is named."""
        global default
        _outer.append(default)
        default = self
        return self

    def __exit__(self, *exc) -> None:
        global default
        default = _outer.pop()


CPU = device("cpu")
default = CPU  # where tensors are made when nothing is said
_outer: list[device] = []  # defaults to go back to


@functools.cache
def on_cuda(index: int) -> device:
    """The device object of a CUDA device."""
    return device("cuda", index)


# -- the current device of CUDA ----------------------------------------------------------------------------------------

HERE = nullcontext()


def stored(array: Any) -> Any:
    """The array that has the values of `array`: itself, or for an entry of a vmap's batch that of the batch."""
    while (physical := getattr(array, "physical", None)) is not None:
        array = physical._array
    return array


def beside(array: Any) -> Any:
    """A context in which the device of a raw array is the current one: for code outside of ops that works on arrays."""
    if shared.cuda is None:
        return HERE
    array = stored(array)
    if isinstance(array, ndarray):
        return HERE
    return shared.cuda.elsewhere(array) or HERE


def beside_first(function: Any) -> Any:
    """A function whose first argument is a tensor, run with the device of that tensor current."""

    @functools.wraps(function)
    def call(tensor, *args, **kwargs):
        array = getattr(tensor, "_array", None)
        with HERE if array is None else beside(array):
            return function(tensor, *args, **kwargs)

    return call


def copied(array: Any, order: str = "C") -> Any:
    """A copy of a raw array on its own device; CuPy's ``copy`` makes one on the current device."""
    with beside(array):
        return array.copy(order)
