"""PyTorch's names: docs/names.md says what the tree has, and what programs use is there or refuses by name."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import gradlib
from gradlib import _refused

ROOT = Path(__file__).parents[1]
PROGRAM = runpy.run_path(str(ROOT / "ci" / "names.py"))
# what published packages reach of torch, those of the compiler's inner life left out
IN_USE = (ROOT / "tests" / "names_in_use.txt").read_text().split()
ABSENT = 1  # of them are so; the number only shrinks


def test_the_page_is_up_to_date():
    assert PROGRAM["PAGE"].read_text() == PROGRAM["page"](), "run: python ci/names.py --write"


def follow(name: str) -> object:
    """What a dotted name is; AttributeError if there is no such thing, AbsentError if it is known to be absent."""
    value: object = gradlib
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except _refused.AbsentError:
            raise
        except AttributeError:
            if not isinstance(value, ModuleType):
                raise
            try:
                value = importlib.import_module(f"{value.__name__}.{part}")
            except ModuleNotFoundError as error:
                raise AttributeError(name) from error
    return value


def use(name: str) -> None:
    value = follow(name)
    if isinstance(value, ModuleType):
        raise NotImplementedError(name)  # what is in it does
    if isinstance(value, type) and issubclass(value, Exception):
        raise NotImplementedError(name)  # nothing raises it
    value()  # type: ignore[operator]


def how(name: str) -> str:
    """ "works", "refuses" (and is seen to, with its name) or "absent"."""
    try:
        value = follow(name)
    except _refused.AbsentError:
        pass
    except AttributeError:
        return "absent"
    except ImportError:  # it needs a package
        return "works"
    else:
        if not _refused.is_refused(value):
            return "works"
    with pytest.raises(NotImplementedError, match=name.rpartition(".")[2]):
        use(name)
    return "refuses"


def test_names_in_use_are_there_or_refuse_by_name(capsys):
    found = {name: how(name) for name in IN_USE}
    rest = {n: state for n, state in found.items() if not n.startswith("distributed.")}
    absent = [n for n, state in rest.items() if state == "absent"]
    with capsys.disabled():
        works = sum(state == "works" for state in rest.values())
        print(
            f"{len(rest)} names in use: {works} work, {len(absent)} are absent: {' '.join(absent)}"
        )
    assert len(absent) <= ABSENT
    assert "absent" not in {state for n, state in found.items() if n not in rest}


def test_every_name_of_the_table_is_there_or_refuses_by_name():
    """Modules that have not all of PyTorch's names say so themselves, but for those that `import gradlib` brings."""
    silent = [
        f"{module}.{name}"
        for module in _refused.table()
        if " " not in module and isinstance(holder := PROGRAM["holder"](module), ModuleType)
        if _refused.is_refused(holder) or "__getattr__" in vars(holder)
        for name in _refused.names(module)
        if PROGRAM["state"](module, name) == "absent"
    ]
    assert silent == []
