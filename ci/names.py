"""Compare PyTorch's public names with what gradlib has, and write docs/names.md.

    python ci/names.py            # print the counts; exit 1 if docs/names.md is not up to date
    python ci/names.py --write    # write docs/names.md
    python ci/names.py --collect  # write gradlib/_names.txt anew from the PyTorch that is installed

The list of names is data of the package, since what gradlib lacks is made from it (`gradlib/_refused.py`).
"""

from __future__ import annotations

import argparse
import ast
import enum
import importlib
import operator
import pkgutil
import re
import sys
import textwrap
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import gradlib
from gradlib import _refused

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "gradlib" / "_names.txt"
USED = ROOT / "tests" / "names_in_use.txt"
PAGE = ROOT / "docs" / "names.md"

HEAD = """\
# PyTorch 2.13's public names, a module a line, then what is in it. Written by `python ci/names.py --collect`.
# `Name` is a class, `name()` a function, `name=` another value, `Name!Base` an exception, `Name{A=0,B=1}` an enum;
# after `@home` come the names that are the same objects in another module.
"""

# -- what PyTorch has ----------------------------------------------------------------------------------------------

# Not for programs: tests, generators, and what is run as a program.
LEFT_OUT = ("torch.utils.hipify", "torch.utils.data.datapipes", "torch.utils.tensorboard._")


def modules(package: ModuleType) -> Iterator[str]:
    """The public modules below a package of PyTorch's, itself first."""
    yield package.__name__
    for found in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}."):
        name = found.name.rpartition(".")[2]
        if name.startswith("_") or found.name.startswith(LEFT_OUT):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # it needs a package that is not here, or another system
            continue
        yield from modules(module)


def is_of(module: str, value: Any) -> bool:
    """Whether a value that a module without ``__all__`` holds is PyTorch's, not an import of Python's."""
    if isinstance(value, ModuleType) or value is Any:
        return False
    home = getattr(value, "__module__", None)
    if isinstance(value, type) or callable(value):
        return home is None or str(home).partition(".")[0] == "torch"
    return type(value).__module__.partition(".")[0] in ("torch", "builtins", "enum")


DOCUMENTED = (
    "AcceleratorError Event Generator OutOfMemoryError Size Stream Tag device dtype finfo iinfo layout "
    "memory_format qscheme"
)


def is_for_programs(module: ModuleType, name: str) -> bool:
    """Whether a name of ``__all__`` is meant: torch's own has all classes of its compiled part, and some modules."""
    value = getattr(module, name, module)
    inner = value if isinstance(value, type) else type(value)
    compiled = vars(sys.modules["torch._C"]).get(inner.__name__) is inner
    if module.__name__ == "torch" and compiled and inner.__name__ not in DOCUMENTED.split():
        return False
    return not isinstance(value, ModuleType)


def names(module: ModuleType) -> list[str]:
    """What a module says that it has; else what it holds."""
    module = vars(module).get("m", module)  # what a module with properties stands for
    said = vars(module).get("__all__")
    if said is not None:
        found = [n for n in said if is_for_programs(module, n)]
        if module.__name__ == "torch":  # it leaves its constants out
            kinds = (module.dtype, module.layout, module.memory_format, module.qscheme)
            found += [n for n, v in vars(module).items() if isinstance(v, kinds) and n[0] != "_"]
        return found
    return [
        n
        for n, value in vars(module).items()
        if not n.startswith("_")
        and not n.endswith("_notes")
        and n not in ("annotations", "TYPE_CHECKING")
        and is_of(module.__name__, value)
        and not (getattr(value, "__module__", None) or module.__name__).startswith("torch.testing")
    ]


def members(value: type) -> dict[str, Any]:
    """The members of an enum, Python's or pybind11's."""
    if issubclass(value, enum.Enum):
        return {name: member.value for name, member in value.__members__.items()}
    found = getattr(value, "__members__", None) or {}
    if not found and value.__name__ == "ReduceOp":
        found = value.RedOpType.__members__  # type: ignore[attr-defined]
    return {name: int(member) for name, member in found.items()}


def entry(name: str, value: Any) -> str:
    """A name as the table has it."""
    if isinstance(value, type) and not isinstance(value, types.GenericAlias):
        if issubclass(value, BaseException):
            base = next(b for b in value.__mro__ if b.__module__ == "builtins")
            return f"{name}!{base.__name__}"
        if inner := members(value):
            return f"{name}{{{','.join(f'{k}={v!r}' if isinstance(v, int) else k for k, v in inner.items())}}}"
        return name
    return f"{name}()" if callable(value) and "typing" not in type(value).__module__ else f"{name}="


