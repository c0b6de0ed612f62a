"""Names of PyTorch that gradlib has not: they can be imported and named, and raise when they are used.

``_names.txt`` lists PyTorch's public names (``ci/names.py``). A module of that list that gradlib has no file for is
made from it when it is imported, and everything in it says what is absent, where it was used and what to do instead.
"""

from __future__ import annotations

import enum
import importlib
import os
import sys
from abc import ABCMeta
from collections.abc import Callable
from functools import cache
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import FrameType, GenericAlias, ModuleType
from typing import Any, NamedTuple, NoReturn, Union

__all__ = [
    "IMPORT_FROM",
    "AbsentError",
    "fail_in_try",
    "find",
    "is_refused",
    "names",
    "refuse",
    "spec",
    "table",
    "touch",
    "touched",
    "users_frame",
]

_FOLDER = os.path.dirname(os.path.abspath(__file__))
IMPORT_FROM = opmap["IMPORT_FROM"]

touched: dict[tuple[str, str], str] = {}  # (name, file:line) -> what was done with it

# What to do without a name, by the part of PyTorch that it is in; the longest that fits.
_GPU = (
    "There are no kernels for {}: use the CPU, or CUDA on NVIDIA's GPUs; is_available() is False."
)
_QUANTIZED = "Quantized tensors are out of scope: train and run in float32, bfloat16 or float16."
_ARRAYS = "Write the op on arrays, NumPy's or CuPy's, in a gradlib.autograd.Function."
_WHY = {
    "": "Write that line with what gradlib has, or keep its package on PyTorch with gradlib.as_torch(exclude=[...]); "
    "`python -m gradlib --check PATH` lists all such names of a program.",
    "_inductor": "Nothing is compiled: gradlib.compile gives its argument back.",
    "ao": _QUANTIZED,
    "autograd.profiler_legacy": "Use gradlib.autograd.profiler.profile.",
    "contrib": "It is no part of training.",
    "distributed": "docs/distributed.md says what there is for several processes.",
    "masked": "Keep values and mask as two tensors: gradlib.where, masked_fill, masked_select.",
    "mps": _GPU.format("Apple's GPUs"),
    "mtia": _GPU.format("Meta's accelerators"),
    "nested": "Pad to one length with nn.utils.rnn.pad_sequence, and keep the lengths.",
    "nn.qat": _QUANTIZED,
    "nn.quantizable": _QUANTIZED,
    "nn.quantized": _QUANTIZED,
    "nn.intrinsic": _QUANTIZED,
    "package": "Save with gradlib.save, and ship source as a Python package.",
    "quantization": _QUANTIZED,
    "cuda.sparse": "Use gradlib.sparse_coo_tensor(..., device='cuda').",
    "testing._internal": "It is of PyTorch's own tests: write yours with pytest and gradlib.testing.",
    "utils.cpp_extension": f"No C++ is compiled. {_ARRAYS}",
    "utils.mobile_optimizer": "There are no mobile models: gradlib.save keeps a model's state_dict.",
    "xpu": _GPU.format("Intel's GPUs"),
}


class AbsentError(NotImplementedError, AttributeError):
    """A name of PyTorch's that gradlib lacks was asked for.

    An AttributeError too, so that ``hasattr(torch, name)`` answers False and ``getattr`` gives its default.

    Example:
        >>> issubclass(gradlib.compat.AbsentError, NotImplementedError)
        True
    """


# -- what is said ------------------------------------------------------------------------------------------------


def users_frame() -> FrameType | None:
    """The innermost frame that is neither gradlib's nor the import system's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(_FOLDER) or "importlib" in file or file == "<frozen runpy>"):
            return frame
        frame = frame.f_back
    return None


def touch(name: str, how: str) -> str:
    """Note that a name was touched, and give the user's line."""
    frame = users_frame()
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "an unknown line"
    if touched.get((name, where)) != "used":
        touched[name, where] = how
    return where


