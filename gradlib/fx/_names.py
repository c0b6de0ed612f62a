"""What things are called in generated code: ``torch.relu`` for what gradlib publishes, ``module_name`` for the rest."""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import re
from collections.abc import Callable
from typing import Any

import gradlib

from ..utils import _pytree as pytree
from . import _pytree as fx_pytree

# where published functions and classes are looked for; the first name found is the one that is written
_PLACES = (
    "nn.functional linalg fft special signal.windows nn.init nn.utils utils.checkpoint func nn amp"
).split()
_known: dict[
    int, tuple[str, Any]
] = {}  # id -> (name, what has it): the latter keeps the id its own


def _learn() -> None:
    """Read again what gradlib publishes; the places that come first win, and the names of functions over aliases."""
    for place in ("", *_PLACES):
        module: Any = gradlib
        for part in place.split(".") if place else ():
            module = getattr(module, part)
        prefix = f"torch.{place}" if place else "torch"
        space = dict(vars(module))
        for key in sorted(space, key=lambda k: (getattr(space[k], "__name__", "") != k, k)):
            value = space[key]
            if key.startswith("__") or not callable(value):
                continue
            if (getattr(value, "__module__", None) or "gradlib").startswith("gradlib"):
                _known.setdefault(id(value), (f"{prefix}.{key}", value))
    for key in sorted(dir(gradlib.Tensor)):
        value = getattr(gradlib.Tensor, key)
        if not key.startswith("__"):
            _known.setdefault(id(value), (f"torch.Tensor.{key}", value))


def published(value: Any) -> str | None:
    """The name under which gradlib publishes a function or class, as a PyTorch program writes it; None if it does not.

    Example:
        >>> published(gradlib.relu), published(gradlib.nn.functional.relu), published(len)
        ('torch.relu', 'torch.nn.functional.relu', None)
    """
    found = _known.get(id(value))
    if found is not None and found[1] is value:
        return found[0]
    written = getattr(value, "_fx_name", None)  # ops by name: torch.ops.aten.mm.default
    if isinstance(written, str):
        return written
    module = getattr(value, "__module__", None)
    if module is not None and not str(module).startswith("gradlib"):
        return None
    _known.clear()  # functions may have been replaced
    _learn()
    found = _known.get(id(value))
    if found is not None:
        return found[0]
    if isinstance(module, str):
        return f"torch{module.removeprefix('gradlib')}.{getattr(value, '__qualname__', value.__name__)}"
    return None


def is_method(function: Any) -> str | None:
    """The name of a method of Tensor that is no public function, too; None for everything else."""
    name = published(function)
    if name is not None and name.startswith("torch.Tensor."):
        return name.rpartition(".")[2]
    return None


def call_name(function: Any) -> str:
    """What the result of a call is called: ``relu``, ``linalg_norm``."""
    if hasattr(function, "_fx_name"):
        return function.__name__
    parts = (published(function) or function.__name__).split(".")
    in_family = len(parts) == 3 and parts[1] in ("linalg", "fft", "special")
    return "_".join(parts[1:]) if in_family else parts[-1]


def qualified_name(function: Callable[..., Any]) -> str:
    """The name of a function or class with its module, for example ``torch.relu`` or ``__main__.step``.

    Raises:
        RuntimeError: it is a lambda whose source cannot be read.
    """
    name: str = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    found = published(function)
    if found is not None:
        return found
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    return f"{function.__module__}.{name}"


def type_name(kind: Any) -> str:
    """A type expression as it is written in an annotation: ``torch.Tensor``, ``int``, ``typing.Optional[int]``."""
    if isinstance(kind, type) and not hasattr(kind, "__origin__"):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        return published(kind) or f"{kind.__module__}.{kind.__qualname__}"
    return "..." if kind is ... else repr(kind)


def snake_case(text: str) -> str:
    """``LayerNorm`` -> ``layer_norm``; all-capital names become lower case.

    Example:
        >>> snake_case("LayerNorm"), snake_case("GELU")
        ('layer_norm', 'gelu')
    """
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


# what every generated function finds among its globals: name -> (the line that makes it, the object)
BUILTIN: dict[str, tuple[str, Any]] = {
    "inf": ("from math import inf", math.inf),
    "nan": ("from math import nan", math.nan),
    "NoneType": ("NoneType = type(None)", type(None)),
    "torch": ("import gradlib as torch", gradlib),
    "device": ("from gradlib import device", gradlib.device),
    "fx_pytree": ("import gradlib.fx._pytree as fx_pytree", fx_pytree),
    "pytree": ("import gradlib.utils._pytree as pytree", pytree),
}
_RESERVED = frozenset((*keyword.kwlist, *vars(builtins), *BUILTIN))


class Namespace:
    """Gives out names that differ from each other, from Python's own and from `BUILTIN`."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}  # object -> its name
        self._used: set[str] = set()
        self._last: dict[str, int] = {}  # base -> the last number that was put after it

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A free name like `candidate`; the same again for the same `obj`."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = "_" + name
        base, number = re.fullmatch(r"(.*?)(?:_(\d+))?", name, re.DOTALL).groups()  # type: ignore[union-attr]
        if not base:
            base, number = name, None
        if number is None or name in self._used:
            count = self._last.get(base, 0)
            reserved = name in _RESERVED and not (
                obj is not None
                and BUILTIN.get(name, (None, getattr(builtins, name, None)))[1] is obj
            )
            if reserved:
                count += 1
                name = f"{base}_{count}"
        else:
            count = int(number)
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        self._last[base] = count
        if obj is not None:
            self._names[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Let `obj` be known by a name that is already taken for it."""
        self._names.setdefault(obj, name)

    def rename(self, obj: Any, name: str) -> None:
        """Give `obj` another name, which the caller knows to be free."""
        self._names[obj] = name
        self._used.add(name)
