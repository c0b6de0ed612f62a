"""What stands for a name of PyTorch's that gradlib lacks, where gradlib is imported as `torch`; see `compat`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NoReturn, Union

from ._refused import IMPORT_FROM, AbsentError, fail_in_try, is_refused, touch, touched
from .version import __version__

UNDO: list[Callable[[], Any]] = []  # what ends it, the last first


def absent(name: str, how: str = "used") -> AbsentError:
    where = touch(name, how)
    return AbsentError(
        f"{name} does not exist in gradlib {__version__} ({how} at {where}). Write that line with what gradlib has, "
        "or keep its package on PyTorch with gradlib.as_torch(exclude=[...]); "
        "`python -m gradlib --check PATH` lists all such names of a program"
    )


class Absent(ModuleType):
    """What stands for an absent name once it is imported: every use raises."""

    __path__: list[str]

    def __init__(self, name: str, *rest: Any) -> None:
        if rest:  # class Mine(absent): Python calls the type of the base
            raise absent(str(getattr(rest[0][0], "__name__", name)) if rest[0] else name)
        super().__init__(name)
        self.__path__ = []  # a package, so that names can be imported from it

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise absent(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # `from absent import *` would bring nothing, in silence
            raise NotImplementedError(str(absent(f"{self.__name__}.*")))
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        if sys._getframe(1).f_globals.get("__name__", "").startswith("importlib."):
            raise AttributeError(name)  # it imports `from absent import name` as a module next
        raise absent(f"{self.__name__}.{name}")

    def __repr__(self) -> str:
        return f"<{self.__name__}, absent in gradlib>"

    def __or__(self, other: Any) -> Any:  # `absent | None` in an annotation
        return Union[self, other]  # noqa: UP007  # it is what `|` calls here

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __instancecheck__(self, value: Any) -> bool:
        """False for the name of a class: a class that is absent has no objects."""
        return False if self.__name__.rpartition(".")[2][0].isupper() else self._refuse()

    __call__ = __mro_entries__ = __subclasscheck__ = _refuse
    __bool__ = __iter__ = __len__ = __contains__ = __getitem__ = __enter__ = __exit__ = _refuse


def imported(name: str) -> Absent:
    """What stands for an absent name where a program imports it.

    Raises:
        ModuleNotFoundError: the import stands in a ``try`` that has something to do without the name.
    """
    fail_in_try(name)
    touch(name, "imported")
    return Absent(name)


def report() -> str:
    """The absent names that were touched so far, a line each.

    The name, file:line, and how: imported, imported in a try, asked for or used.

    Example:
        >>> isinstance(gradlib.compat.report(), str)
        True
    """
    lines = sorted(f"{name}  {where}  {how}" for (name, where), how in touched.items())
    return "\n".join(lines) or "no absent name was touched"


def _torch_name(module: ModuleType) -> str:
    return "torch" + module.__name__.removeprefix("gradlib")


def _watch(module: ModuleType) -> None:
    """Let a module of gradlib's say what is absent in PyTorch's terms: its own AttributeError names gradlib alone."""
    space = vars(module)
    own = before = space.get("__getattr__")
    if isinstance(module, Absent) or getattr(before, "_watches", False):
        return
    if own is None and is_refused(module):
        before = partial(type(module).__getattr__, module)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if before is not None:
            try:
                value = before(name)
            except AttributeError:
                pass
            else:
                if isinstance(value, ModuleType):
                    watch_all()  # it was imported just now, with modules below it
                return value
        plain = AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
        caller = sys._getframe(1)
        origin = caller.f_globals.get("__name__", "")
        if name == "__path__" and origin.startswith("importlib."):
            return []  # a file of gradlib's may be a package in PyTorch: modules below it are looked for, and absent
        if name.startswith("__") or origin.partition(".")[0] in ("gradlib", "importlib"):
            raise plain
        full = f"{_torch_name(module)}.{name}"
        if caller.f_code.co_code[caller.f_lasti] == IMPORT_FROM:
            return imported(full)
        raise absent(full, "asked for") from None

    __getattr__._watches = True  # type: ignore[attr-defined]
    space["__getattr__"] = __getattr__
    UNDO.append(lambda: space.pop("__getattr__") if own is None else space.update(__getattr__=own))


def watch_all() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gradlib" and isinstance(module, ModuleType):
            _watch(module)
