"""The public names of gradlib that the transforms are tried on, and the one callable behind several names."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import gradlib as gl

# prefixes of keys that are not the name of a module
PREFIXES = {"gradlib": "gradlib", "gradlib.nn.functional": "F"}
# where calls are sampled by bare names, and in-place forms follow
PLAIN = ("gradlib", "F", "linalg", "fft", "special", "Tensor")
INSIDE = (
    "tape",
    "op",
    "operators",
    "devices",
    "backends",
    "ops",
)  # the engine room has no public names
# Python's own names; what needs a package that may not be here, and writes files; timers
OTHERS = ("gradlib.multiprocessing", "gradlib.utils.tensorboard", "gradlib.utils.benchmark")
# names that every class has, or that belong to Python's own protocols
OBJECT = (
    "class delattr dir doc eq format getattribute getstate ge gt hash init init_subclass le lt module ne new reduce "
    "reduce_ex repr setattr sizeof slots str subclasshook weakref annotations dict"
).split()
COMPARISONS = "__eq__ __ge__ __gt__ __le__ __lt__ __ne__".split()


def _walked(name: str) -> Iterator[ModuleType]:
    module = importlib.import_module(name)
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        full = f"{name}.{found.name}"
        engine = name == "gradlib" and found.name in INSIDE
        if not found.name.startswith("_") and not engine and full not in OTHERS:
            yield from _walked(full)


@cache
def modules() -> dict[str, ModuleType]:
    """Prefix of keys -> public module; those with the most used names first."""
    found = {
        PREFIXES.get(m.__name__, m.__name__.removeprefix("gradlib.")): m for m in _walked("gradlib")
    }
    return {p: found[p] for p in PLAIN if p in found} | found


def public(module: ModuleType) -> list[str]:
    """The public callables of a module: what it lists, else what it holds that is of gradlib."""
    listed = getattr(module, "__all__", None)
    found = []
    for name in dir(module) if listed is None else listed:
        value = getattr(module, name)
        if name.startswith("_") or not callable(value) or isinstance(value, ModuleType):
            continue
        home = getattr(value, "__module__", None) or "gradlib"
        if listed is not None or home.startswith("gradlib"):
            found.append(name)
    return found


def _methods() -> dict[str, Callable]:
    """The methods, operators and properties of a tensor."""
    found = {}
    for name in dir(gl.Tensor):
        own = name.startswith("__") and (name in COMPARISONS or name[2:-2] not in OBJECT)
        if not own and name.startswith("_"):
            continue
        value = getattr(gl.Tensor, name)
        found[f"Tensor.{name}"] = value if callable(value) else _property(name)
    return found


def _property(name: str) -> Callable:
    return lambda x: getattr(x, name)


@cache
def namespace() -> dict[str, Callable]:
    """Key (``gradlib.add``, ``Tensor.add_``, ``nn.Linear``) -> callable, for what must be sampled or listed."""
    found: dict[str, Any] = {}
    for prefix, module in modules().items():
        found |= {f"{prefix}.{name}": getattr(module, name) for name in public(module)}
        if prefix == "special":
            found |= _methods()
    return found


def groups(found: dict[str, Callable]) -> dict[str, list[str]]:
    """First key -> all keys of the same object, behind guards of arguments."""
    by_id: dict[int, list[str]] = {}
    for key, value in found.items():
        same = getattr(value, "guards", value)
        by_id.setdefault(id(same), []).append(key)
    return {keys[0]: keys for keys in by_id.values()}
