"""The ops under PyTorch's names: ``gradlib.ops.aten.mm.default`` is what a policy of selective checkpointing is given.

An :class:`Operator` stands for an op by name. It is equal to the Operator of that name, however it was come by
(``aten.mul.Tensor``, ``aten.mul.Scalar``: gradlib knows no overloads), and to the public functions and methods of the
op: ``gradlib.mm``, ``Tensor.mm``. What a call is, :func:`of_call` says: ``x @ w`` and ``F.linear`` are ``mm``, ``bmm``
or ``addmm``, as in PyTorch. Ops of which PyTorch has one for each implementation (attention, batch norm) are one here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..op.declare import REGISTRY, Op
from ..op.expose import PUBLIC
from ..operators.fft.transforms import FFT
from ..operators.linalg.base import LINALG
from ..tape.tensor import Tensor

# where public functions are found by name; gradlib.nn.functional and gradlib.special add theirs when they are imported
PLACES: list[Callable[[str], Any]] = [
    PUBLIC.get,
    lambda name: getattr(Tensor, name, None),
    LINALG.get,
    FFT.get,
]


class Operator:
    """An op by its name, as policies of selective checkpointing see it."""

    __slots__ = ("_also", "_name")

    def __init__(self, name: str, also: tuple[str, ...] = ()):
        self._name, self._also = name, also

    def name(self) -> str:
        """The name with its namespace, for example ``aten::mm``."""
        return f"aten::{self._name}"

    def __str__(self) -> str:
        return f"aten.{self._name}.default"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._name}', overload='default')>"

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Operator):
            return self._name == other._name
        return callable(other) and any(other in _functions(n) for n in (self._name, *self._also))


class Packet:
    """An op before an overload is chosen: ``aten.mm``."""

    def __init__(self, name: str):
        self._name = name

    def overloads(self) -> list[str]:
        """The overloads that there are: one."""
        return ["default"]

    def __getattr__(self, overload: str) -> Operator:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return operator(self._name)

    def __str__(self) -> str:
        return f"aten.{self._name}"


@functools.cache
def operator(name: str, also: tuple[str, ...] = ()) -> Operator:
    """The Operator of a name, PyTorch's or gradlib's."""
    return Operator(_implementations().get(name, name.removeprefix("_")), also)


@functools.cache
def _implementations() -> dict[str, str]:
    """PyTorch's names of what it runs for an op -> the op's public name."""
    return {name: op.public for op in REGISTRY.values() for name in op.implementations}


def _functions(name: str) -> list[Any]:
    """The public functions and methods of a name."""
    return [found for find in PLACES if (found := find(name)) is not None]


def of_call(op: Op, args: tuple, inplace: bool = False) -> Operator:
    """The Operator that a call of `op` with these tensor arguments is."""
    public = op.public
    name = public if op.known_as is None else op.known_as(*args)
    if inplace:
        return operator(name + "_")
    return operator(name, () if name == public else (public,))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Packet(name)
