"""PyTorch programs as they are: ``import torch`` gives gradlib while `as_torch` holds.

``python -m gradlib script.py`` starts a program that way (`__main__.py`); `as_torch` does it from within one. Modules
are gradlib's own objects under a second name, not copies: ``torch.nn is gradlib.nn``. A name that gradlib lacks can be
imported, since many programs import what they do not use; its use raises `AbsentError`, and `report` lists it.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any, NoReturn, Union

import gradlib

from .version import __version__

__all__ = ["AbsentError", "TorchVersion", "as_torch", "report"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# A real PyTorch imports itself; its own files must find it whatever the scope is.
_PYTORCH = frozenset(("torch", "torchgen", "functorch"))
_IMPORT_FROM = opmap["IMPORT_FROM"]
_touched: dict[tuple[str, str], str] = {}  # (name, file:line) -> what was done with it


class AbsentError(NotImplementedError, AttributeError):
    """A name of PyTorch's that gradlib lacks was used.

    An AttributeError too, so that ``hasattr(torch, name)`` answers False and ``getattr`` gives its default.

    Example:
        >>> issubclass(gradlib.compat.AbsentError, NotImplementedError)
        True
    """


class TorchVersion(str):
    """A version that compares by its numbers, with strings and tuples.

    A local part ("+gradlib") makes it later than the same without, a development version is earlier.

    Example:
        >>> version = gradlib.compat.TorchVersion("2.13.0+gradlib")
        >>> version >= "2.2", version < (2, 14), version == "2.13.0"
        (True, True, False)
    """

    @staticmethod
    def _key(version: str | Iterable[int | str]) -> tuple[tuple[int, ...], bool, str]:
        text = version if isinstance(version, str) else ".".join(map(str, version))
        public, _, local = text.partition("+")
        numbers: list[int] = []
        final = True
        for part in public.split("."):
            digits = part[: len(part) - len(part.lstrip("0123456789"))]
            if digits:
                numbers.append(int(digits))
            if digits != part:  # 2.0.0a0, 2.0rc1, 2.1.dev3
                final = False
                break
        while numbers and not numbers[-1]:
            numbers.pop()
        return tuple(numbers), final, local

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str | tuple | list) and self._key(self) == self._key(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._key(self) < self._key(other)

    def __le__(self, other: Any) -> bool:
        return self._key(self) <= self._key(other)

    def __gt__(self, other: Any) -> bool:
        return self._key(self) > self._key(other)

    def __ge__(self, other: Any) -> bool:
        return self._key(self) >= self._key(other)

    __hash__ = str.__hash__


VERSION = TorchVersion("2.13.0+gradlib")


# -- what does not exist -----------------------------------------------------------------------------------------


def _users_frame() -> FrameType | None:
    """The innermost frame that is neither gradlib's nor the import system's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(_FOLDER) or "importlib" in file or file == "<frozen runpy>"):
            return frame
        frame = frame.f_back
    return None


def _touch(name: str, how: str) -> str:
    """Note that a name was touched, and give the user's line."""
    frame = _users_frame()
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "an unknown line"
    if _touched.get((name, where)) != "used":
        _touched[name, where] = how
    return where


def _absent(name: str, how: str = "used") -> AbsentError:
    where = _touch(name, how)
    return AbsentError(
        f"{name} does not exist in gradlib {__version__} ({how} at {where}). Write that line with what gradlib has, "
        "or keep its package on PyTorch with gradlib.as_torch(exclude=[...]); "
        "`python -m gradlib --check PATH` lists all such names of a program"
    )


