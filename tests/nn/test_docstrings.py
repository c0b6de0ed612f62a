"""The examples in the docstrings of nn and optim give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import gradlib
from gradlib import nn

MODULES = [
    pytest.param(found.name, marks=[pytest.mark.first_device] * found.name.endswith("parallel"))
    for package in (gradlib.nn, gradlib.optim)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not found.name.endswith("functional")
]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_examples(name):
    module = importlib.import_module(name)
    names = {"nn": nn, "gradlib": gradlib}
    for example in doctest.DocTestFinder().find(module, extraglobs=names):
        result = doctest.DocTestRunner(verbose=False).run(example)
        assert result.failed == 0, example.name
