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
from functools import partial
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

import gradlib

from . import version as own_version
from ._placeholders import UNDO, Absent, imported, report, watch_all
from ._refused import AbsentError, fail_in_try, is_refused, users_frame
from ._torch_version import VERSION, TorchVersion

__all__ = ["AbsentError", "TorchVersion", "as_torch", "report"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# A real PyTorch imports itself; its own files must find it whatever the scope is.
_PYTORCH = frozenset(("torch", "torchgen", "functorch"))


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
        watch_all()
    return module


def _import(name: str) -> ModuleType:
    """gradlib's module of a name of PyTorch's, or what stands for it."""
    found = _find(name)
    return imported(name) if found is None else found


# importlib.abc's base classes add nothing here, and take 10 ms to import.
class _Alias:
    """Puts gradlib's own module object under PyTorch's name."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system: what it makes is thrown away."""

    def exec_module(self, module: ModuleType) -> None:
        # The import system gives its caller what it finds here, and leaves the object's own __spec__ alone.
        found = sys.modules[module.__name__] = _import(module.__name__)
        if _is_placeholder(found) and not isinstance(builtins.__import__, _AskingAgain):
            _replace_import(_AskingAgain(builtins.__import__))


def _is_placeholder(module: ModuleType | None) -> bool:
    return isinstance(module, Absent) or is_refused(module)


class _AskingAgain:
    """An ``__import__`` for when placeholders are in sys.modules: the next import of one may stand in a ``try``."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original

    def __call__(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        for full in () if level else (name, *(f"{name}.{wanted}" for wanted in fromlist or ())):
            if _is_placeholder(sys.modules.get(full)):
                fail_in_try(full)
        return self.original(name, globals, locals, fromlist, level)


HOOK = _AskingAgain.__call__.__code__  # tracebacks need not show it


def _replace_import(hook: Callable[..., Any]) -> None:
    original = builtins.__import__
    builtins.__import__ = hook

    def restore() -> None:
        if (
            builtins.__import__ is hook
        ):  # else somebody wrapped it: what they call stays, and serves nobody
            builtins.__import__ = original

    UNDO.append(restore)


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
        frame = users_frame()
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
            if not isinstance(known, ModuleType) or _is_placeholder(known):
                known = _import(".".join(parts[: i + 1]))
                setattr(module, parts[i], known)
            module = known
        for wanted in fromlist or ():
            known = vars(module).get(wanted)
            if isinstance(module, Absent) or _is_placeholder(known):
                setattr(module, wanted, _import(f"{name}.{wanted}"))
            elif wanted != "*" and wanted not in vars(module):
                # a module that nobody imported yet becomes its parent's attribute; other names are no modules
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
    UNDO.append(lambda: setattr(spawn, "get_preparation_data", before))


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
    versioned: tuple[Any, ...] = (gradlib, own_version)
    for module in versioned:
        UNDO.append(partial(setattr, module, "__version__", module.__version__))
        module.__version__ = VERSION
    watch_all()
    finder = _Finder(serves, not scoped)
    sys.meta_path.insert(0, finder)
    UNDO.append(lambda: sys.meta_path.remove(finder))
    if scoped:
        _replace_import(_scoped_import(serves, builtins.__import__))
    else:
        hidden = {
            n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] == "torch"
        }
        sys.modules["torch"] = gradlib
        UNDO.append(lambda: _forget(hidden))
    if "multiprocessing.spawn" in sys.modules:
        _teach_spawn()


def _forget(hidden: dict[str, ModuleType]) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "torch"]:
        del sys.modules[name]
    sys.modules.update(hidden)


def _uninstall() -> None:
    while UNDO:
        UNDO.pop()()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gradlib":
            for key in [k for k, v in vars(module).items() if isinstance(v, Absent)]:
                del vars(module)[key]


class as_torch:
    """Let ``import torch`` and ``import torch.x.y`` give gradlib: from this call on, or inside ``with``.

    ``torch is gradlib``, ``torch.nn is gradlib.nn``, whether or not PyTorch is installed; ``gradlib.__version__`` reads
    "2.13.0+gradlib" meanwhile, as do ``gradlib.version.__version__`` and ``importlib.metadata.version("torch")``.
    Names that gradlib lacks can be imported and raise `AbsentError` when used; an import inside
    ``try: ... except ImportError`` fails, so that the program does what it has for that. Forked and spawned processes
    of multiprocessing inherit it; other processes are started with ``python -m gradlib``. Leaving ``with`` undoes it.

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