def fail_in_try(name: str) -> None:
    """Let the import of an absent name fail where the program has something to do without it.

    Raises:
        ModuleNotFoundError: the line stands in ``try: ... except ImportError``, or the like.
    """
    frame = users_frame()
    if frame is None:
        return
    tries = importlib.import_module("gradlib._tries")  # only who imports absent names pays for it
    if frame.f_lineno in tries.guarded_lines(frame.f_code.co_filename):
        touch(name, "imported in a try")
        raise ModuleNotFoundError(f"No module named {name!r}: gradlib lacks it", name=name)


def _text(name: str, how: str) -> str:
    where = touch(f"torch.{name}", how)
    part = name
    while part not in _WHY:
        part = part.rpartition(".")[0]
    return f"gradlib has no {name} ({how} at {where}). {_WHY[part]}"


# -- what stands for an absent name ------------------------------------------------------------------------------


class _Class(ABCMeta):
    """The type of absent classes: a base, an annotation, the second argument of isinstance, but nothing to call.

    An ABCMeta, so that a class may have abstract bases beside one of these.
    """

    _stands_for: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_text(cls._stands_for, "used"))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise AbsentError(_text(f"{cls._stands_for}.{name}", "asked for"))

    def __getitem__(cls, item: Any) -> Any:  # in an annotation
        return GenericAlias(cls, item)


class _Value:
    """What stands for a constant: equal to itself alone, and refused in all other uses."""

    def __init__(self, name: str) -> None:
        self._stands_for = name

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_text(self._stands_for, "used"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AbsentError(_text(f"{self._stands_for}.{name}", "asked for"))

    def __repr__(self) -> str:
        return f"<{self._stands_for}, absent in gradlib>"

    def __reduce__(self) -> Any:
        return self._refuse()

    def __or__(self, other: Any) -> Any:  # a type's alias, in an annotation
        return Union[self, other]  # noqa: UP007  # it is what `|` calls here

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    __call__ = __mro_entries__ = __instancecheck__ = __bool__ = __iter__ = __len__ = _refuse
    __contains__ = __getitem__ = __enter__ = __exit__ = __int__ = __float__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse


def _function(module: str, name: str) -> Callable[..., NoReturn]:
    full = f"{module}.{name}".lstrip(".")

    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_text(full, "used"))

    refused.__name__ = refused.__qualname__ = name
    refused.__module__ = f"gradlib.{module}".rstrip(".")
    refused.__doc__ = f"PyTorch's {full}, which gradlib has not: it raises NotImplementedError."
    refused._stands_for = full  # type: ignore[attr-defined]
    return refused


@cache
def _made(module: str, name: str, form: str) -> Any:
    """What stands for a name; `form` is what follows it in the table."""
    full = f"{module}.{name}".lstrip(".")
    home = f"gradlib.{module}".rstrip(".")
    if form == "()":
        return _function(module, name)
    if form == "=":
        return _Value(full)
    if form.startswith("!"):
        base = getattr(importlib.import_module("builtins"), form[1:])
        return type(name, (base,), {"__module__": home, "_stands_for": full})
    if form.startswith("{"):
        pairs = (member.partition("=") for member in form[1:-1].split(","))
        values = [(key, int(value) if value else key) for key, _, value in pairs]
        return enum.Enum(name, values, module=home)
    doc = f"PyTorch's {full}, which gradlib has not: it raises NotImplementedError when it is made."
    return _Class(name, (), {"__module__": home, "__doc__": doc, "_stands_for": full})


def is_refused(value: Any) -> bool:
    """Whether this stands for a name that gradlib lacks.

    Constants of enums are what they are in PyTorch, and so are they here.
    """
    if isinstance(value, ModuleType):
        return isinstance(value, _Module)
    return "_stands_for" in getattr(value, "__dict__", ())


# -- the table ---------------------------------------------------------------------------------------------------


@cache
def table() -> dict[str, str]:
    """Module -> its names with their forms, between spaces, as ``_names.txt`` has them."""
    with open(os.path.join(_FOLDER, "_names.txt"), encoding="utf-8") as file:
        lines = (line.partition(":") for line in file if not line.startswith("#"))
        return {module: names.strip() for module, _, names in lines}


class Entry(NamedTuple):
    """A name of the table: what follows it there, and the module that has the same object."""

    form: str
    home: str


