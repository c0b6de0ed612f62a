"""Start a program with gradlib in PyTorch's place: ``python -m gradlib script.py``.

    python -m gradlib script.py args...     as `python script.py args...`
    python -m gradlib -m pytest args...     as `python -m pytest args...`
    python -m gradlib -c code args...       as `python -c code args...`
    python -m gradlib --report ...          any of them; at exit, the absent names that were touched
    python -m gradlib --check PATH...       read files without running them: absent names; exit status 1 if any

Processes that multiprocessing forks or spawns inherit it. Others do not, for Python gives no way without a file in
site-packages: a program that starts `python child.py` finds GRADLIB_AS_TORCH=1 in its environment, and starts
`python -m gradlib child.py` instead.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from . import compat


def _fresh_main(file: str | None = None) -> dict[str, Any]:
    """A new ``__main__``, which stays: pickles and exit functions look for the program's names there."""
    main = ModuleType("__main__")
    vars(main).update(__builtins__=__builtins__, __annotations__={})
    if file is not None:
        vars(main).update(
            __file__=file, __cached__=None, __loader__=SourceFileLoader("__main__", file)
        )
    sys.modules["__main__"] = main
    return vars(main)


def _script(path: str) -> None:
    if Path(path).is_dir() or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    sys.path[0] = str(Path(path).resolve().parent)
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        sys.exit(
            f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        )
    space = _fresh_main(os.path.abspath(path))
    exec(compile(source, space["__file__"], "exec", dont_inherit=True), space)


def _code(text: str) -> None:
    sys.path[0] = ""
    exec(compile(text, "<string>", "exec", dont_inherit=True), _fresh_main())


def _module(name: str) -> None:
    _fresh_main()
    if name.startswith(
        "torch."
    ):  # PyTorch's names have no code that could be run, our modules have
        name = f"gradlib.{name.removeprefix('torch.')}"
    # what `python -m` itself calls: in the __main__ that is there, which run_module() would put back at the end
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of the launcher, which come first, and those of its import hook."""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if file not in (__file__, "<frozen runpy>", runpy.__file__):
            break
        traceback = traceback.tb_next
    place = traceback
    while place is not None and (inner := place.tb_next) is not None:
        if inner.tb_frame.f_code is compat.HOOK:
            place.tb_next = inner.tb_next
        else:
            place = inner
    return traceback


def _run(start: Callable[[str], None], what: str) -> None:
    try:
        start(what)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        shown: BaseException | None = error
        while shown is not None:
            shown.__traceback__ = _users_part(shown.__traceback__)
            shown = shown.__cause__ or shown.__context__
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def _check(paths: list[str]) -> int:
    from importlib import import_module  # only here: who starts a program does not need ast

    found = import_module("gradlib._absent_names").check(paths)
    print("\n".join(found) or "no absent name was found")
    return 1 if found else 0


def main(arguments: list[str]) -> None:
    """Run what the command line says; see the module's text."""
    if arguments[:1] == ["--check"] and len(arguments) > 1:
        sys.exit(_check(arguments[1:]))
    reports = arguments[:1] == ["--report"]
    arguments = arguments[reports:]
    kinds: dict[str, Callable[[str], None]] = {"-m": _module, "-c": _code}
    kind = kinds.get(arguments[0]) if arguments else None
    if (
        not arguments
        or (kind and len(arguments) < 2)
        or (not kind and arguments[0].startswith("-"))
    ):
        wanted = arguments[:1] in (["-h"], ["--help"])
        print(__doc__, file=sys.stdout if wanted else sys.stderr)
        sys.exit(0 if wanted else 2)
    os.environ["GRADLIB_AS_TORCH"] = "1"
    compat.as_torch()
    if reports:
        atexit.register(lambda: print(compat.report(), file=sys.stderr))
    if kind is None:
        sys.argv[:] = arguments
        _run(_script, arguments[0])
    else:
        sys.argv[:] = [arguments[0], *arguments[2:]]
        _run(kind, arguments[1])


if __name__ == "__main__":
    main(sys.argv[1:])
