"""``torch.compile(fullgraph=True)`` raises where a function cannot be replayed as one; settings are checked."""

from __future__ import annotations

import copy

import pytest

import gradlib as torch
from gradlib import nn
from gradlib._dynamo.exc import InvalidBackend, Unsupported
from tests.capture.programs import bits

X = torch.ones(3)
KEPT: list = []


def shows(x):
    y = x * 2
    print(y.shape)
    return y


def reads(x):
    return x * len(x.tolist())


def keeps(x):
    KEPT.append(x)
    return x * 2


def masks(x):
    return x[x > 0] * 2


@torch.compiler.disable(reason="it logs")
def logs(x):
    return x + 1


def calls_what_is_disabled(x):
    return logs(x * 2) * 3


REFUSED = {
    shows: "print",
    reads: "tolist",
    keeps: "append",
    masks: "shape",
    calls_what_is_disabled: "torch.compiler.disable keeps out of plans: it logs",
}


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_it_raises_at_the_first_call_and_names_what_and_where(f, backend):
    x = X.clone()
    f(X.clone())  # imports what it needs
    g = torch.compile(f, fullgraph=True, backend=backend)
    for _ in range(3):
        with pytest.raises(Unsupported, match=REFUSED[f]) as caught:
            g(x)
        assert f"{f.__name__} cannot be captured as one" in str(caught.value)
        assert "test_fullgraph.py:" in str(caught.value)
    assert issubclass(Unsupported, RuntimeError) and caught.type.__name__ == "Unsupported"
    assert torch.explain(g)[0].why in str(caught.value)
    assert g.parts is None


def test_a_call_that_raises_runs_no_more_after_that():
    count = [0]

    def f(x):
        count[0] += 1
        return x * 2

    g = torch.compile(f, fullgraph=True)
    assert g(X).tolist() == [2.0] * 3  # a counter that a first call sets may stay
    for _ in range(4):
        with pytest.raises(Unsupported, match="changes"):
            g(X)
    assert count[0] == 2
    torch.compiler.reset()
    assert g(X).tolist() == [2.0] * 3


def test_what_can_be_replayed_is():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    g = torch.compile(model, fullgraph=True, dynamic=False)
    for k in range(20):
        x = torch.randn(2 + k % 2, 3, generator=torch.Generator().manual_seed(k))
        model.zero_grad()
        g(x).sum().backward()
        found = [bits(p.grad) for p in model.parameters()]
        model.zero_grad()
        model(x).sum().backward()
        assert found == [bits(p.grad) for p in model.parameters()]
    assert g._call.replays == 2


def test_errors_of_the_function_are_its_own():
    g = torch.compile(lambda x, i: x[i], fullgraph=True)
    for k in range(8):
        if k % 2:
            with pytest.raises(IndexError):
                g(X, torch.tensor([7]))
        else:
            assert g(X, torch.tensor([1])).tolist() == [1.0]


def test_what_is_done_once_does_not_count():
    cache = {}

    def f(x):
        if "table" not in cache:
            cache["table"] = torch.arange(3.0)
        return x + cache["table"]

    g = torch.compile(f, fullgraph=True)
    for _ in range(8):
        assert g(X).tolist() == [1.0, 2.0, 3.0]
    assert g.replays == 1


def test_branches_on_values_have_plans():
    g = torch.compile(lambda x: x * 2 if x.sum() > 0 else -x, fullgraph=True)
    for k in range(12):
        assert g(X * (-1) ** k).tolist() == ([2.0] * 3 if k % 2 == 0 else [1.0] * 3)
    assert g.replays == 2


def test_modules_their_copies_and_module_compile():
    class Prints(nn.Module):
        def forward(self, x):
            print(x.shape)
            return x * 2

    g = torch.compile(Prints(), fullgraph=True)
    for called in (g, copy.deepcopy(g)):
        with pytest.raises(Unsupported, match="print"):
            called(X)
    model = Prints()
    model.compile(fullgraph=True)
    with pytest.raises(Unsupported, match="print"):
        model(X)
    assert torch.compile(Prints())(X).tolist() == [2.0] * 3


def test_what_is_around_a_call_is_no_reason():
    g = torch.compile(lambda x: x * 2, fullgraph=True)
    for _ in range(5):
        g(X)
        with torch.inference_mode(), torch.autograd.set_detect_anomaly(True):
            g(X)
        torch.vmap(g)(X)
        torch.func.grad(lambda x: g(x).sum())(X)
    assert g.replays == 1
    assert not torch.explain(g)


def test_what_is_disabled_runs_each_time_and_modules_beside_it_are_replayed():
    model, seen = nn.Linear(3, 3), []

    @torch.compiler.disable
    def log(x):
        seen.append(x.sum().item())
        return x

    def f(x):
        return log(model(x)) * 2

    g = torch.compile(f)
    for k in range(20):
        expected = bits(f(X * k))
        seen.clear()
        assert bits(g(X * k)) == expected
        assert len(seen) == 1
    assert "log is called" in torch.explain(g)[0].why
    assert g.parts.replays == 1


def test_a_disabled_module():
    model = nn.Linear(3, 3)
    kept = torch.compiler.disable(model)
    assert isinstance(kept, torch._dynamo.OptimizedModule) and list(kept.parameters())
    g = torch.compile(lambda x: kept(x).relu())
    for _ in range(6):
        assert bits(g(X)) == bits(model(X).relu())
    assert g.replays == 0
    assert torch.compiler.disable(dict) is dict


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"backend": "inductr"}, InvalidBackend, "'inductr'.*'inductor', .*'eager'"),
        ({"backend": 3}, TypeError, "a name or a function, but got int"),
        ({"mode": "max"}, RuntimeError, "Unrecognized mode=max, should be one of: default, lite"),
        ({"mode": 3}, RuntimeError, "Unrecognized mode=3"),
        ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options"),
        ({"options": 3}, TypeError, "options must be a dict"),
        ({"options": {3: 1}}, TypeError, "options must be a dict of names"),
        ({"options": {"max_autotune": "x"}}, RuntimeError, "got str should be bool"),
        ({"dynamic": "yes"}, TypeError, "dynamic must be True, False or None, but got str"),
    ],
)
def test_settings_are_checked(settings, error, text):
    with pytest.raises(error, match=text):
        torch.compile(lambda x: x, **settings)
    with pytest.raises(error, match=text):
        torch.compile(**settings)


def test_settings_that_are_taken():
    for settings in (
        {"dynamic": True},
        {"mode": "reduce-overhead"},
        {"mode": "max-autotune-no-cudagraphs"},
        {"options": {"max_autotune": True, "triton.cudagraphs": False}},
        {"options": {}},
    ):
        assert torch.compile(lambda x: x * 2, **settings)(X).tolist() == [2.0] * 3
    for backend in (*torch.compiler.list_backends(None), lambda module, inputs: module):
        assert torch.compile(lambda x: x * 2, backend=backend)(X).tolist() == [2.0] * 3
    assert "eager" in torch.compiler.list_backends(None)
    assert "eager" not in torch.compiler.list_backends()


def test_what_cannot_be_called():
    with pytest.raises(AssertionError, match="A callable function is expected"):
        torch.compile(3)
    with pytest.raises(AssertionError, match="fn must be callable"):
        torch.compiler.disable(3)
    with pytest.raises(AssertionError, match="allow_in_graph expects a callable"):
        torch.compiler.allow_in_graph(3)