@cache
def names(module: str) -> dict[str, Entry]:
    """The public names of a module of PyTorch's; none if it has no such module.

    Args:
        module: its name below torch; "" for torch itself.
    """
    found: dict[str, Entry] = {}
    home = module
    for word in table().get(module, "").split():
        if word[0] == "@":
            home = word[1:]
            continue
        cut = min(f"{word}{mark}".index(mark) for mark in "(=!{")
        found[word[:cut]] = Entry(word[cut:], home)
    return found


def find(module: str, name: str, whole: bool = False) -> Any:
    """What stands for a name of PyTorch's in a module.

    That is the real thing, where PyTorch has it in two modules and gradlib in one.

    Args:
        module: its name below gradlib; "" for gradlib itself.
        name: what is asked for.
        whole: everything in the module is absent, so that functions may be named before they are used. In a module
            that has most of PyTorch's names ``hasattr`` answers as it should: only classes are there without an import.

    Raises:
        AttributeError: PyTorch has no such name either.
        AbsentError: it has.
    """
    full = f"{module}.{name}".lstrip(".")
    entry = names(module).get(name) or _more.get((module, name))
    if entry is None:
        if full in table():
            return importlib.import_module(f"gradlib.{full}")
        if name == "__path__" and any(m.startswith(f"{module}.") for m in table()):
            return []  # modules below it can be imported: a file is no package to the import system
        raise AttributeError(
            f"module '{f'gradlib.{module}'.rstrip('.')}' has no attribute '{name}'"
        )
    if entry.home != module:
        there = importlib.import_module(f"gradlib.{entry.home}".rstrip("."))
        try:
            return getattr(there, name)
        except AttributeError:
            pass
    caller = users_frame()
    if caller is not None and caller.f_code.co_code[caller.f_lasti] == IMPORT_FROM:
        fail_in_try(f"torch.{full}")
    elif not whole and entry.form in ("()", "="):
        raise AbsentError(_text(full, "asked for"))
    touch(f"torch.{full}", "asked for")
    return _made(entry.home, name, entry.form)


_more: dict[tuple[str, str], Entry] = {}  # (module, name), of names that are not public


def refuse(
    module: str, *, whole: bool = False, more: str = "", why: str = ""
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that has not all of PyTorch's names.

    Args:
        module: its ``__name__``.
        whole: see `find`.
        more: names that are not in the list, since PyTorch does not call them public, between spaces. Those that begin
            with a capital letter are classes, the others functions.
        why: what to do without the names of this module, as a sentence.
    """
    below = module.partition(".")[2]
    for name in more.split():
        _more[below, name] = Entry("" if name.lstrip("_")[0].isupper() else "()", below)
    if why:
        _WHY[below] = why

    def __getattr__(name: str) -> Any:  # noqa: N807
        return find(below, name, whole)

    return __getattr__


class _Module(ModuleType):
    """A module that gradlib has no file for."""

    def __getattr__(self, name: str) -> Any:
        below = self.__name__.partition(".")[2]
        if name == "__all__":  # `from absent import *`: all of it, to be named and refused
            return list(names(below))
        if name.startswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return find(below, name, whole=True)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: some functions have the name of their module, which takes their place once it is imported."""
        raise NotImplementedError(_text(self.__name__.partition(".")[2], "used"))

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *names(self.__name__.partition(".")[2])})


class _Loader:
    """Makes modules of the table."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        below = spec.name.partition(".")[2]
        fail_in_try(f"torch.{below}")
        touch(f"torch.{below}", "imported")
        return _Module(spec.name, f"PyTorch's {below}, which gradlib has not: using it raises.")

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Leave it empty: what is in it is made when it is asked for."""


def spec(module: str) -> ModuleSpec | None:
    """How to import a module of PyTorch's that gradlib has no file for; None if PyTorch has no such module.

    Args:
        module: its name, with gradlib's before it.
    """
    if module.partition(".")[2] not in table():
        return None
    return ModuleSpec(module, _Loader, is_package=True)  # pyright: ignore[reportArgumentType]
