"""What the docstrings of published functions promise: sections and errors. tests/test_docstrings.py runs examples."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy
import pytest

import gradlib
from gradlib import fft, linalg, special
from gradlib.nn import functional
from gradlib.op.expose import PUBLIC

pytestmark = pytest.mark.host  # a device does not look at values on the way to an error

# "Error: expression" for what stands under "Raises" in a docstring
ERRORS = [
    tuple(line.split(": ", 1))
    for line in (Path(__file__).parent / "documented_errors.txt").read_text().splitlines()
]

# Published functions without an example in their docstring, by namespace; in-place forms, whose example would be that
# of the function, are not counted. None of these numbers goes up.
WITHOUT_EXAMPLE = {"gradlib": 35, "gradlib.Tensor": 8, "gradlib.nn.functional": 5}


@pytest.mark.parametrize(("error", "expression"), ERRORS, ids=[e for _, e in ERRORS])
def test_error_is_raised(error, expression):
    names = {"gradlib": gradlib, "F": functional, "numpy": numpy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated functions warn first
        with pytest.raises(Exception) as raised:  # noqa: PT011 - the docstring names the type
            eval(expression, names)
    kinds = [kind.__name__.lstrip("_") for kind in type(raised.value).__mro__]
    assert error in kinds[:-2], str(raised.value)


def _published():
    """(namespace, name, function) of all that operators publish, each object once."""
    seen = set()
    for space, names in (
        ("gradlib", PUBLIC),
        (
            "gradlib.Tensor",
            {n: inspect.getattr_static(gradlib.Tensor, n) for n in dir(gradlib.Tensor)},
        ),
        *(
            (f"gradlib.{m.__name__.split('.', 1)[1]}", vars(m))
            for m in (functional, fft, linalg, special)
        ),
    ):
        for name, value in names.items():
            code = getattr(value, "fget", None) or value
            raw = inspect.unwrap(getattr(code, "__func__", code))
            module = getattr(raw, "__module__", None) or "gradlib.operators"
            ours = module.startswith(("gradlib.operators", "gradlib.special"))
            if name.startswith("_") or not callable(raw) or not ours or id(raw) in seen:
                continue
            seen.add(id(raw))
            yield space, name, value


def _sections(value) -> list[str]:
    return re.findall(
        r"^(Args|Returns|Raises|Example):$", inspect.getdoc(value) or "", re.MULTILINE
    )


def test_sections_come_in_one_order():
    order = ["Args", "Returns", "Raises", "Example"]
    wrong = [
        name
        for _, name, value in _published()
        if _sections(value) != [s for s in order if s in _sections(value)]
    ]
    assert wrong == []


def test_whoever_names_arguments_says_what_is_returned():
    wrong = [
        name
        for _, name, value in _published()
        if "Args" in _sections(value) and "Returns" not in _sections(value)
    ]
    assert wrong == ["set_default_tensor_type"]  # which returns nothing


def test_functions_without_an_example_get_fewer():
    lacking = Counter(
        space
        for space, name, value in _published()
        if "Example" not in _sections(value) and not name.endswith("_")
    )
    assert {s: n for s, n in lacking.items() if n > WITHOUT_EXAMPLE.get(s, 0)} == {}, (
        "write an example"
    )