class _Absent(ModuleType):
    """What stands for an absent name once it is imported: every use raises."""

    __path__: list[str]

    def __init__(self, name: str, *rest: Any) -> None:
        if rest:  # class Mine(absent): Python calls the type of the base
            raise _absent(str(getattr(rest[0][0], "__name__", name)) if rest[0] else name)
        super().__init__(name)
        self.__path__ = []  # a package, so that names can be imported from it

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise _absent(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # `from absent import *` would bring nothing, in silence
            raise NotImplementedError(str(_absent(f"{self.__name__}.*")))
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        if sys._getframe(1).f_globals.get("__name__", "").startswith("importlib."):
            raise AttributeError(name)  # it imports `from absent import name` as a module next
        raise _absent(f"{self.__name__}.{name}")

    def __repr__(self) -> str:
        return f"<{self.__name__}, absent in gradlib>"

    def __or__(self, other: Any) -> Any:  # `absent | None` in an annotation
        return Union[self, other]  # noqa: UP007  # it is what `|` calls here

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    __call__ = __mro_entries__ = __instancecheck__ = __subclasscheck__ = _refuse
    __bool__ = __iter__ = __len__ = __contains__ = __getitem__ = __enter__ = __exit__ = _refuse


def report() -> str:
    """The absent names that were touched so far, a line each: the name, file:line, imported, asked for or used.

    Example:
        >>> isinstance(gradlib.compat.report(), str)
        True
    """
    lines = sorted(f"{name}  {where}  {how}" for (name, where), how in _touched.items())
    return "\n".join(lines) or "no absent name was touched"


def _torch_name(module: ModuleType) -> str:
    return "torch" + module.__name__.removeprefix("gradlib")


def _watch(module: ModuleType) -> None:
    """Let a module of gradlib's say what is absent in PyTorch's terms: its own AttributeError names gradlib alone."""
    space = vars(module)
    before = space.get("__getattr__")
    if isinstance(module, _Absent) or getattr(before, "_watches", False):
        return

    def __getattr__(name: str) -> Any:  # noqa: N807
        if before is not None:
            try:
                value = before(name)
            except AttributeError:
                pass
            else:
                if isinstance(value, ModuleType):
                    _watch_all()  # it was imported just now, with modules below it
                return value
        plain = AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
        caller = sys._getframe(1)
        origin = caller.f_globals.get("__name__", "")
        if name.startswith("__") or origin.partition(".")[0] in ("gradlib", "importlib"):
            raise plain
        full = f"{_torch_name(module)}.{name}"
        if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
            _touch(full, "imported")
            return _Absent(full)
        raise _absent(full, "asked for") from None

    __getattr__._watches = True  # type: ignore[attr-defined]
    space["__getattr__"] = __getattr__
    _undo.append(
        lambda: space.pop("__getattr__") if before is None else space.update(__getattr__=before)
    )


def _watch_all() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gradlib" and isinstance(module, ModuleType):
            _watch(module)


# -- importing ---------------------------------------------------------------------------------------------------


def _find(name: str) -> ModuleType | None:
    """gradlib's module of a name of PyTorch's; None if there is none."""
    target = "gradlib" + name.removeprefix("torch")
    try:
        module = importlib.import_module(target)
    except ModuleNotFoundError as error:
        if not error.name or not f"{target}.".startswith(f"{error.name}."):
            raise  # the module is there: a package that it needs is not
        return None
    if "_watches" not in vars(vars(module).get("__getattr__", _find)):
        _watch_all()
    return module


def _import(name: str) -> ModuleType:
    """gradlib's module of a name of PyTorch's, or what stands for it."""
    found = _find(name)
    if found is None:
        _touch(name, "imported")
        found = _Absent(name)
    return found


# importlib.abc's base classes add nothing here, and take 10 ms to import.
class _Alias:
    """Puts gradlib's own module object under PyTorch's name."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system: what it makes is thrown away."""

    def exec_module(self, module: ModuleType) -> None:
        # The import system gives its caller what it finds here, and leaves the object's own __spec__ alone.
        sys.modules[module.__name__] = _import(module.__name__)


def _is_question() -> bool:
    """Whether a spec is asked for with importlib.util.find_spec: "is it there?", not "give it to me"."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        if frame.f_globals.get("__name__") == "importlib.util":
            return True
        frame = frame.f_back
    return False


class _Finder:
    """Finds torch and torch.x.y in gradlib, and PyTorch's version for importlib.metadata."""

    def __init__(self, serves: Callable[[str], bool], all_code: bool) -> None:
        self.serves, self.all_code = serves, all_code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("multiprocessing.popen_"):
            _teach_spawn()
        if not self.all_code or fullname.partition(".")[0] != "torch":
            return None
        if _is_question() and _find(fullname) is None:
            return None
        return ModuleSpec(fullname, _Alias(), is_package=True)  # pyright: ignore[reportArgumentType]

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        from importlib.metadata import Distribution  # slow to import: only who asks pays

        class Metadata(Distribution):
            def read_text(self, filename: str) -> str | None:
                if filename == "top_level.txt":
                    return "torch\n"
                text = f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n"
                return text if filename in ("METADATA", "PKG-INFO") else None

            def locate_file(self, path: Any) -> Any:
                return os.path.join(_FOLDER, path)

        name = getattr(context, "name", None)
        frame = _users_frame()
        asks = frame.f_globals.get("__name__", "") if frame else ""
        if (name is None or name.lower() == "torch") and self.serves(asks):
            yield Metadata()


def _scoped_import(
    serves: Callable[[str], bool], original: Callable[..., Any]
) -> Callable[..., Any]:
    """An ``__import__`` that gives gradlib to some packages: sys.modules has but one "torch", a real one's."""

    def __import__(  # noqa: N807
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if (
            level
            or name.partition(".")[0] != "torch"
            or not serves((globals or {}).get("__name__", ""))
        ):
            return original(name, globals, locals, fromlist, level)
        parts = name.split(".")
        module: ModuleType = gradlib
        for i in range(1, len(parts)):
            known = vars(module).get(parts[i])
            if not isinstance(known, ModuleType):
                known = _import(".".join(parts[: i + 1]))
                setattr(module, parts[i], known)
            module = known
        for wanted in fromlist or ():
            if wanted == "*" or wanted in vars(module):
                continue
            if isinstance(module, _Absent):
                setattr(module, wanted, _import(f"{name}.{wanted}"))
            else:  # a module that nobody imported yet becomes its parent's attribute; other names are no modules
                _find(f"{name}.{wanted}")
        return module if fromlist else gradlib

    return __import__


def _teach_spawn() -> None:
    """Let processes that multiprocessing spawns begin with `as_torch`: they run the main module's imports again."""
    spawn: Any = importlib.import_module("multiprocessing.spawn")
    before = spawn.get_preparation_data
    if isinstance(before, _PreparationData):
        return
    spawn.get_preparation_data = _PreparationData(before)
    _undo.append(lambda: setattr(spawn, "get_preparation_data", before))


class _PreparationData:
    """What a spawned process is sent first, and a value in it that calls `as_torch` when it is read there."""

    def __init__(self, before: Callable[[str], dict[str, Any]]) -> None:
        self.before = before

    def __call__(self, name: str) -> dict[str, Any]:
        return {**self.before(name), "gradlib": _Inherited()}


class _Inherited:
    def __reduce__(self) -> Any:
        # Plain source: the process has not been given this one's sys.path yet, so it may not find gradlib itself.
        scope = _scope or ((), ())
        code = (
            f"import sys; sys.path.append({os.path.dirname(_FOLDER)!r}); import gradlib.compat; "
            f"gradlib.compat.as_torch(packages={scope[0]!r}, exclude={scope[1]!r})"
        )
        return exec, (code, {})


# -- the switch --------------------------------------------------------------------------------------------------

_undo: list[Callable[[], Any]] = []
_scope: tuple[tuple[str, ...], tuple[str, ...]] | None = None
_depth = 0


def _serves(packages: tuple[str, ...], exclude: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether code of a module gets gradlib."""

    def within(module: str, names: Iterable[str]) -> bool:
        return any(module == n or module.startswith(f"{n}.") for n in names)

    def serves(module: str) -> bool:
        if module == "__mp_main__":  # what a spawned process calls the main module
            module = "__main__"
        if within(module, exclude) or ((packages or exclude) and within(module, _PYTORCH)):
            return False
        return not packages or within(module, packages)

    return serves


def _real_torch() -> list[str]:
    return [n for n, m in sys.modules.items() if n.partition(".")[0] == "torch" and m is not None]


def _install(packages: tuple[str, ...], exclude: tuple[str, ...]) -> None:
    scoped = bool(packages or exclude)
    serves = _serves(packages, exclude)
    if not scoped and (loaded := _real_torch()):
        raise RuntimeError(
            f"as_torch() must come before PyTorch is imported: {loaded[0]} and {len(loaded) - 1} more modules are "
            "loaded, and tensors of both would meet. Call it first, start the program with `python -m gradlib`, or "
            "name the packages that get gradlib with packages=[...]"
        )
    own = gradlib.__version__
    gradlib.__version__ = VERSION
    _undo.append(lambda: setattr(gradlib, "__version__", own))
    _watch_all()
    finder = _Finder(serves, not scoped)
    sys.meta_path.insert(0, finder)
    _undo.append(lambda: sys.meta_path.remove(finder))
    if scoped:
        original = builtins.__import__
        hook = builtins.__import__ = _scoped_import(serves, original)

        def restore() -> None:
            if (
                builtins.__import__ is hook
            ):  # else somebody wrapped it: what they call stays, and serves nobody
                builtins.__import__ = original

        _undo.append(restore)
    else:
        hidden = {
            n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] == "torch"
        }
        sys.modules["torch"] = gradlib
        _undo.append(lambda: _forget(hidden))
    if "multiprocessing.spawn" in sys.modules:
        _teach_spawn()


def _forget(hidden: dict[str, ModuleType]) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
        del sys.modules[name]
    sys.modules.update(hidden)


def _uninstall() -> None:
    while _undo:
        _undo.pop()()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gradlib":
            for key in [k for k, v in vars(module).items() if isinstance(v, _Absent)]:
                del vars(module)[key]


class as_torch:
    """Let ``import torch`` and ``import torch.x.y`` give gradlib: from this call on, or inside ``with``.

    ``torch is gradlib``, ``torch.nn is gradlib.nn``, whether or not PyTorch is installed; ``gradlib.__version__`` reads
    "2.13.0+gradlib" meanwhile, as does ``importlib.metadata.version("torch")``; ``gradlib.version.__version__`` stays.
    Names that gradlib lacks can be imported and raise `AbsentError` when used. Forked and spawned processes of
    multiprocessing inherit it; other processes are started with ``python -m gradlib``. Leaving ``with`` undoes it.

    Args:
        packages: names of packages (or modules) that alone get gradlib; all others get PyTorch.
        exclude: names of packages that keep PyTorch. With either argument the module that holds the ``import``
            statement decides, and ``sys.modules["torch"]`` and ``importlib.import_module`` stay PyTorch's.

    Raises:
        RuntimeError: a real PyTorch is imported already (and the call is for all code), or another scope holds.

    Example:
        >>> import gradlib
        >>> with gradlib.compat.as_torch():
        ...     import torch
        ...
        ...     torch is gradlib
        True
    """

    def __init__(self, packages: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        global _depth, _scope
        if isinstance(packages, str) or isinstance(exclude, str):
            raise TypeError("packages and exclude are lists of names, not one string")
        scope = tuple(packages), tuple(exclude)
        if _depth and scope != _scope:
            raise RuntimeError(
                f"as_torch(packages={_scope and _scope[0]}, exclude={_scope and _scope[1]}) holds already; "
                "leave it before another scope is taken"
            )
        if not _depth:
            try:
                _install(*scope)
            except BaseException:
                _uninstall()
                raise
        _depth += 1
        _scope = scope
        self._left = False

    def __enter__(self) -> Any:
        return gradlib

    def __exit__(self, *exc_info: object) -> None:
        global _depth, _scope
        if self._left:
            return
        self._left = True
        _depth -= 1
        if not _depth:
            _uninstall()
            _scope = None
