"""The ops under PyTorch's names: ``gradlib.ops.aten.mm.default`` is what a policy of selective checkpointing is given.

An :class:`Operator` stands for an op by name. It is equal to the Operator of that name, however it was come by
(``aten.mul.Tensor``, ``aten.mul.Scalar``: gradlib knows no overloads), and to the public functions and methods of the
op: ``gradlib.mm``, ``Tensor.mm``. What a call is, :func:`of_call` says: ``x @ w`` and ``F.linear`` are ``mm``, ``bmm``
or ``addmm``, as in PyTorch. Ops of which PyTorch has one for each implementation (attention, batch norm) are one here.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from ..op.declare import REGISTRY, Op
from ..op.expose import PUBLIC
from ..operators.fft.transforms import FFT
from ..operators.linalg.base import LINALG
from ..tape.modes import state
from ..tape.tensor import Tensor

# where public functions are found by name; gradlib.nn.functional and gradlib.special add theirs when they are imported
PLACES: list[Callable[[str], Any]] = [
    lambda name: vars(sys.modules["gradlib"]).get(
        name
    ),  # where a function may be another object than in PUBLIC
    PUBLIC.get,
    lambda name: getattr(Tensor, name, None),
    LINALG.get,
    FFT.get,
]


class Operator:
    """An op by its name, as policies of selective checkpointing see it."""

    __slots__ = ("_also", "_name", "_public")

    def __init__(self, name: str, also: tuple[str, ...] = (), public: bool = True):
        self._name, self._also, self._public = name, also, public

    def name(self) -> str:
        """The name with its namespace, for example ``aten::mm``."""
        return f"aten::{self._name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the public function of that name, or the method of Tensor.

        Raises:
            NotImplementedError: there is none, or the op was named by one of PyTorch's implementations of it, which
                take other arguments.
        """
        for call in reversed(state.dispatched):
            if (
                call.operator is self
            ):  # in a handler of this op: what it was told, with other tensors
                try:
                    return call.run(args, kwargs)
                except LookupError:
                    break
        found = _functions(self._name)
        if not found or not self._public:
            raise NotImplementedError(
                f"gradlib has no public function {self._name!r} that {self.name()} could call"
            )
        return found[0](*args, **kwargs)

    @property
    def __name__(self) -> str:
        return f"{self._name}.default"

    @property
    def _fx_name(self) -> str:
        return f"torch.ops.{self}"

    def __str__(self) -> str:
        return f"aten.{self._name}.default"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._name}', overload='default')>"

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Operator):
            return self._name == other._name
        if not callable(other):
            return False
        plain = inspect.unwrap(other)
        return any(
            plain is inspect.unwrap(f) for n in (self._name, *self._also) for f in _functions(n)
        )


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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return operator(self._name)(*args, **kwargs)

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def _fx_name(self) -> str:
        return f"torch.ops.{self}"

    def __str__(self) -> str:
        return f"aten.{self._name}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self._name}')>"


@functools.cache
def operator(name: str, also: tuple[str, ...] = ()) -> Operator:
    """The Operator of a name, PyTorch's or gradlib's."""
    public = name not in _implementations() and name[0] != "_"
    return _operator(_implementations().get(name, name.removeprefix("_")), also, public)


@functools.cache
def _operator(name: str, also: tuple[str, ...], public: bool) -> Operator:
    return Operator(name, also, public)


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


@functools.cache
def packet(name: str) -> Packet:
    """The Packet of a name: one object, which may be a key."""
    return Packet(name)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return packet(name)