def collect() -> str:
    """The table, from the PyTorch that is installed."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    found: dict[str, dict[str, Any]] = {}
    for name in modules(torch):
        module = sys.modules[name]
        found[name] = {n: getattr(module, n) for n in names(module) if hasattr(module, n)}
    for used in USED.read_text().split():  # private ones that programs use all the same
        value: Any = torch
        parent = "torch"
        for part in used.split("."):
            try:
                inner = getattr(value, part)
            except AttributeError:
                try:
                    inner = importlib.import_module(f"{parent}.{part}")
                except ImportError:
                    break
            if isinstance(value, ModuleType):
                if isinstance(inner, ModuleType):
                    found.setdefault(f"{parent}.{part}", {})
                else:
                    found.setdefault(parent, {})[part] = inner
            value, parent = inner, f"{parent}.{part}"
    for name, kind in (("Tensor", torch.Tensor), ("nn.Module", torch.nn.Module)):
        found[f"class {name}"] = {n: getattr(kind, n, None) for n in dir(kind) if n[0] != "_"}
    first = homes({m: held for m, held in found.items() if " " not in m})
    lines = []
    for name, held in sorted(found.items()):
        groups: dict[str, list[str]] = {"": []}
        for n in sorted(held):
            home = name if " " in name else first.get((n, id(held[n])), name)
            groups.setdefault("" if home == name else home, []).append(entry(n, held[n]))
        words = groups.pop("")
        for home, entries in sorted(groups.items()):
            words += [home.replace("torch", "@", 1).replace("@.", "@"), *entries]
        lines.append(" ".join([f"{name.removeprefix('torch').lstrip('.')}:", *words]))
    return HEAD + "\n".join(lines) + "\n"


def homes(found: dict[str, dict[str, Any]]) -> dict[tuple[str, int], str]:
    """(name, identity) -> the least deep of the modules that have this object under this name."""
    first: dict[tuple[str, int], str] = {}
    for module in sorted(found, key=lambda m: (m.count("."), len(m), m)):
        for name, value in found[module].items():
            if isinstance(value, type) or callable(value) or type(value).__module__ != "builtins":
                first.setdefault((name, id(value)), module)
    return first


# -- what gradlib has ------------------------------------------------------------------------------------------------


def listed(module: str) -> set[str]:
    """The ``__all__`` of a file, which is not run: it needs a package that may not be here."""
    path = (ROOT / "gradlib").joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text()).body if path.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def imported(module: str) -> ModuleType:
    """A module, imported on a line that stands in no ``try``: there absent modules are not given."""
    return importlib.import_module(module)


@cache
def holder(module: str) -> Any:
    """A module or class of gradlib; None if it is absent, a set of names if it needs a package that is not here."""
    kind, _, name = module.rpartition(" ")
    if kind:
        return operator.attrgetter(name)(gradlib)
    try:
        return imported(f"gradlib.{module}".rstrip("."))
    except ModuleNotFoundError:
        return None
    except ImportError:
        return listed(module)


def state(module: str, name: str) -> str:
    """How gradlib has a name of PyTorch's: "works", "refuses" or "absent"."""
    found = holder(module)
    if isinstance(found, set):
        return "works" if name in found else "refuses"
    if _refused.is_refused(found):  # constants of its enums can be named, but nothing takes them
        return "refuses"
    try:
        value = getattr(found, name)
    except NotImplementedError:
        return "refuses"
    except AttributeError:
        return "absent"
    return "refuses" if _refused.is_refused(value) else "works"


# -- the page --------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
# PyTorch's names

Every public name of PyTorch 2.13, and what it does in gradlib. Written by `python ci/names.py --write`; a test
compares.

- **works**: as in PyTorch. A name with a link is spoken of in [differences.md](differences.md), at that section.
- **refuses**: it can be imported and named; using it raises NotImplementedError, which says what to do instead.
- **absent**: AttributeError, or an import that fails.

A name that PyTorch has in several modules stands in one of them. In all:
"""


def differences() -> dict[str, str]:
    """Name -> anchor of the first section of docs/differences.md that mentions it as code."""
    found: dict[str, str] = {}
    anchor = ""
    for line in (ROOT / "docs" / "differences.md").read_text().splitlines():
        if line.startswith("## "):
            anchor = re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-")
        for code in re.findall(r"`([^`]+)`", line) if anchor else ():
            word = re.match(r"[A-Za-z_][\w.]*", code)
            if word:
                found.setdefault(word[0].removeprefix("torch."), anchor)
    return found


def filled(text: str) -> str:
    """Lines of 120 characters, of an entry of a list where it is one."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def page() -> str:
    """The text of docs/names.md."""
    spoken_of = differences()
    counts: Counter[str] = Counter()
    sections, whole = [], []
    for module in sorted(_refused.table(), key=lambda name: " " in name):
        own = [n for n, entry in _refused.names(module).items() if entry.home == module]
        groups: dict[str, list[str]] = {"works": [], "refuses": [], "absent": []}
        for name in own:
            how = state(module, name)
            groups[how].append(name)
            counts[how] += 1
        title = module or "torch"
        if own and not groups["works"] and not groups["absent"]:
            whole.append(filled(f"- `{title}`: {' '.join(groups['refuses'])}"))
            continue
        lines = []
        for how, names in groups.items():
            shown = [linked(n, module, spoken_of) if how == "works" else n for n in names]
            if names:
                lines += [filled(f"{how}: {' '.join(shown)}"), ""]
        if lines:
            sections += [f"## {title}", "", *lines]
    total = sum(counts.values())
    share = [f"{how} {n} ({n / total:.0%})" for how, n in counts.most_common()]
    text = [INTRODUCTION + f"{total} names: {', '.join(share)}.", "", *sections]
    return "\n".join([*text, "## Modules of which all refuses", "", *whole, ""])


def linked(name: str, module: str, spoken_of: dict[str, str]) -> str:
    """A name with the place where it is said how it differs."""
    part = module.rpartition(" ")[2]
    for full in (f"{part}.{name}", f"{part.rpartition('.')[2]}.{name}", name):
        if full in spoken_of:
            return f"[{name}](differences.md#{spoken_of[full]})"
    return name


def main(arguments: list[str]) -> int:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--collect", action="store_true")
    options = parser.parse_args(arguments)
    if options.collect:
        TABLE.write_text(collect())
        _refused.table.cache_clear()
        _refused.names.cache_clear()
    text = page()
    print(re.findall(r"\d+ names: .*", text)[0])
    if options.write:
        PAGE.write_text(text)
    return 0 if PAGE.exists() and PAGE.read_text() == text else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
