"""The public names of gradlib that the transforms are tried on, and the one callable behind several names."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import gradlib as gl
from gradlib import nn, optim

# prefix of the keys -> where their names live
PLACES: dict[str, Any] = {
    "gradlib": gl,
    "F": nn.functional,
    "linalg": gl.linalg,
    "fft": gl.fft,
    "special": gl.special,
    "Tensor": gl.Tensor,
}
PROPERTIES = "H T imag mH mT real data".split()
OPERATORS = [
    f"__{side}{name}__"
    for name in "add and floordiv lshift mod mul or pow rshift sub truediv xor".split()
    for side in ("", "r", "i")
] + (
    "__abs__ __eq__ __ge__ __getitem__ __gt__ __invert__ __iter__ __le__ __lt__ __matmul__ __ne__ __neg__ __pos__ "
    "__reversed__ __rmatmul__ __setitem__ __contains__ __len__ __bool__ __float__ __int__ __complex__ __index__"
).split()


def public(place: Any) -> list[str]:
    """The public functions of a module, or methods of a class."""
    found = []
    for name in dir(place):
        value = getattr(place, name)
        if not name.startswith("_") and callable(value) and not isinstance(value, type):
            found.append(name)
    return found


def _property(name: str) -> Callable:
    return lambda x: getattr(x, name)


def _operator(name: str) -> Callable:
    return getattr(gl.Tensor, name)


def namespace() -> dict[str, Callable]:
    """Key (``gradlib.add``, ``Tensor.add_``, ``nn.Linear``) -> callable, for what must be sampled or listed."""
    found = {
        f"{prefix}.{name}": getattr(place, name)
        for prefix, place in PLACES.items()
        for name in public(place)
    }
    found |= {f"Tensor.{name}": _property(name) for name in PROPERTIES}
    found |= {f"Tensor.{name}": _operator(name) for name in OPERATORS}
    for prefix, place in (("nn", nn), ("optim", optim)):
        for name in dir(place):
            value = getattr(place, name)
            if isinstance(value, type) and not name.startswith("_"):
                found[f"{prefix}.{name}"] = value
    return {key: value for key, value in found.items() if not isinstance(value, ModuleType)}


def groups(found: dict[str, Callable]) -> dict[str, list[str]]:
    """First key -> all keys of the same object."""
    by_id: dict[int, list[str]] = {}
    for key, value in found.items():
        by_id.setdefault(id(value), []).append(key)
    return {keys[0]: keys for keys in by_id.values()}
