"""``torch.compile(fullgraph=True)`` and its settings raise what PyTorch raises."""

from __future__ import annotations

import warnings

import pytest
import torch as pytorch

import gradlib

LIBRARIES = [pytorch, gradlib]


def shows(x):
    y = x * 2
    print(y.shape)
    return y


def reads(x):
    return x * len(x.tolist())


@pytest.mark.parametrize("f", [shows, reads], ids=lambda f: f.__name__)
@pytest.mark.parametrize("torch", LIBRARIES, ids=["torch", "gradlib"])
def test_what_no_graph_can_hold(torch, f):
    x = torch.ones(3)
    f(x)
    with warnings.catch_warnings(action="ignore"):
        compiled = torch.compile(f, fullgraph=True, backend="eager")
        with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
            compiled(x)
    assert isinstance(caught.value, RuntimeError)
    assert f"{f.__name__}\n" in str(caught.value) and "test_fullgraph.py" in str(caught.value)


@pytest.mark.parametrize("torch", LIBRARIES, ids=["torch", "gradlib"])
def test_what_is_disabled(torch):
    logs = torch.compiler.disable(lambda x: x + 1)
    with warnings.catch_warnings(action="ignore"):
        compiled = torch.compile(lambda x: logs(x * 2), fullgraph=True, backend="eager")
        with pytest.raises(torch._dynamo.exc.Unsupported, match=r"torch\.compiler\.disable"):
            compiled(torch.ones(3))
        assert torch.compile(lambda x: logs(x * 2), backend="eager")(torch.ones(3))[0] == 3


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"backend": "inductr"}, "InvalidBackend"),
        ({"mode": "max"}, "RuntimeError"),
        ({"mode": "default", "options": {}}, "RuntimeError"),
        ({"options": {"max_autotune": "x"}}, "RuntimeError"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_settings(settings, kind):
    said = []
    for torch in LIBRARIES:
        with pytest.raises(RuntimeError) as caught:
            torch.compile(lambda x: x, **settings)
        assert type(caught.value).__name__ == kind
        said.append(str(caught.value).split(",")[0])
    assert said[0] == said[1]


@pytest.mark.parametrize("torch", LIBRARIES, ids=["torch", "gradlib"])
def test_what_cannot_be_called(torch):
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'>"):
        torch.compile(3)
    with pytest.raises(AssertionError, match="fn must be callable"):
        torch.compiler.disable(3)
    with pytest.raises(AssertionError, match="allow_in_graph expects a callable"):
        torch.compiler.allow_in_graph(3)
