"""A profile and its page, for the tests of pages; those that need a browser are collected where there is one."""

from __future__ import annotations

import pytest

import gradlib
from gradlib.autograd import profiler

from .chromium import find

collect_ignore = [] if find() else ["test_chromium.py"]


@pytest.fixture(scope="session")
def recorded():
    """A profile of about 2,000 operations and nodes, with lines, shapes and memory."""
    x = gradlib.randn(64, 32, requires_grad=True)
    weights = [gradlib.randn(32, 32, requires_grad=True) for _ in range(10)]
    with profiler.profile(with_stack=True, profile_memory=True, record_shapes=True) as prof:
        for _ in range(18):
            with profiler.record_function("step </script><b>"):
                y = x
                for w in weights:
                    y = (y @ w).tanh()
                y.sum().backward()
    assert len(prof.function_events) > 2000
    return prof


@pytest.fixture(scope="session")
def path(recorded, tmp_path_factory):
    """The page of it."""
    path = tmp_path_factory.mktemp("page") / "profile.html"
    recorded.export_html(path, title="A <title> & more")
    return path
